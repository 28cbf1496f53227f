//! What is found out and made ready before anything is sent.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::{
    Observer, Origin, Prepared, RunError, Setup,
    disturbance::{Hands, cannot_kill},
    health::Looker,
    iterations::longest_pauses,
    shared::Shared,
};
use crate::{
    frame::{Header, HistoryPlan},
    preflight::{Preflight, RunLimits},
    probe::accounting::Baseline,
    ranks::SILENCE,
    recorder::{BATCHES, BYTES, Collector, Taps},
};
use oracle::{VIOLATIONS_KEPT, Violation, history::Spool};
use wire::transport::{Access, Client};
use workload::{
    event::ContextId,
    plan::correlation_id,
    scenario::{Measure, Scenario},
};

/// After how long the user learns what the tool waits for before the run.
const QUIET: Duration = Duration::from_secs(3);

/// A history that has its first line.
fn begun(recording: &HistoryPlan, header: &Header, lawful: Duration) -> Result<Spool, RunError> {
    let path = recording.options.path.display();
    // After a gap nothing can be judged that what went before it may have touched.
    let options = recording.options.clone().and_before(lawful);
    Spool::create(options, header)
        .map_err(|error| RunError::History(format!("cannot write the history to {path}: {error}; nothing was sent")))
}

impl Prepared {
    /// A run that can begin, and its history, which has the first line.
    pub(super) async fn new(setup: Setup, observer: &mut dyn Observer) -> Result<(Self, Option<Spool>), RunError> {
        let Setup { scenario, given, .. } = &setup;
        let access = Access::new(&scenario.target).map_err(RunError::Access)?;
        if let Some(why) = scenario.lacks_an_endpoint() {
            return Err(RunError::Endpoint(why));
        }
        if let Some(why) = cannot_kill(&setup) {
            return Err(RunError::Process(why));
        }
        let client = Client::of(&scenario.target, &access, scenario.limits.connect_ms.duration())
            .map_err(|error| RunError::Endpoint(error.to_string()))?;
        let mut preflight =
            Preflight::ask(&client, scenario, setup.hints, setup.golden.as_ref()).await.map_err(RunError::Endpoint)?;
        if let Some(why) = preflight.rejects_golden().or_else(|| preflight.cannot_be_sent(scenario)) {
            return Err(RunError::Endpoint(why));
        }
        if let Some(why) = uncounted(&preflight, scenario) {
            return Err(RunError::Endpoint(why));
        }
        if let Some(times) = setup.pace {
            preflight.send_at(times, scenario).map_err(RunError::Access)?;
        }
        preflight.probe(scenario, &access).await.map_err(RunError::Endpoint)?;
        if let Some(given) = given {
            // What is drawn pauses once in a sequence; a conversation that is given may keep its slot by many short pauses.
            preflight.limits = RunLimits::with_pauses(scenario, &preflight.model, longest_pauses(given));
        }
        let looker = Looker::new(
            scenario,
            &access,
            (preflight.tells_readiness(), preflight.has_statistics),
            setup.server_memory.clone(),
        )
        .await
        .map_err(RunError::Endpoint)?;
        let origin = Origin::here();
        let begun = setup.recording.as_ref().map(|recording| {
            let HistoryPlan { scenario_name, replay, server, .. } = recording;
            let header = Header::new((scenario_name, replay, server.clone()), &setup, &preflight, &origin);
            begun(recording, &header, preflight.limits.lawful)
        });
        let begun = begun.transpose()?;
        // A replay's model was tried by the run, and the server in this process has no models of users.
        let alone = if given.is_some() || setup.embedded {
            Vec::new()
        } else {
            try_each_version(&preflight, &client, scenario, &access, observer).await.map_err(RunError::Endpoint)?
        };
        // Only then, because trying whether the model can be loaded anew does something to the server.
        let hands = Hands::new(client.clone(), &setup).await.map_err(RunError::Endpoint)?;
        observer.found(&preflight);
        let (model, quiet) = (&scenario.target.model, scenario.limits.quiet_ms.duration());
        let baseline = if preflight.has_statistics { Some(Baseline::take(&client, model, quiet).await) } else { None };
        let executed = baseline.as_ref().and_then(Baseline::executed);
        let shared = Arc::new(Shared::new(setup, (preflight, origin), access, executed));
        let prepared = Self { client, baseline, alone, hands, looker, shared };
        Ok((prepared, begun))
    }

