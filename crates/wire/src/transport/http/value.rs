//! Elements of tensors: as JSON, and as the bytes that they are behind it.

use serde_json::Value;

use workload::inputs::{Element, ElementType, texts};

/// Elements as JSON. Servers take no FP16 and BF16 there, so that they are asked for only where something else is wanted.
pub(super) fn to_json(datatype: ElementType, bytes: &[u8]) -> Vec<Value> {
    fn all<T: Into<Value>, const N: usize>(bytes: &[u8], read: fn([u8; N]) -> T) -> Vec<Value> {
        bytes.as_chunks::<N>().0.iter().map(|element| read(*element).into()).collect()
    }
    match datatype {
        ElementType::Bool => all(bytes, |[element]| element != 0),
        ElementType::Uint8 => all(bytes, u8::from_le_bytes),
        ElementType::Uint16 | ElementType::Fp16 | ElementType::Bf16 => all(bytes, u16::from_le_bytes),
        ElementType::Uint32 => all(bytes, u32::from_le_bytes),
        ElementType::Uint64 => all(bytes, u64::from_le_bytes),
        ElementType::Int8 => all(bytes, i8::from_le_bytes),
        ElementType::Int16 => all(bytes, i16::from_le_bytes),
        ElementType::Int32 => all(bytes, i32::from_le_bytes),
        ElementType::Int64 => all(bytes, i64::from_le_bytes),
        ElementType::Fp32 => all(bytes, |element| f64::from(f32::from_le_bytes(element))),
        ElementType::Fp64 => all(bytes, f64::from_le_bytes),
        ElementType::Bytes => texts(bytes).flatten().map(|text| String::from_utf8_lossy(text).into()).collect(),
    }
}

/// Elements in JSON, however they are nested, as the bytes that they are; none where they are no elements of this type.
pub(super) fn from_json(datatype: &str, data: &Value) -> Option<Vec<u8>> {
    let datatype = ElementType::named(datatype).filter(|datatype| datatype.is_in_json())?;
    let mut bytes = Vec::new();
    append(datatype, data, &mut bytes).then_some(bytes)
}

fn append(datatype: ElementType, data: &Value, bytes: &mut Vec<u8>) -> bool {
    match data {
        Value::Array(all) => all.iter().all(|element| append(datatype, element, bytes)),
        _ => Element::of_json(data).is_some_and(|element| datatype.append(element, bytes)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use workload::number::Datatype;

    use super::*;

    #[test]
    fn elements_are_the_same_in_both_forms() {
        for datatype in Datatype::of_the_protocol().filter(|datatype| datatype.is_in_json()) {
            let most = datatype.exact_bits().map_or(i64::MAX, |bits| 1 << bits);
            let element_type = ElementType::named(datatype.name()).expect("the protocol has it");
            for value in [0, 1, -1, 1 - most, most] {
                let bytes = datatype.number(value).to_bytes();
                let json = to_json(element_type, &bytes.repeat(2));
                assert_eq!(from_json(datatype.name(), &json!(json)), Some(bytes.repeat(2)), "{datatype} {value}");
            }
        }
        assert_eq!(from_json("INT32", &json!([[1], [2]])), Some(vec![1, 0, 0, 0, 2, 0, 0, 0]));
        assert_eq!(from_json("INT64", &json!([-1])), Some(vec![255; 8]));
        assert_eq!(from_json("BOOL", &json!([true, false, 1])), Some(vec![1, 0, 1]));
        assert_eq!(to_json(ElementType::Bool, &[1, 0]), [json!(true), json!(false)]);
        for (datatype, other) in [
            ("INT32", json!([1_i64 << 40])),
            ("INT8", json!(128)),
            ("INT16", json!(-32769)),
            ("UINT8", json!(256)),
            ("UINT16", json!(-1)),
            ("INT32", json!(["1"])),
            ("INT32", json!(1.5)),
            ("UINT32", json!(-1)),
            ("UINT64", json!(-1)),
            ("FP32", json!("1")),
            ("BYTES", json!(1)),
            ("FP16", json!([1])),
            ("BF16", json!([1])),
            ("BOOL", json!(2)),
            ("INT4", json!(1)),
        ] {
            assert_eq!(from_json(datatype, &other), None, "{datatype} {other}");
        }
    }
}
