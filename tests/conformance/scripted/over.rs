//! Conversations of other themes, with calls in place of streams.

use super::{basics, calls, idle, ids, implicit, inputs, slots};
use crate::conversation::{By, Conversation};

const ALL: [By; 3] = [By::Unary, By::Http, By::HttpBinary];

/// Of these themes what has an answer for each request before the next one, or next to it.
pub(crate) fn conversations() -> Vec<Conversation> {
    let by = |by| {
        let all = [basics::conversations(), calls::conversations(), ids::conversations(), inputs::conversations()];
        all.into_iter().flatten().filter(|its| !is_by_calls_already(its)).filter_map(move |its| its.over(by))
    };
    ALL.into_iter().flat_map(by).collect()
}

/// Of these themes what waits for slots, for the idle limit, or is about state that the server keeps. It does so whatever it came
/// by, so each is held once.
pub(crate) fn that_wait() -> Vec<Conversation> {
    let over = |all: Vec<Conversation>, by| all.into_iter().filter_map(move |its| its.over(by));
    let idle = over(idle::conversations(), By::Unary);
    over(slots::conversations(), By::Http).chain(idle).chain(over(implicit::conversations(), By::HttpBinary)).collect()
}

/// Whether it is the same with calls as another one that is there.
fn is_by_calls_already(it: &Conversation) -> bool {
    it.name == "bad-oldest" || it.name == "bad-unary"
}
