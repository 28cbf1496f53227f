//! Requests of streams that were cut: until a time limit the server may still take them in, in their order, or never.

use super::stream::Request;
use workload::{
    event::{Disturbance, Nanos},
    number::Number,
};

/// The most cut streams whose requests are looked at one by one. With more, sums tell next to nothing: some run of their
/// values explains about any 32-bit number.
pub(super) const CUTS_MAX: usize = 4;
/// The most requests of them.
const STRAYS_MAX: usize = 128;
/// How many combinations of their sums are looked at for one answer.
const LOOKS_MAX: usize = 200_000;

/// What is left of one stream.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) requests: Vec<Request>,
    /// Those before this one have been taken in, as far as it is known. What was taken in and showed in no sum is not
    /// known of, so any later one may be the next.
    pub(super) from: usize,
    /// None is taken in after this time.
    pub(super) until: Nanos,
}

/// What is left of all streams that were cut.
#[derive(Clone, Debug, Default)]
pub(super) struct Strays {
    pub(super) cuts: Vec<Cut>,
    /// Until when there are more than can be looked at.
    pub(super) fog_until: Nanos,
    /// Until when a cancelled request may take the others of its sequence with it.
    sweeps_until: Nanos,
    /// Until when it would have lasted without a disturbance that is under way.
    clear_before_disturbance: Option<Nanos>,
    /// What was in the fog, for those who need to know whether something may still be executed.
    fog_sent: Option<Nanos>,
}

/// Whether strays account for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Explained {
    Yes,
    No,
    /// There are more ways than can be looked at.
    TooManyWays,
}

/// Some steps one after the other, without START and END: what they add, and the index behind them; none where there are no steps.
#[derive(Clone, Copy, Debug)]
struct Run {
    sum: Number,
    end: Option<usize>,
}

impl Strays {
    pub(super) fn add(&mut self, requests: Vec<Request>, until: Nanos) {
        if requests.is_empty() {
            return;
        }
        self.sweeps_until = self.sweeps_until.max(until);
        self.cuts.push(Cut { requests, from: 0, until });
        if self.cuts.len() > CUTS_MAX || self.cuts.iter().map(|cut| cut.requests.len()).sum::<usize>() > STRAYS_MAX {
            self.lose_in_fog();
        }
    }

    /// Anything may be taken in up to this time.
    pub(super) fn lose_all(&mut self, until: Nanos) {
        self.lose_in_fog();
        self.fog_until = self.fog_until.max(until);
        self.fog_sent = Some(0);
        self.sweeps_until = self.sweeps_until.max(until);
    }

    /// Anything may be taken in while it lasts, and up to this time afterwards.
    pub(super) fn lose_while_disturbed(&mut self, disturbance: Disturbance, at: Nanos) {
        self.lose_in_fog();
        match disturbance {
            Disturbance::Begins | Disturbance::InstanceFails => {
                self.clear_before_disturbance = Some(self.clear_before_disturbance.unwrap_or(0).max(self.fog_until));
                self.fog_until = Nanos::MAX;
            }
            // What was cut before may still come to the other one.
            Disturbance::IsOver => self.fog_until = self.clear_before_disturbance.take().unwrap_or(0).max(at),
        }
        self.fog_sent = Some(0);
    }

    /// Gives up looking at them one by one.
    fn lose_in_fog(&mut self) {
        self.fog_until = self.cuts.iter().map(|cut| cut.until).max().unwrap_or(0).max(self.fog_until);
        let sent = self.cuts.iter().flat_map(|cut| &cut.requests).map(|request| request.sent_at).min();
        self.fog_sent = self.fog_sent.min(sent).or(sent);
        self.cuts.clear();
    }

    /// Forgets those that can be taken in no more, because something was taken in that was sent at this time.
    pub(super) fn expire(&mut self, latest: Nanos) {
        self.cuts.retain(|cut| latest < cut.until);
        if latest >= self.fog_until {
            self.fog_sent = None;
        }
    }

    /// Whether there are none.
    pub(super) fn are_none(&self) -> bool {
        self.cuts.is_empty() && self.fog_sent.is_none()
    }

    /// Whether a request was sent when there were more strays than can be looked at.
    pub(super) fn in_fog(&self, sent_at: Nanos) -> bool {
        sent_at < self.fog_until
    }

    /// Whether a request that was sent at this time may be in a sequence with a cancelled one.
    pub(super) fn may_sweep(&self, sent_at: Nanos) -> bool {
        sent_at < self.sweeps_until
    }

