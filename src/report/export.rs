//! A failure as a Python script that holds its conversations with NVIDIA's own client, for people who do not have this tool.

mod expect;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    num::NonZeroU16,
};

use self::expect::{Expecting, Sent};
use crate::failure::{Due, Failure};
use oracle::ViolationKind;
use workload::{
    arithmetic::Arithmetic,
    conversation::{Act, Connection, Conversation, Lane, Transport},
    scenario::{ConnectionOwner, Sending, Window},
    sequence::{Flaw, Special, Trait},
};

/// What every script has before its conversations: streams, and what is compared.
const CLIENT: &str = include_str!("export/client.py");

/// Writes the script.
///
/// # Errors
/// When it cannot be written.
pub fn write_python(failure: &Failure, out: &mut impl io::Write) -> io::Result<()> {
    let workers: BTreeSet<_> = failure.conversations.iter().map(|conversation| conversation.worker).collect();
    let names: Vec<_> = workers.iter().map(|worker| format!("worker_{worker}")).collect();
    let count_slots =
        failure.at_the_slots || matches!(failure.kind, ViolationKind::SlotLeak | ViolationKind::SlotReleasedTwice);
    let transports = transports(failure);
    write_head(failure, &transports, out)?;
    let names_of_transports: Vec<_> = transports.iter().map(|by| quoted(by.name())).collect();
    writeln!(out, "# How steps travel, as most do first.\nTRANSPORTS = [{}]", names_of_transports.join(", "))?;
    writeln!(out, "FOUND_IN = {}", quoted(&failure.scenario.target.model))?;
    writeln!(out, "# Whether what is wrong shows in how many sequences can be open at a time afterwards.")?;
    writeln!(out, "COUNT_SLOTS = {}", if count_slots { "True" } else { "False" })?;
    let from_zero = failure.arithmetic
        == Arithmetic {
            datatype: failure.arithmetic.datatype,
            value_bits: failure.arithmetic.value_bits,
            ..Arithmetic::default()
        };
    writeln!(
        out,
        "# Whether the model answers with sums from 0.\nFROM_ZERO = {}\n",
        if from_zero { "True" } else { "False" }
    )?;
    writeln!(out, "{CLIENT}")?;
    for worker in workers {
        let lines = Script::new(failure, worker).lines();
        writeln!(out, "\ndef worker_{worker}():\n    {}\n", lines.join("\n    "))?;
    }
    writeln!(out, "\nrun({})", names.join(", "))
}

/// How the steps of a failure travel, as most of them do first.
fn transports(failure: &Failure) -> Vec<Transport> {
    let usual = failure.scenario.populations[0].sending.transport();
    let mut all = vec![usual];
    for act in failure.conversations.iter().flat_map(|conversation| &conversation.acts) {
        if let Act::Open { by: Some(by), .. } = act
            && !all.contains(by)
        {
            all.push(*by);
        }
    }
    all
}

fn write_head(failure: &Failure, transports: &[Transport], out: &mut impl io::Write) -> io::Result<()> {
    let mut protocols: Vec<_> = transports.iter().map(|by| if by.is_http() { "http" } else { "grpc" }).collect();
    protocols.dedup();
    protocols.truncate(2);
    writeln!(out, "#!/usr/bin/env python3\n\"\"\"{}: {}\n", failure.kind, failure.kind.what())?;
    // It stands in a docstring, where these two mean something.
    writeln!(out, "{}\n", failure.found.replace('\\', "\\\\").replace('"', "'"))?;
    writeln!(
        out,
        "What led to it, with NVIDIA's client alone (pip install 'tritonclient[{}]'):\n\n    \
         python3 SCRIPT [HOST:PORT [MODEL{}]]\n\n\
         It ends with 1 where an answer is not what it has to be, and with 0 where all are. What is sent is fixed; what the\n\
         server does at once is decided anew in each run, so that it may take several.",
        protocols.join(","),
        // Where steps of one sequence go over both the second has an endpoint, too.
        protocols.get(1).map(|other| format!(" [{}_HOST:PORT]", other.to_uppercase())).unwrap_or_default(),
    )?;
    if matches!(failure.kind, ViolationKind::Statistics | ViolationKind::PendingLeft) {
        writeln!(out, "\nWhat was found shows in the server's own counts, which this script does not read.")?;
    }
    writeln!(out, "\nWritten by `sequence-stress export`.\n\"\"\"\n")
}

