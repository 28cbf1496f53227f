use std::time::Duration;

use super::*;
use crate::{conversation::Transport, sequence::IdForm};

fn in_order(weights: &Weights) -> Vec<f64> {
    Pattern::ALL.map(|pattern| weights.of(pattern)).into()
}

fn resolve(text: &str) -> Result<Scenario, String> {
    Scenario::resolve(&Source::from_text("a.toml", text), Overrides::default()).map_err(|error| error.to_string())
}

#[test]
fn the_default_scenario_has_the_numbers_of_l0() {
    let scenario = resolve("").expect("the default scenario");
    assert_eq!(scenario, resolve(DEFAULT).expect("the default scenario"));
    assert_eq!(
        (scenario.populations[0].load.workers.get(), scenario.populations[0].load.iterations.map(NonZeroU64::get)),
        (8, Some(200))
    );
    assert_eq!(scenario.populations[0].contexts, Contexts { common: 2, rare: 8, rare_probability: Probability(0.1) });
    assert_eq!((scenario.correlation_ids.first.get(), scenario.correlation_ids.block.get()), (1, 100));
    assert_eq!(in_order(&scenario.populations[0].patterns.common)[..5], [0.85, 0.05, 0.05, 0.01, 0.04]);
    assert_eq!(in_order(&scenario.populations[0].patterns.rare)[..5], [0.0, 0.34, 0.33, 0.0, 0.33]);
    assert_eq!(scenario.populations[0].length.drawn, Distribution::Normal(Normal { mean: 16.0, stdev: 8.0 }));
    assert_eq!(
        scenario.populations[0].values,
        Values { drawn: DrawnValues::Uniform(Uniform { min: 0, max: 1_048_575 }), elements: None }
    );
    assert_eq!(scenario.limits.lost_after_ms.duration(), Duration::from_secs(5));
    assert_eq!(scenario.target.endpoint.to_string(), "localhost:8001");
    assert_eq!(scenario.target.model, "custom_sequence_int32");
    assert_eq!(scenario.populations[0].sending.reuse, Reuse::Pipelined);
    assert_eq!(scenario.populations[0].sending.window, Window::All);
}

