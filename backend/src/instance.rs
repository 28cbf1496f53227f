//! An instance of a model, and an execution from the requests to their release.

#![forbid(unsafe_code)]

use std::{sync::Arc, time::Duration};

use crate::{
    accumulator::{Accumulator, GivenState, Row, Step, Total},
    boundary::{CorrelationId, Failure, InstanceHandle, Request, Span, caught, hang, now, sleep},
    controls::Told,
    fault::Fault,
    late::LateAnswers,
    model::Model,
    name::Name,
    spec::{Seen, State},
    tensor::{Datatype, Number, Output, Tensor},
};

/// One instance of a model.
#[derive(Debug)]
pub(crate) struct Instance {
    model: Arc<Model>,
    number: i32,
    accumulator: Accumulator,
    late: Option<LateAnswers>,
    /// The last two correlation IDs, for the fault of taking one for the other.
    recent: [Vec<u8>; 2],
}

impl Instance {
    pub(crate) fn new(model: Arc<Model>) -> Self {
        let number = model.begin_instance();
        let accumulator = Accumulator::new(Arc::clone(&model));
        Self { model, number, accumulator, late: None, recent: Default::default() }
    }

    /// Whether a request may get several answers, or none at the first execution.
    pub(crate) fn answers_many(&self) -> bool {
        self.model.spec.decoupled || self.model.spec.is_iterative()
    }

    /// Executes a batch: each request is answered, counted, and released or rescheduled.
    pub(crate) fn execute(&mut self, handle: &InstanceHandle, mut requests: Vec<Request>) {
        let began = now();
        let model = Arc::clone(&self.model);
        let (spec, faults) = (&model.spec, &model.faults);
        if faults.happens(Fault::Crash) {
            std::process::abort();
        }
        if faults.happens(Fault::HangInstance) {
            hang();
        }
        let rows = requests.iter().enumerate().map(|(slot, request)| self.read(slot, request));
        let (is_padding, mut rows): (Vec<_>, Vec<_>) = rows.unzip();
        blame_idle_slots(&mut rows, &is_padding);

        let compute_began = now();
        let slow = if faults.happens(Fault::SlowExecution) { spec.parameters.hold } else { Duration::ZERO };
        let time = spec.parameters.execution + slow;
        if !time.is_zero() {
            sleep(time);
        }
        let mut steps = self.accumulator.execute(&rows);
        self.misdeliver(&mut steps);
        let compute_ended = now();

        for ((request, row), step) in requests.iter_mut().zip(&rows).zip(&mut steps) {
            if let (Ok(row), Ok(done)) = (row, &*step)
                && let Err(failure) = caught("answering", || self.answer(request, row, done))
            {
                *step = Err(failure);
            }
            if let Err(failure) = step {
                request.fail(failure.clone());
            }
        }
        let span = Span { began, compute_began, compute_ended, ended: now() };
        let times = 1 + usize::from(faults.happens(Fault::CountTwice));
        let times = if faults.happens(Fault::CountNot) { 0 } else { times };
        for _ in 0..times {
            for ((request, is_padding), step) in requests.iter().zip(&is_padding).zip(&steps) {
                if !is_padding && !step.as_ref().is_ok_and(|step| step.again) {
                    handle.report(request, step.is_ok(), span);
                }
            }
            handle.report_batch(requests.len() as u64, span);
        }
        if faults.happens(Fault::LateRelease) {
            sleep(spec.parameters.hold);
        }
        for (request, step) in requests.into_iter().zip(steps) {
            if step.is_ok_and(|step| step.again) {
                request.reschedule();
            } else {
                // Its Drop releases it.
                drop(request);
            }
        }
    }

    /// Whether a request is an idle slot's, and what the model sees of it.
    fn read(&mut self, slot: usize, request: &Request) -> (bool, Result<Row, Failure>) {
        match request.correlation_id() {
            Ok(id) => (id.is_none(), self.row(slot, request, id)),
            Err(failure) => (false, Err(failure)),
        }
    }

