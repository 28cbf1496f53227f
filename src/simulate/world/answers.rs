//! What the server answers, as clients of a simulated run receive it.

use std::time::Duration;

use super::World;
use reference::simulated::{Answer, Output};
use workload::{
    conversation::Transport,
    event::{Code, Received, Response, Series},
    sequence::Step,
    tensor::{Tensor, TensorData},
};

impl World<'_> {
    /// What a client receives in answer to a step that it sent in this way.
    pub(super) fn received(&self, step: &Step, answer: Answer, by: Transport) -> Received {
        let mut received =
            Received { id: step.request.to_string(), result: Ok(Response::default()), code: None, outputs: 0 };
        match answer {
            Ok(responses) => {
                let mut all = responses.into_iter().map(|outputs| self.response(step.request.worker, outputs));
                // Where there is none the last message is empty.
                let first = all.next().unwrap_or_else(|| self.nothing());
                let series = Series { further: all.collect(), is_unfinished: false, spread: Some(Duration::ZERO) };
                received.result = Ok(Response { series, ..first });
            }
            Err(refused) if refused.is_cancelled() && by.is_stream() => received.result = Ok(self.nothing()),
            Err(refused) => {
                received.code = match by {
                    Transport::GrpcStream | Transport::GrpcStatus => None,
                    Transport::GrpcUnary => Some(Code::Grpc(refused.code)),
                    Transport::Http | Transport::HttpBinary => Some(Code::Http(refused.over_http())),
                };
                received.result = Err(refused.text);
            }
        }
        received
    }

    fn response(&self, worker: u32, outputs: Vec<Output>) -> Response {
        let model = &self.plan.preflight.model;
        let version = self.version(worker).map(|version| version.to_string());
        let tensor = |Output { name, datatype, shape, data }: Output| Tensor {
            name: name.as_ref().into(),
            datatype: datatype.into(),
            shape,
            data: TensorData::Raw(data),
        };
        Response {
            model: model.name.clone(),
            version: version.or_else(|| model.version.clone()).unwrap_or_default(),
            outputs: outputs.into_iter().map(tensor).collect(),
            ..Response::default()
        }
    }

    fn nothing(&self) -> Response {
        Response { model: self.plan.preflight.model.name.clone(), ..Response::default() }
    }
}
