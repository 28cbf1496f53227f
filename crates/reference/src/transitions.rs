//! What a sequence batcher went through: which event met which state, and which event came next at the same correlation ID or in the same
//! slot.
//!
//! Such a pair of transitions is what a search for bugs can reach or not reach. The scheduler is watched from outside.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use serde::{Deserialize, Serialize};

use super::{
    execution::Ticket,
    scheduler::{Event, Place, Rejection, Row, Scheduler, Seat, SequenceId},
};

/// How a correlation ID stands when something happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// It has no sequence.
    Free,
    /// Its sequence is over, and steps of it are still queued or executed.
    Ending,
    /// It waits for a slot.
    Backlog,
    /// It has a slot, and steps are queued there.
    Queued,
    /// It has a slot, and a step of this ID is executed.
    Executing,
    /// It has a slot, and all its steps are answered.
    Open,
}

/// How many slots are free, and whether a sequence waits for one; the sequence itself counts, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Crowd {
    /// A slot is free.
    Room,
    /// No slot is free, and nobody waits for one.
    Full,
    /// A sequence waits for a slot.
    Waiting,
}

/// Which flags a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Flags {
    /// START alone.
    Start,
    /// Neither.
    Step,
    /// END alone.
    End,
    /// START and END.
    StartEnd,
}

impl Flags {
    pub(crate) fn of(start: bool, end: bool) -> Self {
        match (start, end) {
            (true, true) => Self::StartEnd,
            (true, false) => Self::Start,
            (false, true) => Self::End,
            (false, false) => Self::Step,
        }
    }
}

/// What becomes of a request when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fate {
    /// It is queued in a slot.
    Slot,
    /// It is queued in the backlog.
    Backlog,
    /// It is rejected.
    Refused,
}

/// What happens to a correlation ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Happening {
    /// A request arrives.
    Arrival(Flags, Fate),
    /// Its client cancels a request that is queued or executed.
    Cancel,
    /// The idle limit passes.
    Idle,
    /// A time limit passes in the backlog.
    Expiry,
    /// The model is loaded anew.
    Reload,
}

/// An event that meets a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Transition {
    /// The state of the correlation ID.
    pub state: State,
    /// The other sequences.
    pub crowd: Crowd,
    /// The event.
    pub happening: Happening,
}

/// What two transitions have in common that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum At {
    /// The correlation ID.
    Id,
    /// The slot.
    Slot,
}

/// Two transitions that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pair {
    /// Where.
    pub at: At,
    /// The first; none where nothing happened there before.
    pub first: Option<Transition>,
    /// The second.
    pub then: Transition,
}

/// Watches a scheduler whose requests are known by number, and remembers as much as correlation IDs and slots were used.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    requests: HashMap<usize, Asked>,
    sequences: HashMap<SequenceId, Standing>,
    slots: HashMap<Seat, Transition>,
    pairs: BTreeSet<Pair>,
}

/// A request that has no answer.
#[derive(Debug)]
struct Asked {
    id: SequenceId,
    is_executed: bool,
    cancelled: Arc<AtomicBool>,
    /// Whether it was told that it is cancelled.
    is_told: bool,
}

/// A correlation ID.
#[derive(Debug, Default)]
struct Standing {
    queued: u32,
    executed: u32,
    /// The slot of what came last; none where that is in the backlog.
    seat: Option<Seat>,
    last: Option<Transition>,
}

impl Standing {
    fn state(&self, place: Option<Place>) -> State {
        match place {
            Some(Place::Backlog(_)) => State::Backlog,
            Some(Place::Seat(_)) if self.executed > 0 => State::Executing,
            Some(Place::Seat(_)) if self.queued > 0 => State::Queued,
            Some(Place::Seat(_)) => State::Open,
            None if self.executed + self.queued > 0 => State::Ending,
            None => State::Free,
        }
    }
}

