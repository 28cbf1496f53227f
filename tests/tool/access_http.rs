//! What it takes to be let in over HTTP: TLS, headers, compression, and correlation IDs that are texts.

use std::{
    fs,
    process::Output,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::support::{
    Setup, TestServer,
    front::{Asked, HttpFront},
    http,
    runs::reference_server,
    tls::{Authority, TlsFront},
    tool::tool,
    triton::text,
};
use reference::{ModelOptions, Options, Server, Tls};
use serde_json::Value;
use tempfile::TempDir;

const TRANSPORTS: [&str; 2] = ["http", "http-binary"];
const COMMON: &str = "load.workers = 2\nload.iterations = 6\nlimits.quiet_ms = 50\nclaims = {}\nslots.check = false\n";
const RESTRICTED: &str = r#"{"error":"This API is restricted, expecting header 'stress-key'"}"#;

/// A short run with these keys besides, and with these flags; what it printed, and its result.
fn run(keys: &str, flags: &[&str]) -> (Output, Value) {
    let folder = TempDir::new().expect("a folder");
    let (scenario, json) = (folder.path().join("scenario.toml"), folder.path().join("result.json"));
    fs::write(&scenario, format!("{COMMON}{keys}")).expect("a file");
    let output = tool()
        .args(["-r", "1", "--scenario"])
        .arg(&scenario)
        .arg("--json")
        .arg(&json)
        .args(flags)
        .output()
        .expect("it runs");
    let result = fs::read_to_string(&json).map(|text| serde_json::from_str(&text).expect("JSON"));
    (output, result.unwrap_or_default())
}

fn assert_valid((output, result): &(Output, Value)) {
    assert_eq!(output.status.code(), Some(0), "{}", text(output));
    assert!(result["requests"].as_u64().is_none_or(|count| count > 10), "{result}");
}

fn assert_rejected((output, _): &(Output, Value), parts: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(4), 1), "{}", text(output));
    for part in parts {
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
}

fn server() -> Server {
    reference_server(ModelOptions::default(), &[])
}

fn read(path: &str) -> Vec<u8> {
    fs::read(path).expect("a file")
}

#[test]
fn a_secured_server_is_tested_over_http_and_its_metrics_are_read() {
    let (authority, other) = (Authority::new(), Authority::new());
    for mutual in [false, true] {
        let tls = Tls {
            certificates: read(&authority.file("server.pem")),
            key: read(&authority.file("server.key")),
            client_authorities: mutual.then(|| read(&authority.file("ca.pem"))),
        };
        let server = Server::start(Options { tls: Some(tls), ..Options::default() }).expect("free ports");
        let metrics = TlsFront::start(server.metrics, &authority, "server", mutual);
        let (url, metrics) =
            (format!("https://{}", server.http), format!("target.metrics = 'https://{}'\n", metrics.address));
        let (ca, certificate, key) =
            (authority.file("ca.pem"), authority.file("client.pem"), authority.file("client.key"));
        let own = ["--client-cert", &certificate, "--client-key", &key];
        let own = if mutual { &own[..] } else { &[] };
        for transport in TRANSPORTS {
            let flags = [&["-u", &url, "--transport", transport, "--ca", &ca], own].concat();
            let (output, result) = run(&metrics, &flags);
            assert_valid(&(output, result.clone()));
            assert_eq!(result["pending_requests"]["result"], "none", "{result}");
        }
        let rejected = run("", &["-u", &url, "--ca", &other.file("ca.pem")]);
        assert_rejected(&rejected, &["no authority that is trusted", "--ca FILE"]);
        if mutual {
            let without = run("", &["-u", &url, "--ca", &ca]);
            assert_rejected(&without, &["asks for the client's certificate", "--client-cert FILE"]);
        }
        let plain = run("", &["-u", &format!("http://{}", server.http)]);
        assert_rejected(&plain, &["the endpoint speaks TLS: use https://"]);
    }
}

