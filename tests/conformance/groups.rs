//! The tests: a group of conversations for each, which share a server.

use std::{
    sync::{Condvar, Mutex},
    thread,
};

use crate::{
    conversation::Conversation,
    endpoint::{self, Endpoint, Environment},
    random, runner, scripted, snapshot,
};

/// Conversations that share a server, and what that server needs.
struct Group {
    name: &'static str,
    environment: Environment,
    conversations: Vec<Conversation>,
}

/// So many groups talk to their servers at once: more would disturb each other's timing.
const AT_ONCE: usize = 2;
static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// One of the groups that may run now.
struct Turn;

impl Turn {
    fn take() -> Self {
        let running = RUNNING.0.lock().expect("no turn panics");
        let mut running = RUNNING.1.wait_while(running, |running| *running >= AT_ONCE).expect("no turn panics");
        *running += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.0.lock().expect("no turn panics") -= 1;
        RUNNING.1.notify_one();
    }
}

impl Group {
    /// The transcripts of this group's conversations with a server.
    fn transcripts(&self, endpoint: &Endpoint) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut transcripts = Vec::new();
            for conversation in &self.conversations {
                transcripts.push(runner::run(endpoint.address, conversation).await);
            }
            transcripts
        })
    }

    /// The reference server against what the real one said.
    fn check_reference(&self) {
        let _turn = Turn::take();
        let reference = endpoint::reference(self.environment);
        let said = self.transcripts(&reference);
        snapshot::compare(self.name, &self.conversations, &[(reference.name, &said)]);
    }

    /// The real server against what it said before and, where there is one, the reference server.
    fn check_real(&self) {
        let _turn = Turn::take();
        thread::scope(|scope| {
            let reference = scope.spawn(|| {
                let server = endpoint::reference(self.environment);
                (server.name, self.transcripts(&server))
            });
            let real = endpoint::real(self.environment);
            let said = self.transcripts(&real);
            if snapshot::are_to_be_written() {
                snapshot::write(self.name, &self.conversations, &said);
            }
            let (reference, also) = reference.join().expect("the reference server's transcripts");
            snapshot::compare(self.name, &self.conversations, &[(real.name, &said), (reference, &also)]);
        });
    }
}

/// The group `name`, without the conversations that are not asked for.
fn group(name: &'static str, environment: Environment, mut conversations: Vec<Conversation>) -> Group {
    if let Some(text) = snapshot::only() {
        conversations.retain(|conversation| conversation.name.contains(&text));
    }
    Group { name, environment, conversations }
}

macro_rules! groups {
    ($($name:ident: $environment:expr, $conversations:path;)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn the_reference_server_says_what_the_real_one_said() {
                let group = group(stringify!($name), $environment, $conversations());
                if !group.conversations.is_empty() {
                    group.check_reference();
                }
            }

            #[test]
            #[ignore = "needs the real tritonserver: run scripts/test"]
            fn the_real_server_says_what_it_said() {
                let group = group(stringify!($name), $environment, $conversations());
                if !group.conversations.is_empty() {
                    group.check_real();
                }
            }
        })*
    };
}

/// An environment that holds executions back, or not.
const fn held(delay_scheduler: Option<u32>, backlog_delay_scheduler: Option<u32>) -> Environment {
    Environment { delay_scheduler, backlog_delay_scheduler }
}

groups! {
    basics: held(None, None), scripted::basics::conversations;
    inputs: held(None, None), scripted::inputs::conversations;
    ids: held(None, None), scripted::ids::conversations;
    calls: held(None, None), scripted::calls::conversations;
    grpc_errors: held(None, None), scripted::calls::with_grpc_error;
    slots: held(None, None), scripted::slots::conversations;
    idle: held(None, None), scripted::idle::conversations;
    delays: held(None, None), scripted::delays::conversations;
    cancel: held(None, None), scripted::cancel::conversations;
    lifecycle: held(None, None), scripted::lifecycle::conversations;
    batches_of_four: held(Some(4), None), scripted::batches::four;
    batches_of_eight: held(Some(8), None), scripted::batches::eight;
    from_a_seed: held(None, None), random::conversations;
    batches_with_backlog: held(Some(8), Some(2)), scripted::batches::eight_and_two;
}
