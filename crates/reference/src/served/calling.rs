//! A model that calls another one for each request, as programs of Triton's Python backend do.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use tokio::sync::oneshot;
use tonic::{Code, Status};

use super::{
    super::{
        ensemble::{handed_on, of_ensemble, tensors, wanted},
        execution::{Executed, RequestResult, Wants},
        fault::Fault,
    },
    Answer, Asked, Asks, Reply, Served,
};

impl Served {
    /// Calls this model from now on.
    pub(in super::super) fn may_call(&self, called: Arc<Self>) {
        *self.called.write().unwrap_or_else(PoisonError::into_inner) = Some(called);
    }

    /// Hands each request of a batch to the other model, all at the same time, and waits until that one has answered all of them. None
    /// where it calls no other model.
    pub(super) async fn call(&self, batch: Asks) -> Vec<Executed<Reply>> {
        let called = self.called.read().unwrap_or_else(PoisonError::into_inner).clone();
        let begin = |mut request: Asked| {
            let (sender, receiver) = oneshot::channel();
            let asked = self.request_for_called(&mut request, sender);
            let gone = || Err(Status::unavailable("there is no model to call"));
            let begun = called.as_ref().map_or_else(gone, |called| called.submit(asked));
            (request, begun.map(|()| receiver))
        };
        let under_way: Vec<_> = batch.into_iter().filter_map(|row| row.request).map(begin).collect();
        let mut executed = Vec::new();
        for (request, begun) in under_way {
            let answer = match begun {
                Ok(receiver) => receiver.await.unwrap_or_else(|_| Err(Status::unavailable("Socket closed"))),
                Err(failure) => Err(failure),
            };
            let outcome = self.outcome(request.payload.wants, answer);
            executed.push(Executed { request, outcome, succeeded: true });
        }
        executed
    }

    /// What the other model is asked for. No cancel of the client reaches it.
    fn request_for_called(&self, asked: &mut Asked, sender: oneshot::Sender<Answer>) -> Asked {
        let loses = |flag: bool, fault| flag && self.faults.happens(fault);
        let start = asked.start && !loses(asked.start, Fault::BlsLosesStart);
        let end = asked.end && !loses(asked.end, Fault::BlsLosesEnd);
        let inputs = std::mem::take(&mut asked.payload.inputs);
        handed_on(asked, [start, end], inputs, Reply::Call(sender))
    }

    /// What the client gets of an answer of the other model.
    fn outcome(&self, wants: Wants, answer: Answer) -> RequestResult {
        let spec = self.spec();
        let response = answer.map_err(|failure| {
            let called = spec.parameters.calls.as_deref().unwrap_or_default();
            // The real server tells all of these with one code.
            let text = format!("Model {called} - Error when running inference: {}", failure.message());
            of_ensemble(&self.name, &Status::new(Code::Internal, text))
        })?;
        let there: BTreeMap<_, _> = tensors(response).map(|(name, tensor)| (name.into(), tensor)).collect();
        Ok(vec![wanted(&spec, wants, &there)?])
    }
}
