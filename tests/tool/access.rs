//! What it takes to be let in: TLS and headers.

use crate::support;
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener},
    process::Output,
    time::Duration,
};

use crate::support::{
    Setup, TestServer,
    runs::{reference_server, runtime, scenario},
    tls::{Authority, TlsFront},
    tool::{tool, unwrapped},
    triton::text,
};
use reference::{ModelOptions, Server};
use serde_json::{Value, json};
use tempfile::TempDir;
use wire::transport::{Access, pending_requests};

const SECRET: &str = "hunter2-and-nobody-knows";

fn server() -> Server {
    reference_server(ModelOptions::default(), &[])
}

/// A short run of the tool with these flags.
fn run(flags: &[&str]) -> Output {
    let folder = TempDir::new().expect("a folder");
    let scenario = folder.path().join("scenario.toml");
    fs::write(&scenario, "load.workers = 2\nload.iterations = 4\nlimits.quiet_ms = 50\nclaims = {}\n").expect("a file");
    run_scenario(scenario.to_str().expect("UTF-8"), flags)
}

fn run_scenario(scenario: &str, flags: &[&str]) -> Output {
    tool().args(["-r", "1", "--scenario", scenario]).args(flags).output().expect("it runs")
}

fn assert_valid(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", text(output));
}

