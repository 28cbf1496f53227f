//! ONNX files run by rten, step by step over whole sequences, against a plain model of the formulas.
//!
//! rten has INT32, which INT64 and BOOL are for it as well, INT8, UINT8 and FP32. The other types are for `scripts/verify-models`.

use formats::{
    element::ElementType::{self, Bool, Fp32, Int8, Int32, Int64, Uint8},
    format::Format,
    formulas::{Formula, Options, graph},
};
use rten::{NodeId, Value, ValueOrView};
use rten_tensor::AsView as _;

/// What a slot without a sequence gives, and the server at a START without an initial state.
const GARBAGE: i64 = 77;
const INITIAL: i64 = 100;

/// One execution's row.
#[derive(Clone, Debug)]
struct Row {
    input: Vec<i64>,
    start: bool,
    end: bool,
    ready: bool,
    corrid: i64,
}

/// Executions of a few rows each, with idle slots, long sequences and values that make sums of 8 bits wrap. Those of 32 bits do not,
/// because rten, built for tests, stops there.
fn executions(element: ElementType, rows: usize, width: usize) -> Vec<Vec<Row>> {
    let large = if matches!(element, Int8 | Uint8) { 100 } else { 1 << 20 };
    let row = |step: usize, slot: usize| {
        let at = i64::try_from(step * 7 + slot * 3).expect("it is small");
        let input = 0..i64::try_from(width).expect("it is small");
        Row {
            input: input.map(|element| (at + element) % 5 + if step % 4 == 1 { large } else { 0 }).collect(),
            start: (step + slot).is_multiple_of(6),
            end: (step + slot) % 6 == 5,
            ready: (step * 3 + slot * 5) % 7 != 2,
            corrid: i64::try_from(slot + 40).expect("it is small"),
        }
    };
    (0..30).map(|step| (0..rows.min(1 + step % rows)).map(|slot| row(step, slot)).collect()).collect()
}

/// The formulas once more, in plain words: what a row is answered with, and the state that it leaves.
fn expected(formula: Formula, wrap: impl Fn(i64) -> i64, row: &Row, state: i64) -> (i64, i64) {
    let sum = row.input.iter().fold(0, |sum, element| wrap(sum + element));
    let after = match formula {
        Formula::Implicit if row.ready && !row.start => wrap(sum + state),
        Formula::Implicit => sum,
        Formula::ImplicitWithInitialState => wrap(sum + state),
        Formula::Stateless if row.ready => wrap(sum + i64::from(row.start)),
        Formula::Stateless => 0,
        Formula::Stateful { .. } => unreachable!("ONNX keeps no state"),
    };
    (if row.end { wrap(after + row.corrid) } else { after }, after)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "that is what wrapping is")]
