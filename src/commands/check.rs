//! `sequence-stress check`: judge recorded runs again.

use std::{io::Write as _, path::Path, sync::Arc, time::Duration};

use super::{
    Failure,
    output::{Files, check_different, print, say_error},
    pictured,
};
use crate::{
    check::{Checked, Follower, check_by as check_history},
    cli::{CheckArgs, with_hints},
    golden::read_file,
    lanes::{Accused, Lanes},
    report::{Extent, Summary, counted, write_preflight, write_text},
};
use oracle::{golden::Golden, history::Damage};

/// A damaged history is a wrong file, whatever its good part showed.
const DAMAGED: u8 = 2;
/// The exit codes from the gravest on.
const GRAVITY: [u8; 5] = [DAMAGED, 1, 5, 3, 0];

/// Checks each history, and returns the exit code of the gravest.
pub(super) fn check(args: &CheckArgs) -> Result<u8, Failure> {
    if let Some((flag, _)) = args.out.named().next().filter(|_| args.files.len() > 1) {
        return Err(Failure::wrong_input(format!("--{flag} takes the result of one history: check them one by one")));
    }
    let golden = args.golden.as_deref().map(|path| ("golden", path));
    check_different(args.out.named().chain(golden)).map_err(Failure::wrong_input)?;
    let files = Files::check(&args.out).map_err(Failure::wrong_input)?;
    let golden = args.golden.as_deref().map(read_file).transpose().map_err(Failure::wrong_input)?.map(Arc::new);
    let check = |file: &String| check_one(golden.as_ref(), file, args.quiet, &files);
    let codes: Vec<_> = args.files.iter().map(check).collect();
    Ok(GRAVITY.into_iter().find(|code| codes.contains(code)).unwrap_or(DAMAGED))
}

fn check_one(golden: Option<&Arc<Golden>>, file: &str, quiet: bool, files: &Files) -> u8 {
    let mut lanes = files.page().map(|_| Lanes::default());
    let mut nobody = ();
    let follower = lanes.as_mut().map_or(&mut nobody as &mut dyn Follower, |lanes| lanes);
    let checked = match check_history(golden, Path::new(file), follower) {
        Ok(checked) => checked,
        Err(damage) => {
            say_error(&format!("{file}: {damage}; nothing of the file was judged"));
            return DAMAGED;
        }
    };
    if let (Some(damage), 0, None) = (&checked.damage, checked.entries, &checked.footer) {
        say_error(&format!("{file}: {damage}; the file has no event to judge"));
        return DAMAGED;
    }
    let summary = summary(&checked);
    let until = Duration::from_nanos(checked.until);
    if !quiet {
        print(|out| {
            writeln!(out, "{file}: {}, from t = 0 s to {:.3} s", entries(&checked), until.as_secs_f64())?;
            let Summary { scenario, scenario_name, seed, result, .. } = &summary;
            write_preflight(scenario, scenario_name, *seed, &result.preflight, Extent::Usual, out)?;
            checked.remarks().iter().try_for_each(|remark| writeln!(out, "note: {remark}"))
        });
    }
    if checked.damage.is_some() {
        let besides = if checked.footer.is_some() { ", and of the run's own counts" } else { "" };
        print(|out| {
            writeln!(
                out,
                "{file} is damaged or cut off: the verdict is of its readable part, {}{besides}",
                entries(&checked)
            )
        });
    }
    // Without events a table of zeros would look like a finding.
    let extent = if quiet || checked.entries == 0 { Extent::Short } else { Extent::Usual };
    print(|out| write_text(&summary, extent, out));
    let accused = checked.result.violations.iter().map(Accused::of);
    let pictured = lanes.map(|lanes| pictured::of(lanes, &checked, accused)).unwrap_or_default();
    let exit_code = files.write(&summary, &pictured, checked.header.server.as_ref(), quiet);
    match &checked.damage {
        Some(damage) => {
            say_error(&describe(file, &checked, damage));
            DAMAGED
        }
        None => exit_code,
    }
}

pub(super) fn summary(checked: &Checked) -> Summary {
    let header = &checked.header;
    Summary {
        scenario: header.scenario.clone(),
        scenario_name: header.scenario_name.clone(),
        seed: header.seed,
        replay: with_hints(&header.replay, &header.preflight.told),
        embedded: header.embedded.then(Vec::new),
        result: checked.result.clone(),
    }
}

fn describe(file: &str, checked: &Checked, damage: &Damage) -> String {
    let others = match checked.damages {
        0 | 1 => String::new(),
        all => format!(", and {} behind it", counted(all - 1, "more place")),
    };
    let good = entries(checked);
    let until = Duration::from_nanos(checked.until).as_secs_f64();
    format!("{file}: {damage}{others}; readable: {good}, up to t = {until:.3} s")
}

fn entries(checked: &Checked) -> String {
    if checked.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", checked.entries) }
}
