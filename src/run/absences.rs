//! A server that goes away in the middle of a run and comes back: somebody restarted it, and the run goes on.

use std::{
    sync::{Mutex as Locked, MutexGuard},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::{sync::Mutex, time::Instant};

use super::{MemorySource, shared::Shared};
use crate::probe::site::SECOND_LOOK;
use wire::transport::{CallError, Client};
use workload::{endpoint::Endpoint, event::Nanos, scenario::Millis};

/// How often a server that is away is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How many absences are kept; all are counted.
const KEPT_MAX: usize = 100;

/// How often the server was away and came back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Restarts {
    /// How often.
    pub count: u64,
    /// The first hundred times.
    pub absences: Vec<Absence>,
}

impl Restarts {
    /// Whether there were more than are kept.
    pub(super) fn is_cut_short(&self) -> bool {
        self.count > self.absences.len() as u64
    }

    /// Whether the server was there all the time.
    pub(crate) fn is_none(&self) -> bool {
        self.count == 0
    }
}

/// A time in which the server was away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Absence {
    /// When the client saw that the server was away, in nanoseconds since the run began.
    #[serde(rename = "at_us", with = "workload::micros::OfNs")]
    pub at_ns: Nanos,
    /// How long it then took until the server and its model were ready again.
    #[serde(rename = "lasted_us", with = "workload::micros::OfNs")]
    pub lasted_ns: Nanos,
    /// Whether it was another process then, or a model that was loaded anew: its counts began anew, or the process that was there
    /// before has ended. Null where that is not known.
    pub is_another: Option<bool>,
}

/// What is known of a server that a run reconnects to.
#[derive(Debug, Default)]
pub(super) struct Absences {
    /// Held by whoever looks for the server: one at a time, so that each absence is found once.
    look: Mutex<()>,
    known: Locked<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Requests that the model had executed when it was last asked.
    executed: u64,
    /// How many it had executed before requests of the run were counted, where it tells, and how many of these may be its
    /// predecessor's.
    before: Option<u64>,
    not_its_own: u64,
    /// When the absence began that is under way.
    away_since: Option<Nanos>,
    /// Which of several servers were away in it so far.
    away: Vec<Endpoint>,
    /// The same of each disturbance that is over.
    were_away: Vec<Away>,
    restarts: Restarts,
}

/// Which servers were away in a disturbance; none where that is not known, so that it may have been each.
pub(super) type Away = Option<Vec<Endpoint>>;

/// What was known when the server was asked something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Requests that the model had executed at least, unless it began anew.
    executed: u64,
    /// How much had been done to the server.
    disturbances: u64,
}

/// What a look at the server shows.
enum Seen {
    /// It does not answer.
    Nothing,
    /// It says that it or its model is not ready.
    NotReady,
    /// It is ready; so many requests were executed, where it tells.
    Ready(Option<u64>),
}

impl Known {
    /// Takes in how many requests the model had executed. Whether they are fewer than was known when that was asked.
    fn hear(&mut self, executed: u64, asked: Asked) -> bool {
        self.executed = self.executed.max(executed);
        executed < asked.executed
    }

    /// How many requests the model has executed at least, where the client has got so many responses.
    fn least(&self, completed: u64) -> u64 {
        let told = self.before.map_or(0, |before| before + completed.saturating_sub(self.not_its_own));
        self.executed.max(told)
    }
}

impl Absences {
    /// Of a server whose model had executed so many requests before the run, where it tells.
    pub(super) fn new(before: Option<u64>) -> Self {
        Self {
            known: Locked::new(Known { before, executed: before.unwrap_or(0), ..Known::default() }),
            ..Self::default()
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no thread fails while it has it")
    }

    /// Whether somebody looks for the server just now.
    pub(super) fn is_looked_for(&self) -> bool {
        self.look.try_lock().is_err()
    }

    /// When the absence began that is under way.
    pub(super) fn away_since(&self) -> Option<Nanos> {
        self.known().away_since
    }

    /// Which of several servers were away in the disturbance with this number, where it is over and that is known.
    pub(super) fn were_away(&self, number: u64) -> Away {
        let number = usize::try_from(number).ok()?;
        self.known().were_away.get(number).cloned().flatten()
    }

    pub(super) fn restarts(&self) -> Restarts {
        self.known().restarts.clone()
    }
}

impl Shared {
    /// How long a server that went away is waited for, where it is.
    pub(super) fn reconnects(&self) -> Option<Duration> {
        self.setup.scenario.limits.reconnect_ms.map(Millis::duration)
    }

    /// What is known of the server when it is asked something: an answer may come behind that to a later question.
    pub(super) fn asks(&self) -> Asked {
        Asked { executed: self.absences.known().executed, disturbances: self.disturbances.count() }
    }

    /// Takes in how many requests the model had executed, as an answer to a question. Returns whether these are fewer than what was known
    /// when that was asked: then the server was restarted, and may have been so while no request was under way.
    pub(super) fn has_forgotten(&self, executed: u64, asked: Asked) -> bool {
        let mut known = self.absences.known();
        // What was asked before a restart says nothing about the server after it.
        if self.disturbances.count() != asked.disturbances {
            return false;
        }
        known.hear(executed, asked)
    }

