//! What happened in each second of a run, or in each of longer intervals where it is long.

use std::{
    iter, mem,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer as _, V2DeflateSerializer, V2Serializer},
};

use serde::{Deserialize, Serialize};

use super::Times;
use oracle::Offered;
use workload::{event::Nanos, model::Statistics, scenario::Scope, sequence::Pattern};

/// How many intervals are kept. Where there would be more, each two become one.
pub(crate) const INTERVALS_MAX: usize = 600;
pub(super) const SECOND: Nanos = 1_000_000_000;

/// What was counted in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted {
    /// Requests sent.
    pub(crate) requests: u64,
    /// Requests answered in whatever way.
    pub(crate) responses: u64,
    /// Of these, good ones.
    pub(crate) good: u64,
    /// Requests whose response nobody waits for any more.
    pub(crate) abandoned: u64,
    /// Of these, requests whose response the server owed.
    pub(crate) lost: u64,
    /// Sequences begun.
    pub(crate) sequences: u64,
    pub(crate) violations: u64,
}

impl Counted {
    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.responses += other.responses;
        self.good += other.good;
        self.abandoned += other.abandoned;
        self.lost += other.lost;
        self.sequences += other.sequences;
        self.violations += other.violations;
    }
}

/// How client and server were at a time: once a second, and of a longer interval at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) at: Nanos,
    /// Requests without a response.
    pub(crate) in_flight: u64,
    /// Slots that are certainly taken.
    pub(crate) slots_taken: u64,
    /// STARTs without a response.
    pub(crate) starts_waiting: u64,
    /// CPU time of the client's process since it began, in µs.
    pub(crate) client_cpu_us: u64,
    /// Its memory, in bytes.
    pub(crate) client_memory: Option<u64>,
    /// What the model's statistics said.
    pub(crate) statistics: Option<Statistics>,
    /// Requests that were pending in the server.
    pub(crate) pending: Option<u64>,
    /// The server's memory, in bytes.
    pub(crate) server_memory: Option<u64>,
    /// CPU time of the server's process since it began, in µs.
    pub(crate) server_cpu_us: Option<u64>,
}

/// Times in a form that takes little memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed(Vec<u8>);

impl Packed {
    /// Quickly, for a thread that has other things to do.
    fn of(times: &Times) -> Self {
        let mut bytes = Vec::new();
        if times.count() > 0 {
            V2Serializer::new().serialize(&times.0, &mut bytes).expect("memory takes them");
        }
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the form that takes the least room.
    pub(super) fn smallest(times: &Times) -> Self {
        let mut bytes = Vec::new();
        if times.count() > 0 {
            V2DeflateSerializer::new().serialize(&times.0, &mut bytes).expect("memory takes them");
        }
        Self(bytes)
    }

    /// Of what another process wrote.
    ///
    /// # Errors
    /// When these are no such times.
    pub(super) fn read(bytes: Vec<u8>) -> Result<Self, String> {
        if !bytes.is_empty() {
            let read: Histogram<u64> =
                Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())?;
            let empty = Times::default();
            let is_ours = |of: fn(&Histogram<u64>) -> u64| of(&read) == of(&empty.0);
            if !is_ours(Histogram::low) || !is_ours(Histogram::high) || read.sigfig() != empty.0.sigfig() {
                return Err("it has other bounds".to_owned());
            }
        }
        Ok(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Leaves nothing of the times.
    fn take(times: &mut Times) -> Self {
        let packed = Self::of(times);
        if times.count() > 0 {
            times.0.reset();
        }
        packed
    }

    pub(crate) fn times(&self) -> Times {
        let unpacked = |bytes: &Vec<u8>| Deserializer::new().deserialize(&mut bytes.as_slice()).map(Times);
        if self.0.is_empty() { Times::default() } else { unpacked(&self.0).expect("it was packed here") }
    }

    /// Adds others, and keeps all in the form that takes the least memory: it stays until the run ends.
    fn add(&mut self, other: &Self) {
        if other.0.is_empty() {
            return;
        }
        let mut times = self.times();
        times.add(&other.times());
        self.0.clear();
        V2DeflateSerializer::new().serialize(&times.0, &mut self.0).expect("memory takes them");
        self.0.shrink_to_fit();
    }
}

/// The times of an interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Timed<T> {
    pub(crate) step: T,
    /// Those of steps whose response was not good.
    pub(crate) not_good: T,
    /// How late the client sent steps that have times of their own.
    pub(crate) late: T,
    pub(crate) sequence: T,
    pub(crate) slot: T,
    pub(crate) first_response: T,
}

/// What happened in an interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) counted: Counted,
    pub(crate) times: Timed<Packed>,
    /// What was there for the model to execute.
    pub(crate) offered: Offered,
    /// The latest in it.
    pub(crate) sample: Option<Sample>,
}

