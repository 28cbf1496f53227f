//! `sequence-stress scenarios`.

use std::io::Write as _;

use super::{Failure, output::print};
use crate::cli::ScenariosArgs;
use workload::scenario::{BUILTIN, Builtin, KEYS, Key, Source};

/// Lists the scenarios that are compiled in, prints one of them, or lists what a file can say.
pub(super) fn show(args: &ScenariosArgs) -> Result<u8, Failure> {
    if args.keys {
        let width = |of: fn(&Key) -> usize| KEYS.iter().map(of).max().unwrap_or_default();
        let (paths, takes) = (width(|key| key.path.len()), width(|key| key.takes().len()).min(40));
        let line = |key: &Key| format!("{:<paths$}  {:<takes$}  {}", key.path, key.takes(), key.what);
        print(|out| KEYS.iter().try_for_each(|key| writeln!(out, "{}", line(key))));
        return Ok(0);
    }
    let Some(name) = &args.name else {
        let width = BUILTIN.iter().map(|builtin| builtin.name.len()).max().unwrap_or_default();
        let line = |builtin: &Builtin| {
            let outside = if builtin.in_suite { "" } else { " (not in the suite)" };
            format!("{:<width$}  {}{outside}", builtin.name, builtin.what())
        };
        print(|out| BUILTIN.iter().try_for_each(|builtin| writeln!(out, "{}", line(builtin))));
        return Ok(0);
    };
    let source = Source::named(name)?;
    print(|out| out.write_all(source.text().as_bytes()));
    Ok(0)
}