/// A text as Python has it, on one line.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_default())
}

/// The calls of one worker.
struct Script<'f> {
    failure: &'f Failure,
    worker: u32,
    workers: u32,
    sending: &'f Sending,
    open: BTreeMap<(u32, Lane), Open>,
    expecting: BTreeMap<u32, Expecting>,
    fresh: u32,
    lines: Vec<String>,
}

/// A stream that is open.
#[derive(Clone, Copy)]
struct Open {
    is_fresh: bool,
    is_half_closed: bool,
    /// How many requests may be unanswered.
    unanswered: u32,
}

impl<'f> Script<'f> {
    fn new(failure: &'f Failure, worker: u32) -> Self {
        Self {
            failure,
            worker,
            workers: failure.size().0,
            sending: &failure.scenario.populations[0].sending,
            open: BTreeMap::new(),
            expecting: BTreeMap::new(),
            fresh: 0,
            lines: Vec::new(),
        }
    }

    fn lines(mut self) -> Vec<String> {
        let (failure, worker) = (self.failure, self.worker);
        for conversation in failure.conversations.iter().filter(|its| its.worker == worker) {
            self.conversation(conversation);
        }
        for (stream, _) in std::mem::take(&mut self.open) {
            self.call(stream, "close()");
        }
        self.lines
    }

    fn conversation(&mut self, conversation: &Conversation) {
        #[expect(clippy::cast_precision_loss, reason = "it is shown")]
        let begins = conversation.at_us as f64 / 1e6;
        self.lines.push(format!("at({begins})"));
        self.expecting(conversation.context).pause();
        for act in &conversation.acts {
            self.act(conversation, *act);
        }
        // Everything is answered before the worker goes on.
        let open: Vec<_> = self.open.keys().copied().filter(|(context, _)| *context == conversation.context).collect();
        for stream in open {
            self.wait(stream, 0);
        }
    }

    fn act(&mut self, conversation: &Conversation, act: Act) {
        let context = conversation.context;
        match act {
            // The calls do not tell reading from resting.
            Act::Pause { us } | Act::StopReading { us } => {
                #[expect(clippy::cast_precision_loss, reason = "it is shown")]
                self.lines.push(format!("time.sleep({})", us as f64 / 1e6));
                self.expecting(context).pause();
            }
            Act::Open { lane, over, by } => {
                self.close((context, lane));
                self.open((context, lane), over, by);
            }
            Act::Send { lane, .. } => self.send(conversation, (context, lane), act),
            Act::Await { lane, unanswered } => self.wait((context, lane), unanswered),
            Act::HalfClose { lane } => {
                let stream = self.open.get_mut(&(context, lane)).filter(|stream| !stream.is_half_closed);
                if let Some(stream) = stream {
                    stream.is_half_closed = true;
                    self.call((context, lane), "half_close()");
                }
            }
            Act::Close { lane } => self.close((context, lane)),
            Act::Cancel { lane } => self.cut((context, lane), "cancel()"),
            // A process that is killed leaves its connections to the system, which resets what is under way.
            Act::Reset { lane } | Act::Kill { lane } => self.cut((context, lane), "reset()"),
        }
    }