fn wrapped(element: ElementType) -> fn(i64) -> i64 {
    match element {
        Int8 => |number| (number as i8).into(),
        Uint8 => |number| (number as u8).into(),
        Int32 => |number| (number as i32).into(),
        _ => |number| number,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers are of the type")]
#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
fn tensor(element: ElementType, shape: &[usize], numbers: &[i64]) -> ValueOrView<'static> {
    let each = || numbers.iter().copied();
    let value = match element {
        Fp32 => Value::from_shape(shape, each().map(|number| number as f32).collect::<Vec<_>>()).ok(),
        Int8 => Value::from_shape(shape, each().map(|number| number as i8).collect::<Vec<_>>()).ok(),
        Uint8 => Value::from_shape(shape, each().map(|number| number as u8).collect::<Vec<_>>()).ok(),
        _ => Value::from_shape(shape, each().map(|number| number as i32).collect::<Vec<_>>()).ok(),
    };
    value.expect("the numbers fill the shape").into()
}

#[expect(clippy::cast_possible_truncation, reason = "the numbers are small and whole")]
fn numbers(value: &Value) -> Vec<i64> {
    match value {
        Value::FloatTensor(tensor) => tensor.iter().map(|number| *number as i64).collect(),
        Value::Int32Tensor(tensor) => tensor.iter().map(|number| (*number).into()).collect(),
        Value::Int8Tensor(tensor) => tensor.iter().map(|number| (*number).into()).collect(),
        Value::UInt8Tensor(tensor) => tensor.iter().map(|number| (*number).into()).collect(),
        other => panic!("{other:?} is no tensor"),
    }
}

/// Runs a model of one formula as a server with implicit state does, and says what differs first from another, or the same.
fn run(model_of: Formula, formula: Formula, options: &Options, width: usize) -> Result<(), String> {
    let files = Format::Onnx.files(&graph(model_of, options).expect("it has a graph")).expect("ONNX has it");
    let model = rten::Model::load(files[0].bytes.clone()).map_err(|error| format!("load: {error}"))?;
    let node = |name: &str| model.node_id(name).expect("the graph has this name");
    let has_state = formula != Formula::Stateless;
    let outputs: Vec<NodeId> =
        ["OUTPUT", "OUTPUT_STATE"].into_iter().take(1 + usize::from(has_state)).map(node).collect();
    let most = options.batch.map_or(1, |batch| usize::try_from(batch).expect("it is small"));
    let mut states = vec![GARBAGE; most];
    for (step, rows) in executions(options.element, most, width).into_iter().enumerate() {
        let shape = |width: usize| if options.batch.is_some() { vec![rows.len(), width] } else { vec![width] };
        for (state, row) in states.iter_mut().zip(&rows).filter(|(_, row)| row.start) {
            *state = if formula == Formula::ImplicitWithInitialState && row.ready { INITIAL } else { GARBAGE };
        }
        let flags = |of: fn(&Row) -> bool| {
            let flags: Vec<_> = rows.iter().map(|row| of(row).into()).collect();
            tensor(options.control, &shape(1), &flags)
        };
        let elements: Vec<_> = rows.iter().flat_map(|row| row.input.clone()).collect();
        let mut inputs = vec![
            (node("INPUT"), tensor(options.element, &shape(width), &elements)),
            (node("START"), flags(|row| row.start)),
            (node("READY"), flags(|row| row.ready)),
        ];
        if has_state {
            inputs.push((node("INPUT_STATE"), tensor(options.element, &shape(1), &states[..rows.len()])));
        }
        if let Some(corrid) = options.corrid {
            let ids: Vec<_> = rows.iter().map(|row| row.corrid).collect();
            inputs.extend([(node("END"), flags(|row| row.end)), (node("CORRID"), tensor(corrid, &shape(1), &ids))]);
        }
        let answers = model.run(inputs, &outputs, None).map_err(|error| format!("step {step}: {error}"))?;
        for (slot, row) in rows.iter().enumerate() {
            let row = Row { end: row.end && options.corrid.is_some() && options.adds_corrid, ..row.clone() };
            let (output, state) = expected(formula, wrapped(options.element), &row, states[slot]);
            let got = numbers(&answers[0])[slot * width..(slot + 1) * width].to_vec();
            if got != vec![output; width] {
                return Err(format!("step {step}, slot {slot}: {got:?} and not {output}; {row:?}"));
            }
            if has_state {
                let got = numbers(&answers[1])[slot];
                if got != state {
                    return Err(format!("step {step}, slot {slot}: the state is {got} and not {state}; {row:?}"));
                }
                states[slot] = if row.ready { state } else { states[slot] };
            }
        }
    }
    Ok(())
}

/// Every formula in every form of the type.
fn run_all(element: ElementType) {
    let mut differing = Vec::new();
    for formula in [Formula::Implicit, Formula::ImplicitWithInitialState, Formula::Stateless] {
        for batch in [Some(4), None] {
            for (fixed, width) in [(Some(1), 1), (Some(3), 3), (None, 1), (None, 4)] {
                for (control, corrid, adds_corrid) in [
                    (Int32, None, true),
                    (Fp32, None, true),
                    (Bool, None, true),
                    (Int32, Some(Int32), true),
                    (Bool, Some(Int64), true),
                    (Int32, Some(Int64), false),
                ] {
                    let options =
                        Options { element, batch, width: fixed, control, corrid, adds_corrid, ..Options::default() };
                    if let Err(difference) = run(formula, formula, &options, width) {
                        differing.push(format!("{formula:?} {options:?}: {difference}"));
                    }
                }
            }
        }
    }
    assert!(differing.is_empty(), "{} models of {element} are wrong, the first: {}", differing.len(), differing[0]);
}

#[test]
fn int32_is_right_in_every_form() {
    run_all(Int32);
}

#[test]
fn int64_is_right_in_every_form() {
    run_all(Int64);
}

#[test]
fn fp32_is_right_in_every_form() {
    run_all(Fp32);
}

#[test]
fn int8_and_uint8_are_right_in_every_form() {
    run_all(Int8);
    run_all(Uint8);
}

#[test]
fn another_formula_is_seen() {
    let wrong = run(Formula::ImplicitWithInitialState, Formula::Implicit, &Options::default(), 1);
    let said = wrong.expect_err("it adds what a START has to forget");
    assert!(said.starts_with("step 0, slot 0: [77] and not 0"), "{said}");
}