    fn row(&mut self, slot: usize, request: &Request, id: CorrelationId) -> Result<Row, Failure> {
        let model = Arc::clone(&self.model);
        let (spec, faults) = (&model.spec, &model.faults);
        let is_padding = id.is_none();
        let flags = request.flags()?;
        let mut told = Told::read(&spec.controls, request)?;
        if flags.start && faults.happens(Fault::LeakMemory) {
            self.model.leak();
        }
        let goes_on = spec.controls.start.is_some() && !told.start;
        let state = spec.state.as_ref().filter(|_| !is_padding);
        let state = state.map(|state| self.given_state(request, state, goes_on));
        let state = state.transpose()?;
        self.mishear(slot, &mut told, is_padding, state.as_ref());
        if spec.parameters.check_controls {
            let slot = if is_padding { format!("slot {slot} is idle: ") } else { String::new() };
            told.check(&spec.controls, flags, &id).map_err(|text| Failure::internal(format!("{slot}{text}")))?;
        }
        let mut row = Row { slot, told, id, elements: Vec::new(), shape: Vec::new(), state };
        if row.told.ready {
            let input = request.input(&spec.input)?;
            row.elements = spec.arithmetic.elements(&input).map_err(|text| of_tensor(&spec.input, &text))?;
            row.shape = input.shape;
        }
        Ok(row)
    }

    /// The implicit state that the server gives a request.
    fn given_state(&self, request: &Request, state: &State, goes_on: bool) -> Result<GivenState, Failure> {
        let (spec, faults) = (&self.model.spec, &self.model.faults);
        let tensors = state.tensors.iter().map(|tensor| request.input(&tensor.input));
        let mut tensors = tensors.collect::<Result<Vec<_>, _>>()?;
        if let [first, second, ..] = &tensors[..]
            && goes_on
            && first != second
            && faults.happens(Fault::ExchangeStates)
        {
            tensors.swap(0, 1);
        }
        let numbers = state.read(&tensors, spec.batches, goes_on).map_err(|wrong| match wrong.tensor {
            Some(place) => of_tensor(&state.tensors[place].input, &wrong.text),
            None => Failure::invalid(wrong.text),
        })?;
        let count = state.count().map_or(spec.arithmetic.zero(), |_| numbers[1]);
        Ok(GivenState { total: Total { sum: numbers[0], count }, tensors })
    }

    /// Takes the controls for something else, where that is planted.
    fn mishear(&mut self, slot: usize, told: &mut Told, is_padding: bool, state: Option<&GivenState>) {
        let (spec, faults) = (&self.model.spec, &self.model.faults);
        let goes_on = self.accumulator.goes_on(slot, told, state);
        if is_padding {
            // An idle slot of which the server keeps the state, or nobody does, has none to spoil.
            if spec.state.is_none() && !spec.parameters.formula.is_stateless && spec.controls.ready.is_some() && goes_on
            {
                told.ready |= faults.happens(Fault::ReadySpurious);
            }
            return;
        }
        if spec.controls.start.is_some() && goes_on {
            let wrong = if told.start { Fault::StartMissing } else { Fault::StartSpurious };
            told.start ^= faults.happens(wrong);
        }
        if spec.controls.end.is_some() {
            let wrong = if told.end { Fault::EndMissing } else { Fault::EndSpurious };
            told.end ^= faults.happens(wrong);
        }
        if spec.controls.ready.is_some() && faults.happens(Fault::ReadyMissing) {
            told.ready = false;
        }
        let (Some(control), Some(corrid)) = (&spec.controls.corrid, &mut told.corrid) else { return };
        if faults.has(Fault::CorridOther) {
            if self.recent[0] != *corrid {
                self.recent.swap(0, 1);
                self.recent[0].clone_from(corrid);
            }
            if !self.recent[1].is_empty() && faults.happens(Fault::CorridOther) {
                corrid.clone_from(&self.recent[1]);
            }
        }
        if faults.happens(Fault::CorridZero) {
            *corrid = control.element(0);
        }
    }

