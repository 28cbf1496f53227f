//! What it takes to be let in at the real tritonserver: TLS, mutual TLS and restricted protocols.

use std::fs;

use tempfile::NamedTempFile;

use crate::support::{
    tls::Authority,
    tool::unwrapped,
    triton::{text, with_triton},
};

const TOOL: &str = env!("CARGO_BIN_EXE_sequence-stress");
/// The header that a protocol is restricted to by `KEY=VALUE` has this before the key.
const KEY: &str = "triton-grpc-protocol-stress-key";

/// Runs the tool once with each of these words against a server with these arguments; what each exits with, and what it printed.
fn runs(arguments: &[String], words: &[String]) -> Vec<(i32, String)> {
    let options: Vec<_> = arguments.iter().map(|argument| format!("--server-arg={argument}")).collect();
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    // These limits hold on a busy machine, too.
    let scenario = NamedTempFile::with_suffix(".toml").expect("a file");
    fs::write(&scenario, "limits.lost_after_ms = 120000\nlimits.connect_ms = 120000\n").expect("it can be written");
    let scenario = scenario.path().display();
    let run =
        |words: &String| format!("'{TOOL}' -r 1 -t 4 -i 10 --scenario '{scenario}' {words} 2>&1; echo \"exit $?\"");
    let script = words.iter().map(run).collect::<Vec<_>>().join("; ");
    let output = with_triton(&options, &["sh", "-c", &script]).output().expect("it runs");
    let all = text(&output);
    let mut rest = all.as_str();
    let mut found = Vec::new();
    while let Some((printed, after)) = rest.split_once("exit ") {
        let (code, after) = after.split_once('\n').expect("a line");
        found.push((code.parse().unwrap_or_else(|_| panic!("{all}")), printed.to_owned()));
        rest = after;
    }
    assert_eq!(found.len(), words.len(), "{all}");
    found
}

/// Too few iterations for what the default scenario claims, but nothing is wrong.
fn assert_nothing_wrong((code, printed): &(i32, String)) {
    assert!([0, 3].contains(code) && !printed.contains("INVALID"), "{code}: {printed}");
    assert!(printed.contains("VALID") || printed.contains("UNKNOWN"), "{printed}");
}

fn assert_rejected((code, printed): &(i32, String), part: &str) {
    assert_eq!((*code, printed.lines().count()), (4, 1), "{printed}");
    assert!(printed.contains(part), "'{part}' is not in: {printed}");
}

fn secured(authority: &Authority, mutual: bool) -> Vec<String> {
    vec![
        "--grpc-use-ssl=true".to_owned(),
        format!("--grpc-use-ssl-mutual={mutual}"),
        format!("--grpc-server-cert={}", authority.file("server.pem")),
        format!("--grpc-server-key={}", authority.file("server.key")),
        format!("--grpc-root-cert={}", authority.file("ca.pem")),
    ]
}

#[test]
fn a_secured_server_is_tested_and_what_does_not_fit_is_told() {
    let (authority, other) = (Authority::new(), Authority::new());
    let url = "-u grpcs://$TRITON_GRPC";
    let words = [
        format!("{url} --ca {}", authority.file("ca.pem")),
        format!("{url} --ca {} --server-name localhost --compression gzip", authority.file("ca.pem")),
        format!("{url} --ca {}", other.file("ca.pem")),
        format!("{url} --ca {} --server-name another.test", authority.file("ca.pem")),
        "-u $TRITON_GRPC".to_owned(),
    ];
    let found = runs(&secured(&authority, false), &words);
    assert_nothing_wrong(&found[0]);
    assert_nothing_wrong(&found[1]);
    assert_rejected(&found[2], "no authority that is trusted");
    assert_rejected(&found[3], "not for 'another.test', but for");
    assert_rejected(&found[4], "the endpoint speaks TLS: use grpcs://");
}

#[test]
fn a_server_that_asks_for_the_clients_certificate_gets_it() {
    let (authority, other) = (Authority::new(), Authority::new());
    let ca = format!("-u grpcs://$TRITON_GRPC --ca {}", authority.file("ca.pem"));
    let client = |authority: &Authority| {
        format!("--client-cert {} --client-key {}", authority.file("client.pem"), authority.file("client.key"))
    };
    let words = [format!("{ca} {}", client(&authority)), ca.clone(), format!("{ca} {}", client(&other))];
    let found = runs(&secured(&authority, true), &words);
    assert_nothing_wrong(&found[0]);
    assert_rejected(&found[1], "asks for the client's certificate, and there is none");
    assert_rejected(&found[2], "does not take this one");
}

#[test]
fn a_restricted_protocol_wants_its_header() {
    let header = format!("-H '{KEY}: hunter2'");
    let restricted = |protocols: &str| vec![format!("--grpc-restricted-protocol={protocols}:stress-key=hunter2")];
    let found = runs(&restricted("inference"), &[header.clone(), String::new(), format!("-H '{KEY}: other'")]);
    assert_nothing_wrong(&found[0]);
    let again = format!("-H '{KEY}: …'");
    assert!(found[0].1.contains(&again), "{}", found[0].1);
    assert_rejected(&found[1], &format!("expecting header '{KEY}'; give its header with -H"));
    assert_rejected(&found[2], "This protocol is restricted");
    let found = runs(&restricted("health,statistics,metadata"), &[header, String::new()]);
    assert_nothing_wrong(&found[0]);
    assert!(!found[0].1.contains("is only for some"), "{}", found[0].1);
    assert_nothing_wrong(&found[1]);
    for lacking in
        ["whether the server and the model are ready", "the server's own counts", "whether the model's metadata fit"]
    {
        let told = unwrapped(&found[1].1);
        let (_, not_checked) = told.split_once(" not checked ").unwrap_or_else(|| panic!("{told}"));
        assert!(not_checked.contains(lacking), "'{lacking}' is not in: {told}");
    }
}
