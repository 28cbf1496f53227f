//! The parts of a script below its conversations. Only those that the conversations use are written.

use std::collections::BTreeSet;

use super::{
    quoted,
    tables::Tables,
    template::{Needs, Values, render},
};
use crate::failure::Failure;
use oracle::ViolationKind;
use workload::{
    arithmetic::Arithmetic,
    conversation::{Act, Transport},
    number::{Datatype, Kind, Number},
    tensor::Shape,
};

const HEAD: &str = include_str!("parts/head.py.part");
const STEPS: &str = include_str!("parts/steps.py.part");
const GOLDEN: &str = include_str!("parts/golden.py.part");
const CLASSES: &str = include_str!("parts/classes.py.part");
const CANCELLABLE: &str = include_str!("parts/cancellable.py.part");
const AT: &str = include_str!("parts/at.py.part");
const SLOTS: &str = include_str!("parts/slots.py.part");
const PENDING: &str = include_str!("parts/pending.py.part");
const END: &str = include_str!("parts/end.py.part");
/// How long a script may take besides its pauses and the idle limits that it may wait for, in seconds.
const LIMIT_S: u64 = 60;
/// How many idle limits it may wait for.
const IDLE_LIMITS: u64 = 10;

/// What a failure's script needs, and what is written in its parts.
pub(super) struct Helper<'f> {
    failure: &'f Failure,
    transports: &'f [Transport],
    names: Vec<String>,
    /// What is sent and expected, where no formula says it.
    pub(super) tables: Option<Tables>,
    /// What a step sends while the slots are counted.
    one: String,
    /// What the conversations need, as far as they are written.
    pub(super) needs: Needs,
}

impl<'f> Helper<'f> {
    pub(super) fn new(
        failure: &'f Failure,
        transports: &'f [Transport],
        workers: &BTreeSet<u32>,
        tables: Option<Tables>,
    ) -> Self {
        let names = workers.iter().map(|worker| format!("worker_{worker}")).collect();
        let has = |is_it: fn(&Transport) -> bool| transports.iter().any(is_it);
        let calls = has(|by| !by.is_stream());
        let has_texts =
            tables.as_ref().map_or(failure.arithmetic.datatype == Datatype::Bytes, Tables::answers_with_texts);
        let needs = [
            ("several", transports.len() > 1),
            ("stream", has(|by| by.is_stream())),
            ("calls", calls),
            ("threads", calls),
            ("unary", transports.contains(&Transport::GrpcUnary)),
            ("json", has(|by| by.is_json())),
            ("binary", transports.contains(&Transport::HttpBinary)),
            ("grpc", has(|by| !by.is_http())),
            ("connections", has(|by| !by.is_http())),
            ("http", has(|by| by.is_http())),
            ("two-protocols", has(|by| by.is_http()) && has(|by| !by.is_http())),
            ("asks", failure.facts.tensors.is_none()),
            ("elements", has_elements(failure)),
            ("slots", counts_slots(failure)),
            ("pending", failure.kind == ViolationKind::PendingLeft),
            ("ids", has_wrong_ids(failure.kind)),
            ("texts-in-json", has_texts && has(|by| by.is_json())),
            ("decoupled", failure.arithmetic.answers.are_series()),
        ];
        let mut needs: Needs = needs.into_iter().filter_map(|(name, is_needed)| is_needed.then_some(name)).collect();
        needs.extend(tables.iter().flat_map(Tables::needs));
        let one = value(failure, failure.arithmetic.number(1));
        let mut this = Self { failure, transports, names, tables, one, needs };
        this.add_of_slots();
        this
    }

    /// The package that the script needs, as pip has it.
    pub(super) fn client_package(&self) -> String {
        let mut protocols: Vec<_> = self.transports.iter().map(|by| protocol(*by)).collect();
        protocols.dedup();
        protocols.truncate(2);
        format!("tritonclient[{}]", protocols.join(","))
    }

    /// The arguments that the script takes.
    pub(super) fn arguments(&self) -> String {
        let second = self.second_protocol().map(|other| format!("{}_HOST:PORT", other.to_uppercase()));
        let metrics = self.needs.contains("pending").then(|| "METRICS_HOST:PORT".to_owned());
        let all = ["HOST:PORT".to_owned(), "MODEL".to_owned()].into_iter().chain(second).chain(metrics);
        all.rev().fold(String::new(), |inner, name| match inner.as_str() {
            "" => format!("[{name}]"),
            _ => format!("[{name} {inner}]"),
        })
    }

