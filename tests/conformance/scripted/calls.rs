//! Unary inference, streams that end, and calls that are no inference.

use crate::{
    conversation::{Conversation, Opening, Query, conversation},
    setup::{BY_SLOT, DYNA, Setup},
    step::{end, only, start, step},
};

pub(crate) fn conversations() -> Vec<Conversation> {
    let mut all: Vec<Conversation> = super::both().into_iter().flat_map(|(kind, setup)| of_each(kind, setup)).collect();
    all.extend([grpc_error(), grpc_error_with_steps_queued(), grpc_error_of_a_bad_request()]);
    all.extend([half_close(), half_close_at_once(), half_close_in_the_backlog()]);
    all.extend([queries("direct", Setup::direct()), queries("dyna", Setup::dyna().batch(8).instances(2))]);
    all
}

fn of_each(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about, setup| conversation(format!("{what}-{kind}"), about, setup);
    vec![
        begin("unary", "sequences by unary calls, and refusals with their codes", setup())
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
        .statistics(),
    ]
}

fn grpc_error() -> Conversation {
    let about = "with triton_grpc_error the first refusal ends the stream with its status";
    conversation("grpc-error", about, Setup::direct())
        .open("a", Opening::GrpcError)
        .exchange("a", start(5, 1))
        .exchange("a", step(99, 1))
        .open("b", Opening::GrpcError)
        .exchange("b", step(5, 2))
        .exchange("b", start(0, 3))
        .exchange("c", end(5, 4))
        .statistics()
}

fn grpc_error_with_steps_queued() -> Conversation {
    let about = "the status comes at once although earlier steps execute; what becomes of them is in the sums";
    conversation("grpc-error-queued", about, Setup::direct().execute_ms(400))
        .open("a", Opening::GrpcError)
        .exchange("a", start(5, 1))
        .send_all("a", [step(5, 2), step(99, 1), step(5, 4)])
        .take_end("a")
        .pause(1500)
        .exchange("c", end(5, 8))
        .statistics()
}

fn grpc_error_of_a_bad_request() -> Conversation {
    let about = "with triton_grpc_error a request that is wrong ends the stream too";
    conversation("grpc-error-bad", about, Setup::direct().error_on_value(13))
        .open("a", Opening::GrpcError)
        .exchange("a", start(5, 1).model("nobody"))
        .open("b", Opening::GrpcError)
        .exchange("b", start(5, 1).datatype("FP32"))
        .open("c", Opening::GrpcError)
        .exchange("c", start(5, 13))
        .open("d", Opening::GrpcError)
        .exchange("d", step(5, 1).values(&[1, 2]).shape(&[2, 1]))
        .exchange("e", step(5, 2))
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
    conversation("half-close-empty", "streams without a request, and with a refused one only", Setup::direct())
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

fn queries(kind: &str, setup: Setup) -> Conversation {
    let model = setup.model;
    let other = if model == BY_SLOT { DYNA } else { BY_SLOT };
    let begun = conversation(format!("queries-{kind}"), "what the server says of itself and of models", setup).alone();
    let mut asked = [Query::Live, Query::Ready, Query::ServerMetadata].into_iter().fold(begun, Conversation::ask);
    for (model, version) in
        [(model, ""), (model, "1"), (model, "2"), (model, "x"), (other, ""), ("nobody", ""), ("", "")]
    {
        asked = asked.ask(Query::ModelReady { model, version }).ask(Query::ModelMetadata { model, version });
    }
    for model in [model, other, "nobody"] {
        asked = asked.ask(Query::ModelConfig { model }).ask(Query::StatisticsOf { model });
    }
    asked
}