    /// The strays that may be taken in after what was sent at `latest`.
    pub(super) fn left(&self, latest: Nanos) -> impl Iterator<Item = &Request> {
        self.cuts.iter().filter(move |cut| latest < cut.until).flat_map(|cut| &cut.requests[cut.from..])
    }

    /// The cuts' requests that may be executed after this time, and when the oldest was sent that is not kept.
    pub(super) fn unfinished(&self, now: Nanos) -> (impl Iterator<Item = &[Request]>, Option<Nanos>) {
        let cuts = self.cuts.iter().filter(move |cut| now < cut.until).map(|cut| cut.requests.as_slice());
        (cuts, self.fog_sent.filter(|_| now < self.fog_until))
    }

    /// Whether strays that were taken in after what was sent at `latest` turn one of the sums `live` into `wanted`, or begin a
    /// sequence and bring it there. What shows in it has then been taken in.
    pub(super) fn explain(&mut self, live: impl Iterator<Item = Number>, wanted: Number, latest: Nanos) -> Explained {
        let zero = wanted.zero();
        let usable: Vec<_> = (0..self.cuts.len()).filter(|&cut| latest < self.cuts[cut].until).collect();
        let runs: Vec<_> = usable.iter().map(|&cut| self.cuts[cut].runs(zero)).collect();
        let mut search = Search { found: None, looks: 0 };
        let mut ends = vec![None; usable.len()];
        for sum in live {
            search.run(&runs.iter().map(Vec::as_slice).collect::<Vec<_>>(), wanted.wrapping_sub(sum), &mut ends);
        }
        for (place, &cut) in usable.iter().enumerate() {
            for (value, after) in self.cuts[cut].starts(zero) {
                let mut all: Vec<_> = runs.iter().map(Vec::as_slice).collect();
                all[place] = &after;
                search.run(&all, wanted.wrapping_sub(value), &mut ends);
            }
        }
        match search.found {
            _ if search.looks > LOOKS_MAX => Explained::TooManyWays,
            None => Explained::No,
            Some(ends) => {
                for (&cut, end) in usable.iter().zip(ends) {
                    let cut = &mut self.cuts[cut];
                    cut.from = cut.from.max(end.unwrap_or(0));
                }
                Explained::Yes
            }
        }
    }
}

impl Cut {
    /// All runs of steps that may be taken in next, the one of no steps included.
    fn runs(&self, zero: Number) -> Vec<Run> {
        let mut runs = vec![Run { sum: zero, end: None }];
        for begin in self.from..self.requests.len() {
            runs.extend(self.runs_from(begin, zero));
        }
        runs
    }

    /// The runs that begin with this request.
    fn runs_from(&self, begin: usize, sum: Number) -> impl Iterator<Item = Run> {
        let plain = self.requests[begin..].iter().take_while(|request| !request.step.start && !request.step.end);
        plain.enumerate().scan(sum, move |sum, (index, request)| {
            *sum = sum.wrapping_add(request.step.value);
            Some(Run { sum: *sum, end: Some(begin + index + 1) })
        })
    }

    /// The STARTs that leave a sequence: what each adds, and the runs that go on from it.
    fn starts(&self, zero: Number) -> impl Iterator<Item = (Number, Vec<Run>)> {
        let begins = |index: &usize| self.requests[*index].step.start && !self.requests[*index].step.end;
        (self.from..self.requests.len()).filter(begins).map(move |index| {
            let alone = Run { sum: zero, end: Some(index + 1) };
            (self.requests[index].step.value, [alone].into_iter().chain(self.runs_from(index + 1, zero)).collect())
        })
    }
}

/// A search for one run of each cut that add up to something.
struct Search {
    /// Up to where each cut has been taken in at least, in all the ways that were found; none where it does not show in each.
    found: Option<Vec<Option<usize>>>,
    looks: usize,
}

impl Search {
    fn run(&mut self, runs: &[&[Run]], rest: Number, ends: &mut [Option<usize>]) {
        let Some((last, before)) = runs.split_last() else {
            if rest.is_zero() {
                self.found = Some(match self.found.take() {
                    None => ends.to_vec(),
                    Some(found) => found.into_iter().zip(&*ends).map(|(one, other)| one.min(*other)).collect(),
                });
            }
            return;
        };
        let place = before.len();
        self.looks += last.len();
        if self.looks > LOOKS_MAX {
            return;
        }
        for run in *last {
            if before.is_empty() && run.sum != rest {
                continue;
            }
            ends[place] = run.end;
            self.run(before, rest.wrapping_sub(run.sum), ends);
        }
    }
}
