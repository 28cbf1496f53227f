//! `--metrics-listen`: what a run that goes on tells Prometheus.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use crate::support::{
    http::{LIMIT, ask, connect, request, try_ask},
    metered::Metered,
    scrape::Page,
    tool::{told, words},
};
use serde_json::Value;

const SCENARIO: &str = "tests/support/claims-nothing.toml";

/// A number of a result.
fn number(result: &Value, path: &str) -> f64 {
    result.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

#[test]
fn the_last_metrics_are_those_of_the_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let arguments =
        ["--embedded", "-r42", "-t4", "-i60", "--idle-limit=200ms", "--fault=off-by-one:once@300", "--fail-if"];
    let mut run = Metered::begin(&[&arguments[..], &["step.max < 1us", "--json", words(&json)]].concat());
    let name = "sequence_stress_requests_total";
    let first = run.shows(|page| page.sum(name, "") > 0.0);
    let later = run.shows(|page| page.sum(name, "") > first.sum(name, ""));
    later.assert_not_below(&first);
    let report = run.report("replay: ");
    let (last, code) = run.end();
    assert_eq!(code, Some(1), "{report}");
    last.assert_not_below(&later);
    let result: Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    for (name, with, path) in [
        ("requests_total", "", "/outcomes/requests"),
        ("responses_total", "completed", "/outcomes/completed"),
        ("responses_total", "rejected", "/outcomes/rejected"),
        ("responses_total", "failed", "/outcomes/failed"),
        ("sequences_total", "", "/outcomes/sequences"),
        ("sequences_total", "pattern=\"valid\"", "/patterns/valid/sequences"),
        ("violations_total", "kind=\"wrong-sum\",cause=\"wrong-arithmetic\"", "/violation_count"),
        ("step_duration_seconds_count", "", "/latency_us/step/count"),
        ("step_duration_seconds_bucket", "le=\"+Inf\"", "/latency_us/step/count"),
        ("sequence_duration_seconds_count", "", "/latency_us/sequence/count"),
        ("slot_wait_seconds_count", "", "/latency_us/wait_for_slot/count"),
    ] {
        let told = last.sum(&format!("sequence_stress_{name}"), with);
        assert!(
            (told - number(&result, path)).abs() < 0.5,
            "{name} {with}: {told}, and {path} is {}",
            number(&result, path)
        );
    }
    assert!(number(&result, "/violation_count") > 0.5 && number(&result, "/outcomes/rejected") > 0.5, "{result}");
    let mean = number(&result, "/latency_us/step/mean") / 1e6;
    let count = last.sum("sequence_stress_step_duration_seconds_count", "");
    let told = last.sum("sequence_stress_step_duration_seconds_sum", "") / count;
    assert!((told / mean - 1.0).abs() < 0.001, "{told} {mean}");
    let good = count - number(&result, "/violation_count");
    assert!((last.sum("sequence_stress_good_responses_total", "") - good).abs() < 0.5);
    for (labels, expected) in [("valid", 0.0), ("invalid", 1.0), ("unknown", 0.0)] {
        let verdict = last.sum("sequence_stress_verdict", &format!("verdict=\"{labels}\""));
        assert!((verdict - expected).abs() < 0.5, "{labels}");
    }
    let info: Vec<_> = last.all("sequence_stress_run_info").collect();
    let expected = "scenario=\"l0-sequence-stress\",model=\"custom_sequence_int32\",seed=\"42\"";
    assert_eq!(info, [(expected, 1.0)]);
    let missed: Vec<_> = last.all("sequence_stress_threshold_missed").collect();
    assert_eq!(missed, [("scenario=\"l0-sequence-stress\",threshold=\"step.max < 1us\"", 0.0)]);
    assert!(last.sum("sequence_stress_client_cpu_seconds_total", "") > 0.0);
}

#[test]
fn a_correct_server_shows_no_violation_and_a_missed_threshold_is_told() {
    let mut run =
        Metered::begin(&["--embedded", "-r7", "-t2", "-i8", "--scenario", SCENARIO, "--fail-if", "step.max > 1us"]);
    let report = run.report("replay: ");
    let (last, code) = run.end();
    assert_eq!(code, Some(5), "{report}");
    assert_eq!(last.all("sequence_stress_violations_total").count(), 0, "{}", last.text);
    assert!(last.sum("sequence_stress_verdict", "verdict=\"valid\"") > 0.5, "{}", last.text);
    assert!(last.sum("sequence_stress_threshold_missed", "") > 0.5, "{}", last.text);
    for level in ["in_flight", "starts_waiting", "slots_taken"] {
        let told: Vec<_> = last.all(&format!("sequence_stress_{level}")).map(|(_, value)| value).collect();
        assert_eq!(told, [0.0], "{level}");
    }
    assert_eq!(last.families().get("sequence_stress_step_duration_seconds"), Some(&"histogram"));
}

#[test]
fn a_suite_tells_its_scenarios_apart() {
    let mut run =
        Metered::begin(&["suite", "--embedded", "-r7", "--only", "rapid-cycling,ordering", "--idle-limit=200ms"]);
    let both = |page: &Page| {
        ["ordering", "rapid-cycling"].iter().all(|name| page.sum("sequence_stress_requests_total", name) > 0.0)
    };
    let earlier = run.shows(both);
    Page::fetch(run.address).assert_not_below(&earlier);
    run.report("2 of 2 scenarios");
    let (last, code) = run.end();
    assert_eq!(code, Some(0), "{}", last.text);
    let verdicts = last.all("sequence_stress_verdict").filter(|(_, value)| *value > 0.5).map(|(labels, _)| labels);
    let expected = ["ordering", "rapid-cycling"].map(|name| format!("scenario=\"{name}\",verdict=\"valid\""));
    assert_eq!(verdicts.collect::<Vec<_>>(), expected);
    assert_eq!(last.all("sequence_stress_run_info").count(), 2);
}