    /// What collects what the taps hand over, and the end at which violations arrive.
    pub(super) fn collector(&self, spool: Option<Spool>) -> (Taps, Collector, mpsc::Receiver<Violation>) {
        let Shared { setup: Setup { scenario, .. }, preflight, slots_taken, seconds, snapshots, glances, .. } =
            &*self.shared;
        let ids = Arc::clone(&self.shared);
        let id = move |ContextId { worker, context }| correlation_id(&ids.setup.scenario, worker, context);
        let (taps, batches) = Taps::new(id, BATCHES, BYTES);
        let (sender, seen) = mpsc::channel(VIOLATIONS_KEPT);
        let (explainer, mut occupancy) = (preflight.explainer(scenario), preflight.occupancy(scenario));
        if let Some(lead) = &self.shared.setup.lead {
            // Who tells nothing for longer is lost.
            occupancy = occupancy.told_within(SILENCE + Duration::from_secs(1));
            if lead.members.uncertainty_us() > 0 {
                occupancy = occupancy.of_several_clocks();
            }
        } else if self.shared.threads.len() == 1 {
            occupancy = occupancy.told_within(Duration::ZERO);
        }
        let left_for = (Arc::clone(slots_taken), seconds.clone(), Arc::clone(snapshots), Arc::clone(glances));
        let collector = Collector::new(batches, explainer, occupancy, left_for, spool, sender);
        let collector = collector.of_all(self.shared.setup.share);
        (taps, collector.telling(self.shared.setup.so_far.violating.clone()), seen)
    }
}

/// Why a threshold cannot be judged, where the server does not count what it is of.
fn uncounted(preflight: &Preflight, scenario: &Scenario) -> Option<String> {
    let counted_by_the_server = [Measure::ServerQueue, Measure::ServerCompute, Measure::MeanBatch];
    let thresholds = scenario.thresholds();
    let (_, threshold) = thresholds.iter().find(|(_, its)| counted_by_the_server.contains(&its.measure))?;
    (!preflight.has_statistics).then(|| {
        format!(
            "the threshold '{threshold}' cannot be judged: the server does not answer ModelStatistics; nothing was sent"
        )
    })
}

/// The sequence before the run, to each version that requests name: each may have a program of its own.
async fn try_each_version(
    preflight: &Preflight,
    client: &Client,
    scenario: &Scenario,
    access: &Access,
    observer: &mut dyn Observer,
) -> Result<Vec<Violation>, String> {
    let mut seen = Vec::new();
    for version in scenario.versions() {
        let preflight = preflight.of_version(version);
        let client = client.of_version(&scenario.target.model, version);
        let tried = try_each_alone(&preflight, &client, scenario, access, observer).await;
        seen.extend(tried.map_err(|why| match version {
            Some(version) => format!("version {version}: {why}"),
            None => why,
        })?);
    }
    Ok(seen)
}

/// The sequence before the run, on each server where they are several. Servers that count each other's requests are one.
async fn try_each_alone(
    preflight: &Preflight,
    client: &Client,
    scenario: &Scenario,
    access: &Access,
    observer: &mut dyn Observer,
) -> Result<Vec<Violation>, String> {
    let servers = client.replicas();
    if servers.is_empty() {
        return try_alone(preflight, client, scenario, access, observer).await;
    }
    let mut seen = Vec::new();
    for (place, ((endpoint, server), alone)) in servers.iter().zip(scenario.of_each_server()).enumerate() {
        let before = executed(client, preflight).await;
        let tried = try_alone(preflight, server, &alone, access, observer).await;
        seen.extend(tried.map_err(|why| format!("{endpoint}: {why}"))?);
        let rose =
            before.iter().zip(executed(client, preflight).await).map(|(before, after)| after.saturating_sub(*before));
        let rose: Vec<_> = rose.collect();
        let same = (0..servers.len()).find(|other| *other != place && rose[*other] > 0 && rose[*other] == rose[place]);
        if let Some((other, _)) = same.map(|other| &servers[other]) {
            return Err(format!(
                "{endpoint} and {other} count the same requests, so they are one server, or others use the model: name each \
                 server once (--replicas)"
            ));
        }
    }
    Ok(seen)
}

/// How many requests each server has executed; nought where it does not tell.
async fn executed(client: &Client, preflight: &Preflight) -> Vec<u64> {
    let mut all = Vec::new();
    for (_, server) in client.replicas() {
        all.push(server.counted(&preflight.model.name).await.map_or(0, |counted| counted.success));
    }
    all
}

/// The sequence before the run. Where that takes long the user learns why.
async fn try_alone(
    preflight: &Preflight,
    client: &Client,
    scenario: &Scenario,
    access: &Access,
    observer: &mut dyn Observer,
) -> Result<Vec<Violation>, String> {
    let mut tried = Box::pin(preflight.try_alone(client, scenario, access));
    tokio::select! {
        tried = &mut tried => return tried,
        () = tokio::time::sleep(QUIET) => {}
    }
    observer.trouble(&format!(
        "the tool sends the model one sequence first, and waits for each answer for at most {} s; sequences of an earlier run may \
         hold the slots",
        preflight.limits.lost_after.as_secs()
    ));
    tried.await
}
