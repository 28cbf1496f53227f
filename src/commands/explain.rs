//! `sequence-stress explain`: what a name in a report means.

use std::io::Write as _;

use super::{
    Failure,
    output::{print, print_list},
};
use crate::{
    cli::ExplainArgs,
    report::{explained, explained_names},
};
use workload::wording::meant;

/// Prints what the documentation says of a kind of violation or a cause; without a name, all names.
pub(super) fn explain(args: &ExplainArgs) -> Result<u8, Failure> {
    let lists = explained_names();
    let Some(name) = &args.name else {
        let width = lists.iter().flat_map(|(_, names)| names).map(|(name, _)| name.len()).max().unwrap_or_default();
        for (heading, names) in lists {
            print(|out| writeln!(out, "{heading}:"));
            print_list(names.into_iter().map(|(name, what)| (format!("  {name:<width$}  "), what.to_owned())));
        }
        return Ok(0);
    };
    let Some(text) = explained(name) else {
        let names = lists.into_iter().flat_map(|(_, names)| names).map(|(name, _)| name);
        let meant = meant(name, names, "list them with `sequence-stress explain`");
        return Err(Failure::wrong_input(format!("there is no violation and no cause '{name}'; {meant}")));
    };
    print(|out| writeln!(out, "{text}"));
    Ok(0)
}
