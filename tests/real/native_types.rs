//! The models of every data type and family, over HTTP: in the real tritonserver, and in the reference server, which serves the
//! same repository.

use std::{net::SocketAddr, process::Command};

use serde_json::{Value, json};

use crate::support::{
    http,
    long::is_long,
    side_by_side,
    tool::Serve,
    triton::{Own, Triton},
};

/// Models of the Python backend at a time.
const AT_A_TIME: usize = 4;

const HEADER_LENGTH: &str = "inference-header-content-length";
/// Its low 32 bits are not the whole of it.
const ID: u64 = (3 << 32) + 7;

/// A data type, with its arithmetic on whole numbers.
struct Dtype {
    name: &'static str,
    protocol: &'static str,
    /// The greatest number that it has or, of floats, from which on not every whole number is one of its own.
    most: i128,
    /// The number of the type that is nearest to this sum or, of integers, the one that it wraps to.
    fits: fn(i128) -> i128,
    /// What is added of the ID at END.
    of_id: i128,
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "that is the test"
)]
const DTYPES: [Dtype; 13] = {
    const INT32: fn(i128) -> i128 = |sum| i128::from(sum as i32);
    const I32: i128 = i32::MAX as i128;
    const OF_ID: i128 = ID as i128;
    const fn dtype(
        name: &'static str,
        protocol: &'static str,
        most: i128,
        fits: fn(i128) -> i128,
        of_id: i128,
    ) -> Dtype {
        Dtype { name, protocol, most, fits, of_id }
    }
    [
        dtype("int8", "INT8", i8::MAX as i128, |sum| i128::from(sum as i8), 7),
        dtype("int16", "INT16", i16::MAX as i128, |sum| i128::from(sum as i16), 7),
        dtype("uint8", "UINT8", u8::MAX as i128, |sum| i128::from(sum as u8), 7),
        dtype("uint16", "UINT16", u16::MAX as i128, |sum| i128::from(sum as u16), 7),
        dtype("int32", "INT32", I32, INT32, 7),
        dtype("bool", "INT32", I32, INT32, 7),
        dtype("object", "BYTES", I32, INT32, 7),
        dtype("uint32", "UINT32", u32::MAX as i128, |sum| i128::from(sum as u32), 7),
        dtype("int64", "INT64", i64::MAX as i128, |sum| i128::from(sum as i64), OF_ID),
        dtype("uint64", "UINT64", u64::MAX as i128, |sum| i128::from(sum as u64), OF_ID),
        dtype("float16", "FP16", 1 << 11, half::nearest, 7),
        dtype("float32", "FP32", 1 << 24, |sum| sum as f32 as i128, 7),
        dtype("float64", "FP64", 1 << 53, |sum| sum as f64 as i128, 7),
    ]
};

/// Whole numbers of FP16.
mod half {
    /// The one that is nearest, of two the one that is even in its last bit.
    pub(super) fn nearest(number: i128) -> i128 {
        let size = number.abs();
        let dropped = size.checked_ilog2().map_or(0, |power| power.saturating_sub(10));
        let (kept, rest) = (size >> dropped, size & ((1 << dropped) - 1));
        let is_up = rest * 2 > 1 << dropped || rest * 2 == 1 << dropped && kept % 2 == 1;
        number.signum() * ((kept + i128::from(is_up)) << dropped)
    }

    pub(super) fn bytes(number: i128) -> [u8; 2] {
        let sign = u16::from(number < 0) << 15;
        let size = number.unsigned_abs();
        let Some(power) = size.checked_ilog2() else { return [0; 2] };
        let fraction = (size << 10 >> power) & 0x3ff;
        (sign | u16::try_from(u128::from(power + 15) << 10 | fraction).expect("it is small")).to_le_bytes()
    }

    pub(super) fn number(bytes: [u8; 2]) -> i128 {
        let bits = u16::from_le_bytes(bytes);
        let power = bits >> 10 & 31;
        let size = if power == 0 { 0 } else { (i128::from(bits & 0x3ff) + 1024) << power >> 25 };
        if bits >> 15 == 0 { size } else { -size }
    }
}

