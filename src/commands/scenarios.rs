//! `sequence-stress scenarios`.

use std::io::Write as _;

use super::{
    Failure,
    output::{print, print_list},
};
use crate::cli::ScenariosArgs;
use workload::scenario::{BUILTIN, Builtin, KEYS, Key, Source};

/// Lists the scenarios that are compiled in, prints one of them, or lists what a file can say.
pub(super) fn show(args: &ScenariosArgs) -> Result<u8, Failure> {
    if args.keys {
        let width = |of: fn(&Key) -> usize| KEYS.iter().map(of).max().unwrap_or_default();
        let (paths, takes) = (width(|key| key.path.len()), width(|key| key.takes().len()).min(40));
        let label = |key: &Key| format!("{:<paths$}  {:<takes$}  ", key.path, key.takes());
        print_list(KEYS.iter().map(|key| (label(key), key.what.to_owned())));
        return Ok(0);
    }
    let Some(name) = &args.name else {
        let width = BUILTIN.iter().map(|builtin| builtin.name.len()).max().unwrap_or_default();
        let line = |builtin: &Builtin| {
            let outside = if builtin.in_suite { "" } else { " (not in the suite)" };
            (format!("{:<width$}  ", builtin.name), format!("{}{outside}", builtin.what()))
        };
        print_list(BUILTIN.iter().map(line));
        return Ok(0);
    };
    let source = Source::named(name)?;
    print(|out| out.write_all(source.text().as_bytes()));
    Ok(0)
}
