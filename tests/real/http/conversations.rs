//! Sequences over HTTP.

use std::{
    io::{Read as _, Write as _},
    net::SocketAddr,
};

use flate2::{
    Compression,
    read::{GzDecoder, ZlibDecoder},
    write::{GzEncoder, ZlibEncoder},
};
use serde_json::{Value, json};

use super::{
    INFER, MODEL, ask,
    http::{connect, request},
    infer,
    metrics::{PENDING, wait},
    step, sum, with_real, with_reference,
};

/// Sequences by number and by text, side by side, and the rejection that follows them.
fn sequences(address: SocketAddr) {
    for (flags, value, sums) in [("S", 5, [5, 6]), ("", 6, [11, 12]), ("E", -20, [-9, -8])] {
        assert_eq!(sum(address, &step(41, flags, value)), sums[0]);
        assert_eq!(sum(address, &step("41", flags, value + i32::from(flags == "S"))), sums[1]);
    }
    for id in [json!(41), json!("41")] {
        let answer = infer(address, &step(id, "", 1));
        assert_eq!(answer.status, 400);
        assert!(answer.error().contains("must specify the START flag"), "{}", answer.text());
    }
}

/// Tensors' bytes behind the JSON, both ways, with odd lengths.
fn binary(address: SocketAddr) {
    let body = |size: u32, outputs: Value| {
        let mut body = step(42, "SE", 0);
        body["inputs"][0] = json!({
            "name": "INPUT", "datatype": "INT32", "shape": [1, 1], "parameters": { "binary_data_size": size }
        });
        body["outputs"] = outputs;
        body.to_string().into_bytes()
    };
    let output = json!([{ "name": "OUTPUT" }]);
    let send = |body: &[u8], bytes: &[u8], length: &str| {
        let headers = [("Inference-Header-Content-Length", length)];
        ask(address, "POST", INFER, &headers[..usize::from(!length.is_empty())], &[body, bytes].concat())
    };
    let right = body(4, output.clone());
    let length = right.len().to_string();
    let answer = send(&right, &[9, 0, 0, 0], &length);
    assert_eq!(answer.json()["outputs"][0]["data"], json!([9]), "{}", answer.text());

    let as_bytes = body(4, json!([{ "name": "OUTPUT", "parameters": { "binary_data": true } }, { "name": "SEEN" }]));
    let answer = send(&as_bytes, &[9, 0, 0, 0], &as_bytes.len().to_string());
    assert_eq!((answer.status, answer.kind()), (200, "application/octet-stream"));
    let header: usize = answer.headers["inference-header-content-length"].parse().expect("a length");
    let (json, bytes) = answer.body.split_at(header);
    let json: Value = serde_json::from_slice(json).expect("JSON");
    assert_eq!((&json["outputs"][0]["parameters"], bytes), (&json!({ "binary_data_size": 4 }), &[9, 0, 0, 0][..]));
    assert_eq!(json["outputs"][1]["data"], json!([1, -1, 1, -1, 0]));

    for (body, bytes, length, status, text) in [
        (&right, &[9, 0, 0, 0][..], "", 400, "unexpected size for input 'INPUT', expecting 4 additional bytes for model 'custom_sequence_int32'".to_owned()),
        (&right, &[9, 0], &length, 400, "unexpected size for input 'INPUT', expecting 2 additional bytes for model 'custom_sequence_int32'".to_owned()),
        (&right, &[9; 8], &length, 400, "unexpected additional input data for model 'custom_sequence_int32'".to_owned()),
        (&body(2, output.clone()), &[9; 2], &length, 400, "[request id: <id_unknown>] input byte size mismatch for input 'INPUT' for model 'custom_sequence_int32'. Expected 4, got 2".to_owned()),
        (&right, &[9; 4], "-5", 400, format!("inference header size should be in range (0, {}), got: -5", right.len() + 4)),
        (&right, &[9; 4], "9999", 400, format!("inference header size should be in range (0, {}), got: 9999", right.len() + 4)),
        (&right, &[9; 4], "12x", 500, "failed to parse the request JSON buffer: Invalid value. at 12".to_owned()),
        (&Vec::new(), &[9; 4], "0", 400, "inference request to model 'custom_sequence_int32' must specify a non-zero or non-empty correlation ID".to_owned()),
        (&Vec::new(), &[9; 6], "abc", 400, "[request id: <id_unknown>] input byte size mismatch for input 'raw_input' for model 'custom_sequence_int32'. Expected 4, got 6".to_owned()),
    ] {
        let answer = send(body, bytes, length);
        // Where the JSON begins has no bearing on what is told of it.
        let told = answer.error();
        assert_eq!(answer.status, status, "{length:?}: {told}");
        assert!(told == text || (length == "12x" && told.starts_with("failed to parse")), "{length:?}: {told}");
    }
}