#[test]
fn connections_over_http_are_secured_through_the_faulty_network_and_resets() {
    let (server, authority) = (server(), Authority::new());
    let front = TlsFront::start(server.http, &authority, "server", true);
    let keys = format!(
        "target.tls = {{ ca = '{}', client_cert = '{}', client_key = '{}' }}\ncontexts.rare = 0\ncontexts.rare_probability = 0.0\n\
         patterns.common = {{ valid = 1, reset = 1, kill-client = 1 }}\nnetwork.slice_bytes = 50\n\
         network.cut.after_bytes = {{ uniform = {{ min = 4000, max = 9000 }} }}\n",
        authority.file("ca.pem"),
        authority.file("client.pem"),
        authority.file("client.key")
    );
    for transport in TRANSPORTS {
        assert_valid(&run(&keys, &["-u", &format!("https://{}", front.address), "--transport", transport]));
    }
}

#[test]
fn what_is_inferred_is_compressed_both_ways() {
    let server = server();
    for transport in TRANSPORTS {
        for compression in ["gzip", "deflate", "none"] {
            let front = HttpFront::start(server.http, move |asked| {
                let has = |name: &str| asked.headers().get(name).is_some_and(|value| value == compression);
                // The preflight asks for one plain, to see whether one that is compressed is answered like it.
                let has_to_be = compression != "none" && asked.uri().path().ends_with("/infer") && asked.body() != "{}";
                let is_otherwise = has_to_be != (has("content-encoding") && has("accept-encoding"));
                is_otherwise.then_some((400, "compressed otherwise"))
            });
            let url = format!("http://{}", front.address);
            assert_valid(&run("", &["-u", &url, "--transport", transport, "--compression", compression]));
        }
    }
    let front = HttpFront::start(server.http, |asked| {
        asked.headers().get("content-encoding").map(|_| (501, r#"{"error":"Unsupported compression type"}"#))
    });
    let rejected = run("", &["-u", &format!("http://{}", front.address), "--compression", "gzip"]);
    assert_rejected(&rejected, &["Unsupported compression type", "--compression none"]);
    let url = format!("http://{}", server.http);
    assert_rejected(
        &run("target.message_bytes_max = 16\n", &["-u", &url]),
        &["larger than 16 bytes (target.message_bytes_max)"],
    );
}

fn has_key(asked: &Asked) -> bool {
    asked.headers().get("stress-key").is_some_and(|key| key == "hunter2")
}

#[test]
fn who_is_not_let_in_over_http_is_told_in_one_line() {
    let server = server();
    let front = |is_closed: fn(&str) -> bool, rejection| {
        HttpFront::start(server.http, move |asked| {
            (is_closed(asked.uri().path()) && !has_key(asked)).then_some(rejection)
        })
    };
    let hint = "give its header with -H 'NAME: VALUE'";
    for rejection in [(403, RESTRICTED), (401, "<html>Log in</html>")] {
        let said = if rejection.0 == 403 { "This API is restricted" } else { "HTTP status 401 Unauthorized" };
        for is_closed in [(|path| path.ends_with("/infer")) as fn(&str) -> bool, |_| true] {
            let front = front(is_closed, rejection);
            let url = format!("http://{}", front.address);
            for transport in TRANSPORTS {
                assert_rejected(&run("", &["-u", &url, "--transport", transport]), &[said, hint]);
                assert_valid(&run("", &["-u", &url, "--transport", transport, "-H", "stress-key: hunter2"]));
            }
        }
        let front = front(|path| path.ends_with("/stats") || path == "/v2/models/custom_sequence_int32", rejection);
        let (output, result) = run("", &["-u", &format!("http://{}", front.address)]);
        assert_valid(&(output, result.clone()));
        let parts = result["endpoint_parts"].as_array().expect("a list");
        let lacks: Vec<_> = parts.iter().filter(|part| part["has"] == false).map(|part| &part["part"]).collect();
        assert_eq!(lacks, ["streaming", "metadata", "statistics"], "{parts:?}");
        let why = parts.iter().find(|part| part["part"] == "statistics").and_then(|part| part["why"].as_str());
        assert!(why.is_some_and(|why| why.contains(said)), "{parts:?}");
    }
}

#[test]
fn who_is_let_in_no_more_is_told_so_in_the_violation() {
    let server = server();
    for (rejection, said) in [((403, RESTRICTED), "This API is restricted"), ((401, "<html>"), "HTTP status 401")] {
        let count = std::sync::atomic::AtomicU32::new(0);
        let front = HttpFront::start(server.http, move |asked| {
            let is_inference = asked.uri().path().ends_with("/infer");
            (is_inference && count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 20).then_some(rejection)
        });
        let (output, _) = run("", &["-u", &format!("http://{}", front.address), "--fail-fast"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains(said), "{}", text(&output));
    }
}

fn lacks_texts(result: &Value) -> Option<bool> {
    let parts = result["endpoint_parts"].as_array()?;
    parts.iter().find(|part| part["part"] == "text-correlation-ids").map(|part| part["has"] == false)
}

#[test]
fn texts_as_correlation_ids_are_tried_before_the_run() {
    let server = server();
    let front = HttpFront::start(server.http, |asked| {
        let is_text = String::from_utf8_lossy(asked.body()).contains(r#""sequence_id":""#);
        is_text.then_some((400, r#"{"error":"sequence_id has to be an integer"}"#))
    });
    let other = TestServer::start(Setup { rejects_texts: true, ..Setup::default() });
    for form in ["text", "text-128", "non-ascii"] {
        let keys = format!("correlation_ids.form = '{form}'\n");
        for transport in ["http", "http-binary", "grpc-stream", "grpc-unary"] {
            let (url, without_texts) = if transport.starts_with("http") {
                (format!("http://{}", server.http), format!("http://{}", front.address))
            } else {
                (server.address.to_string(), other.address.to_string())
            };
            let taken = run(&keys, &["-u", &url, "--transport", transport]);
            assert_valid(&taken);
            assert_eq!(lacks_texts(&taken.1), Some(false), "{}", taken.1);
            // The tests' own server has no calls that are no stream.
            if transport != "grpc-unary" {
                let rejected = run(&keys, &["-u", &without_texts, "--transport", transport]);
                let over = format!("over {transport} no correlation ID such as '");
                assert_rejected(&rejected, &[&over, "has to be an integer", "another correlation_ids.form"]);
                let integers = run("", &["-u", &without_texts, "--transport", transport]);
                assert_valid(&integers);
                assert_eq!(lacks_texts(&integers.1), None, "{}", integers.1);
            }
        }
    }
}

/// A server may count a request after it has answered it. The run's first count then has to wait for the sequence before it.
#[test]
fn requests_that_are_counted_late_before_the_run_are_no_other_clients() {
    const STEPS_BEFORE: usize = 3;
    let server = server();
    for late in 1..4 {
        let stats = "/v2/models/custom_sequence_int32/stats";
        // Some bytes for each round of the test.
        let before: &str = Box::leak(http::ask(server.http, "GET", stats, &[], b"").text().into_boxed_str());
        let (executed, counted) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let front = HttpFront::start(server.http, move |asked| {
            let path = asked.uri().path();
            if path.ends_with("/infer") && asked.body() != "{}" {
                executed.fetch_add(1, Ordering::Relaxed);
            }
            let is_late = path == stats
                && executed.load(Ordering::Relaxed) >= STEPS_BEFORE
                && counted.fetch_add(1, Ordering::Relaxed) < late;
            is_late.then_some((200, before))
        });
        let done = run("", &["-u", &format!("http://{}", front.address)]);
        assert_valid(&done);
        assert_eq!(done.1["server_counts"]["result"], "agrees", "{late} late: {}", done.1["server_counts"]);
    }
}
