//! What a model is like that hands its requests to others, as an ensemble does: what the configurations of its steps say.

use futures_util::{FutureExt as _, future::BoxFuture};

use wire::transport::{Client, Configuration};
use workload::{
    controls,
    model::{ChainStep, Link, Settings},
};

/// How deep models with steps may stand in each other: no server needs so many, and a wrong one may have no end.
const DEPTH_MAX: u32 = 8;

/// What a configuration says, where there is one; of a model with steps with what those of its steps say.
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

/// A model that another hands its requests to, and whether it says what it saw.
struct Step<'c> {
    model: &'c str,
    tells: bool,
}

/// How a model hands its requests to others, and which these are.
fn chain<'c>(configuration: &'c Configuration, told: Option<&String>) -> Option<(Link, Vec<Step<'c>>)> {
    if let Some(model) = configuration.calls() {
        // What is called gives its outputs under their own names.
        return Some((Link::Call, vec![Step { model, tells: told.is_some() }]));
    }
    let steps = configuration.steps().iter().map(|step| Step {
        model: &step.model_name,
        tells: told.is_some_and(|told| step.output_map.values().any(|tensor| tensor == told)),
    });
    let steps: Vec<_> = steps.collect();
    (!steps.is_empty()).then_some((Link::Ensemble, steps))
}

fn with_steps<'c>(
    client: &'c Client,
    configuration: &'c Configuration,
    depth: u32,
) -> BoxFuture<'c, Result<Settings, String>> {
    async move {
        let own = configuration.settings();
        let Some((link, steps)) = chain(configuration, own.parameters.get(controls::PARAMETER)) else {
            return Ok(own);
        };
        let name = configuration.name();
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| format!("model '{name}': its steps have steps of their own, over {DEPTH_MAX} deep"))?;
        let mut all = Vec::new();
        for Step { model, tells } in steps {
            let its = client.configuration(model).await.map_err(|error| {
                let whose = match link {
                    Link::Ensemble => format!("a step of the ensemble '{name}'"),
                    Link::Call => format!("which model '{name}' calls"),
                };
                format!("cannot read the configuration of model '{model}', {whose}: {error}")
            })?;
            let settings = with_steps(client, &its, depth).await?;
            all.push(ChainStep { model: model.to_owned(), settings, tells });
        }
        Ok(own.with_steps(link, &all))
    }
    .boxed()
}