fn compression(address: SocketAddr) {
    let body = step(43, "SE", 3).to_string().into_bytes();
    let gzip = || {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&body).expect("it is in memory");
        encoder.finish().expect("it is in memory")
    };
    let deflate = || {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&body).expect("it is in memory");
        encoder.finish().expect("it is in memory")
    };
    let plain = infer(address, &step(43, "SE", 3)).text();
    for (sent, encoding) in [(gzip(), "gzip"), (deflate(), "deflate"), (gzip(), "deflate"), (body.clone(), "identity")]
    {
        let answer = ask(address, "POST", INFER, &[("Content-Encoding", encoding)], &sent);
        assert_eq!((answer.status, answer.text()), (200, plain.clone()), "{encoding}");
    }
    for accepted in ["gzip", "deflate;q=0.9, gzip;q=0.1"] {
        let answer = ask(address, "POST", INFER, &[("Accept-Encoding", accepted)], &body);
        let mut text = String::new();
        let read = match answer.headers["content-encoding"].as_str() {
            "gzip" => GzDecoder::new(&answer.body[..]).read_to_string(&mut text),
            _ => ZlibDecoder::new(&answer.body[..]).read_to_string(&mut text),
        };
        read.expect("it is compressed so");
        assert_eq!(text, plain, "{accepted}");
        assert!(accepted.starts_with(&answer.headers["content-encoding"]), "{accepted}");
    }
    let unknown = ask(address, "POST", INFER, &[("Content-Encoding", "br")], &body);
    assert_eq!((unknown.status, unknown.error().as_str()), (501, "Unsupported compression type"));
    assert_eq!((unknown.kind(), unknown.headers["accept-encoding"].as_str()), ("text/plain", "gzip, deflate"));
    let empty = ask(address, "POST", INFER, &[("Content-Encoding", "gzip")], b"");
    assert_eq!((empty.status, empty.error().as_str()), (400, "nothing to be decompressed"));
    let cut = ask(address, "POST", INFER, &[("Content-Encoding", "gzip")], &gzip()[..gzip().len() - 12]);
    assert_eq!((cut.status, cut.error().starts_with("failed to parse the request JSON buffer")), (500, true));
}

/// Fills the model's four slots, with these numbers and those after it; returns what frees them again.
fn fill(address: SocketAddr, first: u64) -> impl Fn() {
    for id in first..first + 4 {
        assert_eq!(sum(address, &step(id, "S", 1)), 1);
    }
    move || {
        for id in first..first + 4 {
            assert_eq!(sum(address, &step(id, "E", 1)), 2);
        }
    }
}

/// A time limit that passes in the backlog.
fn expiry(address: SocketAddr) {
    let free = fill(address, 50);
    let mut late = step(60, "S", 1);
    late["parameters"]["timeout"] = json!(50_000);
    let answer = infer(address, &late);
    assert_eq!((answer.status, answer.kind()), (503, "text/plain"));
    assert_eq!(answer.error(), "timeout of the corresponding sequence has been expired");
    free();
}

/// A client that goes while its START waits for a slot: it is executed all the same.
fn gone(address: SocketAddr, metrics: SocketAddr) {
    let free = fill(address, 70);
    let mut leaving = connect(address);
    leaving.write_all(&request("POST", INFER, &[], step(80, "S", 5).to_string().as_bytes())).expect("it is taken");
    wait(metrics, PENDING, 1);
    // The other one waits behind it for the first slot that is freed.
    std::thread::scope(|scope| {
        let next = scope.spawn(|| sum(address, &step(81, "SE", 7)));
        wait(metrics, PENDING, 2);
        drop(leaving);
        // Time for the server to see that the client is gone. Nothing tells of that; what follows is right either way.
        std::thread::sleep(std::time::Duration::from_millis(300));
        free();
        assert_eq!(next.join().expect("an answer"), 7);
    });
    assert_eq!(sum(address, &step(80, "E", 6)), 11);
}

fn loading(address: SocketAddr) {
    let repository = "/v2/repository/models/custom_sequence_int32";
    let post = |what: &str, body: &Value| {
        let answer = ask(address, "POST", &format!("{repository}/{what}"), &[], body.to_string().as_bytes());
        assert_eq!((answer.status, answer.text()), (200, String::new()), "{what}");
    };
    let mut config = ask(address, "GET", &format!("{MODEL}/config"), &[], b"").json();
    config["sequence_batching"]["max_sequence_idle_microseconds"] = json!(9_000_000);
    post("load", &json!({ "parameters": { "config": config.to_string() } }));
    let loaded = ask(address, "GET", &format!("{MODEL}/config"), &[], b"").json();
    assert_eq!(loaded["sequence_batching"], config["sequence_batching"]);
    post("unload", &json!({}));
    for (path, status, text) in [
        (INFER.to_owned(), 404, "Request for unknown model: 'custom_sequence_int32' has no available versions"),
        (
            format!("{MODEL}/versions/1/infer"),
            503,
            "Request for unknown model: 'custom_sequence_int32' version 1 is not at ready state",
        ),
    ] {
        let answer = ask(address, "POST", &path, &[], b"{}");
        assert_eq!((answer.status, answer.error().as_str(), answer.kind()), (status, text, "text/plain"));
    }
    post("load", &json!({}));
    sequences(address);
}

const ALL: [fn(SocketAddr); 4] = [sequences, binary, compression, expiry];

#[test]
fn sequences_are_added_up() {
    with_reference(|http, _| sequences(http));
}

#[test]
fn tensors_are_bytes_behind_the_json() {
    with_reference(|http, _| binary(http));
}

#[test]
fn bodies_are_compressed() {
    with_reference(|http, _| compression(http));
}

#[test]
fn a_time_limit_passes_in_the_backlog() {
    with_reference(|http, _| expiry(http));
}

#[test]
fn a_client_that_goes_cancels_nothing() {
    with_reference(gone);
}

#[test]
fn models_are_loaded_and_unloaded() {
    with_reference(|http, _| loading(http));
}

#[test]
#[ignore = "needs the real server: run scripts/test"]
fn the_real_server_answers_the_same() {
    with_real(|http, metrics| {
        for hold in ALL {
            hold(http);
        }
        gone(http, metrics);
        loading(http);
    });
}
