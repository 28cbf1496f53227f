//! How much the tests do: what the gate needs, or the long form.

#![allow(unreachable_pub, dead_code, reason = "each test file uses its part")]

/// Whether `SEQUENCE_STRESS_LONG=1` asks for the long form: all rates and sweeps.
pub fn is_long() -> bool {
    std::env::var("SEQUENCE_STRESS_LONG").is_ok_and(|value| value == "1")
}

/// `long` in the long form, otherwise `gate`.
pub fn rounds<T>(gate: T, long: T) -> T {
    if is_long() { long } else { gate }
}
