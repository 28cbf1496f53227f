use std::time::Duration;

use super::*;

fn resolve(text: &str) -> Result<Scenario, String> {
    Scenario::resolve(&Source::from_text("a.toml", text), Overrides::default()).map_err(|error| error.to_string())
}

#[test]
fn the_default_scenario_has_the_numbers_of_l0() {
    let scenario = resolve("").expect("the default scenario");
    assert_eq!(scenario, resolve(DEFAULT).expect("the default scenario"));
    assert_eq!((scenario.load.workers.get(), scenario.load.iterations.map(NonZeroU64::get)), (8, Some(200)));
    assert_eq!(scenario.contexts, Contexts { common: 2, rare: 8, rare_probability: Probability(0.1) });
    assert_eq!((scenario.correlation_ids.first.get(), scenario.correlation_ids.block.get()), (1, 100));
    assert_eq!(scenario.patterns.common.in_order()[..5], [0.85, 0.05, 0.05, 0.01, 0.04]);
    assert_eq!(scenario.patterns.rare.in_order()[..5], [0.0, 0.34, 0.33, 0.0, 0.33]);
    assert_eq!(scenario.length.normal, Normal { mean: 16.0, stdev: 8.0 });
    assert_eq!(scenario.values.uniform, Uniform { min: 0, max: 1_048_575 });
    assert_eq!(scenario.limits.lost_after_ms.duration(), Duration::from_secs(5));
    assert_eq!(scenario.target.endpoint.to_string(), "localhost:8001");
    assert_eq!(scenario.target.model, "custom_sequence_int32");
    assert_eq!(scenario.sending.reuse, Reuse::Pipelined);
    assert_eq!(scenario.sending.window, Window::All);
}

#[test]
fn a_file_needs_only_what_differs_and_pattern_tables_are_whole() {
    let scenario =
        resolve("[contexts]\nrare = 3\n[patterns.common]\nvalid = 1\n[sending]\nwindow = 4").expect("a scenario");
    assert_eq!((scenario.contexts.common, scenario.contexts.rare), (2, 3));
    assert_eq!(scenario.patterns.common.in_order()[..5], [1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(scenario.patterns.rare.in_order()[..5], [0.0, 0.34, 0.33, 0.0, 0.33]);
    assert!(scenario.sending.window.has_room(3) && !scenario.sending.window.has_room(4));
}

#[test]
fn flags_override_the_file() {
    let overrides = Overrides {
        endpoint: Some("host:9".parse().expect("an endpoint")),
        model: Some("m".into()),
        metrics: Some("host:8".parse().expect("an endpoint")),
        workers: NonZeroU32::new(2),
        iterations: None,
        duration_s: NonZeroU64::new(7),
        response_ms: Some(Millis::try_from(9).expect("a time")),
    };
    let source = Source::from_text("a.toml", "load.iterations = 5\nload.workers = 3\ntarget.model = 'x'");
    let scenario = Scenario::resolve(&source, overrides.clone()).expect("a scenario");
    assert_eq!(
        (scenario.load.workers.get(), scenario.load.iterations, scenario.load.duration_s),
        (2, None, NonZeroU64::new(7))
    );
    assert_eq!((scenario.target.model.as_str(), scenario.target.endpoint.to_string().as_str()), ("m", "host:9"));
    assert_eq!(scenario.target.metrics.as_ref().map(ToString::to_string), Some("host:8".to_owned()));
    assert_eq!(scenario.limits.response_ms.map(Millis::duration), Some(Duration::from_millis(9)));
    let both =
        Scenario::resolve(&source, Overrides { iterations: NonZeroU64::new(6), ..overrides }).expect("a scenario");
    assert_eq!((both.load.iterations, both.load.duration_s), (NonZeroU64::new(6), NonZeroU64::new(7)));
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_key() {
    for (text, expected) in [
        ("[load]\nworker = 3", "a.toml:2: unknown key `worker`, expected one of `workers`, `iterations`, `duration_s`"),
        ("\n\nlode = 3", "a.toml:3: unknown key `lode`"),
        (
            "[patterns.common]\nvalid = 1\nvlid = 2",
            "a.toml:3: unknown key `vlid`, expected one of `valid`, `valid-valid`",
        ),
        ("[load]\nworkers = 0", "a.toml:2: load.workers: invalid value: integer `0`, expected a nonzero u32"),
        ("[load]\nworkers = -1", "a.toml:2: load.workers: invalid value: integer `-1`"),
        ("[load]\nworkers = 100001", "a.toml:2: load.workers: 100001 is more than 100000"),
        ("[load]\niterations = 0", "a.toml:2: load.iterations: invalid value: integer `0`"),
        ("[load]\nworkers = 'many'", "a.toml:2: load.workers: invalid type: string \"many\""),
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
        ("[length]\nmin = 0", "a.toml:2: length.min: invalid value: integer `0`"),
        ("[values]\nuniform = { min = 5, max = 4 }", "a.toml:2: values.uniform: min 5 is above max 4"),
        (
            "[values]\nuniform = { min = 0, max = 2147483648 }",
            "a.toml:2: values.uniform.max: invalid value: integer `2147483648`",
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
        ("[correlation_ids]\nfirst = 0", "a.toml:2: correlation_ids.first: invalid value: integer `0`"),
        ("[correlation_ids]\nblock = 4294967295\n[load]\nworkers = 100000\n[correlation_ids.x]", "unknown key `x`"),
        (
            "[sending]\nwindow = 0",
            "a.toml:2: sending.window: invalid value: integer `0`, expected \"all\" or a whole number",
        ),
        ("[length]\nmax = 4000000000", "a.toml:2: length.max: 4000000000 is more than 1000000"),
        ("load.workers = 100000\ncontexts.common = 20", "a.toml:2: contexts: 2800000 contexts of all workers are more"),
        ("[sending]\nwindow = 'some'", "a.toml:2: sending.window: invalid value: string \"some\""),
        ("[sending]\nreuse = 'never'", "a.toml:2: sending.reuse: unknown variant `never`"),
        ("[limits]\nlost_after_ms = 0", "a.toml:2: limits.lost_after_ms: 0 ms cannot be"),
        ("[limits]\nstep_ms = 99999999999999", "a.toml:2: limits.step_ms: 99999999999999 ms cannot be"),
        ("[target]\nendpoint = 'localhost'", "a.toml:2: target.endpoint: 'localhost' has no port"),
        ("[target]\nmodel = ''", "a.toml:2: target.model: the name is empty"),
        ("[load]\nworkers = 3\nworkers = 4", "a.toml:3: duplicate key"),
        ("[load\nworkers = 3", "a.toml:1: "),
        ("load = 3", "a.toml:1: load: invalid type: integer `3`"),
    ] {
        let error = resolve(text).expect_err(text);
        assert!(error.contains(expected), "{text:?}:\n  {error}\n  should have {expected}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn blocks_that_go_past_the_last_id_are_refused() {
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
    assert_eq!((key, problem.contains("go past the largest ID")), ("correlation_ids", true), "{problem}");
}

#[test]
fn a_file_that_cannot_be_read_is_told() {
    let error = Source::from_file("does/not/exist.toml".into()).expect_err("no such file").to_string();
    assert!(error.starts_with("does/not/exist.toml: cannot read the scenario: No such file"), "{error}");
}
