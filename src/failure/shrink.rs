//! Makes a failure small: takes away what it does not need.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    num::NonZeroU16,
};

use super::{Failure, server};
use workload::conversation::{Act, Connection, Conversation, Lane};

/// What is left of a failure.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The failure.
    pub failure: Failure,
    /// How often it was tried out.
    pub trials: u32,
    /// Whether taking any one message away makes it go; not where the trials were used up before.
    pub is_minimal: bool,
}

/// Shorter waiting than this is not worth a trial, in microseconds.
const SHORTEST: u64 = 1000;

/// Takes away workers, conversations, acts, waiting times and faults of the server as long as the rest still `fails`; at most so
/// many trials.
///
/// `fails` says whether a failure still shows, from as many runs as that needs. The failure that is handed in is taken to do so.
/// What was tried once is not tried again.
pub fn shrink(failure: Failure, trials: u32, fails: &mut dyn FnMut(&Failure) -> bool) -> Shrunk {
    let mut search = Search { best: failure.renumbered(), trials: 0, limit: trials, tried: HashSet::new(), fails };
    // A smaller failure has fewer chances for a fault that happens once.
    search.simplify_server();
    search.look_around();
    loop {
        let before = search.best.clone();
        search.drop_workers();
        search.drop_conversations();
        search.drop_middles();
        search.drop_acts();
        search.simplify();
        search.simplify_server();
        if search.best == before || search.is_out_of_trials() {
            break;
        }
    }
    // The last round changed nothing, so each message was taken away by itself and is needed.
    let is_minimal = !search.is_out_of_trials();
    Shrunk { failure: search.best, trials: search.trials, is_minimal }
}

struct Search<'f> {
    best: Failure,
    trials: u32,
    limit: u32,
    /// What did not fail, by its hash.
    tried: HashSet<u64>,
    fails: &'f mut dyn FnMut(&Failure) -> bool,
}

impl Search<'_> {
    fn is_out_of_trials(&self) -> bool {
        self.trials >= self.limit
    }

    fn take_if_it_fails(&mut self, conversations: Vec<Conversation>) -> bool {
        self.take(Failure { conversations, ..self.best.clone() }.renumbered())
    }

    fn take(&mut self, candidate: Failure) -> bool {
        if candidate.messages() == 0 || candidate == self.best || self.is_out_of_trials() {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        (&candidate.conversations, format!("{:?}", candidate.embedded)).hash(&mut hasher);
        let hash = hasher.finish();
        if self.tried.contains(&hash) {
            return false;
        }
        self.trials += 1;
        let fails = (self.fails)(&candidate);
        if fails {
            self.best = candidate;
        } else {
            self.tried.insert(hash);
        }
        fails
    }

    /// Looks whether the conversations around the accused one are enough: two of them, four, and so on.
    fn look_around(&mut self) {
        let all = self.best.conversations.clone();
        let at_once: Vec<_> = all.iter().cloned().map(Conversation::at_once).collect();
        let with_pauses: Vec<_> = all.iter().map(|its| Conversation { at_us: 0, ..its.clone() }).collect();
        for conversations in [&at_once, &with_pauses, &all] {
            let mut size = 1;
            while size < conversations.len() {
                if self.take_if_it_fails(around_the_accused(conversations, size)) {
                    return;
                }
                size *= 2;
            }
            if self.take_if_it_fails(conversations.clone()) {
                return;
            }
        }
    }

    fn drop_workers(&mut self) {
        let workers = 0..self.best.size().0;
        let all = self.best.conversations.clone();
        minimize(workers.collect(), |left| {
            let of_them = |conversation: &&Conversation| left.contains(&conversation.worker);
            self.take_if_it_fails(all.iter().filter(of_them).cloned().collect())
        });
        self.take_if_it_fails(by_one_worker(&self.best.conversations));
    }

    fn drop_conversations(&mut self) {
        minimize(self.best.conversations.clone(), |left| self.take_if_it_fails(left.to_vec()));
    }

    /// Takes away, of all conversations at once, all messages but the first, or but the first ones and the last.
    fn drop_middles(&mut self) {
        for kept in [1, 2, 4, 8, 16] {
            let shortened = self.best.conversations.iter().filter_map(|its| its.with_acts(ends(its, kept)));
            if self.take_if_it_fails(shortened.collect()) {
                return;
            }
        }
    }

    fn drop_acts(&mut self) {
        for index in 0..self.best.conversations.len() {
            let conversation = self.best.conversations[index].clone();
            minimize(conversation.acts.clone(), |left| {
                let changed = conversation.with_acts(left.iter().copied());
                // One that is gone altogether was tried before.
                changed.is_some_and(|changed| self.try_instead(index, changed))
            });
        }
    }

    /// Shorter waits, fewer connections and streams, streams that are closed in good order, and sequences without END.
    fn simplify(&mut self) {
        for index in 0..self.best.conversations.len() {
            while simpler(&self.best.conversations[index]).into_iter().any(|simpler| self.try_instead(index, simpler)) {
            }
        }
    }

    /// Fewer faults, and earlier ones.
    fn simplify_server(&mut self) {
        let mut servers = self.best.embedded.as_ref().map(server::simpler).unwrap_or_default().into_iter();
        while let Some(embedded) = servers.next() {
            if self.take(Failure { embedded: Some(embedded.clone()), ..self.best.clone() }) {
                servers = server::simpler(&embedded).into_iter();
            }
        }
    }

    fn try_instead(&mut self, index: usize, conversation: Conversation) -> bool {
        let mut conversations = self.best.conversations.clone();
        conversations[index] = conversation;
        self.take_if_it_fails(conversations)
    }
}

