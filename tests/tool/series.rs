//! What a run writes of each of its seconds.

use std::fs;

use crate::support::tool::{told, words};
use base64::Engine as _;
use hdrhistogram::{
    Histogram,
    serialization::{
        Deserializer,
        interval_log::{IntervalLogIterator, LogEntry, Tag},
    },
};
use serde_json::Value;

fn sum(rows: &[Value], key: &str) -> u64 {
    rows.iter().map(|row| row[key].as_u64().expect("a count")).sum()
}

#[test]
fn each_second_has_its_counts_its_times_and_what_the_server_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let [json, csv, log, history] = ["json", "csv", "log", "history"].map(|name| folder.path().join(name));
    let (code, text) = told(&[
        "--embedded",
        "--rate=40/s:3s",
        // With several threads the history is a little out of order, and an event may count in the next second.
        "-c64",
        "-r7",
        "--fault=off-by-one:once@300",
        "--json",
        words(&json),
        "--csv",
        words(&csv),
        "--hdr-log",
        words(&log),
        "--history",
        words(&history),
    ]);
    assert_eq!(code, Some(1), "{text}");
    let result: Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    let rows = result["series"].as_array().expect("rows");
    assert!(rows.len() >= 3, "{rows:?}");
    for (key, all) in [
        ("requests", &result["requests"]),
        ("responses", &result["latency_us"]["step"]["count"]),
        ("good", &result["latency_us"]["good_step"]["count"]),
        ("sequences", &result["sequences"]),
        ("violations", &result["violation_count"]),
    ] {
        assert_eq!(sum(rows, key), all.as_u64().expect("a count"), "{key}");
    }
    let slowest = rows.iter().filter_map(|row| row["step_max_us"].as_u64()).max();
    assert_eq!(slowest, result["latency_us"]["step"]["max"].as_u64());
    for row in rows.iter().filter(|row| row["step_max_us"].is_number()) {
        let [mean, most] = ["step_mean_us", "step_max_us"].map(|key| row[key].as_f64().expect("a time"));
        assert!(mean > 0.0 && mean <= most, "{row}");
    }
    for row in rows {
        let counts = row["step_counts"].as_object().expect("buckets");
        let all: u64 = counts.values().map(|count| count.as_u64().expect("a count")).sum();
        assert_eq!(Some(all), row["responses"].as_u64(), "{row}");
        let highest = counts.keys().map(|bound| bound.parse::<u64>().expect("a bound")).max();
        // A bucket's upper bound is a fifth above its lower one.
        let most = row["step_max_us"].as_u64();
        assert!(highest <= most && most.is_none_or(|most| most <= highest.unwrap_or(0) * 6 / 5), "{row}");
    }
    // How far the server's counts rose in a second, two looks tell. On a busy machine a look may come too late for its second.
    let looked_at: Vec<_> = rows.iter().filter(|row| row["in_flight"].is_number()).collect();
    assert!(looked_at.len() >= 2 && looked_at[0]["executions"].is_null(), "{looked_at:?}");
    let later = looked_at[1];
    assert!(later["executions"].as_u64() > Some(10) && later["mean_batch"].as_f64() >= Some(1.0), "{later:?}");
    assert!(later["server_compute_us"].as_f64() > Some(0.0) && later["server_pending"].is_number(), "{later:?}");

    // Most sequences begin in the first second, and each has its first response in some second.
    let live = rows[0]["live_sequences"].as_u64().expect("slots and idle limit are known");
    assert!((1..=sum(&rows[..1], "sequences")).contains(&live), "{live}");
    let possible = rows[0]["possible_batch"].as_f64().expect("there were requests");
    assert!((1.0..=8.0).contains(&possible), "{possible}");
    assert!(result["mean_batch"]["possible"].is_number() && result["latency_us"]["first_response"].is_null());
    let of_first_responses = rows.iter().filter_map(|row| row["first_response_max_us"].as_u64()).max();
    // A START that waits behind the sequence before it waits for its slot from that one's last response on.
    assert!(of_first_responses >= result["latency_us"]["wait_for_slot"]["max"].as_u64(), "{of_first_responses:?}");

    let text = fs::read_to_string(&csv).expect("a file");
    let lines: Vec<Vec<_>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), rows.len() + 1);
    // A table has no room for the distributions.
    let keys: Vec<_> = rows[0].as_object().expect("an object").keys().filter(|key| *key != "step_counts").collect();
    let mut titles = lines[0].clone();
    titles.sort_unstable();
    assert_eq!(titles, keys);
    let column = lines[0].iter().position(|title| *title == "requests").expect("a column");
    for (line, row) in lines[1..].iter().zip(rows) {
        assert_eq!(line[column], row["requests"].to_string());
    }

    // Whoever puts the intervals of the log together has the run's own histogram.
    let bytes = fs::read(&log).expect("a file");
    let mut all = Histogram::<u64>::new_with_max(3_600_000_000, 3).expect("a histogram");
    for entry in IntervalLogIterator::new(&bytes) {
        let LogEntry::Interval(interval) = entry.expect("an entry") else { continue };
        if interval.tag() == Tag::new("step") {
            let encoded = decoded(interval.encoded_histogram());
            all.add(Deserializer::new().deserialize::<u64, _>(&mut encoded.as_slice()).expect("a histogram"))
                .expect("fits");
        }
    }
    let step = &result["latency_us"]["step"];
    assert_eq!(Some(all.len()), step["count"].as_u64());
    for (key, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
        assert_eq!(Some(all.value_at_quantile(quantile)), step[key].as_u64(), "{key}");
    }

    // A history tells the same but for what was looked at.
    let checked = folder.path().join("checked");
    told(&["check", words(&history), "--json", words(&checked)]);
    let checked: Value = serde_json::from_slice(&fs::read(&checked).expect("a file")).expect("JSON");
    let again = checked["series"].as_array().expect("rows");
    assert_eq!((sum(again, "requests"), sum(again, "good")), (sum(rows, "requests"), sum(rows, "good")));
    assert!(again.iter().all(|row| row["in_flight"].is_null()), "{again:?}");
    for key in ["possible_batch", "live_sequences", "first_response_p99_us"] {
        let of = |rows: &[Value]| rows.iter().map(|row| row[key].clone()).collect::<Vec<_>>();
        assert_eq!(of(again), of(rows), "{key}");
    }
}

fn decoded(base64: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(base64).expect("base64")
}
