//! Any text as a model's configuration.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = reference::fuzzing::config(text);
});