/// What sets a family of models apart.
#[derive(Clone, Copy)]
struct Family {
    name: &'static str,
    initial: i128,
    is_stateless: bool,
    adds_id: bool,
    /// The greatest number of sequences at once, so that none has to wait: one where requests have no batch dimension.
    at_once: u64,
    /// An input may have several elements.
    is_long: bool,
}

const PLAIN: Family =
    Family { name: "custom", initial: 0, is_stateless: false, adds_id: false, at_once: 4, is_long: true };
const NOBATCH: Family = Family { at_once: 1, ..PLAIN };
const IMPLICIT: Family = Family { name: "implicit", is_long: false, ..PLAIN };
const STATELESS: Family = Family { name: "stateless", is_stateless: true, is_long: false, ..PLAIN };
const FAMILIES: [Family; 22] = [
    PLAIN,
    Family { name: "oldest", ..PLAIN },
    Family { name: "custom_dyna", adds_id: true, ..PLAIN },
    Family { name: "custom_nobatch", ..NOBATCH },
    Family { name: "custom_nobatch_dyna", adds_id: true, ..NOBATCH },
    Family { name: "custom_initial", initial: 1000, ..PLAIN },
    Family { name: "ragged", ..PLAIN },
    Family { name: "echo", ..PLAIN },
    Family { name: "echo_dyna", ..PLAIN },
    IMPLICIT,
    Family { name: "implicit_nobatch", is_long: false, ..NOBATCH },
    Family { name: "implicit_initial", ..IMPLICIT },
    Family { name: "implicit_initial_file", initial: 1000, ..IMPLICIT },
    Family { name: "implicit_single_buffer", ..IMPLICIT },
    Family { name: "implicit_dyna", ..IMPLICIT },
    Family { name: "twin_state", ..IMPLICIT },
    Family { name: "triple_state", ..IMPLICIT },
    Family { name: "triple_state_initial", ..IMPLICIT },
    Family { name: "triple_state_initial_file", initial: 1000, ..IMPLICIT },
    Family { name: "triple_state_dyna", ..IMPLICIT },
    STATELESS,
    Family { name: "stateless_dyna", adds_id: true, ..STATELESS },
];

/// A model and the server that it is on.
struct Model<'a> {
    server: SocketAddr,
    name: String,
    family: Family,
    dtype: &'a Dtype,
}

impl<'a> Model<'a> {
    /// The model that has the name of its family and its data type.
    fn of(server: SocketAddr, family: Family, dtype: &'a Dtype) -> Self {
        Self { server, name: format!("{}_sequence_{}", family.name, dtype.name), family, dtype }
    }

    /// Sends a step whose input are these elements, as JSON; the status and the answer.
    fn ask(&self, id: u64, elements: &[Value], start: bool, end: bool) -> (u16, Value) {
        let body = json!({
            "parameters": { "sequence_id": id, "sequence_start": start, "sequence_end": end },
            "inputs": [{ "name": "INPUT", "datatype": self.dtype.protocol, "shape": self.shape(elements.len()), "data": elements }],
            "outputs": [{ "name": "OUTPUT" }],
        });
        let answer = http::ask(self.server, "POST", &self.path(), &[], body.to_string().as_bytes());
        (answer.status, answer.json())
    }

    fn path(&self) -> String {
        format!("/v2/models/{}/infer", self.name)
    }

    fn shape(&self, elements: usize) -> Vec<usize> {
        if self.family.at_once > 1 { vec![1, elements] } else { vec![elements] }
    }

