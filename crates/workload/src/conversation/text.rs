//! Acts as a person writes them.

use std::{collections::BTreeMap, fmt, num::NonZeroU16};

use super::{Act, Connection, Lane, Transport};
use crate::{
    number::Written,
    sequence::{Flaw, Special},
    tensor::ELEMENTS_MAX,
};

/// The most IDs of one conversation that a person can name.
const IDS_MAX: u32 = 1 << 16;

impl fmt::Display for Act {
    /// Such as `send 0 START 5`, `send 0 7 with batch-2`, `send 0 START 5 within 20000 us`, `send 0 5 in 16 elements`, `send 0 5 for id 3`, `open 1 over own within 5000 us`, `await 1 <= 3`, `pause 20000 us`, `at 20000 us` or `cancel 0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Open { lane: Lane(lane), over, by, within_us } => {
                write!(f, "open {lane} over {over}")?;
                by.map_or(Ok(()), |by| write!(f, " by {by}"))?;
                within_us.map_or(Ok(()), |us| write!(f, " within {us} us"))
            }
            Self::Send { lane: Lane(lane), id, start, end, value, elements, special, .. } => {
                let start = if start { " START" } else { "" };
                let end = if end { " END" } else { "" };
                write!(f, "send {lane}{start}{end} {value}")?;
                if elements > NonZeroU16::MIN {
                    write!(f, " in {elements} elements")?;
                }
                if id > 0 {
                    write!(f, " for id {id}")?;
                }
                special.map_or(Ok(()), |special| write!(f, " {special}"))
            }
            Self::Await { lane: Lane(lane), unanswered: 0 } => write!(f, "await {lane}"),
            Self::Await { lane: Lane(lane), unanswered } => write!(f, "await {lane} <= {unanswered}"),
            Self::Pause { us } => write!(f, "pause {us} us"),
            Self::At { us } => write!(f, "at {us} us"),
            Self::StopReading { us } => write!(f, "stop-reading {us} us"),
            Self::HalfClose { lane: Lane(lane) } => write!(f, "half-close {lane}"),
            Self::Close { lane: Lane(lane) } => write!(f, "close {lane}"),
            Self::Cancel { lane: Lane(lane) } => write!(f, "cancel {lane}"),
            Self::Reset { lane: Lane(lane) } => write!(f, "reset {lane}"),
            Self::Kill { lane: Lane(lane) } => write!(f, "kill {lane}"),
        }
    }
}

/// Reads a conversation's acts, one text each; sequences and their steps are counted.
///
/// # Errors
/// What is wrong with which text.
pub fn parse_acts(texts: &[String]) -> Result<Vec<Act>, String> {
    let acts: Result<Vec<_>, _> = texts.iter().map(|text| parse(text)).collect();
    let acts = number(acts?);
    check(&acts).map_err(|(index, problem)| format!("'{}': {problem}", texts[index]))?;
    Ok(acts)
}

fn parse(text: &str) -> Result<Act, String> {
    let words: Vec<_> = text.split_whitespace().collect();
    act(&words).ok_or_else(|| {
        format!(
            "'{text}' is no act: write open LANE over own|fresh|neighbour|narrow|process [by TRANSPORT] [within N us], \
             send LANE [START] [END] VALUE [in N elements] [for id N] [with FLAW | within N us], await LANE [<= N], pause N us, at N us, stop-reading N us, \
             half-close LANE, close LANE, cancel LANE, reset LANE or kill LANE, where lanes are 0 to {}, transports are {} and flaws are {}",
            Lane::MAX - 1,
            Transport::NAMES.join(", "),
            Flaw::NAMES.join(", ")
        )
    })
}

fn act(words: &[&str]) -> Option<Act> {
    Some(match *words {
        ["open", lane, "over", over, ref how @ ..] => {
            let (how, within_us) = match how {
                [how @ .., "within", us, "us"] => (how, Some(us.parse().ok()?)),
                how => (how, None),
            };
            let by = match how {
                [] => None,
                ["by", by] => Some(by.parse().ok()?),
                _ => return None,
            };
            Act::Open { lane: read(lane)?, over: Connection::named(over)?, by, within_us }
        }
        ["send", lane, ref said @ .., "with", flaw] => send(lane, said, Some(Special::Flaw(Flaw::named(flaw)?)))?,
        ["send", lane, ref said @ .., "within", us, "us"] => {
            send(lane, said, Some(Special::TimeoutUs(us.parse().ok()?)))?
        }
        ["send", lane, ref said @ ..] => send(lane, said, None)?,
        ["await", lane] => Act::Await { lane: read(lane)?, unanswered: 0 },
        ["await", lane, "<=", most] => Act::Await { lane: read(lane)?, unanswered: most.parse().ok()? },
        ["pause", us, "us"] => Act::Pause { us: us.parse().ok()? },
        ["at", us, "us"] => Act::At { us: us.parse().ok()? },
        ["stop-reading", us, "us"] => Act::StopReading { us: us.parse().ok()? },
        ["half-close", lane] => Act::HalfClose { lane: read(lane)? },
        ["close", lane] => Act::Close { lane: read(lane)? },
        ["cancel", lane] => Act::Cancel { lane: read(lane)? },
        ["reset", lane] => Act::Reset { lane: read(lane)? },
        ["kill", lane] => Act::Kill { lane: read(lane)? },
        _ => return None,
    })
}

