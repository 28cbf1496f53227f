//! Any bytes as a request.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = reference::fuzzing::request(bytes);
});
