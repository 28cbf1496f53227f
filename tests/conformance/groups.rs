//! The tests: a group of conversations for each, which share a server.

use std::{
    sync::{Condvar, Mutex},
    thread,
};

use crate::{
    conversation::{Conversation, OnPython},
    endpoint::{self, Endpoint, Environment},
    random, runner, scripted,
    setup::Backend,
    snapshot::{self, Said},
};

/// Conversations that share a server, and what that server needs.
struct Group {
    name: &'static str,
    environment: Environment,
    /// Of so many conversations one is held with Python models.
    python_of: usize,
    conversations: Vec<Conversation>,
}

const ALL: usize = 1;
/// For groups in which conversations wait: the time they take is long, and who waits for whom is the scheduler's affair, which
/// is the same whatever the models run on.
const A_THIRD: usize = 3;

/// So many groups talk to their servers at once: more would disturb each other's timing.
const AT_ONCE: usize = 2;
/// A group's conversations with the reference server are dealt out to so many.
const REFERENCE_SERVERS: usize = 6;
/// And those with the real one, which costs more: so many each, and no more servers than that.
const CONVERSATIONS_OF_A_REAL_SERVER: usize = 10;
const REAL_SERVERS: usize = 4;
/// How many servers may die while a share of a group's conversations is held.
const DEATHS_MAX: u32 = 2;
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
    /// Those of the conversations that are held with Python models too; of such as are asked for, all that can be.
    fn on_python(mut self) -> Self {
        let of = if snapshot::only().is_some() { ALL } else { self.python_of };
        let mut index = 0..;
        self.conversations.retain(|_| index.next().is_some_and(|index: usize| index.is_multiple_of(of)));
        self.conversations.retain(|conversation| match conversation.on_python {
            OnPython::Not(why) => {
                snapshot::tell(&format!("{} is not held with Python models: {why}", conversation.name));
                false
            }
            OnPython::Same | OnPython::Other(_) => true,
        });
        self
    }

    /// The transcripts of these conversations with a server, one after the other. The real server may die when it unloads Python
    /// models on a busy machine, which is not what is looked at here: then there is another one.
    fn transcripts<'a>(
        &self,
        start: &impl Fn() -> Endpoint,
        conversations: impl Iterator<Item = &'a Conversation>,
    ) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (mut endpoint, mut deaths) = (start(), 0..DEATHS_MAX);
        let mut transcripts = Vec::new();
        for conversation in conversations {
            let kept = snapshot::kept(self.name, conversation, endpoint.backend);
            transcripts.push(loop {
                let transcript = runtime.block_on(runner::run(&endpoint, conversation, kept.as_deref()));
                if !transcript.contains(runner::GONE) || deaths.next().is_none() {
                    break transcript;
                }
                endpoint = start();
            });
        }
        transcripts
    }

    /// The transcripts of all conversations, dealt out to so many servers: most of the time goes by waiting.
    fn dealt_out(&self, servers: usize, start: impl Fn() -> Endpoint + Sync) -> Vec<String> {
        let mut lanes: Vec<_> = thread::scope(|scope| {
            let lane = |first| {
                let mine = self.conversations.iter().skip(first).step_by(servers);
                scope.spawn(|| self.transcripts(&start, mine).into_iter())
            };
            let lanes: Vec<_> = (0..servers).map(lane).collect();
            lanes.into_iter().map(|lane| lane.join().expect("a server's transcripts")).collect()
        });
        (0..self.conversations.len()).map(|index| lanes[index % servers].next().expect("one for each")).collect()
    }

    /// What the reference server says.
    fn reference(&self) -> Said {
        let transcripts = self.dealt_out(REFERENCE_SERVERS, || endpoint::reference(self.environment));
        Said { server: endpoint::REFERENCE, backend: Backend::Native, transcripts }
    }

    /// What the real server says with such models; where it is to be kept, it is.
    fn real(&self, backend: Backend) -> Said {
        let servers = self.conversations.len().div_ceil(CONVERSATIONS_OF_A_REAL_SERVER).min(REAL_SERVERS);
        let transcripts = self.dealt_out(servers, || endpoint::real(self.environment, backend));
        let said = Said { server: endpoint::name(backend), backend, transcripts };
        if snapshot::are_to_be_written() {
            snapshot::write(self.name, &self.conversations, &said);
        }
        said
    }

    /// The reference server against what the real one said.
    fn check_reference(&self) {
        let _turn = Turn::take();
        snapshot::compare(self.name, &self.conversations, &[self.reference()]);
    }

    /// The real server against what it said before, and the reference server at the same time.
    fn check_real(&self, backend: Backend) {
        let _turn = Turn::take();
        thread::scope(|scope| {
            let reference = scope.spawn(|| self.reference());
            let real = self.real(backend);
            let servers = [real, reference.join().expect("what the reference server says")];
            if backend == Backend::Python && snapshot::are_to_be_written() {
                // What both backends say the other test is writing, perhaps just now.
                return;
            }
            snapshot::compare(self.name, &self.conversations, &servers);
        });
    }
}

