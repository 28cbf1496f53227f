//! What a calibration found out, in words.

use std::io::{self, Write};

use super::{
    counted,
    words::{differing, state},
};
use oracle::golden::{Compare, EndEffect, Golden, Misfit, Named, Noise, Output, Visible};

/// How many differences are named.
const NAMED_MAX: usize = 10;

/// Writes what a calibration found out.
///
/// # Errors
/// When that cannot be written.
pub(crate) fn write_golden(golden: &Golden, out: &mut impl Write) -> io::Result<()> {
    let tracks = golden.inputs.tracks().len() as u64;
    writeln!(
        out,
        "model {}: {} of {}, {}",
        golden.identity.model,
        counted(tracks, "track"),
        counted(golden.steps().into(), "step"),
        counted(golden.inputs.len() as u64, "input")
    )?;
    for (output, noise) in golden.outputs.iter().zip(&golden.facts.noise) {
        writeln!(out, "  output {}: {}", output.spec.name, tolerance(output, noise))?;
    }
    if !golden.judges() {
        return writeln!(
            out,
            "  not deterministic enough to judge: the same inputs do not have the same outputs, so outputs are not judged"
        );
    }
    if golden.facts.left_out > 0 {
        let left_out = counted(golden.facts.left_out.into(), "track");
        writeln!(out, "  left out: {left_out}, whose outputs do not tell states apart")?;
    }
    let fingerprints = golden.facts.fingerprints;
    let enough = if fingerprints.are_enough() { "" } else { ": too few, so a run cannot be valid" };
    writeln!(
        out,
        "  fingerprints: {} of {} pairs of states are at least 10 tolerances apart{enough}",
        fingerprints.distinct, fingerprints.pairs
    )?;
    match golden.facts.at_end {
        EndEffect::Unknown | EndEffect::Nothing => {}
        EndEffect::Changes => writeln!(
            out,
            "  END changes the outputs of its step: they are known where it is one of the first {} steps",
            golden.ended_steps()
        )?,
        EndEffect::NotRepeatable => writeln!(
            out,
            "  END changes the outputs of its step, and differently for another correlation ID: they are not judged there"
        )?,
    }
    let visible = &golden.facts.visible;
    if visible.is_empty() {
        return Ok(());
    }
    let seen = visible.iter().filter(|kind| kind.from_step.is_some()).count();
    let hidden: Vec<_> = visible.iter().filter_map(not_at_once).collect();
    let rest = if hidden.is_empty() { String::new() } else { format!("; {}", hidden.join("; ")) };
    writeln!(out, "  {seen} of {} kinds of fault are visible on this model{rest}", visible.len())?;
    if golden.facts.show_states() {
        return Ok(());
    }
    writeln!(
        out,
        "  no other state shows: the model keeps none, this server loses it, or a rule (--compare) is too wide, so a run cannot be valid"
    )
}

/// What is said of a kind of fault that does not show from the first step on.
fn not_at_once(visible: &Visible) -> Option<String> {
    let Visible { kind, tried, shown, from_step } = visible;
    match from_step {
        None => Some(format!("'{kind}' is not: it showed {shown} of {tried} times")),
        Some(step) if shown < tried => Some(format!("'{kind}' is always visible from step {step} on")),
        Some(_) => None,
    }
}

/// A difference of outputs; none at all has no exponent.
fn size(difference: f64) -> String {
    if difference == 0.0 { "0".to_owned() } else { format!("{difference:.1e}") }
}

/// How an output is compared, and why so.
fn tolerance(output: &Output, noise: &Noise) -> String {
    let nan = if noise.has_nan { "; it has NaN, which is equal to NaN" } else { "" };
    let measured = format!(
        "the outputs for the same inputs differed by {} if a sequence was alone, by {} with another correlation ID, and by {} beside other \
         sequences (most at step {}); those of other states differ by {}, typically",
        size(noise.run),
        size(noise.ids),
        size(noise.batch),
        noise.at_step,
        size(noise.typical)
    );
    // Noise of kernels is much less than the difference of two states.
    let is_mixed = noise.run == 0.0 && noise.ids == 0.0 && noise.typical > 0.0 && noise.batch * 10.0 > noise.typical;
    let mixed = if is_mixed { "; alone they are always the same, so the server may mix states in a batch" } else { "" };
    let how = match output.compare {
        _ if !output.is_judged() && noise.is_of_ids() => {
            format!("not judged, because it depends on the correlation ID: {measured}")
        }
        _ if !output.is_judged() => format!("not judged: {measured}{mixed}"),
        Compare::Measured if output.tolerance(u32::MAX) == 0.0 => "bit-exact alone and in batches".to_owned(),
        Compare::Measured => format!(
            "tolerance {:.1e} at step 1 to {:.1e} at the last one, 8 times what was measured: {measured}",
            output.tolerance(1),
            output.tolerance(u32::MAX)
        ),
        rule if noise.typical.is_infinite() => format!("compared by {rule}, as asked for"),
        rule => format!("compared by {rule}, as asked for; {measured}"),
    };
    format!("{how}{nan}")
}

/// Writes what is other than a golden file has it.
///
/// # Errors
/// When that cannot be written.
pub(crate) fn write_differences(compared: usize, differ: &[(Named, Misfit)], out: &mut impl Write) -> io::Result<()> {
    if compared == 0 {
        return writeln!(out, "nothing was compared: the golden file has no output that is judged");
    }
    if differ.is_empty() {
        return writeln!(out, "the same: {} alone on the server", counted(compared as u64, "response"));
    }
    writeln!(out, "{} of {} alone on the server differ", differ.len(), counted(compared as u64, "response"))?;
    for (of, misfit) in differ.iter().take(NAMED_MAX) {
        writeln!(out, "  {}: {}", state(of), differing(misfit))?;
    }
    match differ.len().saturating_sub(NAMED_MAX) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use workload::{inputs::ElementType, tensor::TensorSpec};

    use super::*;

    #[test]
    fn an_output_that_is_not_judged_says_why() {
        let spec = TensorSpec { name: "OUTPUT".into(), datatype: "FP32".into(), shape: vec![-1] };
        let output = Output { spec, datatype: ElementType::Fp32, compare: Compare::Measured, tolerances: Vec::new() };
        let why = |run: f64, ids: f64, batch: f64, typical: f64| {
            let told = tolerance(&output, &Noise { run, ids, batch, typical, at_step: 1, ..Noise::default() });
            (told.starts_with("not judged, because it depends on the correlation ID"), told.contains("may mix states"))
        };
        let (of_ids, of_states, of_neither) = ((true, false), (false, true), (false, false));
        assert_eq!(why(0.0, 0.5, 0.01, 0.5), of_ids);
        assert_eq!(why(0.0, 0.0, 0.5, 0.5), of_states);
        for (run, ids, batch, typical) in [
            (0.5, 0.6, 0.5, 0.5),
            // Nothing is known of other states: an output that tells the slot.
            (0.0, 0.0, 7.0, 0.0),
            // As far apart as a kernel's numbers may be.
            (0.0, 0.0, 0.01, 0.5),
        ] {
            assert_eq!(why(run, ids, batch, typical), of_neither, "{run} {ids} {batch} {typical}");
        }
    }
}