    /// Sends a step of FP16, which is in no JSON; the elements of its answer.
    fn step_of_halves(&self, id: u64, numbers: &[i128], start: bool, end: bool) -> Vec<i128> {
        let bytes: Vec<_> = numbers.iter().flat_map(|number| half::bytes(*number)).collect();
        let header = json!({
            "parameters": { "sequence_id": id, "sequence_start": start, "sequence_end": end },
            "inputs": [{
                "name": "INPUT",
                "datatype": "FP16",
                "shape": self.shape(numbers.len()),
                "parameters": { "binary_data_size": bytes.len() },
            }],
            "outputs": [{ "name": "OUTPUT", "parameters": { "binary_data": true } }],
        });
        let header = header.to_string();
        let length = [(HEADER_LENGTH, header.len().to_string())];
        let length = length.each_ref().map(|(name, value)| (*name, value.as_str()));
        let answer = http::ask(self.server, "POST", &self.path(), &length, &[header.as_bytes(), &bytes].concat());
        assert_eq!(answer.status, 200, "{}: {}", self.name, String::from_utf8_lossy(&answer.body));
        let json: usize = answer.headers[HEADER_LENGTH].parse().expect("a number");
        let (json, bytes) = answer.body.split_at(json);
        let output = &serde_json::from_slice::<Value>(json).expect("JSON")["outputs"][0];
        assert_eq!((&output["datatype"], bytes.len()), (&json!("FP16"), 2 * numbers.len()), "{}", self.name);
        bytes.chunks_exact(2).map(|bytes| half::number([bytes[0], bytes[1]])).collect()
    }

    /// A number as JSON.
    fn element(&self, number: i128) -> Value {
        if self.dtype.protocol == "BYTES" {
            return json!(number.to_string());
        }
        // There is no JSON of i128.
        number.to_string().parse().expect("a number is JSON")
    }

    /// Sends a step; the elements of its answer.
    fn step(&self, id: u64, numbers: &[i128], start: bool, end: bool) -> Vec<i128> {
        if self.dtype.protocol == "FP16" {
            return self.step_of_halves(id, numbers, start, end);
        }
        let elements: Vec<_> = numbers.iter().map(|number| self.element(*number)).collect();
        let (status, answer) = self.ask(id, &elements, start, end);
        assert_eq!(status, 200, "{}: {answer}", self.name);
        let output = &answer["outputs"][0];
        assert_eq!(output["datatype"], self.dtype.protocol, "{}", self.name);
        output["data"].as_array().expect("an array").iter().map(number).collect()
    }

    /// Sends the steps of some sequences in turns, so that with Direct there are idle slots before those that have work, and
    /// compares each answer with what it has to be.
    fn converse(&self) {
        let family = self.family;
        let (most, fits) = (self.dtype.most, self.dtype.fits);
        let ids: Vec<_> = (0..family.at_once).map(|index| ID + (index << 33)).collect();
        // Where the type has few numbers it is 100 in place of 1000.
        let initial = if most < 4 * family.initial { family.initial / 10 } else { family.initial };
        let mut sums = vec![initial; ids.len()];
        let steps = [[5, 0], [most, 0], [7, 2]];
        for (turn, pair) in steps.iter().enumerate() {
            let (start, end) = (turn == 0, turn == steps.len() - 1);
            let numbers = if family.is_long { &pair[..] } else { &pair[..1] };
            // At the START the first sequence takes the first slot; later the last one comes first.
            let order: Vec<_> = if start { (0..ids.len()).collect() } else { (0..ids.len()).rev().collect() };
            for which in order {
                let value: i128 = numbers.iter().sum();
                let before = if family.is_stateless { i128::from(start) } else { sums[which] };
                sums[which] = fits(before + value);
                let of_id = if family.adds_id && end { self.of_id(ids[which]) } else { 0 };
                let expected = vec![fits(sums[which] + of_id); numbers.len()];
                let told = self.step(ids[which], numbers, start, end);
                assert_eq!(told, expected, "{}: sequence {which}, step {turn}", self.name);
            }
        }
    }

    fn of_id(&self, id: u64) -> i128 {
        if self.dtype.of_id == i128::from(ID) { i128::from(id) } else { self.dtype.of_id }
    }
}

