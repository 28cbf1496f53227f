//! Calls over gRPC in place of a stream.

use tonic::Status;

use super::{
    call_error::{describe, is_from_the_server},
    codec::StepCodec,
    conduit::Conduit,
    stream::Message,
    template::RequestTemplate,
};
use workload::{
    event::{Code, Received},
    sequence::Step,
};

/// Sends a step, and brings what came of it.
pub(super) async fn infer(conduit: Conduit, template: RequestTemplate, step: Step) -> Result<Received, Message> {
    let (answer, began) = conduit.call("ModelInfer", step, StepCodec::of_calls(template)).await;
    match answer {
        Ok(piece) => Ok(piece.received),
        Err(status) => began.lapsed(&status).map_or_else(|| refusal(&step, &status), Err),
    }
}

/// An error that a call ended with, which has the server's word or the library's.
fn refusal(step: &Step, status: &Status) -> Result<Received, Message> {
    if !is_from_the_server(status) {
        return Err(Message::Broken(describe(status)));
    }
    let code = u16::try_from(i32::from(status.code())).ok().map(Code::Grpc);
    Ok(Received { id: step.request.to_string(), result: Err(status.message().to_owned()), code, outputs: 0 })
}
