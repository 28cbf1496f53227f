//! `sequence-stress faults`.

use std::io::Write as _;

use super::output::print;
use reference::Fault;

/// Lists what the reference server can do wrong.
pub(super) fn list() {
    print(|out| {
        let mut group = "";
        for fault in Fault::ALL {
            if group != fault.group() {
                group = fault.group();
                writeln!(out, "{group} faults")?;
            }
            writeln!(out, "  {:<24}{} ({})", fault, fault.what(), fault.class())?;
        }
        Ok(())
    });
}
