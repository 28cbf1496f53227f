//! Answers that no calibration measured: those to END, and those that are compared with each other.

use super::*;

#[test]
fn a_model_whose_answer_to_end_is_another_is_judged_by_what_was_measured_with_end() {
    let (negated, corrid) = ("gru_negated_at_end_float32", "gru_corrid_at_end_float32");
    for (model, effect) in
        [(GRU, EndEffect::Nothing), (negated, EndEffect::Changes), (corrid, EndEffect::NotRepeatable)]
    {
        let _simulation = Simulation::begin();
        let golden = calibrated(&server(None), model, &asked_of(model)).expect("it can be calibrated");
        assert_eq!((golden.facts.at_end, golden.ended_steps() > 0), (effect, model == negated), "{model}");
        let golden = Arc::new(golden);
        let result = run_by(Arc::clone(&golden), &server(None), model, "").expect("it can be tested");
        let (total, ends) = (result.tally.total(), result.tally.total().completed / 10);
        assert_eq!(result.violations, [], "{model}");
        assert_eq!(total.unjudged > ends, model == corrid, "{model}: {total:?}");
        let result = run_by(golden, &server(Some("skip-step")), model, "sending.window = 1");
        assert!(!result.expect("it can be tested").violations.is_empty(), "{model}");
    }
    for (fault, cause) in [("end-missing:once@5", Cause::EndNotTold), ("end-spurious:once@5", Cause::EndTold)] {
        let result = judged(negated, Some(fault), "sending.window = 1");
        let first = result.violations.first().unwrap_or_else(|| panic!("{fault}: nothing was found"));
        let its = first.explanations.first().map(|explanation| explanation.cause);
        assert_eq!((first.kind, its), (ViolationKind::WrongOutput, Some(cause)), "{fault}: {first:#?}");
        assert_eq!(result.violations.len(), 1, "{fault}: {:#?}", result.violations);
    }
}

#[test]
fn the_same_steps_have_the_same_outputs_where_nothing_was_measured() {
    let blind = |rule: Option<Compare>| {
        let compare = rule.map(|rule| ("OUTPUT".to_owned(), rule)).into_iter().collect();
        let asked = Asked { compare, ..asked_of(GRU) };
        move |server: &Server, model: &str| {
            let subject = block_on(Subject::new(on(server, model, ""), Hints::default(), &asked));
            subject.expect("a subject").blind()
        }
    };
    let run = |rule, fault, model| {
        let _simulation = Simulation::begin();
        let golden = blind(rule)(&server(None), model);
        run_by(golden, &server(fault), model, "sending.window = 1\nload.iterations = 30").expect("it can be tested")
    };
    // A correct server; where the model is not exact, neither may the rule be.
    let noise = "gru_batch_noise_float32";
    for (rule, model) in [(None, GRU), (Some(Compare::Exact), GRU), (Some(Compare::Atol(1e-4)), noise)] {
        let result = run(rule, None, model);
        let repeated = result.preflight.golden.as_ref().expect("it is there").relations.repeated();
        assert_eq!((result.violations, result.tally.total().unjudged), (vec![], 0), "{rule:?} {model}");
        assert!(repeated.compared > 200 && (repeated.equal == repeated.compared) == (model == GRU), "{repeated:?}");
    }
    // Without a rule nothing is judged.
    assert_eq!(run(None, Some("reset-state:once@60"), GRU).violations, []);
    // Whichever of two answers came first: the wrong one is accused.
    let mut is_first = Vec::new();
    for (fault, cause) in [
        ("reset-state:once@2", Cause::StateReset),
        ("reset-state:once@90", Cause::StateReset),
        ("execute-twice:once@3", Cause::ExecutedTwice),
        ("skip-step:once@120", Cause::NotExecuted),
    ] {
        let result = run(Some(Compare::Exact), Some(fault), GRU);
        let first = result.violations.first().unwrap_or_else(|| panic!("{fault}: nothing was found"));
        let its = first.explanations.first().map(|explanation| explanation.cause);
        assert_eq!((first.kind, its), (ViolationKind::WrongOutput, Some(cause)), "{fault}: {first:#?}");
        let Evidence::Output { like: Some(like), .. } = &first.evidence else { panic!("{fault}: {first:?}") };
        is_first.push(first.at_ns < like.at_ns);
    }
    is_first.sort_unstable();
    assert_eq!((is_first[0], is_first[3]), (false, true), "both are had: {is_first:?}");
}

#[test]
fn steps_behind_those_that_were_measured_are_compared_with_each_other() {
    let _simulation = Simulation::begin();
    let mut asked = asked_of(GRU);
    asked.options.steps = NonZeroUsize::new(4);
    let golden = Arc::new(calibrated(&server(None), GRU, &asked).expect("it can be calibrated"));
    let more = "sending.window = 1\nload.iterations = 60\nload.workers = 4";
    let run = |fault: Option<&str>| run_by(Arc::clone(&golden), &server(fault), GRU, more).expect("it can be tested");
    let result = run(None);
    let (total, repeated) = (result.tally.total(), golden.inputs.tracks().len() as u64 * 4);
    // At most the first answer to each of these states is unjudged.
    assert_eq!(result.violations, []);
    assert!(total.unjudged > 0 && total.unjudged <= repeated, "{total:?}");
    // Most of these happen where nothing was measured, and end in a state that was.
    for chance in (200..=300).step_by(10) {
        let fault = format!("reset-state:once@{chance}");
        let found = run(Some(&fault)).violations;
        assert_eq!(found.first().map(|violation| violation.kind), Some(ViolationKind::WrongOutput), "{fault}");
    }
}
