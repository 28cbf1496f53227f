//! Inferences in bodies of HTTP: JSON, with tensors' bytes behind it.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::inference::{IN_SHARED_MEMORY, Id, Inference, NOT_READABLE, Reason, UNKNOWN_TYPE, WRONG_DATA, input};
use workload::inputs::{Element, ElementType, recording::Input};

/// The JSON, as far as it is looked at.
#[derive(Deserialize)]
struct Body<'j> {
    #[serde(default)]
    parameters: Parameters,
    #[serde(borrow, default)]
    inputs: Vec<Tensor<'j>>,
}

/// Of any type, because the server judges them and not the recorder.
#[derive(Default, Deserialize)]
struct Parameters {
    #[serde(default, rename = "sequence_id")]
    id: Value,
    #[serde(default, rename = "sequence_start")]
    start: Value,
    #[serde(default, rename = "sequence_end")]
    end: Value,
}

#[derive(Deserialize)]
struct Tensor<'j> {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    #[serde(borrow, default)]
    data: Option<&'j RawValue>,
    #[serde(default)]
    parameters: OfTensor,
}

#[derive(Default, Deserialize)]
struct OfTensor {
    binary_data_size: Option<usize>,
    shared_memory_region: Option<IgnoredAny>,
}

/// Reads a body of an inference with this model, which begins with so many bytes of JSON, or is JSON alone.
///
/// # Errors
/// When it cannot be read, so that not even its sequence is known. A server may read it all the same: some take `NaN`, which is no JSON.
pub(super) fn read(model: String, body: &[u8], json: Option<usize>) -> Result<Inference, Reason> {
    let (json, raw) = body.split_at_checked(json.unwrap_or(body.len())).ok_or(NOT_READABLE)?;
    if json.is_empty() {
        // Bytes alone are of no sequence.
        return Ok(Inference { model, id: None, start: false, end: false, inputs: Ok(Vec::new()) });
    }
    let Body { parameters, inputs: tensors } = serde_json::from_slice(json).map_err(|_| NOT_READABLE)?;
    let id = match parameters.id {
        Value::Number(id) => id.as_u64().or(id.as_i64().map(i64::cast_unsigned)).and_then(Id::of_number),
        Value::String(id) => Id::of_text(id),
        _ => None,
    };
    let [start, end] = [parameters.start, parameters.end].map(|value| value == Value::Bool(true));
    Ok(Inference { model, id, start, end, inputs: inputs(tensors, raw) })
}

fn inputs(tensors: Vec<Tensor<'_>>, mut raw: &[u8]) -> Result<Vec<Input>, Reason> {
    let each = |Tensor { name, datatype, shape, data, parameters }| {
        let OfTensor { binary_data_size, shared_memory_region } = parameters;
        if shared_memory_region.is_some() {
            return Err(IN_SHARED_MEMORY);
        }
        let data = match (binary_data_size, data) {
            (Some(size), _) => {
                let (data, rest) = raw.split_at_checked(size).ok_or(WRONG_DATA)?;
                raw = rest;
                data.to_vec()
            }
            (None, Some(data)) => elements(ElementType::named(&datatype).ok_or(UNKNOWN_TYPE)?, data)?,
            (None, None) => return Err(WRONG_DATA),
        };
        input(name, &datatype, shape, data)
    };
    tensors.into_iter().map(each).collect()
}

/// Raw contents of a list of elements, which may have lists in it.
fn elements(datatype: ElementType, data: &RawValue) -> Result<Vec<u8>, Reason> {
    let mut out = Vec::new();
    let mut json = serde_json::Deserializer::from_str(data.get());
    Elements { datatype, out: &mut out }.deserialize(&mut json).map_err(|_| WRONG_DATA)?;
    Ok(out)
}

/// Adds elements to raw contents as they are read.
struct Elements<'o> {
    datatype: ElementType,
    out: &'o mut Vec<u8>,
}

