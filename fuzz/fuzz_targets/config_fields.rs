//! Configurations that are nearly right: numbers and choices are any.

#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use reference::fuzzing;
use serde_json::{Value, json};

const CONTROLS: [&str; 4] =
    ["CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_CORRID"];
const TYPES: [&str; 8] =
    ["TYPE_INT32", "TYPE_UINT64", "TYPE_STRING", "TYPE_INT64", "TYPE_UINT32", "TYPE_FP32", "TYPE_BOOL", "TYPE_INVALID"];

#[derive(Debug)]
struct Config(String);

fn mostly<T: Clone>(u: &mut Unstructured, of: &[T]) -> Result<T> {
    if u.ratio(3, 4)? { Ok(of[0].clone()) } else { Ok(u.choose(of)?.clone()) }
}

fn int32(u: &mut Unstructured) -> Result<Value> {
    Ok(match u.int_in_range(0..=5)? {
        0..3 => json!(u.int_in_range(0..=8)?),
        3 => json!(u.int_in_range(-2..=70_000)?),
        4 => json!(1_i64 << u.int_in_range(0..=32)?),
        _ => json!(u.arbitrary::<i32>()?),
    })
}

fn uint64(u: &mut Unstructured) -> Result<Value> {
    let number: u64 = match u.int_in_range(0..=3)? {
        0 => u.int_in_range(0..=9)?,
        1 => u.int_in_range(0..=10_000_000)?,
        2 => u64::MAX >> u.int_in_range(0..=63)?,
        _ => u.arbitrary()?,
    };
    Ok(if u.arbitrary()? { json!(number) } else { json!(number.to_string()) })
}

fn dims(u: &mut Unstructured) -> Result<Value> {
    let one = |u: &mut Unstructured| {
        Ok(match u.int_in_range(0..=4)? {
            0 | 1 => -1,
            2 => u.int_in_range(0..=9)?,
            3 => 1 << u.int_in_range(0..=63)?,
            _ => u.arbitrary::<i64>()?,
        })
    };
    Ok(json!((0..mostly(u, &[1, 0, 2, 4])?).map(|_| one(u)).collect::<Result<Vec<_>>>()?))
}

fn number(u: &mut Unstructured) -> Result<Value> {
    Ok(if u.ratio(1, 4)? { json!(*u.choose(&["NaN", "Infinity", "-Infinity"])?) } else { json!(u.arbitrary::<f32>()?) })
}

fn control(u: &mut Unstructured) -> Result<Value> {
    let kind = *u.choose(&CONTROLS)?;
    Ok(match u.int_in_range(0..=4)? {
        0 | 1 => json!({"kind": kind, "int32_false_true": [0, 1]}),
        2 => json!({"kind": kind, "bool_false_true": [u.arbitrary::<bool>()?, true]}),
        3 => json!({"kind": kind, "fp32_false_true": [0.5, u.arbitrary::<i8>()?]}),
        _ => json!({"kind": kind, "data_type": *u.choose(&TYPES)?}),
    })
}

fn some<T>(u: &mut Unstructured, most: usize, each: impl Fn(&mut Unstructured) -> Result<T>) -> Result<Vec<T>> {
    (0..u.int_in_range(0..=most)?).map(|_| each(u)).collect()
}

fn batching(u: &mut Unstructured) -> Result<Value> {
    let mut batching = json!({});
    if u.arbitrary()? {
        batching["max_sequence_idle_microseconds"] = uint64(u)?;
    }
    match u.int_in_range(0..=2)? {
        0 => {}
        1 => {
            batching["direct"] =
                json!({"max_queue_delay_microseconds": uint64(u)?, "minimum_slot_utilization": number(u)?});
        }
        _ => {
            batching["oldest"] = json!({
                "max_candidate_sequences": int32(u)?,
                "max_queue_delay_microseconds": uint64(u)?,
                "preferred_batch_size": some(u, 2, int32)?,
            });
        }
    }
    batching["control_input"] = json!(some(u, 4, |u| {
        Ok(json!({"name": *u.choose(&["START", "READY", "END", "CORRID", "INPUT"])?, "control": some(u, 2, control)?}))
    })?);
    batching["state"] = json!(some(u, 1, |u| {
        let initial =
            some(u, 1, |_| Ok(json!({"name": "zero", "data_type": "TYPE_INT32", "dims": [1], "zero_data": true})))?;
        Ok(json!({
            "input_name": mostly(u, &["INPUT_STATE", "INPUT"])?,
            "output_name": mostly(u, &["OUTPUT_STATE", "OUTPUT"])?,
            "data_type": mostly(u, &TYPES)?,
            "dims": dims(u)?,
            "initial_state": initial,
        }))
    })?);
    Ok(batching)
}

impl<'a> Arbitrary<'a> for Config {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let delay = mostly(u, &["0", "3", "nan", "inf", "-1", "1e300", "1e-300", "x"])?;
        let mut config = json!({
            "max_batch_size": int32(u)?,
            "input": [{"name": "INPUT", "data_type": mostly(u, &TYPES)?, "dims": dims(u)?}],
            "output": [{"name": "OUTPUT", "data_type": "TYPE_INT32", "dims": [-1]}],
            "instance_group": some(u, 3, |u| Ok(json!({"count": int32(u)?})))?,
            "sequence_batching": batching(u)?,
            "parameters": {"execute_delay_ms": {"string_value": delay}},
        });
        if u.ratio(1, 8)? {
            config["input"][0]["allow_ragged_batch"] = json!(true);
        }
        Ok(Self(config.to_string()))
    }
}

fuzz_target!(|config: Config| {
    let _ = fuzzing::config(&config.0);
});