    /// Whether the server is there after something happened for `reason` that a restart may have caused. Where the run reconnects, a
    /// server that is away is waited for; that it was is a disturbance, which is over when this returns. Without it the run is over.
    pub(super) async fn server_survives(&self, reason: &str) -> bool {
        let Some(limit) = self.reconnects() else { return self.server_is_there(reason).await };
        let _look = self.absences.look.lock().await;
        let (began, missed_at) = (Instant::now(), self.clock.now());
        let least = self.absences.known().least(self.progress().completed);
        let (mut was_seen, mut is_late) = (true, true);
        loop {
            // Where this machine has no connection left nobody can tell.
            if self.liveness.gone.get().is_some() || self.access.shortage().is_some() {
                self.gate.stop();
                return false;
            }
            let (is_away, asked) = (self.absences.away_since().is_some(), self.asks());
            match self.look_for_server().await {
                // It may count a request a little after it has answered it.
                Seen::Ready(Some(executed)) if is_away && executed < least && is_late => {
                    is_late = false;
                    tokio::time::sleep(LOOK_AGAIN).await;
                    continue;
                }
                Seen::Ready(executed) => {
                    self.is_back(executed, asked, least, missed_at);
                    return true;
                }
                // A busy server may miss one look.
                Seen::Nothing if was_seen && !is_away => {
                    was_seen = false;
                    tokio::time::sleep(SECOND_LOOK).await;
                    continue;
                }
                Seen::Nothing if !is_away => {
                    self.absences.known().away_since = Some(missed_at);
                    self.disturbances.begin();
                }
                Seen::Nothing | Seen::NotReady => {}
            }
            if began.elapsed() >= limit {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let since = self.absences.known().away_since.take();
        let reason = format!("{reason}; the server was not ready again within {} s", limit.as_secs_f64());
        let _ = self.liveness.gone.set((since.unwrap_or_else(|| self.clock.now()), reason));
        if since.is_some() {
            self.disturbances.end(self.clock.now());
        }
        self.gate.stop();
        false
    }

    /// The server is ready. If it was away, or its counts fell, it was restarted. That it has counted too little alone would be a fault.
    fn is_back(&self, executed: Option<u64>, asked: Asked, least: u64, missed_at: Nanos) {
        let (now, progress) = (self.clock.now(), self.progress());
        let mut known = self.absences.known();
        let (fell, began_anew) = (executed.map(|its| its < asked.executed), executed.map(|its| its < least));
        let since = known.away_since.take();
        if let Some(at_ns) = since.or((fell == Some(true)).then_some(missed_at)) {
            if since.is_none() {
                self.disturbances.begin();
            }
            let away = std::mem::take(&mut known.away);
            known.were_away.push(Some(away).filter(|away| !away.is_empty()));
            let has_ended = self.setup.server_memory.as_ref().is_some_and(MemorySource::has_ended);
            let is_another = if has_ended { Some(true) } else { began_anew };
            known.restarts.count += 1;
            if known.restarts.absences.len() < KEPT_MAX {
                known.restarts.absences.push(Absence { at_ns, lasted_ns: now.saturating_sub(at_ns), is_another });
            }
            // What is on its way may be of the server before.
            (known.before, known.not_its_own) = (executed, progress.completed + progress.waiting());
            known.executed = 0;
            self.disturbances.end(now);
        }
        known.executed = executed.map_or(known.executed, |its| its.max(known.executed));
    }

    /// Looks at the server over a connection of its own: one that is there may be of the server before.
    async fn look_for_server(&self) -> Seen {
        let (target, limits) = (&self.setup.scenario.target, &self.setup.scenario.limits);
        let Ok(client) = Client::of(target, &self.access, limits.connect_ms.duration()) else {
            return Seen::Nothing;
        };
        let mut all = look_at(&client, &target.model).await;
        for (endpoint, server) in client.replicas().iter().filter(|_| !matches!(all, Seen::Ready(_))) {
            let its = look_at(server, &target.model).await;
            let mut known = self.absences.known();
            if !matches!(its, Seen::Ready(_)) && !known.away.contains(endpoint) {
                known.away.push(endpoint.clone());
            }
        }
        if let Seen::Ready(executed) = &mut all
            && self.preflight.has_statistics
        {
            *executed = client.counted(&target.model).await.ok().map(|its| its.success);
        }
        all
    }
}

/// Whether a server, or each of several, and the model are ready.
async fn look_at(client: &Client, model: &str) -> Seen {
    let (server, model) = tokio::join!(client.server_ready(), client.model_ready(model));
    for answer in [server, model] {
        match answer {
            Ok(true) | Err(CallError::Unimplemented | CallError::Restricted(_)) => {}
            Ok(false) | Err(CallError::Rejected(_)) => return Seen::NotReady,
            Err(_) => return Seen::Nothing,
        }
    }
    Seen::Ready(None)
}

#[cfg(test)]
mod tests {
    use super::{Asked, Known};

    #[test]
    fn an_answer_that_comes_behind_a_later_one_tells_of_no_restart() {
        let asked = |executed| Asked { executed, disturbances: 0 };
        let mut known = Known::default();
        let (first, second) = (asked(known.executed), asked(known.executed));
        assert!(!known.hear(120, second));
        assert!(!known.hear(118, first), "it was asked before 120 were known");
        assert_eq!(known.executed, 120);
        assert!(known.hear(118, asked(known.executed)), "it was asked behind that");
    }
}
