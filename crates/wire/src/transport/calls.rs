//! Calls in place of a stream: one after the other, each when the one before it is answered.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::mpsc;
use tonic::{Status, codegen::http::uri::PathAndQuery, transport::Error};

use super::{
    access::Conduit,
    call_error::{describe, is_from_the_server, reasons},
    codec::StepCodec,
    goaway::{Again, Began},
    http::Steps,
    stream::Message,
    template::RequestTemplate,
};
use workload::{
    event::{Code, Received},
    sequence::Step,
};

const PATH: &str = "/inference.GRPCInferenceService/ModelInfer";

type Call = Pin<Box<dyn Future<Output = Message> + Send>>;

/// The calls of one context.
pub(super) struct Calls {
    steps: mpsc::Receiver<Step>,
    caller: Caller,
    /// Dropping it cancels it.
    under_way: Option<Call>,
}

/// How a call is made.
pub(super) enum Caller {
    /// `ModelInfer`.
    Grpc(Conduit, RequestTemplate),
    /// `POST …/infer`, with tensors as bytes or in JSON.
    Http(Arc<Steps>),
}

impl Calls {
    pub(super) fn new(steps: mpsc::Receiver<Step>, caller: Caller) -> Self {
        Self { steps, caller, under_way: None }
    }

    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Message> {
        loop {
            if let Some(call) = &mut self.under_way {
                let message = ready!(call.as_mut().poll(context));
                self.under_way = None;
                return Poll::Ready(message);
            }
            match ready!(self.steps.poll_recv(context)) {
                None => return Poll::Ready(Message::End),
                Some(step) => self.under_way = Some(self.caller.call(step)),
            }
        }
    }
}

impl Caller {
    fn call(&self, step: Step) -> Call {
        match self {
            Self::Grpc(conduit, template) => Box::pin(grpc(conduit.clone(), template.clone(), step)),
            Self::Http(steps) => Box::pin(Arc::clone(steps).call(step)),
        }
    }
}

async fn grpc(conduit: Conduit, template: RequestTemplate, step: Step) -> Message {
    let mut again = Again::default();
    loop {
        let (mut client, began) = (conduit.grpc(), Began::now(&conduit));
        if let Err(error) = client.ready().await {
            let error: Error = error;
            return Message::Broken(reasons(&error));
        }
        let path = PathAndQuery::from_static(PATH);
        match client.unary(conduit.request(step), path, StepCodec::of_calls(template.clone())).await {
            Ok(response) => return Message::Received(response.into_inner().received),
            Err(status) if again.may_be_tried(&status, &conduit) => {}
            Err(status) => {
                let lapsed = began.lapsed(&status);
                return lapsed.unwrap_or_else(|| refusal(&step, &status));
            }
        }
    }
}

/// An error that a call ended with, which has the server's word or the library's.
fn refusal(step: &Step, status: &Status) -> Message {
    if !is_from_the_server(status) {
        return Message::Broken(describe(status));
    }
    let code = u16::try_from(i32::from(status.code())).ok().map(Code::Grpc);
    Message::Received(Received {
        id: step.request.to_string(),
        result: Err(status.message().to_owned()),
        code,
        outputs: 0,
    })
}