/// The acts of a conversation, with so many of its messages: the first ones and, of more than one, the last.
fn ends(conversation: &Conversation, kept: u32) -> Vec<Act> {
    let messages = conversation.messages();
    let first = if kept > 1 { kept - 1 } else { kept } as usize;
    let mut sent = 0;
    let mut acts = Vec::new();
    for act in &conversation.acts {
        match *act {
            Act::Send { .. } => {
                sent += 1;
                if sent <= first || kept > 1 && sent == messages {
                    acts.push(*act);
                }
            }
            // What leaves many unanswered would not wait for anything any more.
            Act::Await { lane, unanswered } => acts.push(Act::Await { lane, unanswered: unanswered.min(kept - 1) }),
            _ => acts.push(*act),
        }
    }
    acts
}

/// So many conversations that begin close to the accused one, in their order; without one, the last.
fn around_the_accused(conversations: &[Conversation], size: usize) -> Vec<Conversation> {
    let accused = conversations.iter().position(|its| its.accused).unwrap_or(conversations.len() - 1);
    // More of what came before: that is what led to it.
    let after = (size / 4).min(conversations.len() - 1 - accused);
    let end = accused + 1 + after;
    conversations[end.saturating_sub(size)..end.max(size)].to_vec()
}

/// The same conversations, one after the other.
fn by_one_worker(conversations: &[Conversation]) -> Vec<Conversation> {
    let of_one = |its: &Conversation| {
        let worker = its.worker;
        its.others().into_iter().chain([its.context]).map(move |context| (worker, context))
    };
    let mut places: Vec<_> = conversations.iter().flat_map(of_one).collect();
    places.sort_unstable();
    places.dedup();
    let place = |worker, context| {
        let place = places.binary_search(&(worker, context)).expect("it is one of them");
        u32::try_from(place).expect("there are fewer than messages")
    };
    let moved = |its: &Conversation| {
        let of_one = its.clone().with_contexts(|context| place(its.worker, context));
        Conversation { worker: 0, ..of_one }
    };
    conversations.iter().map(moved).collect()
}

/// Conversations that do the same in a simpler way.
fn simpler(conversation: &Conversation) -> Vec<Conversation> {
    let mut found = Vec::new();
    let at_us = conversation.at_us;
    if at_us > 0 {
        found.push(Conversation { at_us: 0, ..conversation.clone() });
    }
    if at_us > SHORTEST {
        found.push(Conversation { at_us: at_us / 2, ..conversation.clone() });
    }
    for (place, act) in conversation.acts.iter().enumerate() {
        let instead = match *act {
            Act::Pause { us } if us > SHORTEST => Act::Pause { us: us / 2 },
            Act::StopReading { us } => Act::Pause { us },
            // Each in the place of one that takes more: a process, room that is short, a connection of its own.
            Act::Open { lane, over: Connection::Process | Connection::Narrow, by, within_us } => {
                Act::Open { lane, over: Connection::Fresh, by, within_us }
            }
            Act::Open { lane, over: Connection::Fresh | Connection::Neighbour, by, within_us } => {
                Act::Open { lane, over: Connection::Own, by, within_us }
            }
            Act::Open { lane, over, by: Some(_), within_us } => Act::Open { lane, over, by: None, within_us },
            Act::Open { lane, over, by, within_us: Some(_) } => Act::Open { lane, over, by, within_us: None },
            Act::Reset { lane } | Act::Kill { lane } => Act::Cancel { lane },
            Act::Cancel { lane } => Act::Close { lane },
            // An END that is left is one that it takes.
            Act::Send { lane, id, sequence, step, of, start, end, value, elements, special }
                if end || elements > NonZeroU16::MIN =>
            {
                let elements = if end { elements } else { NonZeroU16::MIN };
                Act::Send { lane, id, sequence, step, of, start, end: false, value, elements, special }
            }
            _ => continue,
        };
        let acts = conversation.acts.iter().enumerate().map(|(its, act)| if its == place { instead } else { *act });
        found.extend(conversation.with_acts(acts));
    }
    for lane in (1..Lane::MAX).map(Lane) {
        let is_its = |act: &Act| act.lane() == Some(lane);
        if conversation.acts.iter().any(is_its) {
            let kept =
                conversation.acts.iter().filter(|act| !matches!(act, Act::Open { lane: its, .. } if *its == lane));
            let moved = kept.map(|act| if is_its(act) { act.on(Lane::FIRST) } else { *act });
            found.extend(conversation.with_acts(moved));
        }
    }
    found
}

/// Takes away as many items as can be: halves first, then smaller parts, at last each by itself until none can go.
///
/// `take` is told what would be left, and says whether that is enough.
fn minimize<T: Clone>(mut items: Vec<T>, mut take: impl FnMut(&[T]) -> bool) {
    let mut size = items.len().div_ceil(2).max(1);
    while !items.is_empty() {
        let mut begin = 0;
        let mut took = false;
        while begin < items.len() {
            let end = (begin + size).min(items.len());
            let left = [&items[..begin], &items[end..]].concat();
            if take(&left) {
                items = left;
                took = true;
            } else {
                begin = end;
            }
        }
        if size == 1 && !took {
            return;
        }
        size = size.div_ceil(2).min(items.len().max(1));
    }
}
