//! START errors that should not have come, and such that should have.

use std::{iter, time::Duration};

use super::{
    Cause, Clue, Left, Question, ViolationKind,
    hypothesis::{Fit, Hypothesis, in_order},
    story::{Asked, Spot},
};
use crate::ms;
use workload::event::Nanos;

/// A gap between steps that is so many times the usual one is a pause.
const PAUSE: u64 = 8;
/// No gap that is shorter is one.
const PAUSE_MIN: Nanos = 10_000_000;
/// This share of the idle limit is a pause too, where the sequence is gone for good after it.
const SHARE_OF_LIMIT: u32 = 10;
/// Streams that broke within this time before a rejection may have to do with it.
const RESTART: Nanos = 2_000_000_000;

/// A rejection for want of START that had no cause.
pub(super) fn spurious(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let asked = question.story.asked(spot);
    if asked.step.start {
        return in_order(&[Cause::StartRejected], [Clue::CarriesStart]);
    }
    let steps = &question.story.told(spot).steps;
    let Some(last) = steps[..spot.step].iter().rev().find(|earlier| earlier.sum().is_some()) else {
        return in_order(&[Cause::SpuriousRejection], [Clue::NoAcceptedStep]);
    };
    if let Some(clue) = bound_to_connection(question, spot) {
        return in_order(&[Cause::BoundToConnection, Cause::PrematureReap], [clue]);
    }
    if let Some(clue) = ended_by_another_id(question, spot, last) {
        return in_order(&[Cause::IdTakenForAnother, Cause::PrematureReap], [clue]);
    }
    let gap = Gap::new(asked, last, &steps[..spot.step]);
    let later = went_on(&steps[spot.step + 1..]);
    let since_start = question.known.idle_limit.and_then(|limit| limit_since_start(limit, asked, last, steps.first()?));
    let mut all = of_gap(question, &gap, since_start, later);
    let before = steps[..spot.step].last().filter(|before| before.step.flaw().is_some() && before.has_failed());
    if let Some(before) = before.filter(|_| later != Some(true)) {
        let clue = Clue::RejectedForAFlaw { step: before.step.request.step + 1 };
        all.insert(0, Hypothesis::of_rank(Cause::EndedByRejection, 1, Fit::Yes, [clue]));
    }
    if let Some((_, reason)) = question.story.broken_near(asked.at(), RESTART).next() {
        let clue = Clue::StreamBroke { reason: reason.map(str::to_owned) };
        all.push(Hypothesis::of_rank(Cause::Restart, 1, Fit::NotKnown, [clue]));
    }
    all
}

/// Where every rejected step of the sequence came over another connection than its START, and no sequence went on over another.
fn bound_to_connection(question: &Question, spot: Spot) -> Option<Clue> {
    let story = question.story;
    let told = story.told(spot);
    let start = told.steps.first().filter(|first| first.step.start && first.sum().is_some())?;
    let is_elsewhere = |asked: &&Asked| !asked.is_over_the_connection_of(start);
    let rejected = || told.steps.iter().filter(|asked| asked.has_failed());
    if rejected().count() == 0 || !rejected().all(|asked| is_elsewhere(&asked)) {
        return None;
    }
    let went_on_elsewhere = story.sequences.iter().any(|told| {
        let Some(first) = told.steps.first().filter(|first| first.step.start) else { return false };
        told.steps.iter().any(|asked| asked.sum().is_some() && !asked.is_over_the_connection_of(first))
    });
    if went_on_elsewhere {
        return None;
    }
    let executed = told.steps.iter().filter(|asked| asked.sum().is_some()).count();
    Some(Clue::OtherConnection { rejected: rejected().count(), executed })
}

/// Where a sequence ended meanwhile whose ID is made to be nearly the same.
fn ended_by_another_id(question: &Question, spot: Spot, last: &Asked) -> Option<Clue> {
    let (story, forms) = (question.story, &question.known.id_forms);
    let (own, rejected_at) = (story.told(spot).correlation_id, story.asked(spot).at());
    let is_near = |other| forms.iter().any(|form| form.makes_near(own, other));
    let ended = story.sequences.iter().find(|told| {
        is_near(told.correlation_id) && told.has_ended() && (last.sent_at..=rejected_at).contains(&told.last_at())
    })?;
    Some(Clue::NearIdEnded { sequence: ended.id(), id: ended.correlation_id })
}

/// How long after START a rejection came, where an idle clock that only START sets ran out between the last accepted step and it.
fn limit_since_start(limit: Duration, rejected: &Asked, last: &Asked, first: &Asked) -> Option<Nanos> {
    let limit = Nanos::try_from(limit.as_nanos()).ok()?;
    // A server may look for idle sequences a little late.
    let looked = limit + limit / u64::from(SHARE_OF_LIMIT);
    let has_start = first.step.start && first.sum().is_some();
    let ran_out = first.sent_at + limit <= rejected.at() && last.sent_at <= first.at() + looked;
    (has_start && ran_out).then(|| rejected.at() - first.sent_at)
}

/// The time between an accepted step and the rejection.
struct Gap {
    /// From when the last accepted step was sent until the rejection came.
    since: Nanos,
    /// From when the step before was sent until this one was.
    pause: Nanos,
    is_pause: bool,
}

