//! What one worker of a script does, a line for each act.

mod step;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
};

use self::step::{Expected, Send};
use super::{
    expect::{Expecting, Sent},
    helper::{class, has_wrong_ids, module, value},
    quoted,
    tables::{Tables, is_of_inputs},
    template::Needs,
};
use crate::failure::Failure;
use workload::{
    conversation::{Act, Connection, Conversation, Lane, Transport},
    plan::correlation_id,
    scenario::{ConnectionOwner, Sending, Window},
    sequence::{Flaw, IdForm, Special, Trait},
};

/// The arguments of a call that are longer have a line each.
pub(super) const WIDTH: usize = 100;

/// The calls of one worker.
pub(super) struct Calls<'f> {
    failure: &'f Failure,
    worker: u32,
    workers: u32,
    sending: &'f Sending,
    are_several: bool,
    /// What is sent and expected, where no formula says it.
    tables: Option<&'f mut Tables>,
    open: BTreeMap<(u32, Lane), Open>,
    expecting: BTreeMap<u32, Expecting>,
    /// Where an ID's steps but its STARTs went last, by the conversation's context and the ID.
    own_lanes: BTreeMap<(u32, u32), Lane>,
    /// The contexts that have steps on streams of another one.
    guests: BTreeSet<(u32, Lane)>,
    fresh: u32,
    /// Those of streams, in the order in which they are opened.
    connections: Vec<String>,
    lines: Vec<String>,
    /// The steps, whose lines are written when all are known.
    sends: Vec<Send>,
    needs: Needs,
}

/// A stream that is open, or calls that are made.
#[derive(Clone, Copy, Debug)]
struct Open {
    by: Transport,
    is_fresh: bool,
    is_half_closed: bool,
    /// How many requests may be unanswered.
    unanswered: u32,
    /// The deadline of each call, in microseconds.
    within_us: Option<NonZeroU32>,
}

impl<'f> Calls<'f> {
    /// `are_several`: whether the script's steps travel in several ways.
    pub(super) fn new(failure: &'f Failure, worker: u32, are_several: bool, tables: Option<&'f mut Tables>) -> Self {
        Self {
            failure,
            worker,
            workers: failure.size().0,
            sending: &failure.scenario.populations[0].sending,
            are_several,
            tables,
            open: BTreeMap::new(),
            expecting: BTreeMap::new(),
            own_lanes: BTreeMap::new(),
            guests: BTreeSet::new(),
            fresh: 0,
            connections: Vec::new(),
            lines: Vec::new(),
            sends: Vec::new(),
            needs: Needs::new(),
        }
    }

    /// The worker's lines; what they need is added to `needs`, and the connections of its streams to `connections`.
    pub(super) fn lines(mut self, needs: &mut Needs, connections: &mut BTreeSet<String>) -> Vec<String> {
        let (failure, worker) = (self.failure, self.worker);
        for conversation in failure.conversations.iter().filter(|its| its.worker == worker) {
            self.conversation(conversation);
        }
        let open: Vec<_> = self.open.keys().copied().collect();
        for stream in open {
            self.close(stream);
        }
        for send in std::mem::take(&mut self.sends) {
            self.write(send);
        }
        // A function of comments alone is none.
        if self.lines.iter().all(|line| line.starts_with('#')) {
            self.lines.push("pass".to_owned());
        }
        for connection in self.connections {
            if !connections.insert(connection) {
                self.needs.insert("reopens");
            }
        }
        needs.extend(self.needs);
        self.lines
    }

    fn conversation(&mut self, conversation: &Conversation) {
        if conversation.at_us > 0 {
            self.needs.insert("at");
            self.lines.push(format!("at({})", seconds(conversation.at_us)));
        }
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
        if conversation.pattern.has(Trait::SharesStream) {
            self.wait_for_the_id(context, act);
        }
        match act {
            // The calls do not tell reading from resting.
            Act::Pause { us } | Act::StopReading { us } => {
                self.lines.push(format!("time.sleep({})", seconds(us)));
                self.expecting(context).pause();
            }
            Act::At { us } => {
                self.needs.insert("at");
                self.lines.push(format!("at({})", seconds(conversation.at_us.saturating_add(us))));
                self.expecting(context).pause();
            }
            Act::Open { lane, over, by, within_us } => {
                self.close((context, lane));
                self.open((context, lane), over, by, within_us);
            }
            Act::Send { lane, .. } => self.send(conversation, (context, lane), act),
            Act::Await { lane, unanswered } => self.wait((context, lane), unanswered),
            Act::HalfClose { lane } => self.half_close((context, lane)),
            Act::Close { lane } => self.close((context, lane)),
            Act::Cancel { lane } => self.cut((context, lane), false),
            // A process that is killed leaves its connections to the system, which resets what is under way.
            Act::Reset { lane } | Act::Kill { lane } => self.cut((context, lane), true),
        }
    }

