//! Any text as a model's `config.pbtxt`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = reference::fuzzing::pbtxt(text);
});