impl Gap {
    fn new(asked: &Asked, last: &Asked, before: &[Asked]) -> Self {
        let pause = asked.sent_at.saturating_sub(before.last().map_or(0, |previous| previous.sent_at));
        let mut usual: Vec<_> = before.windows(2).map(|two| two[1].sent_at.saturating_sub(two[0].sent_at)).collect();
        usual.sort_unstable();
        let usual = usual.get(usual.len() / 2).copied().unwrap_or(0);
        let since = asked.at().saturating_sub(last.sent_at);
        Self { since, pause, is_pause: pause >= PAUSE_MIN && pause >= usual * PAUSE }
    }
}

/// Whether a later step found the sequence still there; none where no later step tells.
fn went_on(later: &[Asked]) -> Option<bool> {
    later.iter().find(|asked| asked.sum().is_some() || asked.has_failed()).map(|asked| asked.sum().is_some())
}

fn of_gap(question: &Question, gap: &Gap, since_start: Option<Nanos>, went_on: Option<bool>) -> Vec<Hypothesis> {
    let limit_ms = question.known.idle_limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    let clue = Clue::Idle { since_ms: ms(gap.since), limit_ms, pause_ms: ms(gap.pause), went_on };
    let since_start = since_start.filter(|_| went_on != Some(true));
    let clues: Vec<_> =
        iter::once(clue).chain(since_start.map(|since| Clue::LimitSinceStart { ms: ms(since) })).collect();
    let new = |cause, rank, fit| Hypothesis::of_rank(cause, rank, fit, clues.clone());
    let gone = Fit::of(went_on.map(|went_on| !went_on));
    let pause = Duration::from_nanos(gap.pause);
    let is_share = |share: u32| question.known.idle_limit.is_some_and(|limit| pause >= limit / share);
    let is_gone_after_some = went_on == Some(false) && is_share(SHARE_OF_LIMIT);
    // Where all pauses are that long none stands out.
    let is_long = went_on != Some(true) && is_share(2);
    let is_pause = gap.is_pause || is_gone_after_some || is_long || since_start.is_some();
    let (reap, rejection) = if is_pause { (1, 2) } else { (2, 1) };
    // A rejection that takes every step looks like a sequence that is gone: only the pause tells them apart.
    let there = if went_on == Some(true) { Fit::Yes } else { Fit::NotKnown };
    let gone = if is_pause || gone == Fit::No { gone } else { Fit::NotKnown };
    let mut all = vec![new(Cause::PrematureReap, reap, gone), new(Cause::SpuriousRejection, rejection, there)];
    if went_on != Some(true) {
        all.push(new(Cause::EndTold, 3, Fit::NotKnown));
    }
    all
}

/// A request with a flaw that was answered.
pub(super) fn of_flaw(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let clues: Vec<_> = question.story.asked(spot).step.flaw().map(|flaw| Clue::Flaw { flaw }).into_iter().collect();
    in_order(&[Cause::FlawTaken], clues)
}

/// A time limit that was kept wrongly: that shows in how long the answer took.
pub(super) fn of_limit(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let asked = question.story.asked(spot);
    let ms = ms(asked.at().saturating_sub(asked.sent_at));
    match question.violation.kind {
        ViolationKind::SpuriousTimeout => in_order(&[Cause::ExpiredEarly], [Clue::RejectedAfter { ms }]),
        _ => in_order(&[Cause::ExpiryMissing], [Clue::StartAnsweredAfter { ms }]),
    }
}

/// A step without START that was executed although its ID had no sequence.
pub(super) fn missing(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let story = question.story;
    let asked = story.asked(spot);
    let Some(base) = asked.base() else { return Vec::new() };
    if base.is_zero() {
        return in_order(&[Cause::RejectionMissing], [Clue::FromZero]);
    }
    let own = &story.told(spot).steps[..spot.step];
    if let Some(last) = own.iter().rposition(|its| its.sum() == Some(base))
        && let Some(rejected) = own[last + 1..].iter().find(|its| its.has_failed())
    {
        let clue = Clue::FromBeforeARejection { state: base, step: rejected.step.request.step + 1 };
        return in_order(&[Cause::SpuriousRejection, Cause::RejectionMissing], [clue]);
    }
    let predecessor = story.predecessor(spot.sequence).map(|index| &story.sequences[index]);
    let of_predecessor = predecessor.filter(|told| told.steps.iter().any(|its| its.sum() == Some(base)));
    if let Some(told) = of_predecessor {
        let of_it = |left| Clue::FromPredecessor { state: base, sequence: told.id(), left };
        if told.has_ended() {
            return in_order(&[Cause::EndNotTold, Cause::RejectionMissing], [of_it(Some(Left::Ended))]);
        }
        let lived = of_it(Some(Left::IdleMs(ms(asked.at().saturating_sub(told.last_at())))));
        let mut all = in_order(&[Cause::MissingReap, Cause::RejectionMissing], [lived]);
        all[1].clues = vec![of_it(None)];
        return all;
    }
    let whose = story.others(spot.sequence).find(|other| story.asked(*other).sum() == Some(base));
    let sequence = whose.map(|other| story.told(other).id());
    in_order(&[Cause::RejectionMissing], [Clue::FromState { state: base, sequence }])
}
