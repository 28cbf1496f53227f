//! The search for the idle limit that the server really keeps, after a run: sequences that rest for different times.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    Site, SlotCheck, SlotFinding,
    aside::{Aside, OwnStream, Trail},
    slots::free_ids,
};
use oracle::{Evidence, Outcome, Purpose, Settled, Violation, ViolationKind, diagnosis::ModelFacts};
use wire::transport::Link;
use workload::{
    conversation::Connection,
    event::{ContextId, Cut, EventKind},
    scenario::Scenario,
    sequence::{CorrelationId, Pattern, RequestId, Step},
};

/// How many sequences rest at a time, at most; each in a slot.
const AT_A_TIME: u32 = 8;
/// How many times they do; each time the range is about a quarter of what it was.
const ROUNDS: u32 = 6;
/// How many times they do so around what was found, which shows how regular the reaper is; this share of it to both sides.
const AROUND_ROUNDS: u32 = 2;
const AROUND: u32 = 10;
/// A narrower range is noise: timers have a granularity of a millisecond.
const NARROW: Duration = Duration::from_millis(4);
/// A server whose reaper is late ends some sequence within so many idle limits; one that ends none until then ends none.
const LATE: u32 = 3;

/// How long a sequence may be idle before the server ends it, as trials have shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum IdleSearch {
    /// The scenario does not ask for it.
    NotAsked,
    /// It could not be told.
    NotCheckable {
        /// Why.
        why: String,
    },
    /// What was found.
    Found {
        /// What the model's configuration says, in µs.
        configured_us: u64,
        /// The longest for which a sequence certainly was idle and went on all the same, in µs.
        kept_us: u64,
        /// The shortest within which one was ended: for so long it was idle at most, in µs; none where none was ended.
        ended_us: Option<u64>,
        /// How many sequences rested.
        trials: u32,
    },
}

impl IdleSearch {
    /// Why it cannot be told, where the scenario asks for it.
    pub(crate) fn not_checkable(scenario: &Scenario, why: impl Into<String>) -> Self {
        if scenario.slots.idle_limit_search { Self::NotCheckable { why: why.into() } } else { Self::NotAsked }
    }

    /// Whether no idle sequence was ended although a late reaper would have ended one.
    pub(crate) fn shows_no_reap(&self) -> bool {
        let Self::Found { configured_us, kept_us, ended_us: None, .. } = self else { return false };
        *kept_us >= configured_us.saturating_mul(LATE.into())
    }
}

#[derive(Clone, Copy, Debug)]
enum Trial {
    /// It went on after at least this time without a request.
    Kept(Duration),
    /// It was gone after at most this time.
    Ended(Duration),
}

/// The range in which the limit is.
#[derive(Clone, Copy, Debug)]
struct Search {
    low: Duration,
    high: Duration,
    kept: Duration,
    ended: Option<Duration>,
    trials: u32,
    rounds: u32,
}

impl Search {
    fn new(limit: Duration) -> Self {
        Self { low: limit / 2, high: limit * 2 + NARROW, kept: Duration::ZERO, ended: None, trials: 0, rounds: 0 }
    }

    fn pauses(&mut self, count: u32) -> Option<Vec<Duration>> {
        if self.rounds < ROUNDS && self.width() <= NARROW {
            self.rounds = ROUNDS;
        }
        let (low, width, from, of) = match self.rounds {
            narrowing if narrowing < ROUNDS => (self.low, self.width(), 0, count),
            around if around < ROUNDS + AROUND_ROUNDS => {
                let found = (self.low + self.high) / 2;
                let share = found / AROUND;
                (found.saturating_sub(share), share * 2, around - ROUNDS, count * AROUND_ROUNDS)
            }
            _ => return None,
        };
        self.rounds += 1;
        let stride = of / count;
        let step = width / of.max(2).saturating_sub(1);
        Some((0..count).map(|index| low + step * (index * stride + from)).collect())
    }

    fn width(&self) -> Duration {
        self.high.saturating_sub(self.low)
    }

