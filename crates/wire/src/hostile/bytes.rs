//! The bytes of each kind of hostile request.

use rand::RngExt as _;
use serde_json::{Value, json};

use super::{Aim, Draw, Pieces};
use workload::{number::Datatype, sequence::WireId, tensor::elements};

/// The elements that no memory holds, as they were published.
const TOO_MANY: i64 = 1 << 40;
/// A number of chunks that is one above what newer servers take.
const CHUNKS: u32 = 65_537;
const CHUNKS_MAX: u32 = 200_000;

/// A request as it would be right, of which a kind changes a part.
struct Right<'a> {
    aim: &'a Aim,
    shape: Vec<i64>,
    data: Value,
    id: Value,
    parameters: Vec<(String, Value)>,
    outputs: Vec<Value>,
}

impl<'a> Right<'a> {
    fn new(aim: &'a Aim) -> Self {
        let one = if aim.datatype == Datatype::Bytes { json!("1") } else { json!(1) };
        let id = match &aim.id {
            WireId::Number(number) => json!(number),
            WireId::Text(text) => json!(text),
        };
        Self {
            aim,
            shape: aim.shape.clone(),
            data: Value::Array(vec![one; elements(&aim.shape)]),
            id,
            parameters: Vec::new(),
            outputs: vec![json!({ "name": aim.output })],
        }
    }

    fn body(&self) -> Vec<u8> {
        let mut parameters = json!({ "sequence_id": self.id, "sequence_start": true, "sequence_end": true });
        for (name, value) in &self.parameters {
            parameters[name] = value.clone();
        }
        let input = json!({ "name": self.aim.input, "datatype": self.aim.datatype.name(), "shape": self.shape, "data": self.data });
        json!({ "parameters": parameters, "inputs": [input], "outputs": self.outputs }).to_string().into_bytes()
    }

    fn request(&self) -> Pieces {
        with_body(self.aim, &self.body(), "")
    }
}

/// A request for an inference with a body and more headers, each with the end of its line.
fn with_body(aim: &Aim, body: &[u8], headers: &str) -> Pieces {
    let headers = format!("{headers}Content-Length: {}\r\n", body.len());
    vec![[head(aim, &headers).as_bytes(), body].concat()]
}

fn head(aim: &Aim, headers: &str) -> String {
    format!(
        "POST /v2/models/{}/infer HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n{headers}\r\n",
        aim.model, aim.address
    )
}

/// The last dimension of a shape, which gets one where it has none.
fn last(shape: &mut Vec<i64>) -> &mut i64 {
    if shape.is_empty() {
        shape.push(1);
    }
    let last = shape.len() - 1;
    &mut shape[last]
}

pub(super) fn json_shape(aim: &Aim, draw: &mut Draw) -> Pieces {
    let mut right = Right::new(aim);
    let claimed = if draw.is_known {
        TOO_MANY
    } else {
        let power = 1_i64 << draw.generator.random_range(31..63);
        power.wrapping_add(draw.generator.random_range(-2..=2))
    };
    *last(&mut right.shape) = claimed;
    if !draw.is_known && draw.generator.random() {
        // Their product may not fit 64 bits.
        right.shape.push(1 << draw.generator.random_range(0..40));
    }
    right.request()
}

pub(super) fn header_length(aim: &Aim, draw: &mut Draw) -> Pieces {
    let body = Right::new(aim).body();
    let generator = &mut draw.generator;
    let length = if draw.is_known {
        "9".repeat(20)
    } else {
        match generator.random_range(0..5) {
            0 => "9".repeat(generator.random_range(10..64)),
            1 => format!("-{}", "9".repeat(generator.random_range(1..40))),
            2 => (body.len() + generator.random_range(1..1 << 20)).to_string(),
            3 => format!("{}x", body.len()),
            _ => format!("{}{}", "0".repeat(generator.random_range(1..200)), body.len()),
        }
    };
    with_body(aim, &body, &format!("Inference-Header-Content-Length: {length}\r\n"))
}

pub(super) fn reserved_parameter(aim: &Aim, draw: &mut Draw) -> Pieces {
    const NAMES: [&str; 8] = [
        "triton_final_response",
        "triton_enable_empty_final_response",
        "triton_",
        "headers",
        "priority",
        "timeout",
        "binary_data_output",
        "sequence_end",
    ];
    let mut right = Right::new(aim);
    let generator = &mut draw.generator;
    let (name, value) = if draw.is_known {
        (NAMES[0], json!(true))
    } else {
        let value = match generator.random_range(0..6) {
            0 => json!(generator.random::<i64>()),
            1 => json!(generator.random::<f64>() * 1e300),
            2 => json!("x".repeat(generator.random_range(0..100_000))),
            3 => json!({ "a": [{}] }),
            4 => Value::Null,
            _ => json!(false),
        };
        (NAMES[generator.random_range(0..NAMES.len())], value)
    };
    // A sequence that does not end would keep a slot.
    right.parameters.push((name.to_owned(), if name == "sequence_end" { json!("true") } else { value }));
    right.request()
}