impl<T> Timed<T> {
    fn map<U>(&mut self, of: impl Fn(&mut T) -> U) -> Timed<U> {
        let Self { step, not_good, late, sequence, slot, first_response } = self;
        Timed {
            step: of(step),
            not_good: of(not_good),
            late: of(late),
            sequence: of(sequence),
            slot: of(slot),
            first_response: of(first_response),
        }
    }

    fn each_with<'t>(&'t mut self, other: &'t Self) -> [(&'t mut T, &'t T); 6] {
        [
            (&mut self.step, &other.step),
            (&mut self.not_good, &other.not_good),
            (&mut self.late, &other.late),
            (&mut self.sequence, &other.sequence),
            (&mut self.slot, &other.slot),
            (&mut self.first_response, &other.first_response),
        ]
    }
}

impl Interval {
    /// Adds what else happened in it, or after it.
    fn add(&mut self, other: &Self) {
        self.counted.add(&other.counted);
        self.times.each_with(&other.times).into_iter().for_each(|(mine, theirs)| mine.add(theirs));
        self.offered.add(&other.offered);
        self.sample = other.sample.or(self.sample);
    }
}

/// What happened in a second, and how many seconds of the run are before it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Second {
    pub(crate) number: u64,
    pub(crate) interval: Interval,
    /// What of it fell to parts of the load that thresholds are of, in their order.
    pub(crate) parts: Vec<Interval>,
}

/// What a thread counts in a second.
#[derive(Debug, Default)]
pub(super) struct Count {
    pub(super) counted: Counted,
    pub(super) times: Timed<Times>,
}

impl Count {
    pub(super) fn close(&mut self) -> Interval {
        let counted = mem::take(&mut self.counted);
        Interval { counted, times: self.times.map(Packed::take), ..Interval::default() }
    }
}

/// The second that a thread counts.
#[derive(Debug, Default)]
pub(super) struct Now {
    /// Its number, from 0.
    second: u64,
    all: Count,
    parts: Vec<(Scope, Count)>,
}

impl Now {
    /// Counts all that happens, and what falls to these parts of the load.
    pub(super) fn new(parts: &[Scope]) -> Self {
        Self { parts: parts.iter().map(|scope| (*scope, Count::default())).collect(), ..Self::default() }
    }

    /// The counts to which belongs what happens in a population to a pattern's request.
    pub(super) fn of(&mut self, population: usize, pattern: Option<Pattern>) -> impl Iterator<Item = &mut Count> {
        let is_its = move |scope: &Scope| match scope {
            Scope::Run => true,
            Scope::Population(its) => *its == population,
            Scope::Pattern(its) => Some(*its) == pattern,
        };
        let parts = self.parts.iter_mut().filter(move |(scope, _)| is_its(scope)).map(|(_, count)| count);
        iter::once(&mut self.all).chain(parts)
    }

    /// Goes on to the second that has this time in it. Returns the one before, where that is another and has something.
    pub(super) fn go_on(&mut self, at: Nanos) -> Option<Second> {
        // A history has the events of several threads, which are a little out of order.
        let second = (at / SECOND).max(self.second);
        if second == self.second { None } else { self.close(second) }
    }

    fn close(&mut self, next: u64) -> Option<Second> {
        let number = mem::replace(&mut self.second, next);
        let has_something = self.all.counted != Counted::default() || self.all.times.late.count() > 0;
        has_something.then(|| Second {
            number,
            interval: self.all.close(),
            parts: self.parts.iter_mut().map(|(_, count)| count.close()).collect(),
        })
    }

    /// What is left when nothing more happens.
    pub(super) fn end(&mut self) -> Option<Second> {
        self.close(self.second)
    }
}

/// The intervals of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// How many seconds each interval has.
    pub(crate) seconds: u64,
    /// When the run began on the system's clock; none where that is not known.
    pub(crate) began: Option<SystemTime>,
    /// From the run's beginning on, without gaps.
    pub(crate) intervals: Vec<Interval>,
}

impl Default for Series {
    fn default() -> Self {
        Self { seconds: 1, began: None, intervals: Vec::new() }
    }
}

impl Series {
    /// Adds what happened in a second, or how it was.
    pub(crate) fn add(&mut self, second: u64, interval: &Interval) {
        while second / self.seconds >= INTERVALS_MAX as u64 {
            self.widen();
        }
        let place = usize::try_from(second / self.seconds).expect("few intervals");
        if self.intervals.len() <= place {
            self.intervals.resize_with(place + 1, Interval::default);
        }
        self.intervals[place].add(interval);
    }