fn read(lane: &str) -> Option<Lane> {
    lane.parse().ok().filter(|lane| *lane < Lane::MAX).map(Lane)
}

fn send(lane: &str, said: &[&str], special: Option<Special>) -> Option<Act> {
    let (said, id) = match said {
        [said @ .., "for", "id", id] => (said, id.parse().ok().filter(|id| *id < IDS_MAX)?),
        said => (said, 0),
    };
    let is_sent = |elements: &NonZeroU16| usize::from(elements.get()) <= ELEMENTS_MAX;
    let (said, elements) = match said {
        [said @ .., "in", elements, "elements"] => (said, elements.parse().ok().filter(is_sent)?),
        said => (said, NonZeroU16::MIN),
    };
    let (value, flags) = said.split_last()?;
    let (start, end) = match flags {
        [] => (false, false),
        ["START"] => (true, false),
        ["END"] => (false, true),
        ["START", "END"] => (true, true),
        _ => return None,
    };
    let value = value.parse::<Written>().ok()?.value();
    Some(Act::Send { lane: read(lane)?, id, sequence: 0, step: 0, of: 0, start, end, value, elements, special })
}

/// Counts sequences, for each ID from one START to the next, and their steps. STARTs with a flaw begin the sequence of the one that
/// follows.
pub(super) fn number(mut acts: Vec<Act>) -> Vec<Act> {
    let mut lengths: Vec<u32> = Vec::new();
    // By ID: its latest sequence, and whether a step of it had no flaw.
    let mut latest: BTreeMap<u32, (usize, bool)> = BTreeMap::new();
    for act in &mut acts {
        if let Act::Send { id, sequence, step, start, special, .. } = act {
            if latest.get(id).is_none_or(|(_, is_begun)| *start && *is_begun) {
                latest.insert(*id, (lengths.len(), false));
                lengths.push(0);
            }
            let (number, is_begun) = latest.get_mut(id).expect("one was put there");
            *is_begun |= !matches!(special, Some(Special::Flaw(_)));
            let length = &mut lengths[*number];
            (*step, *length) = (*length, *length + 1);
            *sequence = u32::try_from(*number).expect("there are fewer sequences than messages");
        }
    }
    for act in &mut acts {
        if let Act::Send { sequence, of, .. } = act {
            *of = lengths[*sequence as usize];
        }
    }
    acts
}

/// Whether each act can be done: no step is sent on a stream that was half-closed and not opened again, none is opened that is
/// open, none is reset but over a fresh connection, and none is killed but over a process.
fn check(acts: &[Act]) -> Result<(), (usize, &'static str)> {
    let mut open = [false; Lane::MAX as usize];
    let mut half_closed = [false; Lane::MAX as usize];
    let mut over_what = [Connection::Own; Lane::MAX as usize];
    for (index, act) in acts.iter().enumerate() {
        let wrong = |problem| Err((index, problem));
        match *act {
            Act::Open { lane, .. } if open[lane.index()] => {
                return wrong("the stream is open already: close, cancel or reset it before");
            }
            Act::Open { lane, over, .. } => {
                (open[lane.index()], half_closed[lane.index()]) = (true, false);
                over_what[lane.index()] = over;
            }
            Act::HalfClose { lane } => half_closed[lane.index()] = true,
            Act::Send { lane, .. } if half_closed[lane.index()] => return wrong("the stream is half-closed"),
            Act::Reset { lane } if over_what[lane.index()] != Connection::Fresh => {
                return wrong("only a connection that was made for the stream (open LANE over fresh) can be reset");
            }
            Act::Kill { lane } if over_what[lane.index()] != Connection::Process => {
                return wrong("only a stream that goes through a process (open LANE over process) can be killed");
            }
            // One that nobody opened is opened over the context's own connection.
            Act::Send { lane, .. } => open[lane.index()] = true,
            Act::Close { lane } | Act::Cancel { lane } | Act::Reset { lane } | Act::Kill { lane } => {
                (open[lane.index()], half_closed[lane.index()]) = (false, false);
                over_what[lane.index()] = Connection::Own;
            }
            Act::Await { .. } | Act::Pause { .. } | Act::At { .. } | Act::StopReading { .. } => {}
        }
    }
    Ok(())
}

/// What is left of a conversation after some acts were taken away, such that it can be held; nothing where it sends nothing.
pub(super) fn tidy(acts: Vec<Act>) -> Vec<Act> {
    let sends = |lane| move |act: &Act| matches!(act, Act::Send { lane: its, .. } if *its == lane);
    if !acts.iter().any(|act| matches!(act, Act::Send { .. })) {
        return Vec::new();
    }
    let carries: Vec<_> = (0..Lane::MAX).map(|lane| acts.iter().any(sends(Lane(lane)))).collect();
    let mut acts: Vec<_> = acts.into_iter().filter(|act| act.lane().is_none_or(|lane| carries[lane.index()])).collect();
    while let Err((index, _)) = check(&acts) {
        acts.remove(index);
    }
    number(acts)
}
