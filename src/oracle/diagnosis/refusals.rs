//! START errors that should not have come, and such that should have.

use std::time::Duration;

use super::{
    Cause, Question,
    hypothesis::{Fit, Hypothesis},
    story::{Asked, Spot},
};
use crate::{event::Nanos, sequence::Flaw};

/// A gap between steps that is so many times the usual one is a pause.
const PAUSE: u64 = 8;
/// No gap that is shorter is one.
const PAUSE_MIN: Nanos = 10_000_000;
/// This share of the idle limit is a pause too, where the sequence is gone for good after it.
const SHARE_OF_LIMIT: u32 = 10;
/// Streams that broke within this time before a refusal may have to do with it.
const RESTART: Nanos = 2_000_000_000;

/// A refusal for want of START that had no cause.
pub(super) fn spurious(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let asked = question.story.asked(spot);
    if asked.step.start {
        let evidence = "the request carries START".to_owned();
        return vec![Hypothesis::of_rank(Cause::StartRefused, 1, Fit::Yes, evidence)];
    }
    let steps = &question.story.told(spot).steps;
    let Some(last) = steps[..spot.step].iter().rev().find(|earlier| earlier.sum().is_some()) else {
        let evidence = "no accepted step of the sequence is known".to_owned();
        return vec![Hypothesis::of_rank(Cause::SpuriousRefusal, 1, Fit::NotKnown, evidence)];
    };
    let gap = Gap::new(asked, last, &steps[..spot.step]);
    let later = went_on(&steps[spot.step + 1..]);
    let mut all = of_gap(question, &gap, later);
    let before = steps[..spot.step].last().filter(|before| before.step.flaw().is_some() && before.has_failed());
    if let Some(before) = before.filter(|_| later != Some(true)) {
        let evidence = format!("step {} before it was refused for a flaw", before.step.request.step + 1);
        all.insert(0, Hypothesis::of_rank(Cause::EndedByRefusal, 1, Fit::Yes, evidence));
    }
    if let Some((_, reason)) = question.story.broken_near(asked.at(), RESTART).next() {
        let evidence = format!("a stream broke at about that time: {reason}");
        all.push(Hypothesis::of_rank(Cause::Restart, 1, Fit::NotKnown, evidence));
    }
    all
}

