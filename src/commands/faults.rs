//! `sequence-stress faults`.

use std::io::Write as _;

use super::output::print;
use crate::reference::Fault;

/// Lists what the reference server can do wrong.
pub(super) fn list() {
    print(|out| {
        let mut group = "";
        for info in Fault::TABLE {
            if group != info.fault.group() {
                group = info.fault.group();
                writeln!(out, "{group} faults")?;
            }
            writeln!(out, "  {:<24}{} ({})", info.name, info.does, info.class)?;
        }
        Ok(())
    });
}