/// Exits so, with one line on the standard error that says this.
fn assert_rejected(output: &Output, code: i32, parts: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
    assert_eq!(error.lines().count(), 1, "{error}");
    for part in parts {
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
}

#[test]
fn a_secured_endpoint_is_tested_as_any_other() {
    let (server, authority) = (server(), Authority::new());
    let front = TlsFront::start(server.address, &authority, "server", false);
    let (url, ca) = (format!("grpcs://{}", front.address), authority.file("ca.pem"));
    assert_valid(&run(&["-u", &url, "--ca", &ca]));
    let by_name = format!("grpcs://localhost:{}", front.address.port());
    assert_valid(&run(&["-u", &by_name, "--ca", &ca]));
}

#[test]
fn connections_are_secured_through_the_faulty_network_resets_and_killed_clients() {
    let (server, authority) = (server(), Authority::new());
    let front = TlsFront::start(server.address, &authority, "server", true);
    let folder = TempDir::new().expect("a folder");
    let scenario = folder.path().join("scenario.toml");
    let keys = format!(
        "target.endpoint = 'grpcs://{}'\ntarget.tls = {{ ca = '{}', client_cert = '{}', client_key = '{}' }}\n",
        front.address,
        authority.file("ca.pem"),
        authority.file("client.pem"),
        authority.file("client.key")
    );
    let scenario_of = |rest: &str| {
        let common = "load.workers = 2\nload.iterations = 6\nlimits.quiet_ms = 50\nclaims = {}\n";
        fs::write(&scenario, format!("{keys}{common}{rest}")).expect("a file");
        scenario.to_str().expect("UTF-8")
    };
    let faults = "patterns.common = { valid = 1, reset = 1, kill-client = 1, stop-reading = 1 }\ncontexts.rare = 0\n\
        contexts.rare_probability = 0.0\n";
    assert_valid(&run_scenario(scenario_of(faults), &[]));
    let network = "network.latency_ms = { uniform = { min = 0, max = 3 } }\nnetwork.slice_bytes = 50\n\
        network.cut.after_bytes = { uniform = { min = 4000, max = 9000 } }\n";
    assert_valid(&run_scenario(scenario_of(network), &[]));
}

#[test]
fn who_is_not_whom_he_says_is_told_in_one_line() {
    let (server, authority, other) = (server(), Authority::new(), Authority::new());
    authority.certify_until_2001("expired");
    authority.certify("named", &["another.test"], |_| {});
    let front = |name: &str, wants_client| TlsFront::start(server.address, &authority, name, wants_client);
    let url = |front: &TlsFront| format!("grpcs://{}", front.address);
    let (ca, other_ca) = (authority.file("ca.pem"), other.file("ca.pem"));

    let secured = front("server", false);
    assert_rejected(
        &run(&["-u", &url(&secured), "--ca", &other_ca]),
        4,
        &["no authority that is trusted", "--ca FILE"],
    );
    assert_rejected(&run(&["-u", &url(&front("expired", false)), "--ca", &ca]), 4, &["has expired"]);
    let named = front("named", false);
    let rejected = ["not for '127.0.0.1', but for another.test", "--server-name NAME"];
    assert_rejected(&run(&["-u", &url(&named), "--ca", &ca]), 4, &rejected);
    assert_valid(&run(&["-u", &url(&named), "--ca", &ca, "--server-name", "another.test"]));

    let mutual = front("server", true);
    assert_rejected(
        &run(&["-u", &url(&mutual), "--ca", &ca]),
        4,
        &["asks for the client's certificate", "--client-cert FILE"],
    );
    let mine = ["--client-cert", &authority.file("client.pem"), "--client-key", &authority.file("client.key")];
    assert_valid(&run(&[&["-u", &url(&mutual), "--ca", &ca], &mine[..]].concat()));
    let foreign = ["--client-cert", &other.file("client.pem"), "--client-key", &other.file("client.key")];
    assert_rejected(&run(&[&["-u", &url(&mutual), "--ca", &ca], &foreign[..]].concat()), 4, &["client's certificate"]);

    let plain = format!("grpcs://{}", server.address);
    assert_rejected(&run(&["-u", &plain, "--ca", &ca]), 4, &["speak no TLS", &format!("grpc://{}", server.address)]);
    let without = secured.address.to_string();
    assert_rejected(&run(&["-u", &without]), 4, &["the endpoint speaks TLS: use grpcs://"]);
}

#[test]
fn files_that_cannot_be_used_are_a_wrong_command_line() {
    let authority = Authority::new();
    let (ca, key) = (authority.file("ca.pem"), authority.file("client.key"));
    let url = ["-u", "grpcs://127.0.0.1:1"];
    let rejected = |flags: &[&str], parts: &[&str]| assert_rejected(&run(&[&url, flags].concat()), 2, parts);
    rejected(&["--ca", "/nowhere/ca.pem"], &["/nowhere/ca.pem", "--ca", "No such file"]);
    rejected(&["--ca", &key], &["no certificates in", "PEM"]);
    rejected(&["--ca", &ca, "--client-cert", &ca], &["go together"]);
    rejected(&["--ca", &ca, "--client-cert", &ca, "--client-key", &ca], &["the client's key", "--client-key"]);
    rejected(&["--ca", &ca, "--client-cert", &ca, "--client-key", &key], &["cannot be used with the key"]);
    rejected(&["--ca", &ca, "--server-name", "a b"], &["'a b' is no server's name"]);
    assert_rejected(&run(&["-u", "127.0.0.1:1", "--ca", &ca]), 2, &["grpcs://HOST:PORT"]);
    assert_rejected(&run(&["--embedded", "--ca", &ca]), 2, &["--embedded"]);
}

#[test]
fn headers_are_sent_with_every_call_and_their_values_are_written_down_nowhere() {
    let setup = Setup { wants_header: Some(("authorization", SECRET)), ..Setup::default() };
    let server = TestServer::start(setup);
    let url = server.address.to_string();
    assert_rejected(&run(&["-u", &url]), 4, &["wants authentication: who are you?", "-H 'NAME: VALUE'"]);
    let header = format!("Authorization: {SECRET}");
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (json, history, failure) = (path("result.json"), path("history.jsonl"), path("failure.toml"));
    let output = run(&[
        "-u",
        &url,
        "-H",
        &header,
        "-v",
        "--json",
        &json,
        "--history",
        &history,
        "--history-keep",
        "all",
        "--failure",
        &failure,
    ]);
    assert_valid(&output);
    let shown = text(&output);
    assert!(shown.contains("-H 'authorization: …'"), "{shown}");
    for written in [shown, read(&json), read(&history)] {
        assert!(!written.contains(SECRET) && written.contains("authorization"), "{written}");
    }
    // What is told is what has to be given again.
    assert_rejected(
        &run(&["-u", &url, "-H", "authorization: …"]),
        2,
        &["give it again, with -H 'authorization: VALUE'"],
    );
}

#[test]
fn a_value_of_the_environment_makes_a_command_that_works_again() {
    let server =
        TestServer::start(Setup { wants_header: Some(("authorization", "Bearer hunter2")), ..Setup::default() });
    let folder = TempDir::new().expect("a folder");
    let scenario = folder.path().join("scenario.toml");
    let text_of_it = format!(
        "target.endpoint = '{}'\ntarget.headers = ['authorization: Bearer $STRESS_TEST_TOKEN']\nload.workers = 2\n\
         load.iterations = 4\nlimits.quiet_ms = 50\nclaims = {{}}\n",
        server.address
    );
    fs::write(&scenario, text_of_it).expect("a file");
    let of_the_file = |token: Option<&str>| {
        let mut command = tool();
        command.args(["-r", "1", "--scenario"]).arg(&scenario);
        if let Some(token) = token {
            command.env("STRESS_TEST_TOKEN", token);
        }
        command.output().expect("it runs")
    };
    assert_rejected(&of_the_file(None), 2, &["no variable STRESS_TEST_TOKEN"]);
    assert_valid(&of_the_file(Some("hunter2")));
    assert_rejected(&of_the_file(Some("other")), 4, &["who are you?"]);
}

#[test]
fn a_scenario_whose_headers_are_wrong_is_rejected_without_telling_them() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("scenario.toml");
    for (headers, part) in [
        (format!("['{SECRET}']"), "no colon"),
        (format!("'a: {SECRET}'"), "it has to be a list"),
        (format!("{{ a = '{SECRET}' }}"), "it has to be a list"),
        (format!("['a: {SECRET}', 'A: {SECRET}']"), "two headers 'a'"),
        (format!("['a: {SECRET}\u{e4}']"), "printable ASCII"),
    ] {
        fs::write(&path, format!("target.headers = {headers}\n")).expect("a file");
        let output = run_scenario(path.to_str().expect("UTF-8"), &[]);
        assert_rejected(&output, 2, &["target.headers", part]);
        assert!(!text(&output).contains(SECRET), "{}", text(&output));
    }
}