    /// The script with these functions of its workers: what is fixed, what sends and compares, and what runs the workers.
    pub(super) fn script(&self, workers: String) -> String {
        let of = |need: &str, part| if self.needs.contains(need) { self.render(part) } else { String::new() };
        let classes =
            [of("at", AT), of("golden", GOLDEN), self.render(CLASSES), of("slots", SLOTS), of("pending", PENDING)];
        let tables = self.tables.as_ref().map_or_else(String::new, Tables::text);
        [&[self.render(HEAD), workers], &classes[..], &[tables, self.render(END)]].concat().join("\n")
    }

    fn add_of_slots(&mut self) {
        if !self.needs.contains("slots") {
            return;
        }
        self.needs.insert("flags");
        if !self.transports[0].is_stream() {
            self.needs.insert("cancel-calls");
        }
        if self.transports[0] == Transport::GrpcUnary {
            self.needs.insert("cancel-unary");
        }
        if !sums_from_zero(self.failure.arithmetic) {
            self.needs.insert("answers");
        }
        if let Some(tables) = &mut self.tables {
            self.one = tables.step(tables.golden.inputs.number(0, 0), None);
        }
    }

    fn second_protocol(&self) -> Option<&'static str> {
        let first = protocol(self.transports[0]);
        self.transports.iter().map(|by| protocol(*by)).find(|other| *other != first)
    }

    /// The needs, with those that follow from others.
    fn all_needs(&self) -> Needs {
        let mut all = self.needs.clone();
        let has = |name: &str| self.needs.contains(name);
        let more = [
            ("judges", !has("golden") && ["open", "answers", "texts", "any-of"].into_iter().any(has)),
            ("rejected", has("rejected") || has("open")),
            ("blocking", has("calls") && (has("several") || !has("cancel-unary"))),
            ("threads", has("threads") || has("half-close")),
        ];
        all.extend(more.into_iter().filter_map(|(name, is_needed)| is_needed.then_some(name)));
        all
    }

    fn render(&self, part: &str) -> String {
        let needs = self.all_needs();
        let mut values = self.values(&needs);
        for (name, part) in [("steps", STEPS), ("cancellable", CANCELLABLE)] {
            values.insert(name, render(part, &needs, &values).trim_end().to_owned());
        }
        render(part, &needs, &values)
    }

    fn values(&self, needs: &Needs) -> Values {
        let has = |name: &str| needs.contains(name);
        let when = |is_needed: bool, text: &str| if is_needed { text.to_owned() } else { String::new() };
        let arithmetic = self.failure.arithmetic;
        let first = self.transports[0];
        let mut values = self.tensor_values();
        values.extend(self.slot_values());
        values.extend(self.endpoint_values());
        values.extend([
            ("model", quoted(&self.failure.scenario.target.model)),
            ("datatype", arithmetic.datatype.to_string()),
            ("dtype", numpy_type(arithmetic.datatype)),
            ("triton", if has("several") { "self.triton".to_owned() } else { module(first).to_owned() }),
            (
                "how",
                if has("several") { ", **self.how".to_owned() } else { when(first.is_json(), ", binary_data=False") },
            ),
            ("parameters", parameters(needs)),
            ("unanswered", when(has("leaves"), ", unanswered=0")),
            ("connection", when(has("connections"), ", connection")),
            ("submit", submit(needs)),
            ("utils", utils(needs)),
            ("due", due(needs)),
            ("shape_noted", when(has("elements"), ", array.shape")),
            ("shape_taken", when(has("elements"), ", shape")),
            ("id_noted", when(has("ids"), ", str(self.sent)")),
            ("id_taken", when(has("ids"), ", request_id")),
            ("response_id", response_id(needs)),
            ("limit", self.limit_s().to_string()),
            ("names", if let [alone] = self.names.as_slice() { format!("{alone},") } else { self.names.join(", ") }),
        ]);
        values
    }

    fn tensor_values(&self) -> Values {
        let has_elements = self.needs.contains("elements");
        let [input, output, shape] = match &self.failure.facts.tensors {
            Some(tensors) => {
                let shape = if has_elements { tensors.shape.clone() } else { smallest(&tensors.shape) };
                [quoted(&tensors.input), quoted(&tensors.output), format!("{shape:?}")]
            }
            None => ["INPUT", "OUTPUT", "SHAPE"].map(str::to_owned),
        };
        let its_shape = if has_elements { "shape".to_owned() } else { shape.clone() };
        Values::from([("input", input), ("output", output), ("shape", shape), ("its_shape", its_shape)])
    }

    fn endpoint_values(&self) -> Values {
        let first = protocol(self.transports[0]);
        let second = self.second_protocol();
        let url = |protocol: &str| match second {
            Some(_) => format!("{}_URL", protocol.to_uppercase()),
            None => "URL".to_owned(),
        };
        let asking = format!("{first}client.InferenceServerClient({})", url(first));
        let calls_client = if first == "grpc" {
            format!("grpcclient.InferenceServerClient({}, channel_args=[(\"connection\", connection)])", url("grpc"))
        } else {
            format!("httpclient.InferenceServerClient({}, network_timeout={})", url("http"), self.limit_s())
        };
        let of_grpc = |text: &str| if first == "grpc" { text.to_owned() } else { String::new() };
        Values::from([
            ("first_url", url(first)),
            ("first_port", port(first).to_owned()),
            ("second_url", second.map_or_else(String::new, url)),
            ("second_port", second.map_or("", port).to_owned()),
            ("metrics_place", if second.is_some() { "4" } else { "3" }.to_owned()),
            ("grpc_url", url("grpc")),
            ("http_url", url("http")),
            ("client", asking),
            ("calls_client", calls_client),
            ("as_json", of_grpc(", as_json=True")),
            ("config", of_grpc("[\"config\"]")),
        ])
    }

    fn slot_values(&self) -> Values {
        let arithmetic = self.failure.arithmetic;
        let first = self.transports[0];
        let is_text = arithmetic.datatype == Datatype::Bytes;
        let sum = |sum: &str| match (sums_from_zero(arithmetic), is_text) {
            (false, _) => "ANSWER".to_owned(),
            (true, true) => format!("str({sum}).encode()"),
            (true, false) => sum.to_owned(),
        };
        let class = class(first, self.transports.len() > 1);
        let connection = if self.needs.contains("connections") { ", f\"slot {n}\"" } else { "" };
        let cancel = if first.is_stream() { "stop_stream(cancel_requests=True)" } else { "cancel()" };
        Values::from([
            ("opened", format!("{class}(first + n{connection})")),
            ("one", self.one.clone() + &self.version()),
            ("first_sum", sum("1")),
            ("next_sum", sum("steps[its]")),
            ("cancel", cancel.to_owned()),
        ])
    }

    /// The argument with the version of the model, behind others.
    fn version(&self) -> String {
        let version = self.failure.scenario.version_of(0);
        version.map_or_else(String::new, |version| format!(", model_version=\"{version}\""))
    }

    /// How long the script may take in all, in seconds.
    fn limit_s(&self) -> u64 {
        let pauses =
            self.failure.conversations.iter().map(|its| u64::try_from(its.pauses().as_micros()).unwrap_or(u64::MAX));
        let begins = self.failure.conversations.iter().map(|its| its.at_us).max().unwrap_or(0);
        let idle_limits = self.failure.facts.idle_limit_ms.unwrap_or(1000).saturating_mul(IDLE_LIMITS);
        let waits_us = pauses.fold(begins, u64::saturating_add).saturating_add(idle_limits.saturating_mul(1000));
        waits_us / 1_000_000 + LIMIT_S
    }
}

