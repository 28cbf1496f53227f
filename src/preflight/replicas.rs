//! Several servers behind one endpoint: whether they serve the same model.

use super::serving::check_model;
use wire::transport::{CallError, Client};

/// Why the servers do not say whether the model is ready, if they do not. An error names the server that cannot be tested.
pub(super) async fn check_models(client: &Client, name: &str) -> Result<Option<CallError>, String> {
    if client.replicas().is_empty() {
        return check_model(client, name).await;
    }
    let mut unwell = None;
    for (endpoint, replica) in client.replicas() {
        unwell = check_model(replica, name).await.map_err(|why| format!("{endpoint}: {why}"))?.or(unwell);
    }
    Ok(unwell)
}

/// Why the servers cannot be tested as one, if they cannot: a run knows of one model, with one configuration.
pub(super) async fn check_alike(client: &Client, name: &str) -> Result<(), String> {
    let [(first, one), others @ ..] = client.replicas() else { return Ok(()) };
    let (declared, configuration) = (one.declared(name).await, one.configuration(name).await);
    for (endpoint, other) in others {
        // What they do not tell cannot be compared.
        let differs = if let (Ok(its), Ok(declared)) = (other.declared(name).await, &declared)
            && its != *declared
        {
            "its metadata (/v2/models/MODEL)"
        } else if let (Ok(its), Ok(configuration)) = (other.configuration(name).await, &configuration)
            && its != *configuration
        {
            "its configuration (/v2/models/MODEL/config)"
        } else {
            continue;
        };
        return Err(format!(
            "model '{name}' is not the same on {first} and on {endpoint}: {differs} differs; load the same model on all servers \
             of --replicas, or leave one out"
        ));
    }
    Ok(())
}
