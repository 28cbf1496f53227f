//! Whether the server serves the model, in the versions that requests name.

use std::cmp::Reverse;

use super::{parts::is_missing, replicas::check_models};
use wire::transport::{CallError, Client, Declared};
use workload::{scenario::Scenario, version::ModelVersion, wording::nearest};

/// How many models are named to who asked for one that is not there.
const MODELS_SHOWN: usize = 5;

/// Why the server does not say whether the model is ready in each version that requests name, if it does not.
pub(super) async fn check_versions(client: &Client, scenario: &Scenario) -> Result<Option<CallError>, String> {
    let name = scenario.target.model.as_str();
    let mut unwell = None;
    for version in scenario.versions() {
        unwell = check_models(&client.of_version(name, version), name).await?.or(unwell);
    }
    Ok(unwell)
}

/// The version that the first requests name, and the one that answers them.
pub(super) fn named_and_answering(scenario: &Scenario, declared: &Declared) -> (Option<ModelVersion>, Option<String>) {
    let named = scenario.version_of(0);
    (named, named.map(|named| named.to_string()).or_else(|| declared.newest().map(str::to_owned)))
}

/// Why the server does not say whether the model is ready, if it does not.
pub(crate) async fn check_model(client: &Client, name: &str) -> Result<Option<CallError>, String> {
    let is_ready = client.model_ready(name).await;
    if let (Ok(false) | Err(CallError::Rejected(_)), Some(version)) = (&is_ready, client.version(name))
        && let Ok(declared) = client.of_version(name, None).declared(name).await
    {
        return Err(format!(
            "the server has no version {version} of model '{name}' that is ready; it serves {} (--model-version or \
             population.version names one; --embedded --versions N has several)",
            declared.versions.join(", ")
        ));
    }
    match is_ready {
        Ok(true) => Ok(None),
        Err(error) if is_missing(&error) => Ok(Some(error)),
        Ok(false) | Err(CallError::Rejected(_)) => Err(match client.models().await {
            Ok(models) if models.iter().any(|model| model == name) => {
                format!("the server has the model '{name}', and it is not ready")
            }
            Ok(models) if !models.is_empty() => {
                let meant = nearest(name, models.iter().map(String::as_str));
                let what = meant.map_or_else(
                    || format!("it has {}", some_of(&models, name)),
                    |near| format!("did you mean -m {near}?"),
                );
                format!("the server has no model '{name}'; {what}")
            }
            _ => format!("the server has no model '{name}' that is ready"),
        }),
        Err(error) => Err(error.to_string()),
    }
}

/// Models by name, those first whose names begin most like the one that is looked for; not all where they are many.
pub(super) fn some_of(models: &[String], like: &str) -> String {
    let alike = |name: &String| name.bytes().zip(like.bytes()).take_while(|(one, other)| one == other).count();
    let mut models: Vec<_> = models.iter().collect();
    models.sort_by_key(|name| Reverse(alike(name)));
    let shown = models.iter().take(MODELS_SHOWN).map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    match models.len().saturating_sub(MODELS_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