#[test]
fn a_failure_is_had_again_with_the_headers_that_its_file_does_not_have() {
    let setup = Setup {
        wants_header: Some(("authorization", SECRET)),
        adds_start: Some(support::AddsStart::Always),
        ..Setup::default()
    };
    let server = TestServer::start(setup);
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (scenario, failure, history) = (path("scenario.toml"), path("failure.toml"), path("history.jsonl"));
    let patterns = "load.workers = 2\nload.iterations = 10\nlimits.quiet_ms = 50\nclaims = {}\nslots.check = false\n\
        patterns.common = { valid = 1, no-start = 1 }\ncontexts.rare = 0\ncontexts.rare_probability = 0.0\n";
    fs::write(&scenario, patterns).expect("a file");
    let (url, header) = (server.address.to_string(), format!("authorization: {SECRET}"));
    let output = run_scenario(
        &scenario,
        &["-u", &url, "-H", &header, "--failure", &failure, "--history", &history, "--fail-fast"],
    );
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let of_the_file = read(&failure);
    assert!(!text(&output).contains(SECRET) && !of_the_file.contains(SECRET) && !read(&history).contains(SECRET));
    assert!(of_the_file.contains("authorization: …"), "{of_the_file}");
    let replay = |flags: &[&str]| tool().args(["replay", &failure]).args(flags).output().expect("it runs");
    assert_rejected(&replay(&[]), 2, &["give it again, with -H 'authorization: VALUE'"]);
    let again = replay(&["-H", &header, "--chart"]);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again));
    for other in [vec!["check", &history], vec!["export", &failure], vec!["plan", "--scenario", &scenario]] {
        let output = tool().args(&other).output().expect("it runs");
        assert!(!text(&output).contains(SECRET), "{other:?}");
    }
}