    /// Adds the intervals of another rank.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.began = self.began.or(other.began);
        for (number, interval) in (0..).zip(&other.intervals) {
            let second: u64 = number * other.seconds;
            self.add(second, interval);
        }
    }

    /// Takes in how it was, which is looked at when a second is just over.
    pub(crate) fn sample(&mut self, sample: Sample) {
        self.add(
            sample.at.saturating_sub(SECOND / 2) / SECOND,
            &Interval { sample: Some(sample), ..Interval::default() },
        );
    }

    /// What was there for the model to execute in the whole run.
    pub(crate) fn offered_in_all(&self) -> Offered {
        let mut all = Offered::default();
        self.intervals.iter().for_each(|interval| all.add(&interval.offered));
        all
    }

    fn widen(&mut self) {
        self.seconds *= 2;
        let wider = self.intervals.chunks(2).map(|two| {
            let mut one = two[0].clone();
            two[1..].iter().for_each(|next| one.add(next));
            one
        });
        self.intervals = wider.collect();
    }
}

/// Where the threads of a run leave the seconds that are over, for the thread that puts them together: none of them waits for that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seconds(Arc<Mutex<Vec<Second>>>);

impl Seconds {
    pub(crate) fn leave(&self, second: Second) {
        self.0.lock().expect("no thread fails while it has it").push(second);
    }

    /// Leaves what was there for the model to execute in some seconds.
    pub(crate) fn leave_offered(&self, seconds: Vec<(u64, Offered)>) {
        for (number, offered) in seconds {
            let interval = Interval { offered, ..Interval::default() };
            self.leave(Second { number, interval, parts: Vec::new() });
        }
    }

    /// Takes those that are there.
    pub(crate) fn take(&self) -> Vec<Second> {
        mem::take(&mut *self.0.lock().expect("no thread fails while it has it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(requests: u64, ms: &[u64]) -> Interval {
        let mut now = Now::default();
        now.all.counted.requests = requests;
        for ms in ms {
            now.all.times.step.record(0, ms * 1_000_000);
        }
        now.end().expect("something").interval
    }

    fn shown(series: &Series) -> Vec<(u64, u64, u64)> {
        let of = |its: &Interval| {
            let times = its.times.step.times();
            (its.counted.requests, times.count(), times.max_us() / 1000)
        };
        series.intervals.iter().map(of).collect()
    }

    #[test]
    fn a_thread_leaves_each_second_that_has_something() {
        let (mut now, seconds, mut series) = (Now::default(), Seconds::default(), Series::default());
        for (at, took) in [(0, 1), (999_999_999, 2), (1_000_000_000, 3), (4_500_000_000, 4), (4_400_000_000, 5)] {
            if let Some(second) = now.go_on(at) {
                seconds.leave(second);
            }
            now.all.counted.requests += 1;
            now.all.times.step.record(0, took * 1_000_000);
        }
        seconds.leave(now.end().expect("the last second has something"));
        for Second { number, interval, .. } in seconds.take() {
            series.add(number, &interval);
        }
        assert_eq!(shown(&series), [(2, 2, 2), (1, 1, 3), (0, 0, 0), (0, 0, 0), (2, 2, 5)]);
        assert!(now.end().is_none() && now.go_on(9_000_000_000).is_none(), "nothing happened since");
    }

    #[test]
    fn what_is_kept_takes_less_memory_than_what_comes() {
        let mut now = Now::default();
        now.all.counted.requests = 1;
        (0..20_000_u64).for_each(|number| now.all.times.step.record(0, (number * 7919 % 200_000 + 5000) * 1000));
        let second = now.end().expect("something").interval;
        let mut series = Series::default();
        series.add(0, &second);
        let kept = &series.intervals[0].times.step;
        assert_eq!(kept.times().0, second.times.step.times().0);
        let (kept, came) = (kept.0.len(), second.times.step.0.len());
        assert!(came > 2000 && kept * 2 < came, "{kept} of {came} bytes");
    }

    #[test]
    fn several_threads_are_merged_exactly() {
        let mut series = Series::default();
        let mut all = Times::default();
        for thread in 1..=3 {
            let ms: Vec<_> = (1..=50).map(|step| step * thread).collect();
            for ms in &ms {
                all.record(0, ms * 1_000_000);
            }
            series.add(0, &second(50, &ms));
        }
        let merged = series.intervals[0].times.step.times();
        assert_eq!(merged.0, all.0);
    }

    #[test]
    fn a_long_run_has_longer_intervals_and_loses_nothing() {
        let mut series = Series::default();
        let seconds = 2 * INTERVALS_MAX as u64 + 1;
        for number in 0..seconds {
            series.add(number, &second(1, &[number % 7 + 1]));
            series.sample(Sample { at: (number + 1) * SECOND, in_flight: number, ..Sample::default() });
        }
        assert_eq!((series.seconds, series.intervals.len()), (4, INTERVALS_MAX / 2 + 1));
        let all = shown(&series);
        assert_eq!((all[0], all[1]), ((4, 4, 4), (4, 4, 7)));
        assert_eq!(all.iter().map(|(requests, ..)| requests).sum::<u64>(), seconds);
        assert_eq!(series.intervals[1].sample.map(|sample| sample.in_flight), Some(7), "that of its end");
        // What comes late finds its interval.
        series.add(5, &second(1, &[90]));
        assert_eq!(shown(&series)[1], (5, 5, 90));
    }
}
