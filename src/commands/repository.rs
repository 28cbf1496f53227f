//! `sequence-stress repository`.

use std::{collections::BTreeMap, io::Write as _};

use super::{
    COULD_NOT_TEST, Failure,
    output::{print, say_error},
};
use crate::{cli::RepositoryArgs, report::counted};
use models::{Made, Written, make_plans, write};
use workload::model::Strategy;

/// Writes the models that are asked for, or lists them.
pub(super) fn repository(args: &RepositoryArgs) -> Result<u8, Failure> {
    let matrix = args.matrix().map_err(Failure::wrong_input)?;
    let made = matrix.make().map_err(Failure::wrong_input)?;
    say_unused(args, &made.models);
    match &args.folder {
        Some(folder) if !args.list => {
            write(folder, &made.models, args.force).map_err(Failure::wrong_input)?;
            print(|out| {
                let models = counted(made.models.len() as u64, "model");
                writeln!(out, "wrote {models} into '{}': {}", folder.display(), by_backend(&made.models))
            });
            say_rejected(&made);
            if !make_plans(folder, &made.models, say_error) {
                return Ok(COULD_NOT_TEST);
            }
        }
        _ => {
            print(|out| made.models.iter().try_for_each(|model| writeln!(out, "{}", line(model))));
            say_rejected(&made);
        }
    }
    Ok(0)
}

fn line(model: &Written) -> String {
    let Written { name, backend, strategy, .. } = model;
    format!("{name:<50} {:<11} {strategy:<6} {}", backend.name(), model.formula_name())
}

fn by_backend(models: &[Written]) -> String {
    let mut counts = BTreeMap::<_, u64>::new();
    for model in models {
        *counts.entry(model.backend.name()).or_default() += 1;
    }
    counts.into_iter().map(|(backend, count)| format!("{backend} {count}")).collect::<Vec<_>>().join(", ")
}

/// Says which flags no model needs: a script may well give them to all of its calls.
fn say_unused(args: &RepositoryArgs, models: &[Written]) {
    let flags = [
        ("--candidates", args.candidates.is_some(), Strategy::Oldest),
        ("--preferred-batch-size", !args.preferred_batch_size.is_empty(), Strategy::Oldest),
        ("--minimum-slot-utilization", args.minimum_slot_utilization.is_some(), Strategy::Direct),
    ];
    for (flag, is_given, strategy) in flags {
        if is_given && models.iter().all(|model| model.strategy != strategy) {
            say_error(&format!(
                "{flag} does nothing here: it is for {strategy}, and none of the models has that; see --strategy"
            ));
        }
    }
}

/// Says what there is none of, a line for each reason.
fn say_rejected(made: &Made) {
    for ((backend, reason), count) in &made.rejected {
        say_error(&format!("left out: {} of {backend}: {reason}", counted(*count as u64, "model")));
    }
}