pub(super) fn many_chunks(aim: &Aim, draw: &mut Draw) -> Pieces {
    let chunks = if draw.is_known { CHUNKS } else { draw.generator.random_range(CHUNKS / 2..CHUNKS_MAX) };
    let body = Right::new(aim).body();
    // JSON may have any number of spaces behind it.
    let bytes = body.iter().copied().chain(std::iter::repeat(b' ')).take((chunks as usize).max(body.len()));
    let mut request = head(aim, "Transfer-Encoding: chunked\r\n").into_bytes();
    for byte in bytes {
        request.extend_from_slice(&[b'1', b'\r', b'\n', byte, b'\r', b'\n']);
    }
    request.extend_from_slice(b"0\r\n\r\n");
    vec![request]
}

pub(super) fn output_twice(aim: &Aim, draw: &mut Draw) -> Pieces {
    let mut right = Right::new(aim);
    let times = if draw.is_known { 2 } else { draw.generator.random_range(2..64) };
    let output = |draw: &mut Draw| {
        let mut output = json!({ "name": aim.output });
        if !draw.is_known && draw.generator.random() {
            output["parameters"] = json!({ "binary_data": draw.generator.random::<bool>() });
        }
        output
    };
    right.outputs = (0..times).map(|_| output(draw)).collect();
    right.request()
}

pub(super) fn path_in_pieces(aim: &Aim, draw: &mut Draw) -> Pieces {
    let mut request = Right::new(aim).request().concat();
    let path = "POST /v2/models/".len();
    let cuts = if draw.is_known {
        vec![path + aim.model.len() / 2]
    } else {
        let end = path + aim.model.len() + "/infer".len();
        let mut cuts: Vec<_> =
            (0..draw.generator.random_range(1..4)).map(|_| draw.generator.random_range(1..end)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    };
    let mut pieces = Vec::new();
    for cut in cuts.into_iter().rev() {
        pieces.push(request.split_off(cut));
    }
    pieces.push(request);
    pieces.reverse();
    pieces
}

pub(super) fn no_elements(aim: &Aim, draw: &mut Draw) -> Pieces {
    let mut right = Right::new(aim);
    right.data = json!([]);
    if draw.is_known {
        *last(&mut right.shape) = 0;
    } else {
        let dimensions = draw.generator.random_range(0..5);
        right.shape = (0..dimensions).map(|_| draw.generator.random_range(0..3)).collect();
        if draw.generator.random() {
            right.data = json!([[], []]);
        }
    }
    right.request()
}

pub(super) fn id_of_other_type(aim: &Aim, draw: &mut Draw) -> Pieces {
    let mut right = Right::new(aim);
    let generator = &mut draw.generator;
    let is_text = matches!(aim.id, WireId::Text(_));
    right.id = match (draw.is_known, is_text) {
        (true, false) => json!("x".repeat(22)),
        (true, true) => json!(u64::MAX >> 1),
        (false, _) => match generator.random_range(0..6) {
            0 | 1 if !is_text => json!("x".repeat(generator.random_range(1..128))),
            0 | 1 => json!(generator.random::<u64>() >> 1),
            2 => json!(-generator.random_range(1..i64::MAX)),
            3 => json!(generator.random::<f64>()),
            4 => json!([]),
            _ => Value::Null,
        },
    };
    right.request()
}

pub(super) fn other_size(aim: &Aim, draw: &mut Draw) -> Pieces {
    let right = Right::new(aim);
    let mut body: Value = serde_json::from_slice(&right.body()).unwrap_or_default();
    let size = aim.datatype.bytes() * elements(&aim.shape).max(1);
    let bytes = if draw.is_known { size - 1 } else { draw.generator.random_range(0..4 * size) };
    let mut input = json!({ "name": aim.input, "datatype": aim.datatype.name(), "shape": right.shape });
    input["parameters"] = json!({ "binary_data_size": bytes });
    body["inputs"] = json!([input]);
    let json = body.to_string().into_bytes();
    let header = format!("Inference-Header-Content-Length: {}\r\n", json.len());
    with_body(aim, &[json, vec![0; bytes]].concat(), &header)
}