    /// Narrows the range to what lies between the longest pause that was survived and the shortest that was not; where the reaper
    /// is not regular these lie the other way round.
    fn learn(&mut self, round: &[(Duration, Trial)]) {
        let step = self.width() / u32::try_from(round.len()).unwrap_or(u32::MAX).max(2);
        let is_around = self.rounds > ROUNDS;
        let (mut survived, mut fatal) = (None, None);
        for (pause, trial) in round {
            self.trials += 1;
            match trial {
                Trial::Kept(idle) => {
                    self.kept = self.kept.max(*idle);
                    survived = survived.max(Some(*pause));
                }
                Trial::Ended(idle) => {
                    self.ended = Some(self.ended.map_or(*idle, |ended| ended.min(*idle)));
                    fatal = Some(fatal.map_or(*pause, |fatal: Duration| fatal.min(*pause)));
                }
            }
        }
        (self.low, self.high) = match (survived, fatal) {
            _ if is_around => (self.low, self.high),
            (Some(survived), Some(fatal)) => (survived.min(fatal), survived.max(fatal)),
            (Some(survived), None) => (survived, survived + step * 4),
            (None, Some(fatal)) => (fatal.saturating_sub(step * 4), fatal),
            (None, None) => (self.low, self.high),
        };
    }
}

/// Searches; what is seen on the way that a correct server does not do goes to `violations`.
pub(crate) async fn search(site: Site<'_>, slots: &SlotCheck, violations: &mut Vec<Violation>) -> IdleSearch {
    if !site.scenario.slots.idle_limit_search {
        return IdleSearch::NotAsked;
    }
    find(site, slots, violations).await.unwrap_or_else(|why| IdleSearch::NotCheckable { why })
}

async fn find(site: Site<'_>, slots: &SlotCheck, violations: &mut Vec<Violation>) -> Result<IdleSearch, String> {
    let Site { scenario, preflight, .. } = site;
    let leaked = if let SlotFinding::Leaked { leaked, .. } = slots.finding { leaked } else { 0 };
    let slots = preflight.model.slots.unwrap_or(1);
    // A sequence that waits for a slot is not idle.
    let free = slots.saturating_sub(leaked);
    if free == 0 {
        return Err("no slot is left".to_owned());
    }
    let limit = preflight.model.idle_limit.ok_or("the idle limit is not known (--idle-limit)")?;
    if limit > scenario.slots.wait_ms.duration() {
        return Err("the idle limit is above slots.wait_ms".to_owned());
    }
    let at_a_time = AT_A_TIME.min(free);
    // Behind those of the slot check.
    let ids = free_ids(scenario, slots, u64::from((ROUNDS + AROUND_ROUNDS) * at_a_time))
        .ok_or("the workers have so many correlation IDs that none are left")?;
    let connection = site.link().map_err(|error| error.to_string())?;
    let mut search = Search::new(limit);
    while let Some(pauses) = search.pauses(at_a_time) {
        let before = search.trials;
        let trial = |(number, pause): (u32, Duration)| {
            let number = before + number;
            let id = CorrelationId(ids.saturating_add(number.into()));
            rest(site, &connection, id, number, pause)
        };
        let all = futures_util::future::join_all((0..).zip(pauses.iter().copied()).map(trial)).await;
        let mut came = Vec::new();
        for (pause, (trial, seen)) in pauses.into_iter().zip(all) {
            violations.extend(seen);
            came.push((pause, trial?));
        }
        search.learn(&came);
    }
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let Search { kept, ended, trials, .. } = search;
    let found = IdleSearch::Found { configured_us: us(limit), kept_us: us(kept), ended_us: ended.map(us), trials };
    if found.shows_no_reap() {
        let ms = |time: Duration| us(time) / 1000;
        let evidence = Evidence::NoneReaped { sequences: trials, pause_ms: ms(kept), limit_ms: ms(limit) };
        violations.push(Violation::of_the_run(ViolationKind::MissingReap, site.clock.now(), evidence));
    }
    Ok(found)
}

/// A sequence of two steps with a pause between them: what came of it, and what a correct server does not do.
async fn rest(
    site: Site<'_>,
    connection: &Link,
    id: CorrelationId,
    number: u32,
    pause: Duration,
) -> (Result<Trial, String>, Vec<Violation>) {
    let Site { scenario, preflight, .. } = site;
    let aside = Aside::new(scenario, preflight, vec![id], Purpose::IdleSearch);
    let by = preflight.looks_go_over(scenario);
    let stream = match OwnStream::open(&preflight.model, connection, by, id.on_the_wire(scenario.correlation_ids.form))
    {
        Ok(stream) => stream,
        Err(error) => return (Err(error.to_string()), Vec::new()),
    };
    let mut resting = Resting { site, aside, stream, number, trail: Trail::default() };
    resting.observe(EventKind::Opened(Connection::Own, by));
    let trial = resting.run(pause).await;
    (trial, resting.trail.explained(&ModelFacts::of(&preflight.model)))
}