/// The time between an accepted step and the refusal.
struct Gap {
    /// From when the last accepted step was sent until the refusal came.
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

impl Gap {
    fn pause(&self) -> Duration {
        Duration::from_nanos(self.pause)
    }
}

/// Whether a later step found the sequence still there; none where no later step tells.
fn went_on(later: &[Asked]) -> Option<bool> {
    later.iter().find(|asked| asked.sum().is_some() || asked.has_failed()).map(|asked| asked.sum().is_some())
}

fn of_gap(question: &Question, gap: &Gap, went_on: Option<bool>) -> Vec<Hypothesis> {
    let ms = |nanos| Duration::from_nanos(nanos).as_millis();
    let limit = question.known.idle_limit.map_or("?".to_owned(), |limit| limit.as_millis().to_string());
    let after = match went_on {
        None => "no later step tells whether the sequence was still there",
        Some(true) => "later steps found the sequence still there",
        Some(false) => "later steps were refused too",
    };
    let evidence = format!(
        "the last accepted step was sent {} ms before, of {limit} ms that it may be idle, and the pause before this one was {} \
         ms; {after}",
        ms(gap.since),
        ms(gap.pause)
    );
    let new = |cause, tried, fit| Hypothesis::of_rank(cause, tried, fit, evidence.clone());
    let gone = Fit::of(went_on.map(|went_on| !went_on));
    let share = question.known.idle_limit.map(|limit| limit / SHARE_OF_LIMIT);
    let is_gone_after_some = went_on == Some(false) && share.is_some_and(|share| gap.pause() >= share);
    // Where all pauses are that long none stands out.
    let is_long = went_on != Some(true) && question.known.idle_limit.is_some_and(|limit| gap.pause() >= limit / 2);
    let is_pause = gap.is_pause || is_gone_after_some || is_long;
    let (reap, refusal) = if is_pause { (1, 2) } else { (2, 1) };
    // A refusal that takes every step looks like a sequence that is gone: only the pause tells them apart.
    let there = if went_on == Some(true) { Fit::Yes } else { Fit::NotKnown };
    let gone = if is_pause || gone == Fit::No { gone } else { Fit::NotKnown };
    let mut all = vec![new(Cause::PrematureReap, reap, gone), new(Cause::SpuriousRefusal, refusal, there)];
    if went_on != Some(true) {
        all.push(new(Cause::EndTold, 3, Fit::NotKnown));
    }
    all
}

/// A request with a flaw that was answered.
pub(super) fn of_flaw(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let what = question.story.asked(spot).step.flaw().map_or("", Flaw::what);
    vec![Hypothesis::of_rank(Cause::FlawTaken, 1, Fit::Yes, format!("what is wrong with it: {what}"))]
}

/// A refusal for a time limit that had no cause.
pub(super) fn of_timeout(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let asked = question.story.asked(spot);
    let waited = Duration::from_nanos(asked.at().saturating_sub(asked.sent_at)).as_millis();
    let evidence = format!("the refusal came {waited} ms after the step was sent");
    vec![Hypothesis::of_rank(Cause::ExpiredEarly, 1, Fit::Yes, evidence)]
}

/// A sequence that was executed although its time limit had passed.
pub(super) fn of_missing_timeout(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let asked = question.story.asked(spot);
    let waited = Duration::from_nanos(asked.at().saturating_sub(asked.sent_at)).as_millis();
    let evidence = format!("the answer to START came {waited} ms after it was sent");
    vec![Hypothesis::of_rank(Cause::ExpiryMissing, 1, Fit::Yes, evidence)]
}

/// A step without START that was executed although its ID had no sequence.
pub(super) fn missing(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let story = question.story;
    let asked = story.asked(spot);
    let Some(base) = asked.base() else { return Vec::new() };
    let new = |cause, tried, evidence: String| Hypothesis::of_rank(cause, tried, Fit::NotKnown, evidence);
    if base.is_zero() {
        return vec![new(Cause::RefusalMissing, 1, "the step was executed from zero on".to_owned())];
    }
    let own = &story.told(spot).steps[..spot.step];
    if let Some(last) = own.iter().rposition(|its| its.sum() == Some(base))
        && let Some(refused) = own[last + 1..].iter().find(|its| its.has_failed())
    {
        let evidence = format!(
            "the sequence went on from {base}, its sum before step {} was refused",
            refused.step.request.step + 1
        );
        return vec![new(Cause::SpuriousRefusal, 1, evidence.clone()), new(Cause::RefusalMissing, 2, evidence)];
    }
    let predecessor = story.predecessor(spot.sequence).map(|index| &story.sequences[index]);
    let of_predecessor = predecessor.filter(|told| told.steps.iter().any(|its| its.sum() == Some(base)));
    if let Some(told) = of_predecessor {
        let name = told.name();
        let evidence = format!("the step went on from {base}, the sum of the ID's previous sequence, {name}");
        if told.has_ended() {
            let ended = format!("{evidence}, which had ended");
            return vec![new(Cause::EndNotTold, 1, ended.clone()), new(Cause::RefusalMissing, 2, ended)];
        }
        let idle = Duration::from_nanos(asked.at().saturating_sub(told.last_at())).as_millis();
        let lived = format!("{evidence}, which got no request for {idle} ms");
        return vec![new(Cause::MissingReap, 1, lived), new(Cause::RefusalMissing, 2, evidence)];
    }
    let whose = story.others(spot.sequence).find(|other| story.asked(*other).sum() == Some(base));
    let whose = whose.map_or("which no known sequence left".to_owned(), |other| {
        format!("the state of sequence {}", story.told(other).name())
    });
    vec![new(Cause::RefusalMissing, 1, format!("the step went on from {base}, {whose}"))]
}
