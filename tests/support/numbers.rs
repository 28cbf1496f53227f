//! What each type makes of a few numbers, and its bytes.

#![allow(unreachable_pub, reason = "it is a module of tests")]

use wire::proto::InferTensorContents;

/// What a type makes of the inputs FIRST, 1 and 5.
pub struct Type {
    pub name: &'static str,
    pub datatype: &'static str,
    pub first: &'static str,
    pub second: &'static str,
    pub third: &'static str,
    /// The third with the ID added.
    pub third_and_id: &'static str,
    pub five_and_id: &'static str,
    pub first_and_one: &'static str,
}

pub const INT32: Type = Type {
    name: "int32",
    datatype: "INT32",
    first: "2147483647",
    second: "-2147483648",
    third: "-2147483643",
    third_and_id: "-2147483640",
    five_and_id: "8",
    first_and_one: "-2147483648",
};

pub const TYPES: [Type; 13] = [
    INT32,
    Type { name: "bool", ..INT32 },
    Type { name: "object", datatype: "BYTES", ..INT32 },
    Type {
        name: "int8",
        datatype: "INT8",
        first: "127",
        second: "-128",
        third: "-123",
        third_and_id: "-120",
        five_and_id: "8",
        first_and_one: "-128",
    },
    Type {
        name: "int16",
        datatype: "INT16",
        first: "32767",
        second: "-32768",
        third: "-32763",
        third_and_id: "-32760",
        five_and_id: "8",
        first_and_one: "-32768",
    },
    Type {
        name: "uint8",
        datatype: "UINT8",
        first: "255",
        second: "0",
        third: "5",
        third_and_id: "8",
        five_and_id: "8",
        first_and_one: "0",
    },
    Type {
        name: "uint16",
        datatype: "UINT16",
        first: "65535",
        second: "0",
        third: "5",
        third_and_id: "8",
        five_and_id: "8",
        first_and_one: "0",
    },
    Type {
        name: "float16",
        datatype: "FP16",
        first: "2048",
        second: "2048",
        third: "2052",
        third_and_id: "2056",
        five_and_id: "8",
        first_and_one: "2048",
    },
    Type {
        name: "int64",
        datatype: "INT64",
        first: "9223372036854775807",
        second: "-9223372036854775808",
        third: "-9223372036854775803",
        third_and_id: "-9223372032559808504",
        five_and_id: "4294967304",
        first_and_one: "-9223372036854775808",
    },
    Type {
        name: "uint32",
        datatype: "UINT32",
        first: "4294967295",
        second: "0",
        third: "5",
        third_and_id: "8",
        five_and_id: "8",
        first_and_one: "0",
    },
    Type {
        name: "uint64",
        datatype: "UINT64",
        first: "18446744073709551615",
        second: "0",
        third: "5",
        third_and_id: "4294967304",
        five_and_id: "4294967304",
        first_and_one: "0",
    },
    Type {
        name: "float32",
        datatype: "FP32",
        first: "16777216",
        second: "16777216",
        third: "16777220",
        third_and_id: "16777224",
        five_and_id: "8",
        first_and_one: "16777216",
    },
    Type {
        name: "float64",
        datatype: "FP64",
        first: "9007199254740992",
        second: "9007199254740992",
        third: "9007199254740996",
        third_and_id: "9007199254741000",
        five_and_id: "8",
        first_and_one: "9007199254740992",
    },
];

/// Numbers of FP16, and their bits.
pub const HALVES: [(&str, u16); 13] = [
    ("1", 0x3c00),
    ("4", 0x4400),
    ("5", 0x4500),
    ("8", 0x4800),
    ("10", 0x4900),
    ("11", 0x4980),
    ("16", 0x4c00),
    ("20", 0x4d00),
    ("22", 0x4d80),
    ("42", 0x5140),
    ("2048", 0x6800),
    ("2052", 0x6802),
    ("2056", 0x6804),
];

pub fn bytes_of(datatype: &str, text: &str) -> Vec<u8> {
    fn parsed<T: std::str::FromStr>(text: &str) -> T {
        text.parse().unwrap_or_else(|_| panic!("{text}"))
    }
    match datatype {
        "INT8" => parsed::<i8>(text).to_le_bytes().to_vec(),
        "INT16" => parsed::<i16>(text).to_le_bytes().to_vec(),
        "UINT8" => parsed::<u8>(text).to_le_bytes().to_vec(),
        "UINT16" => parsed::<u16>(text).to_le_bytes().to_vec(),
        "FP16" => match HALVES.iter().find(|(number, _)| *number == text) {
            Some((_, bits)) => bits.to_le_bytes().to_vec(),
            None => panic!("{text}"),
        },
        "INT32" => parsed::<i32>(text).to_le_bytes().to_vec(),
        "INT64" => parsed::<i64>(text).to_le_bytes().to_vec(),
        "UINT32" => parsed::<u32>(text).to_le_bytes().to_vec(),
        "UINT64" => parsed::<u64>(text).to_le_bytes().to_vec(),
        "FP32" => parsed::<f32>(text).to_le_bytes().to_vec(),
        "FP64" => parsed::<f64>(text).to_le_bytes().to_vec(),
        "BYTES" => [&u32::try_from(text.len()).expect("few").to_le_bytes()[..], text.as_bytes()].concat(),
        other => panic!("{other}"),
    }
}

pub fn contents_of(datatype: &str, text: &str) -> InferTensorContents {
    let mut contents = InferTensorContents::default();
    match datatype {
        "INT8" | "INT16" | "INT32" => contents.int_contents.push(text.parse().expect("a number")),
        "INT64" => contents.int64_contents.push(text.parse().expect("a number")),
        "UINT8" | "UINT16" | "UINT32" => contents.uint_contents.push(text.parse().expect("a number")),
        "UINT64" => contents.uint64_contents.push(text.parse().expect("a number")),
        "FP32" => contents.fp32_contents.push(text.parse().expect("a number")),
        "FP64" => contents.fp64_contents.push(text.parse().expect("a number")),
        _ => contents.bytes_contents.push(text.as_bytes().to_vec()),
    }
    contents
}
