//! Which server answered which steps, where several servers may do that and something tells which one did.

use std::collections::VecDeque;

use super::stream::Request;
use workload::{
    conversation::Lane,
    event::{Nanos, ServerName},
};

/// How many sequences of an ID are remembered: those whose answers may still come.
const SEQUENCES_KEPT: usize = 8;

/// What is known of the servers that answer a correlation ID.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    /// By lane: who answers there, where that is told.
    by: Vec<Option<ServerName>>,
    /// The latest sequences with an answer of a known server.
    sequences: VecDeque<Sequence>,
}

#[derive(Clone, Debug)]
struct Sequence {
    number: u32,
    server: ServerName,
    /// The first and the last step that the server answered.
    steps: (u32, u32),
    /// When the first of them was sent.
    since: Nanos,
    is_split: bool,
}

/// What an answer says about where its sequence is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// On the server that it was on before, or nothing tells that.
    There,
    /// On another server for the first time: that server, and the one before with the first and the last step that it answered.
    Elsewhere {
        before: ServerName,
        steps: (u32, u32),
        /// When the first of them was sent.
        since: Nanos,
        now: ServerName,
    },
    /// It was on two servers already.
    Split,
}

impl Served {
    /// A new stream was opened on a lane: who answers there is not known.
    pub(super) fn open(&mut self, lane: Lane) {
        if let Some(by) = self.by.get_mut(lane.index()) {
            *by = None;
        }
    }

    /// What a lane brings from now on comes from this server, where it is known.
    pub(super) fn told(&mut self, lane: Lane, by: Option<ServerName>) {
        if self.by.len() <= lane.index() {
            self.by.resize(lane.index() + 1, None);
        }
        self.by[lane.index()] = by;
    }

    /// A request was answered.
    pub(super) fn answered(&mut self, request: &Request) -> Where {
        let Some(server) = self.by.get(request.lane.index()).and_then(Option::as_ref) else { return Where::There };
        let (number, step) = (request.step.request.sequence, request.step.request.step);
        let Some(its) = self.sequences.iter_mut().find(|its| its.number == number) else {
            if self.sequences.len() == SEQUENCES_KEPT {
                self.sequences.pop_front();
            }
            let (server, steps, since) = (server.clone(), (step, step), request.sent_at);
            self.sequences.push_back(Sequence { number, server, steps, since, is_split: false });
            return Where::There;
        };
        if its.is_split {
            return Where::Split;
        }
        if its.server == *server {
            its.steps = (its.steps.0.min(step), its.steps.1.max(step));
            return Where::There;
        }
        its.is_split = true;
        Where::Elsewhere { before: its.server.clone(), steps: its.steps, since: its.since, now: server.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Fate;
    use workload::sequence::{Pattern, RequestId, Step};

    fn name(text: &str) -> ServerName {
        ServerName::new(text)
    }

    fn request(lane: u8, sequence: u32, step: u32) -> Request {
        let request = RequestId { worker: 0, context: 0, sequence, step };
        let step = Step {
            request,
            pattern: Pattern::Valid,
            start: step == 0,
            end: false,
            value: 1.into(),
            of: 9,
            special: None,
        };
        Request {
            lane: Lane(lane),
            number: 0,
            step,
            sent_at: u64::from(request.step) + 100,
            serial: 0,
            fate: Fate::Waiting,
            overtaken: false,
            mixed: false,
            sequence: None,
        }
    }

    #[test]
    fn a_sequence_on_two_servers_is_told_once_with_the_steps_of_the_first() {
        let mut served = Served::default();
        served.told(Lane(0), Some(name("a")));
        for step in 0..3 {
            assert_eq!(served.answered(&request(0, 7, step)), Where::There);
        }
        served.told(Lane(0), Some(name("b")));
        let elsewhere = Where::Elsewhere { before: name("a"), steps: (0, 2), since: 100, now: name("b") };
        assert_eq!(served.answered(&request(0, 7, 3)), elsewhere);
        served.told(Lane(0), Some(name("a")));
        assert_eq!(served.answered(&request(0, 7, 4)), Where::Split);
        // The next one may be anywhere.
        assert_eq!(served.answered(&request(0, 8, 0)), Where::There);
    }

    #[test]
    fn where_nothing_tells_the_server_nothing_is_split() {
        let mut served = Served::default();
        served.told(Lane(0), Some(name("a")));
        assert_eq!(served.answered(&request(0, 1, 0)), Where::There);
        // An answer of the balancer itself has no name, and a new stream none yet.
        served.told(Lane(0), None);
        assert_eq!(served.answered(&request(0, 1, 1)), Where::There);
        assert_eq!(served.answered(&request(1, 1, 2)), Where::There);
        served.told(Lane(1), Some(name("b")));
        served.open(Lane(1));
        assert_eq!(served.answered(&request(1, 1, 3)), Where::There);
        // Over another stream of its own.
        served.told(Lane(1), Some(name("b")));
        assert!(matches!(served.answered(&request(1, 1, 4)), Where::Elsewhere { .. }));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut served = Served::default();
        served.told(Lane(0), Some(name("a")));
        for sequence in 0..1000 {
            served.answered(&request(0, sequence, 0));
        }
        assert_eq!(served.sequences.len(), SEQUENCES_KEPT);
    }
}