    /// Exchanges the results of two rows, where that is planted.
    fn misdeliver(&self, steps: &mut [Result<Step, Failure>]) {
        let result = |step: &Result<Step, Failure>| step.as_ref().ok().and_then(|step| step.results.first().copied());
        let Some(one) = steps.iter().position(|step| result(step).is_some()) else { return };
        let differs = |other: &usize| result(&steps[*other]).is_some() && result(&steps[*other]) != result(&steps[one]);
        let Some(other) = (one + 1..steps.len()).find(differs) else { return };
        if self.model.faults.happens(Fault::Misdeliver) {
            let (head, tail) = steps.split_at_mut(other);
            if let (Ok(one), Ok(other)) = (&mut head[one], &mut tail[0]) {
                std::mem::swap(&mut one.results, &mut other.results);
                std::mem::swap(&mut one.count, &mut other.count);
            }
        }
    }

    /// Gives a request what its step came to: state, and answers.
    fn answer(&mut self, request: &mut Request, row: &Row, step: &Step) -> Result<(), Failure> {
        let model = Arc::clone(&self.model);
        let spec = &model.spec;
        if let (Some(state), Some(given), Some(total)) = (&spec.state, &row.state, step.state) {
            let after = state.after(total, &given.tensors, spec.batches);
            let is_new = given.tensors.last() != after.last();
            let mut states: Vec<_> = state.tensors.iter().map(|tensor| tensor.output.clone()).zip(after).collect();
            if states.len() > 1 && is_new && !row.told.end && model.faults.happens(Fault::StateHalfSaved) {
                states.pop();
            }
            if spec.parameters.reverses_states {
                states.reverse();
            }
            request.set_states(&states)?;
        }
        if row.id.is_none() {
            // Nobody is there to want an output.
            return request.answer(&[], true);
        }
        let wants = request.wants(&spec.outputs)?;
        let results = self.misordered(step.results.clone());
        for (index, result) in (1..).zip(&results) {
            let outputs = self.outputs(row, Some(*result), step.count, &wants);
            self.send(request, &outputs, index == results.len() && !step.again)?;
        }
        if !results.is_empty() || step.again {
            return Ok(());
        }
        if spec.decoupled {
            request.finish();
            return Ok(());
        }
        // Not ready, although there is a client.
        request.answer(&self.outputs(row, None, None, &wants), true)
    }

    /// Sends an answer, unless something else is planted.
    fn send(&mut self, request: &mut Request, outputs: &[Output], is_final: bool) -> Result<(), Failure> {
        let model = Arc::clone(&self.model);
        let (spec, faults) = (&model.spec, &model.faults);
        if faults.happens(Fault::DropResponse) {
            match (is_final, spec.decoupled) {
                // Where there may be any number of answers, it is told that there are no more.
                (true, true) => request.finish(),
                (true, false) => request.forget_answer(),
                (false, _) => {}
            }
            return Ok(());
        }
        if !is_final {
            return request.answer(outputs, false);
        }
        if spec.decoupled && faults.happens(Fault::LoseFinalMark) {
            request.answer(outputs, false)?;
            request.forget_answer();
            return Ok(());
        }
        if faults.happens(Fault::LateResponse) {
            let late = self.late.get_or_insert_with(|| LateAnswers::start(spec.parameters.hold));
            late.add(request.hold(outputs)?);
            return Ok(());
        }
        request.answer(outputs, true)
    }

    /// The results of a request in another order or number, where that is planted.
    fn misordered(&self, mut results: Vec<Number>) -> Vec<Number> {
        let faults = &self.model.faults;
        // Several there are of decoupled models alone.
        let [first, .., last] = results[..] else { return results };
        if faults.happens(Fault::SurplusResponse) {
            results.insert(0, first);
        }
        if first != last && faults.happens(Fault::SwapOwnResponses) {
            let end = results.len() - 1;
            results.swap(0, end);
        }
        if faults.happens(Fault::LoseOwnResponse) {
            results.remove(0);
        }
        results
    }

    /// The outputs of an answer, as far as they are wanted; without a result, what the model saw.
    fn outputs(&self, row: &Row, result: Option<Number>, count: Option<Number>, wants: &[bool]) -> Vec<Output> {
        let spec = &self.model.spec;
        let mut outputs = Vec::with_capacity(wants.len());
        let wanted = |index: usize| wants.get(index) == Some(&true);
        if let Some(result) = result.filter(|_| wanted(0)) {
            let data = spec.arithmetic.repeat(result, row.elements.len());
            let tensor = Tensor { datatype: spec.arithmetic.datatype(), shape: row.shape.clone(), data };
            let mut output = (spec.outputs[0].clone(), tensor);
            if !self.spoil(&mut output, result) {
                outputs.push(output);
            }
        }
        for (index, seen) in (1..).zip(&spec.seen) {
            if wanted(index)
                && let Some((datatype, data)) = self.seen(row, *seen, count)
            {
                let tensor = Tensor { datatype, shape: spec.shape_of(*seen), data };
                outputs.push((spec.outputs[index].clone(), tensor));
            }
        }
        outputs
    }

