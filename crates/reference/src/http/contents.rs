//! Tensors' elements between JSON and bytes.

use super::{
    json::{Json, write_all, write_double, write_text},
    rejection::Rejection,
};
use crate::{
    number::Number,
    tensor::{Datatype, text_element, texts},
};

/// Reads the elements of a tensor of this type and shape from `data`, which may have arrays in it to any depth.
///
/// # Errors
/// What is wrong, as the real server says it.
pub(super) fn read(input: &str, datatype: &str, shape: &[i64], data: &Json) -> Result<Vec<u8>, Rejection> {
    let Some(datatype) = Datatype::named(datatype) else {
        return Err(Rejection::bad_request(format!("invalid datatype for input {input}")));
    };
    if !datatype.is_in_json() {
        return Err(Rejection::bad_request(format!(
            "receiving {datatype} data via JSON is not supported. Please use the binary data format for input {input}"
        )));
    }
    let cannot = |why| Rejection::internal(format!("Unable to parse 'data': {why}"));
    data.as_array().map_err(cannot)?;
    // The real server reserves what the shape says, and dies of it where that is much; here it is counted first.
    let expected = shape.iter().try_fold(1_usize, |product, size| product.checked_mul(usize::try_from(*size).ok()?));
    // Texts are counted where their lengths are looked at.
    if datatype != Datatype::Bytes && expected != Some(count(data)) {
        return Err(cannot("Shape does not match true shape of 'data' field"));
    }
    let mut bytes = Vec::new();
    flatten(data, &mut |value| element(datatype, value, &mut bytes)).map_err(|why| match datatype {
        Datatype::Bytes => Rejection::internal(format!("Unable to parse JSON bytes array: {why}")),
        _ => cannot(why),
    })?;
    Ok(bytes)
}

fn count(data: &Json) -> usize {
    if let Json::Array(values) = data { values.iter().map(count).sum() } else { 1 }
}

