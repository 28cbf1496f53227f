//! Elements of tensors: as JSON, and as the bytes that they are behind it.

use serde_json::Value;

use crate::{controls, tensor::INT32};

/// An element as JSON.
pub(super) fn to_json(element: i32) -> Value {
    element.into()
}

/// An element as bytes.
pub(super) fn to_bytes(element: i32) -> Vec<u8> {
    element.to_le_bytes().into()
}

/// Elements in JSON, however they are nested, as the bytes that they are; none where they are no elements of this type.
pub(super) fn from_json(datatype: &str, data: &Value) -> Option<Vec<u8>> {
    match data {
        Value::Array(all) => {
            let bytes: Option<Vec<_>> = all.iter().map(|element| from_json(datatype, element)).collect();
            bytes.map(|bytes| bytes.concat())
        }
        element if datatype == INT32 => Some(i32::try_from(element.as_i64()?).ok()?.to_le_bytes().into()),
        element if datatype == controls::DATATYPE => Some(element.as_i64()?.to_le_bytes().into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_the_same_in_both_forms() {
        for element in [0, 1, -1, i32::MIN, i32::MAX] {
            assert_eq!(from_json(INT32, &json!([to_json(element)])), Some(to_bytes(element)));
        }
        assert_eq!(from_json(INT32, &json!([[1], [2]])), Some(vec![1, 0, 0, 0, 2, 0, 0, 0]));
        assert_eq!(from_json("INT64", &json!([-1])), Some(vec![255; 8]));
        for (datatype, other) in
            [(INT32, json!([1_i64 << 40])), (INT32, json!(["1"])), (INT32, json!(1.5)), ("FP32", json!([1]))]
        {
            assert_eq!(from_json(datatype, &other), None, "{datatype} {other}");
        }
    }
}
