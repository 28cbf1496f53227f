//! The other ranks of a run, as the one that leads them drives it: threads that are far away.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Part, RunResult, Setup, host_name,
    part::{Rank, Ranks},
    shared::Shared,
};
use crate::{
    ranks::{FromLeader, FromMember, Lead, Member, Moment, Order, Said},
    recorder::{Patterns, Tap, Taps},
};
use workload::{event::Nanos, share::reserved};

/// How long a rank may take to make its connections.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// How long it may take to end when it waits for nothing any more.
const END_WITHIN: Duration = Duration::from_secs(10);

/// The other ranks of a run; none where it is held by one process.
pub(super) struct Team<'r> {
    shared: &'r Shared,
    lead: Option<&'r Lead>,
    states: Vec<State>,
    has_begun: bool,
    told_to_stop: bool,
    /// When the ranks were told of the run, and when to wait for nothing any more.
    ordered_at: Instant,
    aborted_at: Option<Instant>,
    /// Why the run cannot begin.
    pub(super) failure: Option<String>,
}

/// What is known of another rank.
#[derive(Default)]
struct State {
    /// Where what its threads saw is handed on, until it has ended.
    tap: Option<Tap>,
    is_ready: bool,
    began_ns: Option<Nanos>,
    part: Part,
    has_ended: bool,
    lost: Option<String>,
}

/// Brings the interrupts of this rank, and, where it leads others, theirs. Whoever interrupts a run may tell each rank, one after the
/// other: that is one interrupt, and another one comes when a rank is told again.
pub(super) fn of_any_rank(mut own: mpsc::Receiver<()>, lead: Option<&Lead>) -> mpsc::Receiver<()> {
    let Some(members) = lead.map(|lead| lead.members.clone()) else { return own };
    let (sender, interrupts) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut times = Times::default();
        loop {
            let rank = tokio::select! {
                () = sender.closed() => return,
                Some(()) = own.recv() => 0,
                index = members.interrupted() => members.all().get(index).map_or(0, |member| member.rank),
            };
            if times.is_one_more(rank) {
                // One that is not heeded so far is as good as two.
                let _ = sender.try_send(());
            }
        }
    });
    interrupts
}

/// How often each rank was interrupted.
#[derive(Default)]
struct Times {
    of: BTreeMap<u32, u32>,
    most: u32,
}

impl Times {
    /// Counts an interrupt of a rank. Whether no rank was interrupted as often before.
    fn is_one_more(&mut self, rank: u32) -> bool {
        let times = self.of.entry(rank).or_default();
        *times += 1;
        let is_more = *times > self.most;
        self.most = self.most.max(*times);
        is_more
    }
}

impl<'r> Team<'r> {
    /// Tells the ranks what is to be sent.
    pub(super) async fn new(shared: &'r Shared, taps: &Taps) -> Self {
        let lead = shared.setup.lead.as_ref();
        let mut states = Vec::new();
        if let Some(lead) = lead {
            let members = &lead.members;
            members.say(&FromLeader::Run(Box::new(order(shared, lead)))).await;
            states.extend(members.all().iter().enumerate().map(|(index, _)| State {
                lost: members.why_lost(index),
                tap: Some(taps.tap()),
                ..State::default()
            }));
        }
        let has_begun = lead.is_none();
        let mut team = Self {
            shared,
            lead,
            states,
            has_begun,
            told_to_stop: false,
            ordered_at: Instant::now(),
            aborted_at: None,
            failure: None,
        };
        for index in 0..team.states.len() {
            if let Some(why) = team.states[index].lost.clone() {
                team.lose(index, &why);
            }
        }
        team
    }

    /// What a rank says next.
    pub(super) async fn next(&self) -> (usize, Said) {
        match self.lead {
            Some(lead) => lead.members.next().await,
            None => std::future::pending().await,
        }
    }

    /// Whether nothing more comes of any rank.
    pub(super) fn is_over(&self) -> bool {
        self.states.iter().all(|state| state.has_ended)
    }