fn flatten(data: &Json, each: &mut impl FnMut(&Json) -> Result<(), &'static str>) -> Result<(), &'static str> {
    match data {
        Json::Array(values) => values.iter().try_for_each(|value| flatten(value, each)),
        value => each(value),
    }
}

/// Adds an element's bytes; of a number that is too large, as many as there is room for.
fn element(datatype: Datatype, value: &Json, bytes: &mut Vec<u8>) -> Result<(), &'static str> {
    use Datatype::{Bool, Bytes, Fp32, Fp64, Uint8, Uint16, Uint32, Uint64};
    let whole = match datatype {
        Bool => value.as_bool()?.into(),
        Bytes => {
            bytes.extend(text_element(value.as_bytes()?));
            return Ok(());
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is rounded")]
        Fp32 => (value.as_double()? as f32).to_bits().into(),
        Fp64 => value.as_double()?.to_bits(),
        Uint8 | Uint16 | Uint32 | Uint64 => value.as_unsigned()?,
        _ => value.as_signed()?.cast_unsigned(),
    };
    let all = whole.to_le_bytes();
    bytes.extend(&all[..datatype.size().unwrap_or(all.len())]);
    Ok(())
}

/// Writes a tensor's elements as one array. What is too short for an element is left out.
///
/// # Errors
/// Where the type is in no JSON, as the real server says it.
pub(super) fn write(out: &mut Vec<u8>, datatype: &str, data: &[u8]) -> Result<(), Rejection> {
    // What has no known type is shown byte by byte.
    let datatype = Datatype::named(datatype).unwrap_or(Datatype::Uint8);
    if !datatype.is_in_json() {
        let text =
            format!("sending {datatype} data via JSON is not supported. Please use the binary data format for output");
        return Err(Rejection::bad_request(text).said_as_text());
    }
    out.push(b'[');
    match datatype.size() {
        None => write_all(out, texts(data).flatten(), write_text),
        Some(size) => write_all(out, data.chunks_exact(size), |out, element| write_element(out, datatype, element)),
    }
    out.push(b']');
    Ok(())
}

fn write_element(out: &mut Vec<u8>, datatype: Datatype, element: &[u8]) {
    match Number::from_le_bytes(datatype, element) {
        None => out.extend(if element == [0] { &b"false"[..] } else { b"true" }),
        Some(Number::Fp32(value)) => write_double(out, value.into()),
        Some(Number::Fp64(value)) => write_double(out, value),
        Some(number) => out.extend(number.to_string().into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(datatype: &str, elements: usize, data: &str) -> Result<String, String> {
        let json = Json::read(data.as_bytes()).expect("it is JSON");
        let bytes = read("IN", datatype, &[1, elements.try_into().expect("small")], &json).map_err(|r| r.text)?;
        let mut out = Vec::new();
        write(&mut out, datatype, &bytes).map_err(|r| r.text)?;
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn every_type_is_read_and_written() {
        for (datatype, elements, data, expected) in [
            ("BOOL", 2, "[true,false]", "[true,false]"),
            ("INT8", 3, "[-1,127,300]", "[-1,127,44]"),
            ("INT16", 2, "[-32768,65535]", "[-32768,-1]"),
            ("INT32", 3, "[2147483648,-2147483649,[4294967296]]", "[-2147483648,2147483647,0]"),
            ("INT64", 2, "[-9223372036854775808,1]", "[-9223372036854775808,1]"),
            ("UINT8", 2, "[255,256]", "[255,0]"),
            ("UINT16", 1, "[65535]", "[65535]"),
            ("UINT32", 1, "[4294967295]", "[4294967295]"),
            ("UINT64", 1, "[18446744073709551615]", "[18446744073709551615]"),
            ("FP32", 4, "[0.1,1,1e300,[[-2]]]", "[0.10000000149011612,1.0,Infinity,-2.0]"),
            ("FP64", 2, "[1e300,NaN]", "[1e300,NaN]"),
            ("BYTES", 3, r#"["12","x\u00e9",""]"#, r#"["12","xé",""]"#),
            ("INT32", 0, "[]", "[]"),
        ] {
            assert_eq!(there_and_back(datatype, elements, data).as_deref(), Ok(expected), "{datatype}");
        }
    }

    /// As the real server said it.
    #[test]
    fn wrong_data_is_rejected() {
        const SIGNED: &str = "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer";
        const UNSIGNED: &str =
            "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer";
        const SHAPE: &str = "Unable to parse 'data': Shape does not match true shape of 'data' field";
        for (datatype, data, expected) in [
            ("BOOL", "[1]", "Unable to parse 'data': attempt to access JSON non-boolean as boolean"),
            ("INT8", "[true]", SIGNED),
            ("INT32", "[1.0]", SIGNED),
            ("INT64", "[9223372036854775808]", SIGNED),
            ("UINT8", "[-1]", UNSIGNED),
            ("UINT64", "[18446744073709551616]", UNSIGNED),
            ("FP64", "[{}]", "Unable to parse 'data': attempt to access JSON non-number as double"),
            ("BYTES", "[1]", "Unable to parse JSON bytes array: attempt to access JSON non-string as string"),
            ("INT32", "1", "Unable to parse 'data': attempt to access JSON non-array as array"),
            ("INT32", "[]", SHAPE),
            ("INT32", "[1,2]", SHAPE),
            ("INT31", "[1]", "invalid datatype for input IN"),
            (
                "FP16",
                "[1]",
                "receiving FP16 data via JSON is not supported. Please use the binary data format for input IN",
            ),
        ] {
            assert_eq!(there_and_back(datatype, 1, data), Err(expected.to_owned()), "{datatype} {data}");
        }
        assert_eq!(
            there_and_back("BYTES", 1, r#"["1",["2"]]"#).as_deref(),
            Ok(r#"["1","2"]"#),
            "they are counted elsewhere"
        );
        for shape in [&[1, 1 << 40][..], &[1 << 62, 1 << 62], &[-1], &[1, i64::MIN]] {
            let data = Json::Array(vec![Json::Unsigned(1)]);
            assert_eq!(read("IN", "INT32", shape, &data).expect_err("a wrong shape").text, SHAPE);
        }
    }

    #[test]
    fn data_that_does_not_fit_its_type_is_written_as_far_as_it_does() {
        let written = |datatype: &str, data: &[u8]| {
            let mut out = Vec::new();
            write(&mut out, datatype, data).expect("it is in JSON");
            String::from_utf8(out).expect("UTF-8")
        };
        assert_eq!(written("INT32", &[1, 0, 0, 0, 2, 0]), "[1]");
        assert_eq!(written("BYTES", &[1, 0, 0, 0, b'a', 9, 0, 0, 0, b'b']), r#"["a"]"#);
        assert_eq!(written("NONE", &[7]), "[7]");
        let rejection = write(&mut Vec::new(), "FP16", &[0, 64]).expect_err("it is in no JSON");
        let text = "sending FP16 data via JSON is not supported. Please use the binary data format for output";
        assert_eq!((rejection.status.as_u16(), rejection.text.as_str(), rejection.is_json), (400, text, false));
    }
}
