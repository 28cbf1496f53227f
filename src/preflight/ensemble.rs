//! What a model is like that is an ensemble: what the configurations of its steps say.

use futures_util::{FutureExt as _, future::BoxFuture};

use wire::transport::{Client, Configuration};
use workload::{
    controls,
    model::{EnsembleStep, Settings},
};

/// How deep ensembles may stand in each other: no server needs so many, and a wrong one may have no end.
const DEPTH_MAX: u32 = 8;

/// What a configuration says, where there is one; of an ensemble with what those of its steps say.
///
/// # Errors
/// Why a step's configuration cannot be read, in one line.
pub(super) async fn settings(
    client: &Client,
    configuration: Option<&Configuration>,
) -> Result<Option<Settings>, String> {
    match configuration {
        Some(configuration) => with_steps(client, configuration, DEPTH_MAX).await.map(Some),
        None => Ok(None),
    }
}

fn with_steps<'c>(
    client: &'c Client,
    configuration: &'c Configuration,
    depth: u32,
) -> BoxFuture<'c, Result<Settings, String>> {
    async move {
        let own = configuration.settings();
        let steps = configuration.steps();
        if steps.is_empty() {
            return Ok(own);
        }
        let depth = depth.checked_sub(1).ok_or_else(|| {
            format!("model '{}': its steps are ensembles of ensembles, over {DEPTH_MAX} deep", configuration.name())
        })?;
        let told = own.parameters.get(controls::PARAMETER);
        let mut all = Vec::new();
        for step in steps {
            let model = step.model_name.clone();
            let its = client.configuration(&model).await.map_err(|error| {
                let name = configuration.name();
                format!("cannot read the configuration of model '{model}', a step of the ensemble '{name}': {error}")
            })?;
            let tells = told.is_some_and(|told| step.output_map.values().any(|tensor| tensor == told));
            all.push(EnsembleStep { settings: with_steps(client, &its, depth).await?, model, tells });
        }
        Ok(own.with_steps(&all))
    }
    .boxed()
}