#[test]
fn what_an_endpoint_lacks_is_told_with_what_cannot_be_checked() {
    let folder = TempDir::new().expect("a folder");
    let json = folder.path().join("result.json").to_str().expect("UTF-8").to_owned();
    let parts_of = |setup: Setup| {
        let server = TestServer::start(setup);
        let output = run(&["-u", &server.address.to_string(), "--json", &json]);
        assert_valid(&output);
        let result: Value = serde_json::from_str(&read(&json)).expect("JSON");
        (result["endpoint_parts"].as_array().expect("a list").clone(), text(&output))
    };
    let names = ["health", "streaming", "metadata", "model-configuration", "statistics"];
    let (all, _) = parts_of(Setup::default());
    let there: Vec<_> = names.iter().map(|name| json!({ "part": name, "has": true })).collect();
    assert_eq!(all, there);
    let (without, shown) = parts_of(Setup { has_metadata: false, has_statistics: false, ..Setup::default() });
    let lacks: Vec<_> = without.iter().filter(|part| part["has"] == false).collect();
    assert_eq!(lacks.len(), 2, "{without:?}");
    assert_eq!((&lacks[0]["part"], &lacks[1]["part"]), (&json!("metadata"), &json!("statistics")));
    assert_eq!(lacks[1]["not_checked"], "the server's own counts");
    assert!(lacks.iter().all(|part| part["why"] == "the server does not have this call"), "{lacks:?}");
    let shown = unwrapped(&shown);
    for line in [
        "the server's own counts, because the server has no ModelStatistics",
        "endpoint has health, streaming, model-configuration; lacks metadata, statistics",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let rejected = |setup: Setup, part: &str| {
        let server = TestServer::start(setup);
        assert_rejected(&run(&["-u", &server.address.to_string()]), 4, &[part]);
    };
    rejected(Setup { streams: false, ..Setup::default() }, "no stream of requests can be opened");
    let neither = Setup { has_metadata: false, has_config: false, ..Setup::default() };
    rejected(neither, "neither metadata nor configuration tell the tensors");
}

#[test]
fn messages_are_compressed_and_connections_kept_as_the_scenario_has_it() {
    let server = server();
    let url = server.address.to_string();
    for compression in ["gzip", "deflate", "none"] {
        assert_valid(&run(&["-u", &url, "--compression", compression]));
    }
    // It takes none that are compressed.
    let other = TestServer::start(Setup::default());
    assert_rejected(&run(&["-u", &other.address.to_string(), "--compression", "gzip"]), 4, &["compressed with `gzip`"]);
    let folder = TempDir::new().expect("a folder");
    let scenario = folder.path().join("scenario.toml");
    let with = |keys: &str| {
        let common = "load.workers = 2\nload.iterations = 4\nlimits.quiet_ms = 50\nclaims = {}\n";
        fs::write(&scenario, format!("{common}{keys}")).expect("a file");
        run_scenario(scenario.to_str().expect("UTF-8"), &["-u", &url])
    };
    assert_valid(&with(
        "target.keep_alive_ms = 20\ntarget.keep_alive_timeout_ms = 5000\ntarget.connect_timeout_ms = 3000\n",
    ));
    assert_rejected(&with("target.message_bytes_max = 16\n"), 4, &["message length too large"]);
    assert_rejected(&with("target.keep_alive_timeout_ms = 5000\n"), 2, &["does nothing without target.keep_alive_ms"]);
}

/// A page of metrics, for who sends the header.
fn serve_metrics() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut asked = String::new();
            for line in BufReader::new(stream.try_clone().expect("a connection")).lines() {
                let line = line.expect("a line");
                if line.is_empty() {
                    break;
                }
                asked.push_str(&line);
            }
            let is_let_in = asked.contains(&format!("authorization: {SECRET}"));
            let status = if is_let_in { "200 OK" } else { "401 Unauthorized" };
            let page = "nv_inference_pending_request_count{model=\"m\"} 3\n";
            // Who does not like the certificate is gone by now.
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{page}", page.len());
        }
    });
    address
}

#[test]
fn metrics_are_read_over_tls_with_the_headers() {
    let (authority, other) = (Authority::new(), Authority::new());
    let front = TlsFront::start(serve_metrics(), &authority, "server", false);
    let metrics = format!("https://{}", front.address);
    let read = |authority: &Authority, header: &str| {
        let text = format!(
            "target.model = 'm'\ntarget.metrics = '{metrics}'\ntarget.tls.ca = '{}'\n{header}",
            authority.file("ca.pem")
        );
        let target = scenario(&text).target;
        let access = Access::new(&target).expect("what it takes");
        assert!(!format!("{access:?} {target:?}").contains(SECRET));
        let limit = Duration::from_secs(10);
        runtime().block_on(pending_requests(target.metrics.as_ref().expect("an address"), &access, &target, limit))
    };
    let header = format!("target.headers = ['authorization: {SECRET}']");
    assert_eq!(read(&authority, &header), Ok(3));
    let rejected = |problem: Result<u64, String>, part: &str| {
        let problem = problem.expect_err(part);
        assert!(problem.contains(part) && problem.starts_with(&metrics), "{problem}");
    };
    rejected(read(&authority, ""), "401 Unauthorized");
    rejected(read(&other, &header), "no authority that is trusted");
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
