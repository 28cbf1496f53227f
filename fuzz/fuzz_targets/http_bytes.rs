//! Any bytes as the body of a request over HTTP. The first two say how many of them are JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reference::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    let Some((length, body)) = bytes.split_first_chunk::<2>() else { return };
    let length = i16::from_le_bytes(*length);
    let told = (length != 0).then(|| length.to_string());
    let _ = fuzzing::http_body(told.as_deref(), body);
});