#[test]
fn a_file_needs_only_what_differs_and_pattern_tables_are_whole() {
    let scenario =
        resolve("[contexts]\nrare = 3\n[patterns.common]\nvalid = 1\n[sending]\nwindow = 4").expect("a scenario");
    assert_eq!((scenario.populations[0].contexts.common, scenario.populations[0].contexts.rare), (2, 3));
    assert_eq!(in_order(&scenario.populations[0].patterns.common)[..5], [1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(in_order(&scenario.populations[0].patterns.rare)[..5], [0.0, 0.34, 0.33, 0.0, 0.33]);
    assert!(scenario.populations[0].sending.window.has_room(3) && !scenario.populations[0].sending.window.has_room(4));
}

#[test]
fn populations_have_what_the_file_says_for_all_and_their_own() {
    let text = "
        length = { min = 2, list = [5, 6] }
        sending.window = 3
        think.iteration_ms = { uniform = { min = 1, max = 9 } }
        [[population]]
        name = 'long'
        load.workers = 3
        length.log-normal = { median = 50, sigma = 1 }
        [[population]]
        name = 'short'
        load = { workers = 5, iterations = 7 }
        patterns.common = { no-end = 1 }
        values.list = [1, -1]";
    let scenario = resolve(text).expect("a scenario");
    let [long, short] = &scenario.populations[..] else { panic!("{scenario:?}") };
    assert_eq!(
        (scenario.workers(), scenario.most_contexts(), scenario.contexts(), scenario.longest()),
        (8, 10, 80, 100)
    );
    assert_eq!(
        (0..8).map(|worker| &*scenario.population_of(worker).name).collect::<String>(),
        "longlonglongshortshortshortshortshort"
    );
    assert!(matches!(long.length, Length { drawn: Distribution::LogNormal(_), min, .. } if min.get() == 2), "{long:?}");
    assert_eq!(short.length.drawn, serde_json::from_str(r#"{"list": [5, 6]}"#).expect("a list"));
    assert_eq!((long.load.iterations, short.load.iterations), (NonZeroU64::new(200), NonZeroU64::new(7)));
    assert!(
        [long, short].iter().all(|its| !its.sending.window.has_room(3) && its.think.iteration_ms.most() == Some(9))
    );
    assert!(scenario.draws(Pattern::NoStart).common && !short.draws(Pattern::NoStart).anywhere());
    // As failure files and histories have it.
    let written = toml::to_string(&scenario).expect("TOML");
    assert_eq!(resolve(&written).as_ref(), Ok(&scenario), "{written}");
    let json = serde_json::to_value(&scenario).expect("JSON");
    assert_eq!(serde_json::from_value::<Scenario>(json).expect("a scenario"), scenario);
}

#[test]
fn workers_are_shared_out_in_proportion() {
    let text = "population = [{ name = 'a', load.workers = 1 }, { name = 'b', load.workers = 3 }]";
    for (asked, expected) in [(4, [1, 3]), (8, [2, 6]), (5, [1, 4]), (1, [1, 1]), (100, [25, 75])] {
        let overrides = Overrides { workers: NonZeroU32::new(asked), ..Overrides::default() };
        let scenario = Scenario::resolve(&Source::from_text("a.toml", text), overrides).expect("a scenario");
        let workers: Vec<_> = scenario.populations.iter().map(|its| its.load.workers.get()).collect();
        assert_eq!(workers, expected, "of {asked}");
    }
}

#[test]
fn flags_override_the_file() {
    let overrides = Overrides {
        endpoint: Some("host:9".parse().expect("an endpoint")),
        http: None,
        transport: None,
        model: Some("m".into()),
        metrics: Some("host:8".parse().expect("an endpoint")),
        workers: NonZeroU32::new(2),
        iterations: None,
        duration_s: NonZeroU64::new(7),
        response_ms: Some(Millis::try_from(9).expect("a time")),
        ..Overrides::default()
    };
    let source = Source::from_text("a.toml", "load.iterations = 5\nload.workers = 3\ntarget.model = 'x'");
    let scenario = Scenario::resolve(&source, overrides.clone()).expect("a scenario");
    assert_eq!(
        (
            scenario.populations[0].load.workers.get(),
            scenario.populations[0].load.iterations,
            scenario.populations[0].load.duration_s
        ),
        (2, None, NonZeroU64::new(7))
    );
    assert_eq!((scenario.target.model.as_str(), scenario.target.endpoint.to_string().as_str()), ("m", "host:9"));
    assert_eq!(scenario.target.metrics.as_ref().map(ToString::to_string), Some("host:8".to_owned()));
    assert_eq!(scenario.limits.response_ms.map(Millis::duration), Some(Duration::from_millis(9)));
    let both =
        Scenario::resolve(&source, Overrides { iterations: NonZeroU64::new(6), ..overrides }).expect("a scenario");
    assert_eq!(
        (both.populations[0].load.iterations, both.populations[0].load.duration_s),
        (NonZeroU64::new(6), NonZeroU64::new(7))
    );
}

#[test]
fn workers_belong_to_the_phases_that_their_populations_name() {
    let text = "
[[phase]]
name = 'stress'
[[phase]]
name = 'heal'
pause_ms = 500
server = 'reload-oldest'
[[phase]]
name = 'probe'
[[population]]
name = 'a'
phase = 'probe'
load = { workers = 1, duration_s = 3 }
[[population]]
name = 'b'
load.workers = 2
[[population]]
name = 'c'
phase = 'stress'
load.workers = 1";
    let scenario = Scenario::resolve(&Source::from_text("a.toml", text), Overrides::default()).expect("a scenario");
    let phases: Vec<_> = (0..4).map(|worker| scenario.phase_of(worker)).collect();
    assert_eq!(phases, [Some(2), None, None, Some(0)]);
    assert_eq!(scenario.phases[1].server, Some(ServerAction::ReloadOldest));
    // Who says for how long does not mean so many iterations at most besides.
    assert_eq!(scenario.populations[0].load.iterations, None);
    let json = serde_json::to_string(&scenario).expect("JSON");
    assert_eq!(serde_json::from_str::<Scenario>(&json).expect("a scenario"), scenario);
    for (old, new, expected) in [
        (
            "phase = 'probe'",
            "phase = 'prob'",
            "a.toml:12: population[0].phase: there is no phase 'prob', but stress, heal, probe",
        ),
        ("name = 'heal'", "name = 'stress'", "a.toml:5: phase[1].name: there are two phases 'stress'"),
        ("phase = 'stress'", "", "a.toml:3: phase[0].name: in phase 'stress' nothing happens"),
        ("'reload-oldest'", "'reloud'", "a.toml:7: phase[1].server: it has to be one of `reload`"),
        ("pause_ms = 500", "pause_ms = 0", "a.toml:6: phase[1].pause_ms: 0 ms cannot be"),
    ] {
        let error = Scenario::resolve(&Source::from_text("a.toml", &text.replacen(old, new, 1)), Overrides::default());
        let error = error.expect_err(new).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn patterns_of_which_nothing_can_be_drawn_are_rejected() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("a.toml");
    let error = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        Scenario::resolve(&Source::from_file(path.clone()).expect("a file"), Overrides::default())
            .err()
            .map(|error| error.to_string())
    };
    let rare = "contexts = { common = 0, rare = 4, rare_probability = 1 }";
    let in_vain = error(&format!("{rare}\npatterns.common = {{ burst = 1 }}")).expect("it is in vain");
    assert!(in_vain.contains("a.toml:2: patterns.common: nothing of it can be drawn"), "{in_vain}");
    assert_eq!(error(&format!("{rare}\npatterns.rare = {{ burst = 1 }}")), None);
    let of_one = format!(
        "[[population]]\nname = 'a'\n{rare}\n[population.patterns]\ncommon = {{ burst = 1 }}\n[[population]]\nname = 'b'"
    );
    let in_vain = error(&of_one).expect("it is in vain");
    assert!(in_vain.contains("population[0].patterns.common: nothing of it can be drawn"), "{in_vain}");
    // What one population cannot draw another one may.
    assert_eq!(
        error(&format!(
            "patterns.common = {{ burst = 1 }}\n[[population]]\nname = 'a'\n{rare}\n[[population]]\nname = 'b'"
        )),
        None
    );
}

#[test]
fn a_population_may_have_correlation_ids_of_another_form() {
    let text = "
correlation_ids.form = 'text'
[[population]]
name = 'a'
load.workers = 2
[[population]]
name = 'b'
load.workers = 1
correlation_ids.form = 'integer'";
    let scenario = Scenario::resolve(&Source::from_text("a.toml", text), Overrides::default()).expect("a scenario");
    let forms: Vec<_> = (0..3).map(|worker| scenario.id_form(worker)).collect();
    assert_eq!(forms, [IdForm::Text, IdForm::Text, IdForm::Integer]);
    let json = serde_json::to_string(&scenario).expect("JSON");
    assert_eq!(serde_json::from_str::<Scenario>(&json).expect("a scenario"), scenario);
    let other = text.replace("form = 'integer'", "first = 9");
    let error = Scenario::resolve(&Source::from_text("a.toml", &other), Overrides::default()).expect_err("another key");
    let expected = "a.toml:9: population[1].correlation_ids: there is no key 'first' here; the keys are form";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_key() {
    for (text, expected) in [
        ("[load]\nworker = 3", "a.toml:2: load: there is no key 'worker' here; did you mean 'workers'?"),
        ("\n\nlode = 3", "a.toml:3: there is no key 'lode' here; did you mean 'load'?"),
        ("\npopulation = []", "a.toml:2: population: the list is empty: leave it out, or give [[population]]"),
        (
            "[patterns.common]\nvalid = 1\nvlid = 2",
            "a.toml:3: patterns.common: there is no key 'vlid' here; did you mean 'valid'?",
        ),
        ("[load]\nworkers = 0", "a.toml:2: load.workers: it has to be a whole number from 1 to 100000, and is `0`"),
        ("[load]\nworkers = -1", "a.toml:2: load.workers: it has to be a whole number from 1 to 100000, and is `-1`"),
        ("[load]\nworkers = 100001", "a.toml:2: load.workers: 100001 is more than 100000"),
        ("[load]\niterations = 0", "a.toml:2: load.iterations: it has to be a whole number from 1 up, and is `0`"),
        (
            "[load]\nworkers = 'many'",
            "a.toml:2: load.workers: it has to be a whole number from 1 to 100000, and is \"many\"",
        ),
        ("[patterns.rare]\nvalid = -0.5", "a.toml:2: patterns.rare.valid: -0.5 is no weight"),
        ("[patterns.rare]\nvalid = nan", "a.toml:2: patterns.rare.valid: NaN is no weight"),
        ("[patterns.common]\nvalid = inf", "a.toml:2: patterns.common.valid: inf is no weight"),
        ("\n[patterns.common]\nvalid = 0", "a.toml:2: patterns.common: all weights are 0"),
        ("patterns.common = {}", "a.toml:1: patterns.common: all weights are 0"),
        ("[patterns.common]\nvalid = 1e308\nno-end = 1e308", "a.toml:1: patterns.common: the weights are too large"),
        (
            "[length]\nnormal = { mean = nan, stdev = 8 }",
            "a.toml:2: length.normal: the mean NaN is not a finite number",
        ),
        ("[length]\nnormal = { mean = 1, stdev = nan }", "a.toml:2: length.normal: the stdev NaN"),
        ("[length]\nnormal = { mean = 1, stdev = -1 }", "a.toml:2: length.normal: the stdev -1"),
        ("[length]\nmin = 9\nmax = 3", "a.toml:2: length.min: 9 is above length.max, 3"),
        ("[length]\nmin = 0", "a.toml:2: length.min: it has to be a whole number from 1 to 1000000, and is `0`"),
        ("[values]\nuniform = { min = 5, max = 4 }", "a.toml:2: values.uniform: min 5 is above max 4"),
        (
            "[values]\nuniform = { min = 0, max = 1.5 }",
            "a.toml:2: values.uniform.max: it has to be a whole number, and is `1.5`",
        ),
        (
            "[contexts]\ncommon = 50\nrare = 51",
            "a.toml:1: contexts: 50 common and 51 rare contexts do not fit a block of 100",
        ),
        ("[contexts]\ncommon = 4294967295", "a.toml:1: contexts: 4294967295 common and 8 rare contexts do not fit"),
        (
            "[correlation_ids]\nblock = 9",
            "contexts: 2 common and 8 rare contexts do not fit a block of 9 correlation IDs",
        ),
        ("contexts = { common = 0, rare = 0, rare_probability = 0 }", "a.toml:1: contexts: common and rare are both 0"),
        ("[contexts]\ncommon = 0", "contexts.rare_probability: 0.1 with no common contexts"),
        ("[contexts]\nrare = 0", "contexts.rare_probability: 0.1 with no rare contexts"),
        ("[contexts]\nrare_probability = 1.1", "a.toml:2: contexts.rare_probability: 1.1 is no probability"),
        (
            "[correlation_ids]\nfirst = 0",
            "a.toml:2: correlation_ids.first: it has to be a whole number from 1 up, and is `0`",
        ),
        (
            "[correlation_ids]\nblock = 4294967295\n[load]\nworkers = 100000\n[correlation_ids.x]",
            "there is no key 'x' here",
        ),
        (
            "[sending]\nwindow = 0",
            "a.toml:2: sending.window: it has to be \"all\" or a whole number above 0, and is `0`",
        ),
        ("[length]\nmax = 4000000000", "a.toml:2: length.max: 4000000000 is more than 1000000"),
        ("load.workers = 100000\ncontexts.common = 20", "a.toml:2: contexts: 2800000 contexts of all workers are more"),
        (
            "[sending]\nwindow = 'some'",
            "a.toml:2: sending.window: it has to be \"all\" or a whole number above 0, and is \"some\"",
        ),
        (
            "[sending]\nreuse = 'never'",
            "a.toml:2: sending.reuse: it has to be `pipelined` or `after-response`, and is `never`",
        ),
        ("[limits]\nlost_after_ms = 0", "a.toml:2: limits.lost_after_ms: 0 ms cannot be"),
        ("[limits]\nstep_ms = 99999999999999", "a.toml:2: limits.step_ms: 99999999999999 ms cannot be"),
        ("[target]\nendpoint = 'localhost'", "a.toml:2: target.endpoint: 'localhost' has no port"),
        ("[target]\nmodel = ''", "a.toml:2: target.model: the name is empty"),
        ("[load]\nworkers = 3\nworkers = 4", "a.toml:3: it is not TOML: duplicate key"),
        ("[load\nworkers = 3", "a.toml:1: "),
        ("limits = { step_ms = 1.5 }", "a.toml:1: limits.step_ms: it has to be a whole number from 0 up, and is `1.5`"),
        ("slots.check = 1", "a.toml:1: slots.check: it has to be true or false, and is `1`"),
        ("\n[claims]\nbacklog = -1", "a.toml:3: claims.backlog: it has to be a whole number from 0 up, and is `-1`"),
        ("[target]\nmodel = 3", "a.toml:2: target.model: it has to be a text in quotes, and is `3`"),
        ("length.normal = 3", "a.toml:1: length.normal: it has to be a table, and is `3`"),
        (
            "patterns.common = 3",
            "a.toml:1: patterns.common: it has to be a table of patterns and their weights, and is `3`",
        ),
        ("load = 3", "a.toml:1: load: it has to be a table, and is `3`"),
    ] {
        let error = resolve(text).expect_err(text);
        assert!(error.contains(expected), "{text:?}:\n  {error}\n  should have {expected}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn what_is_wrong_with_a_population_is_told_where_it_stands() {
    for (text, expected) in [
        (
            "length.geometric = { mean = 3 }\nlength.list = [1]",
            "a.toml:1: length: one key alone can say how it is drawn, and there are geometric and list",
        ),
        ("\nthink.step_ms = { constant = 1, list = [1] }", "a.toml:2: think.step_ms: "),
        ("[[population]]\n[[population]]\nname = 'b'", "a.toml:1: population[0].name: a population among others needs"),
        (
            "[[population]]\nname = 'b'\n[[population]]\nname = 'b'",
            "a.toml:4: population[1].name: there are two populations 'b'",
        ),
        (
            "length.max = 7\n[[population]]\nname = 'a'\n[[population]]\nname = 'b'\nlength.min = 9",
            "a.toml:6: population[1].length.min: 9 is above length.max, 7",
        ),
        (
            "[[population]]\nname = 'a'\nlode.workers = 3",
            "a.toml:3: population[0]: there is no key 'lode' here; did you mean 'load'?",
        ),
        (
            "population = 3",
            "a.toml:1: population: it has to be a list, and is `3` (population takes list of tables, [[population]]",
        ),
        (
            "think.step_ms = 100",
            "think.step_ms: it has to be a table, and is `100` (think.step_ms takes { constant = 5 }, or",
        ),
        (
            "think.step_ms = { const = 100 }",
            "a.toml:1: think.step_ms: there is no key 'const' here; did you mean 'constant'?",
        ),
        ("think.step_ms = { constant = 1, max = 3 }", "think.step_ms: only a length is kept within a min and a max"),
        (
            "length.log-normal = { mean = 3 }",
            "a.toml:1: length.log-normal: there is no key 'mean' here; did you mean 'median'?",
        ),
        ("load.workers = 'four'", "load.workers: it has to be a whole number from 1 to 100000, and is \"four\""),
    ] {
        let error = resolve(text).expect_err(text);
        assert!(error.contains(expected), "{text:?}:\n  {error}\n  should have {expected}");
    }
}

#[test]
fn blocks_that_go_past_the_last_id_are_rejected() {
    let last_fit = u64::MAX - 799;
    let overrides = || Overrides { workers: NonZeroU32::new(8), ..Overrides::default() };
    // TOML's integers end at 2^63, so the largest blocks are reached by their number.
    let source = Source::from_text("a.toml", "[correlation_ids]\nfirst = 9223372036854775807\nblock = 4294967295");
    let many = Overrides { workers: NonZeroU32::new(100_000), ..Overrides::default() };
    assert!(Scenario::resolve(&source, many).is_ok());
    let mut scenario = resolve("").expect("a scenario");
    scenario.correlation_ids.first = NonZeroU64::new(last_fit).expect("not zero");
    scenario.override_with(overrides());
    assert_eq!(scenario.check(), Ok(()));
    scenario.correlation_ids.first = NonZeroU64::new(last_fit + 1).expect("not zero");
    let (key, problem) = scenario.check().expect_err("too many");
    assert_eq!((key.as_str(), problem.contains("go past the largest ID")), ("correlation_ids", true), "{problem}");
}

#[test]
fn a_file_that_cannot_be_read_is_told() {
    let error = Source::from_file("does/not/exist.toml".into()).expect_err("no such file").to_string();
    assert!(error.starts_with("does/not/exist.toml: cannot read the scenario: No such file"), "{error}");
}

#[test]
fn thresholds_are_the_runs_or_a_populations() {
    let text = "
fail_if = ['goodput < 5/s', 'sequence.p99 of population b > 1s']
[[population]]
name = 'a'
load.workers = 1
[[population]]
name = 'b'
fail_if = ['wait_for_slot.max > 2s']
load.workers = 1";
    let given = |text: &str| Scenario::resolve(&Source::from_text("a.toml", text), Overrides::default());
    let scenario = given(text).expect("a scenario");
    let scopes: Vec<_> = scenario.thresholds().iter().map(|(scope, threshold)| (*scope, threshold.measure)).collect();
    let b = Scope::Population(1);
    assert_eq!(scopes, [(Scope::Run, Measure::Goodput), (b, Measure::Sequence), (b, Measure::WaitForSlot)]);
    let json = serde_json::to_string(&scenario).expect("JSON");
    assert_eq!(serde_json::from_str::<Scenario>(&json).expect("a scenario"), scenario);
    for (from, to, problem) in [
        (
            "of population b",
            "of population c",
            "a.toml:2: fail_if: 'sequence.p99 of population c > 1s': there is no population 'c'; these are: a, b",
        ),
        ("of population b", "of pattern malformed", "the scenario does not draw the pattern malformed"),
        ("wait_for_slot.max", "wait_for_slot.max of pattern valid", "a.toml:8: population[1].fail_if: "),
        ("wait_for_slot.max > 2s", "pending.max > 2", "is measured of the whole run alone"),
        ("goodput < 5/s", "client_late.p99 > 1ms", "it is measured with --rate or --step-interval"),
        (
            "goodput < 5/s",
            "goodputt < 5/s",
            "a.toml:2: fail_if[0]: 'goodputt < 5/s': 'goodputt' is not measured; these are: step",
        ),
    ] {
        let changed = text.replace(from, to);
        let result = given(&changed);
        let error = result.map(drop).expect_err(to).to_string();
        assert!(error.contains(problem), "{error}");
    }
    let short = given("load.duration_s = 10\nfail_if = ['step.p99 > 1s during 10s..']")
        .expect_err("it never begins")
        .to_string();
    assert!(short.contains("the run ends after 10s"), "{short}");
}

#[test]
fn the_transport_follows_from_flag_file_and_endpoints() {
    let transport = |text: &str, endpoints: &str, flag| {
        let overrides = Overrides {
            endpoint: endpoints.parse().ok(),
            transport: flag,
            http: "http://h:9".parse().ok(),
            ..Overrides::default()
        };
        let scenario = Scenario::resolve(&Source::from_text("test", text), overrides).expect("a scenario");
        let its = scenario.populations[0].sending.transport();
        (its, scenario.target.endpoint.to_string(), scenario.lacks_an_endpoint().is_some())
    };
    let unary = "sending.transport = 'grpc-unary'";
    for (text, endpoints, flag, expected, at) in [
        ("", "a:1", None, Transport::GrpcStream, "a:1"),
        ("", "http://a:1", None, Transport::HttpBinary, "http://a:1"),
        ("", "http://a:1,b:2", None, Transport::GrpcStream, "http://a:1, b:2"),
        (unary, "a:1", None, Transport::GrpcUnary, "a:1"),
        (unary, "a:1", Some(Transport::Http), Transport::Http, "a:1, http://h:9"),
        (unary, "a:1,http://b:2", Some(Transport::Http), Transport::Http, "a:1, http://b:2"),
        ("patterns.common = { mixed-transports = 1 }", "a:1", None, Transport::GrpcStream, "a:1, http://h:9"),
    ] {
        assert_eq!(transport(text, endpoints, flag), (expected, at.to_owned(), false), "{text} {endpoints} {flag:?}");
    }
    assert!(transport(unary, "http://a:1", None).2, "there is no gRPC");
}

#[test]
fn patterns_that_need_a_stream_are_rejected_where_a_file_has_calls_and_left_out_where_a_flag_has() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let resolve = |text: &str, transport| {
        let path = folder.path().join("a.toml");
        std::fs::write(&path, text).expect("a file");
        let source = Source::from_file(path).expect("it is there");
        Scenario::resolve(&source, Overrides { transport, ..Overrides::default() }).map_err(|error| error.to_string())
    };
    let weights = "patterns.common = { valid = 1, half-close = 1 }\n";
    let error =
        resolve(&format!("{weights}sending.transport = 'grpc-unary'"), None).expect_err("they do not go together");
    assert!(
        error.contains("a.toml:1: patterns.common: half-close needs a stream, and sending.transport is grpc-unary"),
        "{error}"
    );
    let scenario = resolve(weights, Some(Transport::GrpcUnary)).expect("a scenario");
    let population = &scenario.populations[0];
    assert!(!population.draws(Pattern::HalfClose).anywhere() && population.draws(Pattern::Valid).common);
    assert_eq!(population.left_out().collect::<Vec<_>>(), [Pattern::HalfClose]);
    assert!(population.sending.window().has_room(0) && !population.sending.window().has_room(1));
    let error = resolve("patterns.common = { half-close = 1 }", Some(Transport::Http)).expect_err("nothing is left");
    assert!(error.contains("each of these patterns needs a stream, and the transport is http"), "{error}");
}

#[test]
fn the_count_the_time_or_whichever_comes_first_ends_a_run() {
    let load = |iterations, duration_s| Load {
        workers: NonZeroU32::MIN,
        iterations: NonZeroU64::new(iterations),
        duration_s: NonZeroU64::new(duration_s),
        rate: None,
        arrivals: Arrivals::default(),
        step_interval_ms: None,
        step_jitter_ms: None,
    };
    let (early, late) = (Duration::from_millis(9_999), Duration::from_secs(10));
    for (load, elapsed, iterations, is_done) in [
        (load(3, 0), late, 2, false),
        (load(3, 0), early, 3, true),
        (load(0, 10), early, 1_000_000, false),
        (load(0, 10), late, 0, true),
        (load(3, 10), early, 2, false),
        (load(3, 10), early, 3, true),
        (load(3, 10), late, 2, true),
    ] {
        assert_eq!(load.is_done(elapsed, iterations), is_done, "{load:?} after {elapsed:?} and {iterations}");
    }
}