/// Whether the violation shows in how many sequences can be open at a time afterwards.
fn counts_slots(failure: &Failure) -> bool {
    failure.at_the_slots || matches!(failure.kind, ViolationKind::SlotLeak | ViolationKind::SlotReleasedTwice)
}

/// Whether responses may come twice, or to another request than they say.
pub(super) fn has_wrong_ids(kind: ViolationKind) -> bool {
    matches!(kind, ViolationKind::Misaddressed | ViolationKind::Duplicate | ViolationKind::Reordered)
}

/// Whether the model answers with sums from 0.
fn sums_from_zero(arithmetic: Arithmetic) -> bool {
    let Arithmetic { datatype, value_bits, .. } = arithmetic;
    arithmetic == Arithmetic { datatype, value_bits, ..Arithmetic::default() }
}

/// Whether any tensor has more than one element.
fn has_elements(failure: &Failure) -> bool {
    let is_large =
        failure.facts.tensors.as_ref().is_some_and(|tensors| smallest(&tensors.shape).iter().any(|size| *size > 1));
    let several = |act: &Act| matches!(act, Act::Send { elements, .. } if elements.get() > 1);
    is_large || failure.conversations.iter().flat_map(|conversation| &conversation.acts).any(several)
}

/// The shape with 1 in the place of an open dimension.
fn smallest(shape: &[i64]) -> Vec<i64> {
    shape.iter().map(|size| (*size).max(1)).collect()
}