    /// Spoils an output, where that is planted; whether it is left out.
    fn spoil(&self, (name, tensor): &mut Output, result: Number) -> bool {
        let faults = &self.model.faults;
        if faults.happens(Fault::WrongOutputName) {
            *name = name.with(c"_2");
        }
        if faults.happens(Fault::WrongOutputType) {
            tensor.datatype = if tensor.datatype == Datatype::Fp32 { Datatype::Int32 } else { Datatype::Fp32 };
        }
        if faults.happens(Fault::WrongOutputShape) {
            tensor.shape.pop();
        }
        if faults.happens(Fault::WrongOutputLength) {
            tensor.data.extend(self.model.spec.arithmetic.repeat(result, 1));
        }
        if faults.happens(Fault::TruncateOutput) {
            tensor.data.pop();
        }
        faults.happens(Fault::EmptyResponse)
    }

    /// What an output tells of what the model saw: type and element; none where there is nothing to tell.
    fn seen(&self, row: &Row, seen: Seen, count: Option<Number>) -> Option<(Datatype, Vec<u8>)> {
        let number = |number: i32| (Datatype::Int32, number.to_le_bytes().to_vec());
        Some(match seen {
            Seen::All => (Datatype::Int64, self.all_seen(row)),
            Seen::Start => number(row.told.start.into()),
            Seen::End => number(row.told.end.into()),
            Seen::Ready => number(row.told.ready.into()),
            Seen::Slot => number(i32::try_from(row.slot).unwrap_or(i32::MAX)),
            Seen::Instance => number(self.number),
            Seen::Count => (Datatype::Int64, whole(count?).to_le_bytes().to_vec()),
            Seen::Corrid => {
                let datatype =
                    self.model.spec.controls.corrid.as_ref().map_or(Datatype::Uint64, |corrid| corrid.datatype);
                (datatype, row.told.corrid.clone().unwrap_or_default())
            }
        })
    }

    /// The elements of all that the model saw.
    fn all_seen(&self, row: &Row) -> Vec<u8> {
        let (spec, told) = (&self.model.spec, &row.told);
        let flag = |is_told: bool, says: bool| if is_told { i64::from(says) } else { -1 };
        let elements = [
            flag(spec.controls.start.is_some(), told.start),
            flag(spec.controls.end.is_some(), told.end),
            flag(spec.controls.ready.is_some(), told.ready),
            spec.controls.corrid.as_ref().and_then(|corrid| told.number(corrid.datatype)).unwrap_or(-1),
            spec.slot(self.number, row.slot).unwrap_or(-1),
        ];
        elements.into_iter().flat_map(i64::to_le_bytes).collect()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.model.end_instance(self.number);
    }
}

/// A number of steps as an INT64.
#[expect(clippy::cast_possible_truncation, reason = "that is what a whole number is")]
fn whole(count: Number) -> i64 {
    match count {
        Number::Integer(count) => count,
        Number::Float(count) => count as i64,
    }
}

/// What is wrong with a tensor of a request.
fn of_tensor(name: &Name, text: &str) -> Failure {
    Failure::invalid(format!("tensor '{name}': {text}"))
}

/// Where an idle slot was taken for a busy one nobody is there to be told, so the others of its batch are.
fn blame_idle_slots(rows: &mut [Result<Row, Failure>], is_padding: &[bool]) {
    let mut idle = rows.iter().zip(is_padding).filter(|(_, is_padding)| **is_padding);
    if let Some(failure) = idle.find_map(|(row, _)| row.as_ref().err()).cloned() {
        for row in rows.iter_mut().filter(|row| row.is_ok()) {
            *row = Err(failure.clone());
        }
    }
}
