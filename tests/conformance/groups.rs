//! The tests: a group of conversations for each, which share a server.

use std::thread;

use wire::simulation::Simulation;

use crate::{
    conversation::{Conversation, OnPython},
    endpoint::{self, Environment},
    long,
    pool::Pooled,
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

/// A conversation with the real server may meet so many servers that die.
const DEATHS_MAX: u32 = 2;
/// The gate holds every tenth conversation by calls, and every tenth with Python models. Each of these is also held over streams with
/// native models.
const A_TENTH: usize = 10;

/// Ends of a conversation's name: its strategy, and whether its initial state is zero or the server keeps its state.
const VARIANTS: [&str; 4] = ["-zero", "-direct", "-oldest", "-implicit"];

/// What kind of conversation one of this name is.
fn kind(name: &str) -> &str {
    // Those from a seed are numbered.
    let name = name.trim_start_matches(|digit: char| digit.is_ascii_digit());
    VARIANTS.iter().fold(name, |name, variant| name.strip_suffix(variant).unwrap_or(name))
}

impl Group {
    /// Whether the real server holds all conversations of a group: in the long form, and where the user asks for some conversations,
    /// for new snapshots or for another seed.
    fn is_whole() -> bool {
        long::is_long() || snapshot::only().is_some() || snapshot::are_to_be_written() || snapshot::is_of_another_seed()
    }

    /// The conversations that the gate holds with native models of the real server: one of each kind over streams, and a tenth of
    /// those by calls. The variants of a kind take turns from kind to kind.
    fn one_of_each_kind(mut self) -> Self {
        if Self::is_whole() {
            return self;
        }
        let (by_calls, others): (Vec<_>, Vec<_>) =
            self.conversations.into_iter().partition(|conversation| conversation.name.contains("-by-"));
        let mut kinds: Vec<Vec<Conversation>> = Vec::new();
        for conversation in others {
            match kinds.iter_mut().find(|others| kind(&others[0].name) == kind(&conversation.name)) {
                Some(variants) => variants.push(conversation),
                None => kinds.push(vec![conversation]),
            }
        }
        let turns = kinds.into_iter().enumerate();
        self.conversations = turns.map(|(turn, mut variants)| variants.swap_remove(turn % variants.len())).collect();
        self.conversations.extend(by_calls.into_iter().step_by(A_TENTH));
        self
    }

    /// The conversations that the gate holds with Python models of the real server: a tenth.
    fn a_tenth(mut self) -> Self {
        let of = if Self::is_whole() { ALL } else { A_TENTH };
        self.conversations = self.conversations.into_iter().step_by(of).collect();
        self
    }

    /// Those of the conversations that are held with Python models too; of such as are asked for, all that can be.
    fn on_python(mut self) -> Self {
        let of = if snapshot::only().is_some() { ALL } else { self.python_of };
        self.conversations = self.conversations.into_iter().step_by(of).collect();
        self.conversations.retain(|conversation| match conversation.on_python {
            OnPython::Not(why) => {
                snapshot::tell(&format!("{} is not held with Python models: {why}", conversation.name));
                false
            }
            OnPython::Same | OnPython::Other(_) => true,
        });
        self
    }

    /// What the reference server says, to each conversation in a simulation of its own.
    fn reference(&self) -> Said {
        let hold = |conversation| {
            let simulation = Simulation::begin();
            let endpoint = endpoint::reference(self.environment);
            simulation.run(runner::run(&endpoint, conversation, None))
        };
        let transcripts = self.conversations.iter().map(hold).collect();
        Said { server: endpoint::REFERENCE, backend: Backend::Native, transcripts }
    }

    /// What the real server says with such models; where it is to be kept, it is.
    fn real(&self, backend: Backend) -> Said {
        let transcripts = thread::scope(|scope| {
            let conversations = self.conversations.iter();
            let held: Vec<_> = conversations.map(|one| scope.spawn(|| self.transcript(one, backend))).collect();
            held.into_iter().map(|one| one.join().expect("a transcript")).collect()
        });
        let said = Said { server: endpoint::name(backend), backend, transcripts };
        if snapshot::are_to_be_written() {
            snapshot::write(self.name, &self.conversations, &said);
        }
        said
    }

    /// The transcript of a conversation with the next real server that is free. That server may die when it unloads Python models on a
    /// busy machine, which is not what is looked at here: then the conversation is held with another one.
    fn transcript(&self, conversation: &Conversation, backend: Backend) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let kept = snapshot::kept(self.name, conversation, backend);
        // Conversations of different groups may have the same name, and a server takes a model of the same name and the same note for
        // one that it has loaded already.
        let named = Conversation { name: format!("{}/{}", self.name, conversation.name), ..conversation.clone() };
        let mut deaths = 0..DEATHS_MAX;
        loop {
            // The index tells of models that were loaded before.
            let server = Pooled::take(self.environment, backend, conversation.is_alone);
            let transcript = runtime.block_on(runner::run(&server, &named, kept.as_deref()));
            if !transcript.contains(runner::GONE) || deaths.next().is_none() {
                return transcript;
            }
            server.discard();
        }
    }

    /// The reference server against what the real one said.
    fn check_reference(&self) {
        snapshot::compare(self.name, &self.conversations, &[self.reference()]);
    }

    /// The real server against what it said before; of another seed, of which nothing is kept, the
    /// reference server against the real one.
    fn check_real(&self, backend: Backend) {
        let mut said = vec![self.real(backend)];
        if backend == Backend::Python && snapshot::are_to_be_written() {
            // What both backends say the other test is writing, perhaps just now.
            return;
        }
        if snapshot::is_of_another_seed() {
            said.push(self.reference());
        }
        snapshot::compare(self.name, &self.conversations, &said);
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
                let group = group(stringify!($name), $environment, $python_of, $conversations()).one_of_each_kind();
                if !group.conversations.is_empty() {
                    group.check_real(Backend::Native);
                }
            }

            #[test]
            #[ignore = "needs the real tritonserver: run scripts/test"]
            fn the_real_server_says_so_with_python_models_too() {
                let group = group(stringify!($name), $environment, $python_of, $conversations()).on_python().a_tenth();
                if !group.conversations.is_empty() {
                    group.check_real(Backend::Python);
                }
            }
        })*
    };
}

/// An environment that holds executions back, or not.
const fn held(delay_scheduler: Option<u32>, backlog_delay_scheduler: Option<u32>) -> Environment {
    Environment { delay_scheduler, backlog_delay_scheduler, versions: None }
}

/// An environment with so many versions of each model.
const fn with_versions(versions: u32) -> Environment {
    Environment { versions: Some(versions), ..held(None, None) }
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
    versions: with_versions(2), ALL, scripted::versions::conversations;
    by_calls: held(None, None), ALL, scripted::over::conversations;
    by_calls_that_wait: held(None, None), ALL, scripted::over::that_wait;
    from_a_seed: held(None, None), ALL, random::conversations;
    from_a_seed_by_calls: held(None, None), ALL, random::conversations_by_calls;
    batches_with_backlog: held(Some(8), Some(2)), ALL, scripted::batches::eight_and_two;
}