    fn send(&mut self, conversation: &Conversation, stream: (u32, Lane), act: Act) {
        let Act::Send { id, start, end, value: sent, elements, step, special, .. } = act else { return };
        if special == Some(Special::Flaw(Flaw::IdOfOtherType)) {
            self.lines
                .push("# Here the client sent a step with the correlation ID true; tritonclient cannot.".to_owned());
            return;
        }
        if self.open.get(&stream).is_some_and(|open| open.is_half_closed) {
            self.close(stream);
        }
        if !self.open.contains_key(&stream) {
            self.open(stream, Connection::Own, None, None);
        }
        // What was sent as calls goes out one by one here, too.
        if let Window::Steps(most) = self.sending.window()
            && !conversation.pattern.has(Trait::SharesStream)
            && !(conversation.pattern.has(Trait::Queues) && self.sending.transport().is_stream())
        {
            self.wait(stream, most.get() - 1);
        }
        let number = self.failure.arithmetic.number(sent).of_elements(elements);
        let sent = Sent { start, end, value: number, special };
        let token = self.expecting_of(stream, id).send(stream.1, sent);
        let accused = self.failure.accused.filter(|accused| {
            let its = (accused.step, accused.value.value());
            conversation.accused && its == (step, number.value())
        });
        let expected = match special {
            Some(Special::Flaw(flaw)) => Expected::Text(self.rejection(flaw, stream, number)),
            Some(Special::TimeoutUs(_)) | None => {
                Expected::Lawful { id: stream.0 + id, token, or: accused.and_then(|accused| accused.due) }
            }
        };
        let [is_start, is_end] = [(start, "sequence_start=True"), (end, "sequence_end=True")]
            .map(|(is_so, flag)| is_so.then(|| self.flag(flag)));
        let value = match &mut self.tables {
            Some(tables) => {
                let flaw = match special {
                    Some(Special::Flaw(flaw)) => Some(flaw),
                    Some(Special::TimeoutUs(_)) | None => None,
                };
                tables.step(number, flaw)
            }
            None => value(self.failure, number),
        };
        let flawed = special.and_then(|special| match special {
            // Its inputs say it.
            Special::Flaw(flaw) if self.tables.is_some() && is_of_inputs(flaw) => None,
            Special::Flaw(flaw) => Some(self.flawed(flaw, stream)),
            Special::TimeoutUs(us) => Some(self.flag(&format!("timeout={us}"))),
        });
        let within = self.open.get(&stream).and_then(|open| open.within_us).map(|us| {
            self.needs.insert("within");
            self.flag(&format!("client_timeout={}", seconds(us.get().into())))
        });
        let other = (id > 0).then(|| format!("sequence_id={}", self.id(stream.0 + id)));
        let other = other.map(|other| {
            self.needs.insert("own-id");
            self.flag(&other)
        });
        let version = self.failure.scenario.version_of(self.worker);
        let version = version.filter(|_| special != Some(Special::Flaw(Flaw::OtherVersion)));
        let version = version.map(|version| self.flag(&format!("model_version=\"{version}\"")));
        let before = [Some(value), is_start, is_end, other].into_iter().flatten().collect();
        let behind = [version, flawed, within].into_iter().flatten().collect();
        let line = self.lines.len();
        self.sends.push(Send { line, stream, before, expected, behind, is_accused: accused.is_some() });
        self.lines.push(String::new());
        if let Some(open) = self.open.get_mut(&stream) {
            open.unanswered += 1;
        }
    }

    fn flag(&mut self, flag: &str) -> String {
        self.needs.insert("flags");
        flag.to_owned()
    }

    /// How the steps of a stream travel.
    fn by(&self, stream: (u32, Lane)) -> Transport {
        self.open.get(&stream).map_or(self.sending.transport(), |open| open.by)
    }