/// An element of an answer.
fn number(element: &Value) -> i128 {
    let text = element.as_str().map_or_else(|| element.to_string(), str::to_owned);
    text.trim_end_matches(".0").parse().unwrap_or_else(|_| panic!("{element} is no whole number"))
}

fn all_answer_with_the_right_sums(server: SocketAddr) {
    for dtype in &DTYPES {
        for family in FAMILIES {
            // The server sets texts of a file to zeros.
            if dtype.name != "object" || !family.name.ends_with("initial_file") {
                Model::of(server, family, dtype).converse();
            }
        }
    }
}

fn a_text_is_an_error_of_its_request_alone(server: SocketAddr) {
    let dtype = DTYPES.iter().find(|dtype| dtype.name == "object").expect("there is such a type");
    for family in FAMILIES.into_iter().filter(|family| ["custom", "oldest", "implicit"].contains(&family.name)) {
        let model = Model::of(server, family, dtype);
        assert_eq!((model.step(1, &[5], true, false), model.step(2, &[100], true, false)), (vec![5], vec![100]));
        for text in ["one", "", "1.5", "2147483648"] {
            let (status, answer) = model.ask(1, &[json!(text)], false, false);
            let expected = format!("tensor 'INPUT': '{text}' is no INT32 in decimal");
            assert_eq!((status, answer["error"].as_str()), (400, Some(&expected[..])), "{}", model.name);
        }
        assert_eq!((model.step(1, &[-7], false, true), model.step(2, &[1], false, true)), (vec![-2], vec![101]));
    }
}

const OPTIONS: [&str; 6] = ["--dtype", "all", "--execute-delay-ms", "0", "--idle-limit-ms", "60000"];

#[test]
fn the_reference_server_serves_the_repository_of_the_real_one_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let mut write = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/with-triton"));
    write.env("SEQUENCE_STRESS_TOOL", env!("CARGO_BIN_EXE_sequence-stress"));
    let written = write.args(OPTIONS).args(["--write-models", path]).output().expect("it runs");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let serve = Serve::start(&["--model-repository", path]);
    let server = serve.http.parse().expect("an address");
    all_answer_with_the_right_sums(server);
    a_text_is_an_error_of_its_request_alone(server);
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_models_of_every_data_type_and_family_answer_with_the_right_sums() {
    let triton = Triton::start(&OPTIONS);
    let server = triton.http.parse().expect("an address");
    all_answer_with_the_right_sums(server);
    a_text_is_an_error_of_its_request_alone(server);
    triton.stop();
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_models_of_the_python_backend_answer_with_the_right_sums() {
    let names = ["object", "uint64", "float32", "int8", "uint16", "float16"];
    let dtypes = names.map(|name| DTYPES.iter().find(|dtype| dtype.name == name).expect("there is such a type"));
    // What the server keeps and what only the native models tell is not there.
    let is_there =
        |family: &&Family| !["implicit", "echo", "twin", "triple"].iter().any(|its| family.name.starts_with(its));
    let families = FAMILIES.iter().filter(is_there);
    let families: Vec<_> = families.enumerate().collect();
    let rows = families.iter().flat_map(|family| dtypes.iter().enumerate().map(move |dtype| (*family, dtype)));
    // Each model is a process, so that the gate has every family once and every type once.
    let is_of_gate = |((place, _), (index, _)): &((usize, &Family), (usize, &&Dtype))| place % names.len() == *index;
    let rows: Vec<_> = rows.filter(|row| is_long() || is_of_gate(row)).collect();
    let triton = Triton::python();
    let server = triton.http.parse().expect("an address");
    side_by_side(AT_A_TIME, &rows, |((_, family), (_, dtype))| {
        let like = format!("{}_sequence_{}", family.name, dtype.name);
        // No sequence goes idle, however slow the machine is.
        let name = triton.load(&Own { execute_ms: 0, idle_ms: 60_000, ..Own::like(&like) });
        Model { server, name, family: **family, dtype }.converse();
    });
}
