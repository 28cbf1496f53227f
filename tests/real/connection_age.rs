//! A tritonserver that ends connections in good order when they have an age: nobody may be accused of that.

use workload::scenario::BUILTIN;

use crate::support::{
    at_the_same_time,
    long::rounds,
    triton::{Own, Triton},
};

const AGE: &str = "--server-arg=--grpc-max-connection-age=300";
const OF_A_SECOND: &str = "--server-arg=--grpc-max-connection-age=1000";
/// Twenty times what a client takes to read that it should go away.
const GRACE: &str = "--server-arg=--grpc-max-connection-age-grace=1000";

/// No machine is too slow for its limits, and passes are too few for what the scenarios claim.
const LIMITS: [(&str, &str); 2] = [("limits", "lost_after_ms"), ("limits", "connect_ms")];

fn text_of(name: &str) -> String {
    let builtin = BUILTIN.iter().find(|builtin| builtin.name == name).expect("there is such a scenario");
    let mut text: toml::Table = builtin.text.parse().expect("TOML");
    for (table, key) in LIMITS {
        let table = text.entry(table).or_insert_with(|| toml::Table::new().into());
        table.as_table_mut().expect("a table").insert(key.into(), 120_000.into());
    }
    text.insert("claims".into(), toml::Table::new().into());
    let load = text.entry("load").or_insert_with(|| toml::Table::new().into());
    load.as_table_mut().expect("a table").insert("iterations".into(), rounds(15, 200).into());
    text.to_string()
}

/// What is under way may go on to its end.
#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_server_that_limits_the_age_of_connections_is_not_accused() {
    let (default, scenarios) = ("l0-sequence-stress", ["ordering", "rapid-cycling", "connection-drops"]);
    let transports = ["grpc-unary", "http", "http-binary"].map(|transport| (default, vec!["--transport", transport]));
    let rows: Vec<_> =
        scenarios.into_iter().chain([default]).map(|name| (name, Vec::new())).chain(transports).collect();
    for age in [AGE, OF_A_SECOND] {
        let server = Triton::shared(&["--explicit", age]);
        at_the_same_time(&rows, |(name, words)| {
            for seed in 1..=rounds(1, 20) {
                let model = server.load(&Own::like("custom_sequence_int32").shape(2, 4));
                let result = server.stress(&model, &text_of(name), &[&["-r", &seed.to_string()], &words[..]].concat());
                let seen = format!("{name} {words:?} {age} {seed}: {:#}", result["violations"]);
                assert_eq!(result["verdict"], "valid", "{seen} {:#}", result["doubts"]);
                // What is called over HTTP/1.1 is told to nobody.
                if words.is_empty() {
                    let go_aways = &result["go_aways"];
                    assert!(go_aways["connections"].as_u64() > Some(0), "{seen} {go_aways:#}");
                    assert_eq!(go_aways["cut"], 0, "{seen} {go_aways:#}");
                }
            }
        });
    }
}

/// A sequence takes 2.4 s, and its connection is closed after 1.3 s.
#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_server_that_closes_connections_with_requests_under_way_after_a_time_of_grace_is_not_accused() {
    let server = Triton::shared(&["--explicit", AGE, GRACE]);
    let scenario = "load = { workers = 3, iterations = 2 }\nlength = { min = 24, max = 24, constant = 24 }\npatterns.common = { valid = 1 }\n\
        patterns.rare = { valid = 1 }\nclaims = {}\nlimits = { lost_after_ms = 120000, connect_ms = 120000, step_ms = 300 }\n";
    for transport in ["grpc-stream", "grpc-unary"] {
        let model = server.load(&Own { execute_ms: 100, ..Own::like("custom_sequence_int32") });
        let result = server.stress(&model, scenario, &["-r", "1", "--transport", transport]);
        let seen = format!("{transport}: {:#} {:#}", result["violations"], result["go_aways"]);
        assert_eq!(result["violation_count"], 0, "{seen}");
        assert!(result["go_aways"]["connections"].as_u64() > Some(0), "{seen}");
        // Of calls only those that wait for a slot take so long.
        assert!(transport == "grpc-unary" || result["go_aways"]["cut"].as_u64() > Some(0), "{seen}");
    }
}