#[test]
fn an_address_that_cannot_be_had_is_told_before_anything_is_sent() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    server.set_nonblocking(true).expect("it can be");
    let endpoint = server.local_addr().expect("an address").to_string();
    for (listen, why) in [
        (address.as_str(), "Address already in use"),
        ("host:9464", "give an IP address and a port, such as 127.0.0.1:9464"),
        ("9464", "give an IP address and a port, such as 127.0.0.1:9464"),
        ("203.0.113.7:9464", "name another address"),
    ] {
        let commands: [&[&str]; 3] = [&[&endpoint], &["suite", &endpoint], &[&endpoint, "--find-limit", "1..8/s"]];
        for command in commands {
            let (code, text) = told(&[command, &["--metrics-listen", listen]].concat());
            assert_eq!(code, Some(2), "{text}");
            assert!(text.contains(why) && text.contains("--metrics-listen"), "{text}");
            assert!(text.trim_end().lines().count() <= 1 + usize::from(command[0] == "suite"), "{text}");
        }
    }
    assert!(server.accept().is_err(), "nobody has called the server");
    let (code, text) = told(&[&endpoint, "--metrics-linger", "3s"]);
    assert!(code == Some(2) && text.contains("--metrics-listen"), "{text}");
}

#[test]
fn no_request_holds_the_metrics_up() {
    let run = Metered::begin(&["--embedded", "-r7", "-t2", "-d10m", "--scenario", SCENARIO]);
    // As many as are served at a time, which send nothing, half a request, or no end.
    let mut idle: Vec<_> = (0..16).map(|_| connect(run.address)).collect();
    for (index, connection) in idle.iter_mut().enumerate() {
        let text: &[u8] = [&b""[..], b"GET /metr", b"GET /metrics HTTP/1.1\r\nX: "][index % 3];
        connection.write_all(text).expect("it is taken");
    }
    let page = Page::fetch(run.address);
    assert!(page.text.contains("sequence_stress_build_info"), "{}", page.text);
    for connection in idle {
        assert!(is_closed(connection), "it is ended");
    }
    let ask = |method, path, headers: &[_], body: &[u8]| ask(run.address, method, path, headers, body);
    assert_eq!(ask("GET", "/", &[], b"").status, 404);
    let rejected = ask("POST", "/metrics", &[], b"x");
    assert_eq!((rejected.status, rejected.headers.get("allow").map(String::as_str)), (405, Some("GET, HEAD")));
    let large = "x".repeat(100_000);
    let answer = try_ask(connect(run.address), &request("GET", "/metrics", &[("X", &large)], b""));
    assert!(answer.is_none_or(|answer| answer.status == 431));
    let open = ask("GET", "/metrics", &[("Accept", "application/openmetrics-text;version=1.0.0;q=0.9,*/*;q=0.1")], b"");
    assert_eq!(open.kind(), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(open.text().ends_with("# EOF\n") && open.text().contains("# UNIT "), "{}", open.text());
}

/// Waits for the other end to close a connection.
fn is_closed(mut connection: TcpStream) -> bool {
    connection.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut rest = Vec::new();
    match connection.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// The names of metrics in the queries of the dashboard.
fn queried() -> BTreeSet<String> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/grafana.json")).expect("a file");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let variables = dashboard.pointer("/templating/list").and_then(Value::as_array).expect("variables").iter();
    let queries = targets.filter_map(|target| target["expr"].as_str());
    let queries = queries.chain(variables.filter_map(|variable| variable.pointer("/query/query")?.as_str()));
    let names = queries.flat_map(|query| query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    names.filter(|name| name.starts_with("sequence_stress_")).map(str::to_owned).collect()
}

#[test]
fn the_dashboard_asks_for_what_there_is_and_the_page_names_it() {
    let mut run = Metered::begin(&["--embedded", "-r7", "-t2", "-i8", "--scenario", SCENARIO]);
    run.report("replay: ");
    let (last, _) = run.end();
    let families = last.families();
    let of_histogram = |name: &str| {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|ending| name.strip_suffix(ending));
        family.is_some_and(|family| families.get(family) == Some(&"histogram"))
    };
    let queried = queried();
    let unknown: Vec<_> =
        queried.iter().filter(|name| !families.contains_key(name.as_str()) && !of_histogram(name)).collect();
    assert_eq!(unknown, Vec::<&String>::new());
    assert!(queried.len() >= families.len(), "it shows everything: {queried:?}");
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/METRICS.md")).expect("a file");
    let untold: Vec<_> = families.keys().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert_eq!(untold, Vec::<&&str>::new(), "docs/METRICS.md has a row for each");
}

#[cfg(not(feature = "otlp"))]
#[test]
fn a_build_without_otlp_says_how_to_get_one() {
    let (code, text) = told(&["--embedded", "--otlp"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--features otlp") && text.trim().lines().count() == 1, "{text}");
}