/// The group `name`, without the conversations that are not asked for.
fn group(
    name: &'static str,
    environment: Environment,
    python_of: usize,
    mut conversations: Vec<Conversation>,
) -> Group {
    if let Some(text) = snapshot::only() {
        conversations.retain(|conversation| conversation.name.contains(&text));
    }
    Group { name, environment, python_of, conversations }
}

macro_rules! groups {
    ($($name:ident: $environment:expr, $python_of:expr, $conversations:path;)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn the_reference_server_says_what_the_real_one_said() {
                let group = group(stringify!($name), $environment, $python_of, $conversations());
                if !group.conversations.is_empty() {
                    group.check_reference();
                }
            }

            #[test]
            #[ignore = "needs the real tritonserver: run scripts/test"]
            fn the_real_server_says_what_it_said() {
                let group = group(stringify!($name), $environment, $python_of, $conversations());
                if !group.conversations.is_empty() {
                    group.check_real(Backend::Native);
                }
            }

            #[test]
            #[ignore = "needs the real tritonserver: run scripts/test"]
            fn the_real_server_says_so_with_python_models_too() {
                let group = group(stringify!($name), $environment, $python_of, $conversations()).on_python();
                if !group.conversations.is_empty() {
                    group.check_real(Backend::Python);
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
    basics: held(None, None), ALL, scripted::basics::conversations;
    inputs: held(None, None), ALL, scripted::inputs::conversations;
    ids: held(None, None), ALL, scripted::ids::conversations;
    calls: held(None, None), ALL, scripted::calls::conversations;
    grpc_errors: held(None, None), ALL, scripted::calls::with_grpc_error;
    slots: held(None, None), A_THIRD, scripted::slots::conversations;
    implicit: held(None, None), ALL, scripted::implicit::conversations;
    idle: held(None, None), A_THIRD, scripted::idle::conversations;
    delays: held(None, None), A_THIRD, scripted::delays::conversations;
    cancel: held(None, None), A_THIRD, scripted::cancel::conversations;
    lifecycle: held(None, None), A_THIRD, scripted::lifecycle::conversations;
    batches_of_four: held(Some(4), None), ALL, scripted::batches::four;
    batches_of_eight: held(Some(8), None), ALL, scripted::batches::eight;
    types: held(None, None), ALL, scripted::types::conversations;
    by_calls: held(None, None), ALL, scripted::over::conversations;
    by_calls_that_wait: held(None, None), ALL, scripted::over::that_wait;
    from_a_seed: held(None, None), ALL, random::conversations;
    from_a_seed_by_calls: held(None, None), ALL, random::conversations_by_calls;
    batches_with_backlog: held(Some(8), Some(2)), ALL, scripted::batches::eight_and_two;
}
