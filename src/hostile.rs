//! Requests that servers have to survive, one at a time, and after each a look at the server and at the sequences of others.

mod others;

use std::{
    num::{NonZeroU16, NonZeroU64},
    time::Duration,
};

use self::others::{Gone, Others};
use crate::{
    preflight::{Hints, Preflight},
    probe::{
        Site,
        site::{Clock, Liveness},
        slots::free_ids,
    },
    run::{Restart, RunError},
};
use oracle::Violation;
use wire::{
    hostile::{Aim, Came, Hostile, send},
    transport::{Access, Client},
};
use workload::{endpoint::Protocol, scenario::Scenario, seed::Seed, sequence::CorrelationId};

/// How long an answer to a hostile request is waited for. None has to come, but a server that takes a while to die must not seem to die of
/// the next request.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How many sequences of others are live, at most.
const LIVE_MAX: u32 = 7;
/// How long a server may take to be there again.
const BACK_WITHIN: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Which request it is: its kind, and which of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its kind.
    pub kind: Hostile,
    /// Number 0 is like the published one.
    pub number: u32,
}

/// What a request did.
#[derive(Debug)]
pub enum Effect {
    /// The server is there, and the sequences of others went on rightly.
    None,
    /// The server is gone, for the reason that those saw who had connections.
    EndedTheServer(String),
    /// The server is there, and did to the sequences of others what a correct one does not.
    HarmedOthers(Vec<Violation>),
}

/// A request that was sent.
#[derive(Debug)]
pub struct Sent {
    /// Which one.
    pub request: Named,
    /// What was written.
    pub pieces: Vec<Vec<u8>>,
    /// What came; none where no connection could be made.
    pub came: Option<Came>,
    /// What it did.
    pub effect: Effect,
}

/// What was tried on which server.
#[derive(Debug)]
pub struct Tried {
    /// The server's name and version.
    pub server: Option<String>,
    /// The model's configuration, as the server tells it.
    pub configuration: Option<String>,
    /// How many sequences of others were live at a time.
    pub live: u32,
}

/// Sends hostile requests one after the other, until the server is gone and nobody can restart it. Hands over each.
///
/// # Errors
/// When the server or the model cannot be tested.
pub async fn send_all(
    scenario: &Scenario,
    hints: Hints,
    (requests, seed): (&[Named], Seed),
    restart: Option<&Restart>,
    each: &mut dyn FnMut(&Tried, Sent),
) -> Result<Tried, RunError> {
    let access = Access::new(&scenario.target).map_err(RunError::Access)?;
    let http = scenario.target.endpoint.of(Protocol::Http, 0).filter(|http| !http.scheme.is_secured());
    let http = http.ok_or_else(|| {
        RunError::Endpoint("hostile requests go over plain HTTP: add an endpoint (-u http://HOST:PORT)".to_owned())
    })?;
    let connect = scenario.limits.connect_ms.duration();
    let client =
        Client::of(&scenario.target, &access, connect).map_err(|error| RunError::Endpoint(error.to_string()))?;
    let preflight = Preflight::ask(&client, scenario, hints, None).await.map_err(RunError::Endpoint)?;
    if let Some(why) = preflight.cannot_be_sent(scenario) {
        return Err(RunError::Endpoint(why));
    }
    if preflight.model.arithmetic.answers.are_iterative() {
        return Err(RunError::Endpoint(
            "hostile needs sequences that are live for a while, and those of an iterative model are one request each"
                .to_owned(),
        ));
    }
    // What is wrong before is no request's fault.
    let wrong = preflight.try_alone(&client, scenario, &access).await.map_err(RunError::Endpoint)?;
    check_right(&wrong)?;
    // One slot is left for a sequence that begins and ends.
    let live = preflight.model.fewest_slots().unwrap_or(2).saturating_sub(1).min(LIVE_MAX);
    let slots = preflight.model.most_slots().unwrap_or(0);
    let first = free_ids(scenario, slots, u64::from(live) + 2)
        .ok_or_else(|| RunError::Endpoint("no correlation ID is left for hostile requests".to_owned()))?;
    let id = |behind: u32| CorrelationId(first.checked_add(behind.into()).unwrap_or(NonZeroU64::MAX));
    let (input, datatype) = preflight.model.input();
    let name = &preflight.model.name;
    let aim = Aim {
        address: http.address(),
        model: preflight
            .model
            .asked_version
            .map_or_else(|| name.clone(), |version| format!("{name}/versions/{version}")),
        input: input.to_owned(),
        datatype,
        shape: preflight.model.shape.of(NonZeroU16::MIN),
        output: preflight.model.output.name.clone(),
        id: id(live + 1).on_the_wire(scenario.correlation_ids.form),
    };
    let tried = Tried { server: preflight.model.server.clone(), configuration: preflight.configuration.clone(), live };
    let clock = Clock::started();
    let mut left = requests.iter();
    // A server that was restarted knows no sequence from before.
    loop {
        let liveness = Liveness::default();
        let site = Site { scenario, access: &access, preflight: &preflight, clock: &clock, liveness: &liveness };
        let mut others = Others::new(site, (0..=live).map(id).collect());
        let mut gone = None;
        match others.begin().await {
            Err(Gone(why)) => {
                return Err(RunError::Endpoint(format!("the server is gone before a hostile request was sent: {why}")));
            }
            Ok(wrong) => check_right(&wrong)?,
        }
        while gone.is_none() {
            let Some(request) = left.next().copied() else {
                // What the sequences of others hold is given back.
                let _ = others.end().await;
                return Ok(tried);
            };
            let pieces = request.kind.pieces(&aim, seed, request.number);
            let came = others.until(send(&aim.address, &pieces, ANSWER_LIMIT)).await;
            let (came, looked) = match came {
                Ok(came) => (came.ok(), others.go_on().await),
                Err(gone) => (None, Err(gone)),
            };
            let effect = match looked {
                Ok(violations) if violations.is_empty() => Effect::None,
                Ok(violations) => Effect::HarmedOthers(violations),
                Err(Gone(why)) => {
                    gone = Some(Gone(why.clone()));
                    Effect::EndedTheServer(why)
                }
            };
            each(&tried, Sent { request, pieces, came, effect });
        }
        let Some(restart) = restart.filter(|_| left.len() > 0) else { return Ok(tried) };
        restart.carry_out().await.map_err(RunError::Endpoint)?;
        await_model(&client, &preflight.model.name).await.map_err(RunError::Endpoint)?;
    }
}

fn check_right(wrong: &[Violation]) -> Result<(), RunError> {
    let Some(Violation { kind, .. }) = wrong.first() else { return Ok(()) };
    Err(RunError::Endpoint(format!(
        "the server is wrong to sequences before a hostile request is sent ({kind}): stress it without them first"
    )))
}

async fn await_model(client: &Client, model: &str) -> Result<(), String> {
    let is_ready = async {
        while !matches!(client.model_ready(model).await, Ok(true)) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let late = |_| format!("model '{model}' is not ready {} s after the restart", BACK_WITHIN.as_secs());
    tokio::time::timeout(BACK_WITHIN, is_ready).await.map_err(late)
}
