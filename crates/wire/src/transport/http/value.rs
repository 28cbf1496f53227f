//! Elements of tensors: as JSON, and as the bytes that they are behind it.

use serde_json::Value;

use workload::number::{Datatype, Kind, Number};

/// An element as JSON.
pub(super) fn to_json(element: Number) -> Value {
    let value = element.value();
    match element.datatype().kind() {
        Kind::Unsigned(64) => value.cast_unsigned().into(),
        // Servers take no FP16 in JSON, so that it is asked for only where something else is wanted.
        #[expect(clippy::cast_precision_loss, reason = "what is sent is exact")]
        Kind::Float(_) => (value as f64).into(),
        Kind::Text => value.to_string().into(),
        Kind::Signed(_) | Kind::Unsigned(_) => value.into(),
    }
}

/// Elements in JSON, however they are nested, as the bytes that they are; none where they are no elements of this type.
pub(super) fn from_json(datatype: &str, data: &Value) -> Option<Vec<u8>> {
    if let Value::Array(all) = data {
        let bytes: Option<Vec<_>> = all.iter().map(|element| from_json(datatype, element)).collect();
        return bytes.map(|bytes| bytes.concat());
    }
    let datatype = Datatype::named(datatype).filter(|datatype| datatype.is_in_json())?;
    let whole = |value| Some(datatype.number(value)).filter(|its| its.value() == value).map(Number::to_bytes);
    match datatype.kind() {
        Kind::Signed(_) => whole(data.as_i64()?),
        Kind::Unsigned(_) => whole(data.as_u64()?.cast_signed()),
        #[expect(clippy::cast_possible_truncation, reason = "the nearest of its type is meant")]
        Kind::Float(32) => Some((data.as_f64()? as f32).to_le_bytes().into()),
        Kind::Float(_) => Some(data.as_f64()?.to_le_bytes().into()),
        Kind::Text => {
            let text = data.as_str()?;
            Some([&u32::try_from(text.len()).ok()?.to_le_bytes(), text.as_bytes()].concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_the_same_in_both_forms() {
        for datatype in Datatype::ALL.into_iter().filter(|datatype| datatype.is_in_json()) {
            let most = datatype.exact_bits().map_or(i64::MAX, |bits| 1 << bits);
            for value in [0, 1, -1, 1 - most, most] {
                let element = datatype.number(value);
                assert_eq!(
                    from_json(datatype.name(), &json!([to_json(element)])),
                    Some(element.to_bytes()),
                    "{element}"
                );
            }
        }
        assert_eq!(from_json("INT32", &json!([[1], [2]])), Some(vec![1, 0, 0, 0, 2, 0, 0, 0]));
        assert_eq!(from_json("INT64", &json!([-1])), Some(vec![255; 8]));
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
        ] {
            assert_eq!(from_json(datatype, &other), None, "{datatype} {other}");
        }
    }
}