    /// The argument that makes a request one with a flaw.
    fn flawed(&mut self, flaw: Flaw, stream: (u32, Lane)) -> String {
        let shape = self
            .failure
            .facts
            .tensors
            .as_ref()
            .map(|tensors| tensors.shape.iter().map(|size| (*size).max(1).to_string()).collect::<Vec<_>>());
        let rest = shape
            .as_ref()
            .map_or_else(|| "*SHAPE[1:]".to_owned(), |shape| shape.get(1..).unwrap_or_default().join(", "));
        let all = shape.map_or_else(|| "*SHAPE".to_owned(), |shape| shape.join(", "));
        let module = module(self.by(stream));
        let (need, argument) = match flaw {
            Flaw::BatchOfTwo if rest.is_empty() => ("tensor", "tensor={\"shape\": [2]}".to_owned()),
            Flaw::BatchOfTwo => ("tensor", format!("tensor={{\"shape\": [2, {rest}]}}")),
            Flaw::OtherShape => ("tensor", format!("tensor={{\"shape\": [{all}, 1]}}")),
            Flaw::OtherType => {
                ("tensor", format!("tensor={{\"datatype\": {}}}", quoted(self.failure.arithmetic.datatype.other())))
            }
            Flaw::OtherInput => ("tensor", "tensor={\"name\": \"NO_SUCH_INPUT\"}".to_owned()),
            Flaw::ShortData => ("short", self.flag("short=True")),
            Flaw::NoInput => ("no-input", self.flag("inputs=[]")),
            Flaw::OtherOutput => ("flags", format!("outputs=[{module}.InferRequestedOutput(\"NO_SUCH_OUTPUT\")]")),
            Flaw::OtherVersion => ("flags", "model_version=\"999\"".to_owned()),
            Flaw::IdZero => ("own-id", self.flag("sequence_id=0")),
            Flaw::IdEmpty => ("own-id", self.flag("sequence_id=\"\"")),
            Flaw::IdTooLong => ("own-id", self.flag("sequence_id=\"x\" * 129")),
            // There is a comment in its place.
            Flaw::IdOfOtherType => ("flags", String::new()),
        };
        self.needs.insert(need);
        argument
    }

    fn open(&mut self, stream: (u32, Lane), over: Connection, by: Option<Transport>, within_us: Option<NonZeroU32>) {
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
        let by = by.unwrap_or(self.sending.transport());
        if by.is_stream() {
            self.connections.push(connection.clone());
        }
        let has_connections = self.are_several || !by.is_http();
        let connection = if has_connections { format!(", {}", quoted(&connection)) } else { String::new() };
        let (class, id) = (class(by, self.are_several), self.id(context));
        let within = match within_us {
            Some(_) if by.is_http() => {
                self.lines
                    .push("# Here the client had a deadline; tritonclient has none for one HTTP request.".to_owned());
                String::new()
            }
            Some(us) if by.is_stream() => {
                self.needs.insert("within");
                format!(", within={}", seconds(us.get().into()))
            }
            _ => String::new(),
        };
        self.lines.push(format!("stream_{context}_{lane} = {class}({id}{connection}{within})"));
        let within_us = within_us.filter(|_| by == Transport::GrpcUnary);
        let open = Open { by, is_fresh: over.is_made_for_it(), is_half_closed: false, unanswered: 0, within_us };
        let has_a_deadline = within_us.is_some() || !within.is_empty();
        self.open.insert(stream, open);
        let expecting = self.expecting(context);
        if has_a_deadline { expecting.open_within(stream.1) } else { expecting.open(stream.1) }
    }

    /// A correlation ID. Texts that differ little do so in the script, too.
    fn id(&self, context: u32) -> String {
        let scenario = &self.failure.scenario;
        let form = scenario.id_form(0);
        match form {
            IdForm::Text | IdForm::NonAscii | IdForm::Nul => {
                let text = quoted(&correlation_id(scenario, self.worker, context).written(form));
                format!("f\"{{ID}}-{}", &text[1..])
            }
            IdForm::Integer | IdForm::LongText | IdForm::OneBit | IdForm::Alike => {
                format!("ID + {}", scenario.place_in_version(self.worker) * self.failure.size().1 + context)
            }
        }
    }