    fn send(&mut self, conversation: &Conversation, stream: (u32, Lane), act: Act) {
        let Act::Send { start, end, value, elements, step, special, .. } = act else { return };
        if special == Some(Special::Flaw(Flaw::IdOfOtherType)) {
            self.lines.push(
                "# Here a step was sent whose correlation ID is true; tritonclient sends no such thing.".to_owned(),
            );
            return;
        }
        if self.open.get(&stream).is_some_and(|open| open.is_half_closed) {
            self.close(stream);
        }
        if !self.open.contains_key(&stream) {
            self.open(stream, Connection::Own, None);
        }
        // What was sent as calls goes out one by one here, too.
        if let Window::Steps(most) = self.sending.window()
            && !(conversation.pattern.has(Trait::Queues) && self.sending.transport().is_stream())
        {
            self.wait(stream, most.get() - 1);
        }
        let of_elements = self.failure.arithmetic.number(value).of_elements(elements);
        let sent = Sent { start, end, value: of_elements, special };
        let expected = self.expecting(stream.0).send(stream.1, sent).map(due);
        let expected = match special {
            Some(Special::Flaw(flaw)) => Some(quoted(flaw.refusal())),
            Some(Special::TimeoutUs(_)) | None => expected,
        };
        let accused = self.failure.accused.filter(|accused| {
            conversation.accused
                && (accused.step, accused.value.value()) == (step, self.failure.arithmetic.number(value).value())
        });
        let expected = expected.or_else(|| accused.and_then(|accused| Some(due(accused.due?))));
        let arguments = [
            Some(self.failure.arithmetic.number(value).to_string()),
            start.then(|| "start=True".to_owned()),
            end.then(|| "end=True".to_owned()),
            expected.map(|expected| format!("expect={expected}")),
            (elements > NonZeroU16::MIN).then(|| format!("size={elements}")),
            special.map(|special| match special {
                Special::Flaw(flaw) => format!("flaw=\"{flaw}\""),
                Special::TimeoutUs(us) => format!("timeout={us}"),
            }),
        ];
        if accused.is_some() {
            self.lines.push("# Here it was seen.".to_owned());
        }
        self.call(stream, &format!("send({})", arguments.into_iter().flatten().collect::<Vec<_>>().join(", ")));
        if let Some(open) = self.open.get_mut(&stream) {
            open.unanswered += 1;
        }
    }

    fn open(&mut self, stream: (u32, Lane), over: Connection, by: Option<Transport>) {
        let (context, Lane(lane)) = stream;
        let connection = match over {
            Connection::Own if self.sending.connection == ConnectionOwner::PerContext => {
                format!("worker {} context {context}", self.worker)
            }
            Connection::Own => format!("worker {} context 0", self.worker),
            Connection::Neighbour => format!("worker {} context 0", (self.worker + 1) % self.workers),
            Connection::Fresh | Connection::Narrow | Connection::Process => {
                self.fresh += 1;
                format!("worker {} fresh {}", self.worker, self.fresh)
            }
        };
        let id = self.worker * self.failure.size().1 + context;
        let by = by.unwrap_or(self.sending.transport());
        let made = if by.is_stream() {
            format!("Stream(ID + {id}, {})", quoted(&connection))
        } else {
            format!("Calls(ID + {id}, {}, {})", quoted(&connection), quoted(by.name()))
        };
        self.lines.push(format!("stream_{context}_{lane} = {made}"));
        let open = Open { is_fresh: over.is_made_for_it(), is_half_closed: false, unanswered: 0 };
        self.open.insert(stream, open);
        self.expecting(context).open(stream.1);
    }

    fn wait(&mut self, stream: (u32, Lane), most: u32) {
        let Some(open) = self.open.get_mut(&stream).filter(|open| open.unanswered > most) else { return };
        open.unanswered = most;
        self.expecting(stream.0).take(stream.1, most as usize);
        self.call(stream, &if most == 0 { "wait()".to_owned() } else { format!("wait({most})") });
    }

    fn close(&mut self, stream: (u32, Lane)) {
        let Some(open) = self.open.remove(&stream) else { return };
        self.expecting(stream.0).close(stream.1);
        self.call(stream, "close()");
        self.release(stream, open);
    }

    fn cut(&mut self, stream: (u32, Lane), how: &str) {
        let Some(open) = self.open.remove(&stream) else { return };
        self.expecting(stream.0).cut(stream.1);
        self.call(stream, how);
        if how != "reset()" {
            self.release(stream, open);
        }
    }

    /// A connection that was made for one stream ends with it.
    fn release(&mut self, stream: (u32, Lane), open: Open) {
        if open.is_fresh {
            self.call(stream, "disconnect()");
        }
    }

    fn call(&mut self, (context, Lane(lane)): (u32, Lane), call: &str) {
        self.lines.push(format!("stream_{context}_{lane}.{call}"));
    }

    fn expecting(&mut self, context: u32) -> &mut Expecting {
        let arithmetic = self.failure.arithmetic;
        self.expecting.entry(context).or_insert_with(|| Expecting::new(arithmetic))
    }
}

/// What a step has to be answered with, as Python has it.
fn due(due: Due) -> String {
    match due {
        Due::Refusal => "REFUSED".to_owned(),
        Due::Answer => "ACCEPTED".to_owned(),
        Due::Sum(sum) => sum.to_string(),
    }
}

#[cfg(test)]
mod tests;
