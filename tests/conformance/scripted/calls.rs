//! Unary inference, and streams that end.

use crate::{
    conversation::{Conversation, OnPython, Opening, conversation},
    setup::Setup,
    step::{end, only, start, step},
};

/// The statistics of an error that the model gives for one request.
const COUNTS_ERRORS: OnPython =
    OnPython::Other("the Python backend counts an error that the model gives for one request as a success");

pub(crate) fn conversations() -> Vec<Conversation> {
    let mut all: Vec<Conversation> = super::both().into_iter().flat_map(|(kind, setup)| of_each(kind, setup)).collect();
    all.extend([half_close(), half_close_at_once(), half_close_in_the_backlog()]);
    all
}

/// Apart from the others, because the real server can die of what ends such a stream.
pub(crate) fn with_grpc_error() -> Vec<Conversation> {
    vec![grpc_error(), grpc_error_of_the_model(), grpc_error_of_a_time_limit()]
}

fn of_each(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about, setup| conversation(format!("{what}-{kind}"), about, setup);
    vec![
        begin("unary", "sequences by unary calls, and rejections with their codes", setup())
            .infer(start(5, 1))
            .infer(step(5, 2))
            .infer(end(5, 3))
            .infer(step(5, 4))
            .infer(only(6, 5))
            .infer(start(0, 1))
            .infer(start(5, 1).values(&[1, 2]).shape(&[2, 1]))
            .statistics(),
        begin("unary-and-stream", "one sequence by unary calls and on a stream", setup())
            .infer(start(5, 1))
            .exchange("a", step(5, 2))
            .infer(step(5, 3))
            .exchange("a", end(5, 4))
            .statistics(),
        begin(
            "model-error",
            "a step that the model answers with an error; the sequence goes on",
            setup().error_on_value(13),
        )
        .exchange("a", start(5, 1))
        .exchange("a", step(5, 13))
        .exchange("a", step(5, 2))
        .infer(step(5, 13))
        .infer(end(5, 3))
        .exchange("a", start(6, 13))
        .exchange("a", step(6, 1))
        .exchange("a", end(6, 13))
        .exchange("a", step(6, 1))
        .statistics()
        .on_python(COUNTS_ERRORS),
    ]
}

/// On the real server `triton_grpc_error` is for what fails after it was accepted; a rejection comes within the stream all the
/// same.
fn grpc_error() -> Conversation {
    let about = "with triton_grpc_error rejections come within the stream, and it goes on";
    conversation("grpc-error-rejected", about, Setup::direct())
        .open("a", Opening::GrpcError)
        .exchange("a", start(5, 1))
        .exchange("a", step(99, 1))
        .exchange("a", start(0, 3))
        .exchange("a", start(5, 1).model("nobody"))
        .exchange("a", step(5, 1).datatype("FP32"))
        .exchange("a", step(5, 1).values(&[1, 2]).shape(&[2, 1]))
        .exchange("a", end(5, 2))
        .half_close("a")
        .take_end("a")
        .statistics()
}

fn grpc_error_of_the_model() -> Conversation {
    let about = "with triton_grpc_error the model's error ends the stream with its status; the sequence lives on";
    // The real server dies where the half-close does not come before the error does.
    conversation("grpc-error-model", about, Setup::direct().error_on_value(13).execute_ms(200))
        .open("a", Opening::GrpcError)
        .exchange("a", start(5, 1))
        .send("a", step(5, 13))
        .half_close("a")
        .take_end("a")
        .exchange("b", end(5, 8))
        .statistics()
        .on_python(COUNTS_ERRORS)
}

fn grpc_error_of_a_time_limit() -> Conversation {
    let about = "with triton_grpc_error a time limit that passes in the backlog ends the stream with its status";
    conversation("grpc-error-timeout", about, Setup::direct().batch(1))
        .exchange("a", start(5, 1))
        .open("b", Opening::GrpcError)
        .send("b", start(6, 10).timeout_ms(300))
        .half_close("b")
        .take_end("b")
        .exchange("a", end(5, 2))
        .statistics()
}

fn half_close() -> Conversation {
    let about = "a stream whose client sends no more ends after its last answer; its sequence lives on";
    conversation("half-close", about, Setup::direct().execute_ms(200))
        .send_all("a", [start(5, 1), step(5, 2), step(5, 3)])
        .half_close("a")
        .take_end("a")
        .exchange("b", end(5, 4))
        .half_close("b")
        .take_end("b")
        .statistics()
}

fn half_close_at_once() -> Conversation {
    conversation("half-close-empty", "streams without a request, and with a rejected one only", Setup::direct())
        .open("a", Opening::Plain)
        .half_close("a")
        .take_end("a")
        .send("b", step(5, 1))
        .half_close("b")
        .take_end("b")
        .statistics()
}

fn half_close_in_the_backlog() -> Conversation {
    let about = "a stream whose client sends no more while its sequence waits for a slot";
    conversation("half-close-backlog", about, Setup::direct().batch(1))
        .exchange("a", start(5, 1))
        .send_all("b", [start(6, 10), end(6, 20)])
        .half_close("b")
        .quiet(300)
        .exchange("a", end(5, 2))
        .take_end("b")
        .statistics()
}