impl Elements<'_> {
    fn append<E: de::Error>(self, element: Element<'_>) -> Result<(), E> {
        let Self { datatype, out } = self;
        if datatype.append_from_json(element, out) { Ok(()) } else { Err(E::custom("it is no element")) }
    }
}

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "elements of type {}", self.datatype)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Elements { datatype: self.datatype, out: &mut *self.out })?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.append(Element::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.append(Element::Whole(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.append(Element::Whole(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        self.append(Element::Float(value))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.append(Element::Text(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(datatype: &str, shape: &str, data: &str) -> String {
        format!(
            r#"{{"id":"x","inputs":[{{"data":{data},"shape":{shape},"name":"A","datatype":"{datatype}"}}],"outputs":[]}}"#
        )
    }

    fn data(datatype: &str, data: &str) -> Result<Vec<u8>, Reason> {
        let body = body(datatype, "[1,2]", data);
        let inputs = read("m".into(), body.as_bytes(), None)?.inputs?;
        Ok(inputs.into_iter().next().ok_or("no input")?.data)
    }

    #[test]
    fn elements_are_made_raw() {
        for (datatype, elements, expected) in [
            ("BOOL", "[true,false]", vec![1, 0]),
            ("INT8", "[[-1],[300]]", vec![255, 44]),
            ("UINT16", "[65535,1]", vec![255, 255, 1, 0]),
            ("INT32", "[-1,2147483648]", [[255; 4], 0x8000_0000_u32.to_le_bytes()].concat()),
            ("UINT64", "[18446744073709551615,0]", [[255; 8], [0; 8]].concat()),
            ("INT64", "[-9223372036854775808,1]", [i64::MIN, 1].map(i64::to_le_bytes).concat()),
            ("FP32", "[0.1,-2]", [0.1_f32, -2.0].map(f32::to_le_bytes).concat()),
            ("FP64", "[0.1,1e300]", [0.1_f64, 1e300].map(f64::to_le_bytes).concat()),
            // Of these a quick reading gets the last bit wrong.
            (
                "FP64",
                "[1.3333333333333333e-5,-9.007199254740993e15]",
                [1.333_333_333_333_333_3e-5, -9.007_199_254_740_993e15].map(f64::to_le_bytes).concat(),
            ),
            ("BYTES", r#"["a\u00e9",""]"#, b"\x03\0\0\0a\xc3\xa9\0\0\0\0".to_vec()),
        ] {
            assert_eq!(data(datatype, elements), Ok(expected), "{datatype} {elements}");
        }
        for (datatype, elements, reason) in [
            ("INT32", "[1]", WRONG_DATA),
            ("INT32", "[1,1.5]", WRONG_DATA),
            ("UINT8", "[-1,0]", WRONG_DATA),
            ("BOOL", "[1,0]", WRONG_DATA),
            ("BYTES", "[1,2]", WRONG_DATA),
            ("FP16", "[1,2]", WRONG_DATA),
            ("FP32", "[\"1\",2]", WRONG_DATA),
            ("INT31", "[1,2]", UNKNOWN_TYPE),
            ("FP32", "[NaN,1]", NOT_READABLE),
        ] {
            assert_eq!(data(datatype, elements), Err(reason), "{datatype} {elements}");
        }
    }

    #[test]
    fn bytes_behind_the_json_go_to_their_inputs() {
        let json = br#"{"parameters":{"sequence_id":5,"sequence_end":true},"inputs":[
            {"name":"A","shape":[2],"datatype":"INT8","parameters":{"binary_data_size":2}},
            {"name":"B","shape":[1],"datatype":"INT8","data":[3]},
            {"name":"C","shape":[1],"datatype":"FP16","parameters":{"binary_data_size":2}}]}"#;
        let whole = [&json[..], &[1, 2, 4, 5]].concat();
        let inference = read("m".into(), &whole, Some(json.len())).expect("it is one");
        assert_eq!((inference.id, inference.start, inference.end), (Some(Id::Number(5)), false, true));
        let inputs: Vec<_> =
            inference.inputs.expect("inputs").into_iter().map(|input| (input.name, input.data)).collect();
        assert_eq!(inputs, [("A".into(), vec![1, 2]), ("B".into(), vec![3]), ("C".to_owned(), vec![4, 5])]);
        let short = read("m".into(), &whole[..whole.len() - 1], Some(json.len())).expect("it is one");
        assert_eq!(short.inputs, Err(WRONG_DATA));
        assert_eq!(read("m".into(), &whole, Some(whole.len() + 1)).err(), Some(NOT_READABLE));
        assert_eq!(read("m".into(), b"raw", Some(0)).expect("it is one").id, None);
    }

    #[test]
    fn the_sequence_is_read_from_the_parameters() {
        for (id, expected) in [
            ("7", Some(Id::Number(7))),
            ("-2", Some(Id::Number(u64::MAX - 1))),
            ("\"a\"", Some(Id::Text("a".into()))),
            ("0", None),
            ("\"\"", None),
            ("1.5", None),
            ("null", None),
            ("[\"a\"]", None),
        ] {
            let json = format!(r#"{{"parameters":{{"sequence_id":{id},"sequence_start":1}}}}"#);
            let inference = read("m".into(), json.as_bytes(), None).expect("it is one");
            assert_eq!((inference.id, inference.start), (expected, false), "{id}");
        }
        let shared =
            r#"{"inputs":[{"name":"A","shape":[1],"datatype":"INT8","parameters":{"shared_memory_region":"r"}}]}"#;
        assert_eq!(read("m".into(), shared.as_bytes(), None).expect("it is one").inputs, Err(IN_SHARED_MEMORY));
    }
}