impl Watch {
    /// How an ID stands, before a request arrives.
    pub(crate) fn before<T>(&self, id: &SequenceId, scheduler: &Scheduler<T>) -> (State, Crowd) {
        let place = scheduler.place(id);
        let state = self.sequences.get(id).map_or(State::Free, |standing| standing.state(place));
        (state, scheduler.crowd())
    }

    /// A request arrived, and was queued in a slot or in the backlog (none), or rejected.
    pub(crate) fn arrived(
        &mut self,
        (state, crowd): (State, Crowd),
        flags: Flags,
        (name, id, cancelled): (usize, &SequenceId, Arc<AtomicBool>),
        queued: Result<Option<Seat>, Rejection>,
    ) {
        let fate = match queued {
            Ok(Some(_)) => Fate::Slot,
            Ok(None) => Fate::Backlog,
            Err(_) => Fate::Refused,
        };
        let seat = queued.ok().flatten();
        if let Some(seat) = seat.filter(|_| !matches!(state, State::Free | State::Ending)) {
            self.seated(id, seat);
        }
        if queued.is_ok() {
            let standing = self.sequences.entry(id.clone()).or_default();
            standing.queued += 1;
            standing.seat = seat;
            self.requests.insert(name, Asked { id: id.clone(), is_executed: false, cancelled, is_told: false });
        }
        self.note(id, seat, Transition { state, crowd, happening: Happening::Arrival(flags, fate) });
    }

    /// The scheduler has batches executed, and rejects requests.
    pub(crate) fn sees(&mut self, event: &Event<Ticket<usize>>) {
        match event {
            Event::Execute { instance, batch } => {
                for Row { slot, request } in batch {
                    let seat = Seat { slot: *slot, instance: *instance };
                    if let Some(request) = request {
                        self.begins(request.payload.reply, seat);
                    }
                }
            }
            Event::Reject(rejection, request) => {
                if *rejection == Rejection::Expired {
                    self.expired(request.payload.reply);
                }
                self.answered(request.payload.reply);
            }
        }
    }

    /// A request's execution begins.
    fn begins(&mut self, name: usize, seat: Seat) {
        let Some(asked) = self.requests.get_mut(&name) else { return };
        asked.is_executed = true;
        let id = asked.id.clone();
        self.seated(&id, seat);
        if let Some(standing) = self.sequences.get_mut(&id) {
            standing.queued -= 1;
            standing.executed += 1;
        }
    }

    /// A sequence is seen to have a slot. Where it came from the backlog, what happened to it there is what happens in the slot next.
    fn seated(&mut self, id: &SequenceId, seat: Seat) {
        let standing = self.sequences.entry(id.clone()).or_default();
        let is_from_backlog = standing.seat.replace(seat).is_none();
        if let Some(last) = standing.last.filter(|_| is_from_backlog) {
            self.note_in(seat, last);
        }
    }

    /// A request has its answer.
    pub(crate) fn answered(&mut self, name: usize) {
        let Some(asked) = self.requests.remove(&name) else { return };
        if let Some(standing) = self.sequences.get_mut(&asked.id) {
            let of = if asked.is_executed { &mut standing.executed } else { &mut standing.queued };
            *of -= 1;
        }
    }

    /// A request's time limit passed in the backlog.
    fn expired(&mut self, name: usize) {
        if let Some(id) = self.requests.get(&name).map(|asked| asked.id.clone()) {
            let transition = Transition { state: State::Backlog, crowd: Crowd::Waiting, happening: Happening::Expiry };
            // All of its steps are rejected, and it is over once.
            if self.sequences.get(&id).and_then(|standing| standing.last) != Some(transition) {
                self.note(&id, None, transition);
            }
        }
    }