/// One sequence, and the oracle that listens to it.
struct Resting<'r> {
    site: Site<'r>,
    aside: Aside,
    stream: OwnStream,
    number: u32,
    trail: Trail,
}

impl Resting<'_> {
    async fn run(&mut self, pause: Duration) -> Result<Trial, String> {
        let start_sent = Instant::now();
        let began = self.execute(0).await?;
        let answered = Instant::now();
        if began.outcome != Outcome::Completed {
            return Err("a sequence did not begin".to_owned());
        }
        tokio::time::sleep(pause).await;
        let idle = answered.elapsed();
        match self.execute(1).await?.outcome {
            Outcome::Completed => Ok(Trial::Kept(idle)),
            Outcome::Rejected => Ok(Trial::Ended(start_sent.elapsed())),
            Outcome::Expired | Outcome::Failed | Outcome::Indeterminate => {
                Err("a step was answered with an error".to_owned())
            }
        }
    }

    /// Sends a step, and returns what it was answered with.
    async fn execute(&mut self, step: u32) -> Result<Settled, String> {
        let preflight = self.site.preflight;
        let ContextId { worker, context } = self.aside.place(0);
        let request = RequestId { worker, context, sequence: self.number, step };
        let value = preflight.model.values().of(request, self.number.into());
        let step =
            Step { request, pattern: Pattern::Pause, start: step == 0, end: step == 1, value, of: 2, special: None };
        self.observe(EventKind::Sent(step));
        if !self.stream.send(step) {
            return Err("a stream takes no step".to_owned());
        }
        match self.stream.answer(request, preflight.limits.lost_after).await {
            EventKind::Cut(Cut::Broken(reason) | Cut::Status(_, reason)) => Err(format!("a stream broke: {reason}")),
            EventKind::Cut(Cut::Lapsed) => Err("the connection of a stream ended in good order".to_owned()),
            EventKind::Cut(_) => Err("the server ended a stream".to_owned()),
            came => {
                let none = if came == EventKind::GaveUp {
                    "a step was not answered"
                } else {
                    "a stream brought what was not asked for"
                };
                self.observe(came).ok_or_else(|| none.to_owned())
            }
        }
    }

    fn observe(&mut self, kind: EventKind) -> Option<Settled> {
        self.aside.observe(&mut self.trail, self.site.clock.now(), 0, kind).settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Searches on a server that ends what is idle for longer than `limit`, and one sequence in three so much later.
    fn found(configured: Duration, limit: Duration, late: Duration) -> Search {
        let mut search = Search::new(configured);
        while let Some(pauses) = search.pauses(8) {
            let came: Vec<_> = pauses
                .into_iter()
                .map(|pause| {
                    let limit = if pause.as_micros() % 3 == 0 { limit + late } else { limit };
                    (pause, if pause <= limit { Trial::Kept(pause) } else { Trial::Ended(pause + MS) })
                })
                .collect();
            search.learn(&came);
        }
        search
    }

    #[test]
    fn the_limit_is_found_within_milliseconds_wherever_it_is() {
        for limit in [90, 200, 203, 390, 600].map(|ms| MS * ms) {
            let search = found(MS * 200, limit, Duration::ZERO);
            assert!(search.kept <= limit && search.kept + NARROW * 2 >= limit, "{limit:?}: {search:?}");
            let ended = search.ended.expect("some were ended");
            assert!(ended > limit && ended <= limit + NARROW * 3, "{limit:?}: {search:?}");
        }
    }

    #[test]
    fn a_reaper_that_is_sometimes_late_shows_in_what_was_kept_for_longer_than_others() {
        let search = found(MS * 200, MS * 205, MS * 15);
        assert!(search.kept > MS * 208 && search.ended.is_some_and(|ended| ended < MS * 210), "{search:?}");
    }

    #[test]
    fn a_server_that_ends_nothing_is_not_searched_for_ever() {
        let search = found(MS * 200, MS * 1_000_000, Duration::ZERO);
        assert!(
            search.ended.is_none() && search.trials == 8 * (ROUNDS + AROUND_ROUNDS) && search.kept < MS * 4000,
            "{search:?}"
        );
    }
}