    /// Whether no rank is waited for before the run begins.
    fn is_ready(&self) -> bool {
        self.states.iter().all(|state| state.is_ready)
    }

    /// Takes in what a rank says.
    pub(super) fn take(&mut self, index: usize, said: Said) {
        let shared = self.shared;
        let place = shared.threads.len() + index;
        let Some(state) = self.states.get_mut(index).filter(|state| !state.has_ended) else { return };
        match said {
            Said::Batch(batch) => {
                state.part.lost_entries += batch.lost();
                if let Some(tap) = &mut state.tap {
                    if !batch.violations.is_empty() {
                        shared.stop_at_violation();
                    }
                    tap.hand_on(batch);
                }
            }
            Said::Lost(why) => self.give_up(index, &why),
            Said::Message(message) => match message {
                FromMember::Ready => state.is_ready = true,
                FromMember::Began { at_ns } => state.began_ns = Some(at_ns),
                FromMember::Progress(progress) => {
                    state.part.iterations = progress.iterations;
                    shared.others.set(index, *progress);
                }
                FromMember::Counted(tally) => {
                    shared.snapshots.leave(place, || (*tally).clone());
                    shared.glances.leave(place, || Patterns::of(&tally));
                    state.part.tally = *tally;
                }
                FromMember::Seconds { seconds } => seconds.into_iter().for_each(|second| shared.seconds.leave(second)),
                FromMember::ServerGone { why } => {
                    // Whether it is gone for this rank, too, is looked at when the run is over.
                    state.lost = Some(format!("the server answered it no more: {why}"));
                    shared.gate.stop();
                }
                FromMember::Ended(part) => {
                    shared.snapshots.leave_last(place, part.tally.clone());
                    shared.glances.leave_last(place, Patterns::of(&part.tally));
                    state.part = *part;
                    state.finish();
                    shared.others.end(index);
                }
                FromMember::Failed { why } => self.lose(index, &why),
                FromMember::Hello(_) | FromMember::Pong { .. } | FromMember::Interrupted => {}
            },
        }
    }

    /// Waits for a rank no longer, which learns that if it is still there.
    fn give_up(&mut self, index: usize, why: &str) {
        if let Some(lead) = self.lead {
            lead.members.all()[index].give_up(why);
        }
        self.lose(index, why);
    }

    /// A rank is gone: the run cannot be whole any more, and ends.
    fn lose(&mut self, index: usize, why: &str) {
        let Some(lead) = self.lead else { return };
        let rank = lead.members.all()[index].rank;
        if !self.has_begun {
            self.failure.get_or_insert_with(|| format!("rank {rank} was lost before the run began: {why}"));
        }
        let (place, state) = (self.shared.threads.len() + index, &mut self.states[index]);
        self.shared.snapshots.leave_last(place, state.part.tally.clone());
        self.shared.glances.leave_last(place, Patterns::of(&state.part.tally));
        state.lost.get_or_insert_with(|| why.to_owned());
        state.finish();
        self.shared.others.end(index);
        self.shared.gate.stop();
    }

    /// Begins the run, once all ranks are ready and nothing failed.
    pub(super) async fn begin_if_all_are_ready(&mut self) {
        let Some(lead) = self.lead.filter(|_| !self.has_begun && self.is_ready()) else { return };
        if self.failure.is_some() || self.shared.gate.is_stopping() {
            return;
        }
        let zero = Instant::now();
        let ours = Moment::of(zero.into_std());
        for member in lead.members.all() {
            member.say(&FromLeader::Start { zero: member.offset.theirs(ours) }).await;
        }
        self.has_begun = true;
        self.shared.clock.start_at(zero);
        self.shared.gate.let_in();
    }

