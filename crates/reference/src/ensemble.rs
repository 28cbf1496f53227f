//! Ensembles: a request goes through one model after the other, each of which has a scheduler of its own.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use tonic::Status;

use super::{
    execution::{Inputs, Ticket, Wants},
    fault::{Fault, Faults},
    model::Outputs,
    repository::Repository,
    scheduler::{Moment, Request},
    served::{Answers, Asked, Reply, Served},
    spec::{EnsembleStep, Spec},
    tensor::{Datatype, Tensor},
};
use wire::proto::ModelInferResponse;

/// Hands a request to a model's scheduler; of an ensemble to that of its first step. A model that calls another gets to know that one.
///
/// # Errors
/// When it is rejected at once; nothing else is then said of it.
pub(super) fn enter(repository: &Repository, model: &Arc<Served>, mut request: Asked) -> Result<(), Status> {
    let spec = model.spec();
    if spec.steps.is_empty() {
        if let Some(called) = &spec.parameters.calls {
            model.may_call(repository.find(called, "").map_err(|failure| of_ensemble(&model.name, &failure))?);
        }
        return repository.of_another_version(model, &request).as_ref().unwrap_or(model).submit(request);
    }
    // All are found before the first one begins, as the real server does it.
    let find = |step: &EnsembleStep| {
        let served =
            repository.find(&step.model, &step.version).map_err(|failure| of_ensemble(&model.name, &failure))?;
        Ok((served, step.clone()))
    };
    let mut left = spec.steps.iter().map(find).collect::<Result<Vec<_>, Status>>()?;
    left.reverse();
    request.arrived = model.now();
    let tensors = std::mem::take(&mut request.payload.inputs).into_iter().collect();
    let way = Way { left, current: None, tensors, request: Some(request) };
    Arc::new(Passage { ensemble: Arc::clone(model), faults: model.faults(), way: Mutex::new(way) }).proceed();
    Ok(())
}

/// A failure as an ensemble tells it.
pub(super) fn of_ensemble(name: &str, failure: &Status) -> Status {
    Status::new(failure.code(), format!("in ensemble '{name}', {}", failure.message()))
}

/// A request on its way through an ensemble.
#[derive(Debug)]
pub(super) struct Passage {
    ensemble: Arc<Served>,
    faults: Arc<Faults>,
    way: Mutex<Way>,
}

#[derive(Debug)]
struct Way {
    /// The steps that are left, the next one last.
    left: Vec<(Arc<Served>, EnsembleStep)>,
    /// The step that is under way.
    current: Option<EnsembleStep>,
    /// What there is by now, by the ensemble's names.
    tensors: BTreeMap<Arc<str>, Tensor>,
    /// What the client asked for; none when it is answered.
    request: Option<Asked>,
}

impl Passage {
    /// Begins the next step, or answers where there is none.
    fn proceed(self: Arc<Self>) {
        let next = {
            let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = way.current.is_none();
            let next = way.left.pop();
            way.current = next.as_ref().map(|(_, step)| step.clone());
            next.and_then(|(served, step)| Some((served, self.request_of(&way, &step, is_first)?)))
        };
        let Some((served, request)) = next else { return self.finish(None) };
        if let Err(failure) = served.submit(request) {
            self.finish(Some(failure));
        }
    }

    /// What a step is asked for.
    fn request_of(self: &Arc<Self>, way: &Way, step: &EnsembleStep, is_first: bool) -> Option<Asked> {
        let asked = way.request.as_ref()?;
        let given = |(its, tensor): &(Arc<str>, Arc<str>)| Some((Arc::clone(its), way.tensors.get(tensor)?.clone()));
        let inputs: Inputs = step.inputs.iter().filter_map(given).collect();
        let loses = |flag: bool, fault| flag && !is_first && self.faults.happens(fault);
        let start = asked.start && !loses(asked.start, Fault::EnsembleLosesStart);
        let end = asked.end && !loses(asked.end, Fault::EnsembleLosesEnd);
        // What a step has begun with it ends with: a cancel is looked for between the steps alone.
        let cancelled = Arc::new(AtomicBool::new(asked.cancelled.load(Relaxed)));
        Some(Request { cancelled, ..handed_on(asked, [start, end], inputs, Reply::Step(Arc::clone(self))) })
    }

    /// Takes what a step is answered with.
    pub(super) fn answered(self: Arc<Self>, answers: Answers) {
        match answers {
            Ok(responses) => {
                for response in responses {
                    self.take(response);
                }
                self.proceed();
            }
            Err(failure) => self.finish(Some(failure)),
        }
    }

    fn take(&self, response: ModelInferResponse) {
        let way = &mut *self.way.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(step) = &way.current else { return };
        for (name, tensor) in tensors(response) {
            if let Some((_, its)) = step.outputs.iter().find(|(its, _)| **its == *name) {
                way.tensors.insert(Arc::clone(its), tensor);
            }
        }
    }

    fn finish(&self, failure: Option<Status>) {
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(request) = way.request.take() else { return };
        let tensors = std::mem::take(&mut way.tensors);
        drop(way);
        let outputs = failure.map_or_else(|| wanted(&self.ensemble.spec(), request.payload.wants, &tensors), Err);
        self.ensemble.passed(request, outputs.map_err(|failure| of_ensemble(&self.ensemble.name, &failure)));
    }
}

/// What another model is asked for a request, with these flags and inputs; no cancel of the client reaches it.
pub(super) fn handed_on(asked: &Asked, [start, end]: [bool; 2], inputs: Inputs, reply: Reply) -> Asked {
    Request {
        id: asked.id.clone(),
        start,
        end,
        goes_on: false,
        batch_size: asked.batch_size,
        timeout: asked.timeout,
        cancelled: Arc::default(),
        shape: inputs.iter().flat_map(|(_, tensor)| tensor.shape.iter().copied()).collect(),
        arrived: Moment::ZERO,
        payload: Ticket {
            request_id: asked.payload.request_id.clone(),
            version: asked.payload.version,
            inputs,
            wants: Wants::ALL,
            reply,
        },
    }
}

/// The tensors of a response, by name.
pub(super) fn tensors(response: ModelInferResponse) -> impl Iterator<Item = (String, Tensor)> {
    response.outputs.into_iter().zip(response.raw_output_contents).filter_map(|(output, data)| {
        let datatype = Datatype::named(&output.datatype)?;
        Some((output.name, Tensor { datatype, shape: output.shape, data }))
    })
}

/// The outputs that are wanted of a model, of all tensors that there are.
///
/// # Errors
/// When one of them is not there.
pub(super) fn wanted(spec: &Spec, wants: Wants, tensors: &BTreeMap<Arc<str>, Tensor>) -> Result<Outputs, Status> {
    let wanted = spec.outputs.iter().enumerate().filter(|(index, _)| wants.has(*index));
    let each = wanted.map(|(_, output)| {
        let tensor = tensors.get(&output.name).cloned();
        let tensor = tensor.ok_or_else(|| Status::invalid_argument(format!("no step gave '{}'", output.name)))?;
        Ok((Arc::clone(&output.name), tensor))
    });
    each.collect()
}
