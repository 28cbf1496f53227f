//! Makes a failure small: takes away what it does not need.

use super::Failure;
use crate::conversation::{Act, Connection, Conversation};

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

/// Takes away workers, conversations, acts and waiting times as long as the rest still `fails`; at most so many trials.
///
/// `fails` says whether a failure still shows, from as many runs as that needs. The failure that is handed in is taken to do so.
pub fn shrink(failure: Failure, trials: u32, fails: &mut dyn FnMut(&Failure) -> bool) -> Shrunk {
    let mut search = Search { best: failure.renumbered(), trials: 0, limit: trials, fails };
    loop {
        let before = search.best.clone();
        search.drop_workers();
        search.drop_conversations();
        search.drop_acts();
        search.simplify();
        if search.best == before || search.is_out_of_trials() {
            break;
        }
    }
    // The last round changed nothing, so each act was tried by itself and is needed.
    let is_minimal = !search.is_out_of_trials();
    Shrunk { failure: search.best, trials: search.trials, is_minimal }
}

struct Search<'f> {
    best: Failure,
    trials: u32,
    limit: u32,
    fails: &'f mut dyn FnMut(&Failure) -> bool,
}

impl Search<'_> {
    fn is_out_of_trials(&self) -> bool {
        self.trials >= self.limit
    }

    /// Takes the conversations over if they still fail.
    fn take_if_it_fails(&mut self, conversations: Vec<Conversation>) -> bool {
        if conversations.is_empty() || conversations == self.best.conversations || self.is_out_of_trials() {
            return false;
        }
        self.trials += 1;
        let candidate = Failure { conversations, ..self.best.clone() };
        let fails = (self.fails)(&candidate);
        if fails {
            self.best = candidate;
        }
        fails
    }

    fn drop_workers(&mut self) {
        let mut workers: Vec<_> = self.best.conversations.iter().map(|conversation| conversation.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        minimize(workers, |left| {
            let of_them = |conversation: &&Conversation| left.contains(&conversation.worker);
            let kept = self.best.conversations.iter().filter(of_them).cloned().collect();
            self.take_if_it_fails(kept)
        });
        self.best = self.best.clone().renumbered();
    }

    fn drop_conversations(&mut self) {
        minimize(self.best.conversations.clone(), |left| self.take_if_it_fails(left.to_vec()));
        self.best = self.best.clone().renumbered();
    }

    fn drop_acts(&mut self) {
        let mut index = 0;
        while index < self.best.conversations.len() {
            let count = self.best.conversations.len();
            let conversation = self.best.conversations[index].clone();
            minimize(conversation.acts.clone(), |left| {
                let changed = conversation.with_acts(left.iter().copied());
                // One that is gone altogether was tried before.
                changed.is_some_and(|changed| self.try_instead(index, changed))
            });
            index += usize::from(self.best.conversations.len() == count);
        }
    }

    /// Shorter pauses, fewer connections, a beginning at once.
    fn simplify(&mut self) {
        for index in 0..self.best.conversations.len() {
            let conversation = self.best.conversations[index].clone();
            if conversation.at_us > 0 {
                self.try_instead(index, Conversation { at_us: 0, ..conversation });
            }
            for act in 0..self.best.conversations[index].acts.len() {
                let mut changed = self.best.conversations[index].clone();
                changed.acts[act] = match changed.acts[act] {
                    Act::Pause { us } if us > 1000 => Act::Pause { us: us / 2 },
                    Act::Open { lane, over: Connection::Fresh | Connection::Neighbour } => {
                        Act::Open { lane, over: Connection::Own }
                    }
                    _ => continue,
                };
                self.try_instead(index, changed);
            }
        }
    }

    fn try_instead(&mut self, index: usize, conversation: Conversation) -> bool {
        let mut conversations = self.best.conversations.clone();
        conversations[index] = conversation;
        self.take_if_it_fails(conversations)
    }
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
