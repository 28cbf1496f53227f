//! Acts as a person writes them.

use std::fmt;

use super::{Act, Connection, Lane};

impl fmt::Display for Act {
    /// Such as `send 0 START 5`, `await 1 <= 3`, `pause 20000 us` or `cancel 0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Open { lane: Lane(lane), over } => {
                let over = match over {
                    Connection::Own => "own",
                    Connection::Fresh => "fresh",
                    Connection::Neighbour => "neighbour",
                };
                write!(f, "open {lane} over {over}")
            }
            Self::Send { lane: Lane(lane), start, end, value, .. } => {
                let start = if start { " START" } else { "" };
                let end = if end { " END" } else { "" };
                write!(f, "send {lane}{start}{end} {value}")
            }
            Self::Await { lane: Lane(lane), unanswered: 0 } => write!(f, "await {lane}"),
            Self::Await { lane: Lane(lane), unanswered } => write!(f, "await {lane} <= {unanswered}"),
            Self::Pause { us } => write!(f, "pause {us} us"),
            Self::HalfClose { lane: Lane(lane) } => write!(f, "half-close {lane}"),
            Self::Close { lane: Lane(lane) } => write!(f, "close {lane}"),
            Self::Cancel { lane: Lane(lane) } => write!(f, "cancel {lane}"),
            Self::Reset { lane: Lane(lane) } => write!(f, "reset {lane}"),
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
    let act = match *words.as_slice() {
        ["open", lane, "over", over] => connection(over).and_then(|over| Some(Act::Open { lane: read(lane)?, over })),
        ["send", lane, ref flags @ .., value] => send(lane, flags, value),
        ["await", lane] => read(lane).map(|lane| Act::Await { lane, unanswered: 0 }),
        ["await", lane, "<=", most] => {
            read(lane).and_then(|lane| Some(Act::Await { lane, unanswered: most.parse().ok()? }))
        }
        ["pause", us, "us"] => us.parse().ok().map(|us| Act::Pause { us }),
        ["half-close", lane] => read(lane).map(|lane| Act::HalfClose { lane }),
        ["close", lane] => read(lane).map(|lane| Act::Close { lane }),
        ["cancel", lane] => read(lane).map(|lane| Act::Cancel { lane }),
        ["reset", lane] => read(lane).map(|lane| Act::Reset { lane }),
        _ => None,
    };
    act.ok_or_else(|| {
        format!(
            "'{text}' is no act: write open LANE over own|fresh|neighbour, send LANE [START] [END] VALUE, await LANE [<= N], \
             pause N us, half-close LANE, close LANE, cancel LANE or reset LANE, where lanes are 0 to {}",
            Lane::MAX - 1
        )
    })
}

fn read(lane: &str) -> Option<Lane> {
    lane.parse().ok().filter(|lane| *lane < Lane::MAX).map(Lane)
}

fn connection(text: &str) -> Option<Connection> {
    match text {
        "own" => Some(Connection::Own),
        "fresh" => Some(Connection::Fresh),
        "neighbour" => Some(Connection::Neighbour),
        _ => None,
    }
}

fn send(lane: &str, flags: &[&str], value: &str) -> Option<Act> {
    let (start, end) = match flags {
        [] => (false, false),
        ["START"] => (true, false),
        ["END"] => (false, true),
        ["START", "END"] => (true, true),
        _ => return None,
    };
    Some(Act::Send { lane: read(lane)?, sequence: 0, step: 0, of: 0, start, end, value: value.parse().ok()? })
}

/// Counts sequences, from one START to the next, and their steps.
pub(super) fn number(mut acts: Vec<Act>) -> Vec<Act> {
    let mut lengths: Vec<u32> = Vec::new();
    for act in &mut acts {
        if let Act::Send { sequence, step, start, .. } = act {
            if *start || lengths.is_empty() {
                lengths.push(0);
            }
            let length = lengths.last_mut().expect("one was put there");
            (*step, *length) = (*length, *length + 1);
            *sequence = u32::try_from(lengths.len() - 1).expect("there are fewer sequences than messages");
        }
    }
    for act in &mut acts {
        if let Act::Send { sequence, of, .. } = act {
            *of = lengths[*sequence as usize];
        }
    }
    acts
}

/// Whether each act can be done: no step is sent on a stream that was half-closed and not opened again.
fn check(acts: &[Act]) -> Result<(), (usize, &'static str)> {
    let mut half_closed = [false; Lane::MAX as usize];
    let mut fresh = [false; Lane::MAX as usize];
    for (index, act) in acts.iter().enumerate() {
        match *act {
            Act::Open { lane, over } => fresh[lane.index()] = over == Connection::Fresh,
            Act::HalfClose { lane } => half_closed[lane.index()] = true,
            Act::Send { lane, .. } if half_closed[lane.index()] => return Err((index, "the stream is half-closed")),
            Act::Reset { lane } if !fresh[lane.index()] => {
                return Err((
                    index,
                    "only a connection that was made for the stream (open LANE over fresh) can be reset",
                ));
            }
            Act::Close { lane } | Act::Cancel { lane } | Act::Reset { lane } => half_closed[lane.index()] = false,
            Act::Send { .. } | Act::Await { .. } | Act::Pause { .. } => {}
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
