//! What is found out and made ready before anything is sent.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::{
    super::{
        Given, Header, Preflight, RunLimits,
        accounting::Baseline,
        collector::Collector,
        disturbance::Hands,
        evidence::Evidence,
        occupancy::Occupancy,
        record::form,
        shared::Shared,
        threads::{rules, thread_count},
    },
    Observer, Prepared, RunError, Setup, VIOLATIONS_KEPT,
};
use crate::{
    event::ContextId,
    history::Spool,
    oracle::{Violation, diagnosis::Known},
    plan::correlation_id,
    recorder::Taps,
    transport::{Access, Client},
};

/// How long nothing is said of what is waited for before the run.
const QUIET: Duration = Duration::from_secs(3);

impl Prepared {
    pub(super) async fn new(setup: Setup, given: Option<Given>, observer: &mut dyn Observer) -> Result<Self, RunError> {
        let Setup { scenario, seed, hints, fail_fast, embedded, recording, restart, program } = setup;
        let access = Access::new(&scenario.target).map_err(RunError::Access)?;
        if let Some(why) = scenario.lacks_an_endpoint() {
            return Err(RunError::Endpoint(why));
        }
        let client = Client::new(scenario.target.endpoint.for_calls(), &access, scenario.limits.connect_ms.duration())
            .map_err(|error| RunError::Endpoint(error.to_string()))?;
        let mut preflight = Preflight::ask(&client, &scenario, hints).await.map_err(RunError::Endpoint)?;
        if let Some(why) = preflight.cannot_be_sent(&scenario) {
            return Err(RunError::Endpoint(why));
        }
        preflight.probe(&scenario, &access).await.map_err(RunError::Endpoint)?;
        // What is given was drawn for a model that had been tried, and the server in this process has no other models.
        let alone = if given.is_some() || embedded {
            Vec::new()
        } else {
            let limit = preflight.limits.lost_after.as_secs();
            let mut tried = Box::pin(preflight.try_alone(&client, &scenario, &access));
            let tried = tokio::select! {
                tried = &mut tried => tried,
                () = tokio::time::sleep(QUIET) => {
                    observer.trouble(&format!(
                        "a sequence that is alone before the run waits for its answers, each for at most {limit} s; sequences of an earlier \
                         run may still have the slots"
                    ));
                    tried.await
                }
            };
            tried.map_err(RunError::Endpoint)?
        };
        // Only then, because trying whether the model can be loaded anew does something to the server.
        let hands = Hands::new(client.clone(), &scenario, restart).await.map_err(RunError::Endpoint)?;
        if let Some(given) = &given {
            // What is drawn pauses once in a sequence; a conversation that is given may keep its slot by many short pauses.
            preflight.limits = RunLimits::with_pauses(&scenario, &preflight.model, given.longest_pauses());
        }
        observer.found(&preflight);
        let (model, quiet) = (&scenario.target.model, scenario.limits.quiet_ms.duration());
        let baseline = if preflight.has_statistics { Some(Baseline::take(&client, model, quiet).await) } else { None };
        let recording = recording.map(|recording| {
            let judged_by = (&preflight, rules(&scenario, &preflight));
            let header = Header::new(&recording, &scenario, seed, hints, embedded, judged_by);
            (recording, header)
        });
        let threads = thread_count(&scenario);
        let shared = Arc::new(Shared::new(scenario, seed, given, (preflight, access), fail_fast, program, threads));
        Ok(Self { client, baseline, alone, hands, shared, hints, recording })
    }

    /// What collects what the taps hand over, and the end at which violations arrive.
    pub(super) fn collector(&self) -> Result<(Taps, Collector, mpsc::Receiver<Violation>), RunError> {
        let preflight = &self.shared.preflight;
        let spool = self.recording.as_ref().map(|(recording, header)| {
            let path = recording.options.path.display();
            // After a gap nothing can be judged that what went before it may have touched.
            let options = recording.options.clone().and_before(preflight.limits.lawful);
            Spool::create(options, header).map_err(|error| {
                RunError::History(format!("cannot write the history to {path}: {error}; nothing was sent"))
            })
        });
        let ids = Arc::clone(&self.shared);
        let id = move |ContextId { worker, context }| correlation_id(&ids.scenario, worker, context);
        let (taps, batches) = Taps::new(form(&rules(&self.shared.scenario, preflight)), id);
        let (sender, seen) = mpsc::channel(VIOLATIONS_KEPT);
        let evidence = Evidence::new(Known::of(&preflight.model), preflight.limits.lost_after);
        let model = &preflight.model;
        let occupancy =
            Occupancy::new(&self.shared.scenario, model.most_slots(), model.idle_limit, preflight.limits.lawful);
        Ok((taps, Collector::new(batches, evidence, occupancy, spool.transpose()?, sender), seen))
    }
}