    fn wait(&mut self, stream: (u32, Lane), most: u32) {
        let Some(open) = self.open.get_mut(&stream).filter(|open| open.unanswered > most) else { return };
        open.unanswered = most;
        self.expecting(stream.0).take(stream.1, most as usize);
        // Which of the other IDs' responses are still to come is not counted.
        for context in self.guests(stream).into_iter().filter(|_| most == 0) {
            self.expecting(context).take(stream.1, 0);
        }
        if most > 0 {
            self.needs.insert("leaves");
        }
        self.call(stream, &if most == 0 { "wait()".to_owned() } else { format!("wait({most})") });
    }

    fn half_close(&mut self, stream: (u32, Lane)) {
        let Some(open) = self.open.get_mut(&stream).filter(|open| !open.is_half_closed) else { return };
        open.is_half_closed = true;
        if open.by.is_stream() {
            self.needs.insert("half-close");
            self.call(stream, "half_close()");
        } else {
            self.end(stream);
        }
    }

    fn close(&mut self, stream: (u32, Lane)) {
        self.wait(stream, 0);
        let Some(open) = self.open.remove(&stream) else { return };
        self.expecting(stream.0).close(stream.1);
        for context in self.guests(stream) {
            self.expecting(context).close(stream.1);
            self.guests.remove(&(context, stream.1));
        }
        match (open.by.is_stream(), open.is_half_closed) {
            (true, true) => self.call(stream, "closing.join()"),
            (true, false) => self.call(stream, "stop_stream()"),
            (false, true) => {}
            (false, false) => self.end(stream),
        }
        if has_wrong_ids(self.failure.kind) {
            self.call(stream, "nothing_more()");
        }
        self.release(stream, open);
    }

    fn end(&mut self, stream: (u32, Lane)) {
        self.needs.insert("ends");
        self.call(stream, "end()");
    }

    fn cut(&mut self, stream: (u32, Lane), resets: bool) {
        let Some(open) = self.open.remove(&stream) else { return };
        self.expecting(stream.0).cut(stream.1);
        for context in self.guests(stream) {
            self.expecting(context).cut(stream.1);
            self.guests.remove(&(context, stream.1));
        }
        if !open.by.is_stream() {
            self.needs.insert("cancel-calls");
            if open.by == Transport::GrpcUnary {
                self.needs.insert("cancel-unary");
            }
            return self.call(stream, "cancel()");
        }
        self.call(stream, "stop_stream(cancel_requests=True)");
        if resets {
            self.call(stream, "close()  # the connection; tritonclient cannot reset it");
        } else {
            self.release(stream, open);
        }
    }

    /// A connection that was made for one stream ends with it.
    fn release(&mut self, stream: (u32, Lane), open: Open) {
        if open.is_fresh && open.by.is_stream() {
            self.call(stream, "close()  # the connection");
        }
    }

    /// The other contexts that have steps on a stream.
    fn guests(&self, (context, lane): (u32, Lane)) -> Vec<u32> {
        let guests = self.guests.iter().filter(|(guest, its)| *its == lane && *guest > context);
        guests.map(|(guest, _)| *guest).collect()
    }

    fn call(&mut self, (context, Lane(lane)): (u32, Lane), call: &str) {
        self.lines.push(format!("stream_{context}_{lane}.{call}"));
    }

    /// Before a step of an ID that shares a stream, its earlier steps are answered, but for its START where this is the step behind it. The
    /// stream of the STARTs holds others that may wait for slots, so the script waits on that of the other steps.
    fn wait_for_the_id(&mut self, context: u32, act: Act) {
        let Act::Send { id, lane, step, .. } = act else { return };
        if let Some(lane) = self.own_lanes.get(&(context, id)).copied().filter(|_| step != 1) {
            self.wait((context, lane), 0);
        }
        if step > 0 {
            self.own_lanes.insert((context, id), lane);
        }
    }

    /// What is expected of an ID's steps on a stream, which may be that of another ID.
    fn expecting_of(&mut self, (context, lane): (u32, Lane), id: u32) -> &mut Expecting {
        let is_new = id > 0 && self.guests.insert((context + id, lane));
        let expecting = self.expecting(context + id);
        if is_new {
            expecting.open(lane);
        }
        expecting
    }

    fn expecting(&mut self, context: u32) -> &mut Expecting {
        let (arithmetic, golden) = (self.failure.arithmetic, self.tables.as_ref().map(|tables| &tables.golden));
        self.expecting.entry(context).or_insert_with(|| Expecting::new(arithmetic, golden))
    }
}

/// Microseconds as Python's seconds.
fn seconds(us: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "it is shown")]
    let seconds = us as f64 / 1e6;
    seconds.to_string()
}
