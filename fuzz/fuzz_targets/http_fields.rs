//! Bodies of requests over HTTP that are nearly right: a field or two is not as the server wants it.

#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use reference::fuzzing;
use serde_json::{Map, Value, json};

const PARAMETERS: [&str; 9] = [
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "timeout",
    "priority",
    "binary_data_output",
    "triton_enable_empty_final_response",
    "binary_data_size",
    "shared_memory_region",
];
const DATATYPES: [&str; 16] = [
    "INT32", "BOOL", "INT8", "INT16", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "BF16", "FP32", "FP64",
    "BYTES", "NONE", "",
];

#[derive(Debug)]
struct Body {
    json: String,
    behind: Vec<u8>,
    is_told: bool,
}

/// Mostly the first of these.
fn mostly<T: Clone>(u: &mut Unstructured, of: &[T]) -> Result<T> {
    if u.ratio(7, 8)? { Ok(of[0].clone()) } else { Ok(u.choose(of)?.clone()) }
}

fn any(u: &mut Unstructured, depth: usize) -> Result<Value> {
    Ok(match u.int_in_range(0..=8)? {
        0 => json!(null),
        1 => json!(u.arbitrary::<bool>()?),
        2 => json!(u.arbitrary::<u64>()?),
        3 => json!(u.arbitrary::<i64>()?),
        4 => json!(u.arbitrary::<f64>()?),
        5 => json!(u.arbitrary::<&str>()?),
        6 if depth > 0 => json!((0..u.int_in_range(0..=3)?).map(|_| any(u, depth - 1)).collect::<Result<Vec<_>>>()?),
        7 if depth > 0 => json!({"a": any(u, depth - 1)?}),
        _ => json!(u.int_in_range(-3..=9)?),
    })
}

/// Mostly this, sometimes any.
fn or_any(u: &mut Unstructured, value: Value) -> Result<Value> {
    if u.ratio(7, 8)? { Ok(value) } else { any(u, 2) }
}

fn parameters(u: &mut Unstructured) -> Result<Value> {
    let mut parameters = Map::new();
    for _ in 0..u.int_in_range(0..=3)? {
        parameters.insert((*u.choose(&PARAMETERS)?).to_owned(), any(u, 1)?);
    }
    or_any(u, parameters.into())
}

fn input(u: &mut Unstructured, behind: &mut Vec<u8>) -> Result<Value> {
    let mut shape = Vec::new();
    for _ in 0..u.int_in_range(0..=3)? {
        shape.push(if u.ratio(3, 4)? { json!(u.int_in_range(0..=3)?) } else { any(u, 0)? });
    }
    let mut input = json!({
        "name": or_any(u, json!("INPUT"))?, "datatype": mostly(u, &DATATYPES)?, "shape": or_any(u, shape.into())?
    });
    if u.ratio(1, 2)? {
        let data = (0..u.int_in_range(0..=4)?).map(|_| any(u, 2)).collect::<Result<Vec<_>>>()?;
        input["data"] = or_any(u, data.into())?;
    } else {
        let length = mostly(u, &[4_usize, 0, 3, 12])?;
        behind.extend(vec![1; length]);
        input["parameters"] = json!({"binary_data_size": or_any(u, json!(length))?});
    }
    Ok(input)
}

impl<'a> Arbitrary<'a> for Body {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut behind = Vec::new();
        let inputs = (0..mostly(u, &[1, 0, 2])?).map(|_| input(u, &mut behind)).collect::<Result<Vec<_>>>()?;
        let mut body = json!({"parameters": parameters(u)?, "inputs": or_any(u, inputs.into())?});
        if u.ratio(1, 4)? {
            body["id"] = or_any(u, json!("1-2"))?;
        }
        if u.ratio(1, 4)? {
            let parameters = parameters(u)?;
            body["outputs"] = or_any(u, json!([{"name": "OUTPUT", "parameters": parameters}]))?;
        }
        Ok(Self { json: body.to_string(), behind, is_told: u.ratio(7, 8)? })
    }
}

fuzz_target!(|body: Body| {
    let length = body.is_told.then(|| body.json.len().to_string());
    let _ = fuzzing::http_body(length.as_deref(), &[body.json.as_bytes(), &body.behind].concat());
});