/// What a step sends: a number, or the elements that add up to it.
pub(super) fn value(failure: &Failure, number: Number) -> String {
    if !has_elements(failure) {
        return literal(number);
    }
    let elements: Vec<_> = match &failure.facts.tensors {
        Some(tensors) => Shape::from(tensors.shape.clone()).spread(number).map(literal).collect(),
        None => number.spread(number.elements().get().into()).map(literal).collect(),
    };
    format!("[{}]", elements.join(", "))
}

/// A number as Python has it.
pub(super) fn literal(number: Number) -> String {
    if number.datatype() == Datatype::Bytes { format!("b\"{number}\"") } else { number.to_string() }
}

/// The class whose objects travel like this.
pub(super) fn class(by: Transport, are_several: bool) -> &'static str {
    match (by, are_several) {
        (Transport::GrpcStream | Transport::GrpcStatus, _) => "Stream",
        (_, false) => "Calls",
        (Transport::GrpcUnary, true) => "Unary",
        (Transport::Http, true) => "Http",
        (Transport::HttpBinary, true) => "HttpBinary",
    }
}

/// The module of NVIDIA's client that speaks a transport.
pub(super) fn module(by: Transport) -> &'static str {
    if by.is_http() { "httpclient" } else { "grpcclient" }
}

fn protocol(by: Transport) -> &'static str {
    if by.is_http() { "http" } else { "grpc" }
}

fn port(protocol: &str) -> &'static str {
    if protocol == "http" { "8000" } else { "8001" }
}

fn numpy_type(datatype: Datatype) -> String {
    match datatype.kind() {
        Kind::Signed(bits) => format!("int{bits}"),
        Kind::Unsigned(bits) => format!("uint{bits}"),
        Kind::Float(bits) => format!("float{bits}"),
        Kind::Text => "object".to_owned(),
    }
}

fn parameters(needs: &Needs) -> String {
    let expect = if needs.contains("open") { "expect=None" } else { "expect" };
    let tensor = needs.contains("tensor").then_some("tensor=None");
    let flags = needs.contains("flags").then_some("**flags");
    [Some("value"), Some(expect), tensor, flags].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What the script imports of the client's helpers.
fn utils(needs: &Needs) -> String {
    let names = [
        ("deserialize_bf16_tensor", needs.contains("halves-in")),
        ("deserialize_bytes_tensor", needs.contains("texts-in")),
        ("triton_to_np_dtype", needs.contains("tensor") || needs.contains("golden")),
    ];
    let names: Vec<_> = names.into_iter().filter_map(|(name, is_needed)| is_needed.then_some(name)).collect();
    if names.is_empty() { String::new() } else { format!("from tritonclient.utils import {}", names.join(", ")) }
}

/// The call that sends a step.
fn submit(needs: &Needs) -> String {
    let call = if needs.contains("calls") || needs.contains("within") {
        "submit(inputs"
    } else {
        "async_stream_infer(MODEL, inputs"
    };
    let id = if needs.contains("ids") { ", request_id=str(self.sent)" } else { "" };
    // Without it nothing tells that the model has given its last response.
    let id =
        if needs.contains("decoupled") { format!("{id}, enable_empty_final_response=True") } else { id.to_owned() };
    if needs.contains("own-id") {
        return format!("{call}{id}, **{{\"sequence_id\": self.sequence, **flags}})");
    }
    let flags = if needs.contains("flags") { ", **flags" } else { "" };
    format!("{call}{id}, sequence_id=self.sequence{flags})")
}

/// What a response is compared with: where any sum is right, its own first element.
fn due(needs: &Needs) -> String {
    match (needs.contains("open"), needs.contains("answers")) {
        (true, true) => "seen.flat[0] if expect in (None, ANSWER) else expect".to_owned(),
        (true, false) => "seen.flat[0] if expect is None else expect".to_owned(),
        (false, true) => "seen.flat[0] if expect == ANSWER else expect".to_owned(),
        (false, false) => "expect".to_owned(),
    }
}

fn response_id(needs: &Needs) -> String {
    let (grpc, http) = ("result.get_response().id", "result.get_response().get('id')");
    match (needs.contains("grpc"), needs.contains("http")) {
        (true, true) => format!("({http} if isinstance(result.get_response(), dict) else {grpc})"),
        (false, _) => http.to_owned(),
        (true, false) => grpc.to_owned(),
    }
}
