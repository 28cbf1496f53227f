//! How much a test tries.

/// Returns `long` where the environment has `SEQUENCE_STRESS_LONG=1`, which `scripts/test --long` sets; else `gate`.
///
/// A test of the gate finds each kind of fault. The long form finds those that are rare, and measures rates.
pub(crate) fn rounds(gate: u64, long: u64) -> u64 {
    if is_long() { long } else { gate }
}

/// Whether the tests run in their long form.
pub(crate) fn is_long() -> bool {
    std::env::var_os("SEQUENCE_STRESS_LONG").is_some_and(|value| value == "1")
}