    /// Some requests were cancelled.
    pub(crate) fn cancelled<T>(&mut self, scheduler: &Scheduler<T>) {
        let mut told: Vec<_> = self
            .requests
            .iter()
            .filter(|(_, asked)| !asked.is_told && asked.cancelled.load(Relaxed))
            .map(|(name, _)| *name)
            .collect();
        told.sort_unstable();
        let mut ids: Vec<SequenceId> = Vec::new();
        for name in told {
            let asked = self.requests.get_mut(&name).expect("it was just found");
            asked.is_told = true;
            // What a client cancels at once is one event.
            if !ids.contains(&asked.id) {
                ids.push(asked.id.clone());
            }
        }
        for id in ids {
            let (state, crowd) = self.before(&id, scheduler);
            let seat = match scheduler.place(&id) {
                Some(Place::Seat(seat)) => Some(seat),
                Some(Place::Backlog(_)) => None,
                None => self.sequences[&id].seat,
            };
            self.note(&id, seat, Transition { state, crowd, happening: Happening::Cancel });
        }
    }

    /// A sequence with a slot was idle for too long.
    pub(crate) fn reaped(&mut self, id: &SequenceId, seat: Seat, crowd: Crowd) {
        let standing = self.sequences.entry(id.clone()).or_default();
        let state = standing.state(Some(Place::Seat(seat)));
        self.note(id, Some(seat), Transition { state, crowd, happening: Happening::Idle });
    }

    /// The model is loaded anew: nothing of its sequences and requests is left.
    pub(crate) fn reloaded<T>(&mut self, scheduler: &Scheduler<T>) {
        let crowd = scheduler.crowd();
        let live: Vec<_> = self.sequences.keys().filter_map(|id| Some((id.clone(), scheduler.place(id)?))).collect();
        for (id, place) in live {
            let state = self.sequences[&id].state(Some(place));
            let seat = match place {
                Place::Seat(seat) => Some(seat),
                Place::Backlog(_) => None,
            };
            self.note(&id, seat, Transition { state, crowd, happening: Happening::Reload });
        }
        self.requests.clear();
        for standing in self.sequences.values_mut() {
            *standing = Standing { last: standing.last, ..Standing::default() };
        }
    }

    /// The pairs that came about so far.
    pub(crate) fn pairs(&self) -> BTreeSet<Pair> {
        self.pairs.clone()
    }

    fn note(&mut self, id: &SequenceId, seat: Option<Seat>, then: Transition) {
        let standing = self.sequences.entry(id.clone()).or_default();
        let first = standing.last.replace(then);
        self.pairs.insert(Pair { at: At::Id, first, then });
        if let Some(seat) = seat {
            self.note_in(seat, then);
        }
    }

    fn note_in(&mut self, seat: Seat, then: Transition) {
        let first = self.slots.insert(seat, then);
        self.pairs.insert(Pair { at: At::Slot, first, then });
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Free => "free",
            Self::Ending => "ending",
            Self::Backlog => "backlog",
            Self::Queued => "queued",
            Self::Executing => "executing",
            Self::Open => "open",
        })
    }
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Room => "room",
            Self::Full => "full",
            Self::Waiting => "waiting",
        })
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (flags, fate) = match self {
            Self::Arrival(flags, fate) => (flags, fate),
            Self::Cancel => return f.write_str("cancel"),
            Self::Idle => return f.write_str("idle"),
            Self::Expiry => return f.write_str("expiry"),
            Self::Reload => return f.write_str("reload"),
        };
        let flags = match flags {
            Flags::Start => "START",
            Flags::Step => "step",
            Flags::End => "END",
            Flags::StartEnd => "START+END",
        };
        let fate = match fate {
            Fate::Slot => "slot",
            Fate::Backlog => "backlog",
            Fate::Refused => "refused",
        };
        write!(f, "{flags}>{fate}")
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, crowd, happening } = self;
        write!(f, "{state}/{crowd} {happening}")
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = match self.at {
            At::Id => "id",
            At::Slot => "slot",
        };
        match self.first {
            Some(first) => write!(f, "{at}: {first}, {}", self.then),
            None => write!(f, "{at}: {}", self.then),
        }
    }
}

#[cfg(test)]
mod tests;