    /// Gives up ranks that are there and do not do what they are told.
    pub(super) fn look(&mut self) {
        if self.lead.is_none() {
            return;
        }
        let (what, limit, since) = match self.aborted_at {
            Some(at) => ("it did not end", END_WITHIN, at),
            None if !self.has_begun => ("it was not ready", READY_WITHIN, self.ordered_at),
            None => return,
        };
        if since.elapsed() < limit {
            return;
        }
        for index in 0..self.states.len() {
            let state = &self.states[index];
            if !state.has_ended && (self.aborted_at.is_some() || !state.is_ready) {
                self.give_up(index, &format!("{what} within {} s", limit.as_secs()));
            }
        }
    }

    /// Passes on that the run is stopping.
    pub(super) async fn stop(&mut self) {
        if !mem::replace(&mut self.told_to_stop, true) {
            self.say(&FromLeader::Stop).await;
        }
    }

    pub(super) fn was_told_to_stop(&self) -> bool {
        self.told_to_stop || self.lead.is_none()
    }

    /// Passes on that nothing is waited for any more.
    pub(super) async fn abort(&mut self) {
        self.aborted_at.get_or_insert_with(Instant::now);
        self.say(&FromLeader::Abort).await;
    }

    async fn say(&self, what: &FromLeader) {
        let Some(lead) = self.lead else { return };
        for (member, _) in lead.members.all().iter().zip(&self.states).filter(|(_, state)| state.tap.is_some()) {
            member.say(what).await;
        }
    }

    /// Adds what the others measured to what this rank did.
    /// `lost_entries` is how many nobody looked at here, those of other ranks included.
    pub(super) fn conclude(self, result: &mut RunResult, lost_entries: u64) {
        let Some(Lead { members, about, .. }) = self.lead else { return };
        let relayed: u64 = self.states.iter().map(|state| state.part.lost_entries).sum();
        let own = Part {
            lost_entries: lost_entries.saturating_sub(relayed),
            ..result.own_part(self.shared.own_progress().iterations)
        };
        let here = Rank::of(host_name(), &own, Some(0).filter(|_| self.has_begun));
        let mut ranks = Ranks {
            run_id: about.run_id.clone(),
            attempt: about.attempt,
            correlation_ids: reserved(&self.shared.setup.scenario),
            start_skew_us: None,
            clock_uncertainty_us: members.uncertainty_us(),
            ranks: vec![here],
        };
        for (Member { host, .. }, state) in members.all().iter().zip(self.states) {
            result.add_part(&state.part);
            let began_us = state.began_ns.map(|at| at / 1000);
            ranks.ranks.push(Rank { lost: state.lost, ..Rank::of(host.clone(), &state.part, began_us) });
        }
        ranks.measure_skew();
        result.own = Some(Arc::new(own));
        result.ranks = Some(ranks);
    }
}

impl State {
    /// Nothing more comes.
    fn finish(&mut self) {
        self.has_ended = true;
        if let Some(tap) = self.tap.take() {
            // It may wait for a disk.
            tokio::task::spawn_blocking(move || tap.finish());
        }
    }
}

/// What the other ranks are to carry out.
fn order(shared: &Shared, lead: &Lead) -> Order {
    let Setup { scenario, seed, hints, fail_fast, pace, golden, .. } = &shared.setup;
    let file = golden.as_ref().map(|golden| {
        let mut bytes = Vec::new();
        golden.write_to(&mut bytes).expect("memory takes it");
        BASE64_STANDARD.encode(bytes)
    });
    Order {
        about: lead.about.clone(),
        results: lead.results.clone(),
        scenario: scenario.clone(),
        seed: *seed,
        hints: *hints,
        fail_fast: *fail_fast,
        pace: *pace,
        preflight: shared.preflight.clone(),
        turn: shared.preflight.model.turn,
        golden: file,
    }
}

#[cfg(test)]
mod tests {
    use super::Times;

    #[test]
    fn an_interrupt_that_reaches_each_rank_is_one() {
        let mut times = Times::default();
        let heeded: Vec<_> = [2, 0, 1, 0, 1, 2, 2].map(|rank| times.is_one_more(rank)).into();
        assert_eq!(heeded, [true, false, false, true, false, false, true]);
    }
}
