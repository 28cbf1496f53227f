//! Requests: what they hold, what is owed to them, and their release.

use std::{
    borrow::Cow,
    ffi::CStr,
    mem,
    ptr::{self, NonNull},
    slice,
};

use super::{
    c,
    failure::{Failure, check, log_failure},
    response::{Factory, Response, dims_count, fill},
};
use crate::{
    name::Name,
    tensor::{Datatype, Output, Tensor},
};

/// A request of which the backend owes the answer and the release. Dropped before, it is answered with an error.
#[derive(Debug)]
pub(crate) struct Request {
    raw: NonNull<c::Request>,
    owed: Owed,
    is_released: bool,
}

/// What has to be answered yet.
#[derive(Debug, Default)]
enum Owed {
    /// One answer, for which the response is made beforehand, so that it cannot fail when it is too late.
    One(Response),
    /// Any number of answers, and to tell that there are no more.
    Many(Factory),
    #[default]
    Nothing,
}

/// What the client said of a request's place in its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) start: bool,
    pub(crate) end: bool,
}

/// The sequence of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CorrelationId {
    Number(u64),
    Text(String),
}

impl CorrelationId {
    /// Whether there is no sequence: so it is with padding.
    pub(crate) fn is_none(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Text(text) => text.is_empty(),
        }
    }
}

/// The times of an execution, in ns of [`super::now`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) began: u64,
    pub(crate) compute_began: u64,
    pub(crate) compute_ended: u64,
    pub(crate) ended: u64,
}

/// An instance of a model, to report to.
#[derive(Debug)]
pub(crate) struct InstanceHandle(pub(super) *mut c::ModelInstance);

impl InstanceHandle {
    /// Counts a request that was executed, and that is not released yet.
    pub(crate) fn report(&self, request: &Request, success: bool, span: Span) {
        // SAFETY: the instance lives while it executes, and the request is not released while there is its owner.
        log_failure("reporting a request", unsafe {
            check(c::TRITONBACKEND_ModelInstanceReportStatistics(
                self.0,
                request.raw.as_ptr(),
                success,
                span.began,
                span.compute_began,
                span.compute_ended,
                span.ended,
            ))
        });
    }

    /// Counts an execution of so many requests.
    pub(crate) fn report_batch(&self, size: u64, span: Span) {
        // SAFETY: the instance lives while it executes.
        log_failure("reporting an execution", unsafe {
            check(c::TRITONBACKEND_ModelInstanceReportBatchStatistics(
                self.0,
                size,
                span.began,
                span.compute_began,
                span.compute_ended,
                span.ended,
            ))
        });
    }
}

impl Request {
    /// Takes over the requests of an execution. `many`: each may get any number of answers.
    ///
    /// # Errors
    /// When the server cannot make a response for each. Nothing was taken then.
    ///
    /// # Safety
    /// The requests are the server's, and the caller's to own where this succeeds.
    pub(super) unsafe fn take_all(requests: &[*mut c::Request], many: bool) -> Result<Vec<Self>, Failure> {
        // All that can fail comes first: dropped without their requests, responses are deleted and no more.
        let owed = requests.iter().map(|request| {
            let raw = NonNull::new(*request).ok_or_else(|| Failure::internal("the server gave no request"))?;
            // SAFETY: the request is the server's, says the caller.
            let owed =
                unsafe { if many { Factory::new(raw).map(Owed::Many) } else { Response::new(raw).map(Owed::One) } };
            owed.map(|owed| (raw, owed))
        });
        let owed = owed.collect::<Result<Vec<_>, _>>()?;
        Ok(owed.into_iter().map(|(raw, owed)| Self { raw, owed, is_released: false }).collect())
    }

    /// START and END as the client set them.
    pub(crate) fn flags(&self) -> Result<Flags, Failure> {
        let mut flags = 0;
        // SAFETY: the request is not released.
        unsafe { check(c::TRITONBACKEND_RequestFlags(self.raw.as_ptr(), &raw mut flags)) }?;
        Ok(Flags { start: flags & c::FLAG_START != 0, end: flags & c::FLAG_END != 0 })
    }

    /// The correlation ID as the client set it.
    pub(crate) fn correlation_id(&self) -> Result<CorrelationId, Failure> {
        let (mut number, mut text) = (0, ptr::null());
        // SAFETY: the request is not released; the text is the request's, and copied.
        unsafe {
            // The first one fails where the ID is a text.
            if check(c::TRITONBACKEND_RequestCorrelationId(self.raw.as_ptr(), &raw mut number)).is_ok() {
                return Ok(CorrelationId::Number(number));
            }
            check(c::TRITONBACKEND_RequestCorrelationIdString(self.raw.as_ptr(), &raw mut text))?;
            let text = if text.is_null() { Cow::Borrowed("") } else { CStr::from_ptr(text).to_string_lossy() };
            Ok(CorrelationId::Text(text.into_owned()))
        }
    }

    /// A copy of an input.
    ///
    /// # Errors
    /// When there is no such input, or it is not in the CPU's memory, or of a type that is not known.
    pub(crate) fn input(&self, name: &Name) -> Result<Tensor, Failure> {
        let mut input = ptr::null_mut();
        let (mut code, mut shape, mut dims, mut buffers) = (0, ptr::null(), 0, 0);
        let mut size = 0;
        // SAFETY: the request is not released, and so its inputs live; the name lives over the call.
        unsafe {
            check(c::TRITONBACKEND_RequestInput(self.raw.as_ptr(), name.as_c().as_ptr(), &raw mut input))?;
            check(c::TRITONBACKEND_InputProperties(
                input,
                ptr::null_mut(),
                &raw mut code,
                &raw mut shape,
                &raw mut dims,
                &raw mut size,
                &raw mut buffers,
            ))?;
        }
        let wrong = |what: String| Failure::invalid(format!("tensor '{name}': {what}"));
        let datatype = Datatype::of_code(code).ok_or_else(|| wrong(format!("data type {code} is not known")))?;
        let shape = match dims {
            0 => Vec::new(),
            // SAFETY: the server keeps a shape of that many numbers as long as the input.
            dims => unsafe { slice::from_raw_parts(shape, dims as usize) }.to_vec(),
        };
        let mut data = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        for index in 0..buffers {
            let (mut buffer, mut size, mut memory, mut device) = (ptr::null(), 0, c::MEMORY_CPU, 0);
            // SAFETY: the input is alive, and has that many buffers.
            unsafe {
                check(c::TRITONBACKEND_InputBuffer(
                    input,
                    index,
                    &raw mut buffer,
                    &raw mut size,
                    &raw mut memory,
                    &raw mut device,
                ))
            }?;
            if memory != c::MEMORY_CPU && memory != c::MEMORY_CPU_PINNED {
                return Err(Failure::unsupported(format!("tensor '{name}' is not in the CPU's memory")));
            }
            if !buffer.is_null() && size > 0 {
                let size = usize::try_from(size).map_err(|_| wrong("it is too large".to_owned()))?;
                // SAFETY: the server says that so many bytes are there. They are copied as bytes, so alignment is nothing.
                data.extend_from_slice(unsafe { slice::from_raw_parts(buffer.cast::<u8>(), size) });
            }
        }
        Ok(Tensor { datatype, shape, data })
    }

    /// Which of these outputs the client wants, in the same order.
    pub(crate) fn wants(&self, names: &[Name]) -> Result<Vec<bool>, Failure> {
        let mut count = 0;
        let mut wanted = vec![false; names.len()];
        // SAFETY: the request is not released, and so the names that it gives live.
        unsafe {
            check(c::TRITONBACKEND_RequestOutputCount(self.raw.as_ptr(), &raw mut count))?;
            for index in 0..count {
                let mut name = ptr::null();
                check(c::TRITONBACKEND_RequestOutputName(self.raw.as_ptr(), index, &raw mut name))?;
                if !name.is_null()
                    && let Some(which) = names.iter().position(|its| its.as_c() == CStr::from_ptr(name))
                {
                    wanted[which] = true;
                }
            }
        }
        Ok(wanted)
    }

    /// Gives the server new implicit states to keep for the sequence, in this order.
    ///
    /// # Errors
    /// When that fails. Where the server did not take one of the tensors, it keeps what it had.
    pub(crate) fn set_states(&self, states: &[Output]) -> Result<(), Failure> {
        let places = states.iter().map(|(name, state)| self.new_state(name, state)).collect::<Result<Vec<_>, _>>()?;
        // SAFETY: the request is not released, and so its states live; none of them is updated yet.
        places.into_iter().try_for_each(|place| unsafe { check(c::TRITONBACKEND_StateUpdate(place)) })
    }

    /// A new implicit state with its content, of which the server takes no notice before its update.
    fn new_state(&self, name: &Name, state: &Tensor) -> Result<*mut c::State, Failure> {
        let mut place = ptr::null_mut();
        let count = dims_count(&state.shape)?;
        // SAFETY: the request is not released; the server copies name and shape, which live over the call.
        unsafe {
            check(c::TRITONBACKEND_StateNew(
                &raw mut place,
                self.raw.as_ptr(),
                name.as_c().as_ptr(),
                state.datatype.code(),
                state.shape.as_ptr(),
                count,
            ))?;
        }
        fill(name, &state.data, |buffer, size, memory, device| {
            // SAFETY: the state is valid until its update.
            unsafe { c::TRITONBACKEND_StateBuffer(place, buffer, size, memory, device) }
        })?;
        Ok(place)
    }

    /// Answers; the last answer is final.
    ///
    /// # Errors
    /// When that fails. The final answer is then owed as before, unless it was this one that could not be sent.
    pub(crate) fn answer(&mut self, outputs: &[Output], is_final: bool) -> Result<(), Failure> {
        let response = self.build(outputs)?;
        let sent = response.send(if is_final { c::COMPLETE_FINAL } else { 0 }, None);
        if is_final {
            // It is gone either way, so the log alone can tell of it.
            self.owed = Owed::Nothing;
            log_failure("sending an answer", sent.clone());
        }
        sent
    }

    /// Makes the final answer, for somebody else to send later.
    ///
    /// # Errors
    /// When that fails. It is then owed as before.
    pub(crate) fn hold(&mut self, outputs: &[Output]) -> Result<Response, Failure> {
        let response = self.build(outputs)?;
        self.owed = Owed::Nothing;
        Ok(response)
    }

    /// A response with these outputs. Where there is one answer only, it is not owed any more if this succeeds.
    fn build(&mut self, outputs: &[Output]) -> Result<Response, Failure> {
        match mem::take(&mut self.owed) {
            Owed::One(mut response) => match put_all(&mut response, outputs) {
                Ok(()) => Ok(response),
                Err(failure) => {
                    // It has to tell of the failure.
                    self.owed = Owed::One(response);
                    Err(failure)
                }
            },
            Owed::Many(factory) => {
                let built =
                    factory.response().and_then(|mut response| put_all(&mut response, outputs).map(|()| response));
                self.owed = Owed::Many(factory);
                built
            }
            Owed::Nothing => Err(Failure::internal("the request is answered already")),
        }
    }

    /// Answers with an error, and that is final.
    pub(crate) fn fail(&mut self, failure: Failure) {
        let sent = match mem::take(&mut self.owed) {
            Owed::One(response) => response.send(c::COMPLETE_FINAL, Some(failure)),
            Owed::Many(factory) => match factory.response() {
                Ok(response) => response.send(c::COMPLETE_FINAL, Some(failure)),
                Err(other) => factory.finish().and(Err(other)),
            },
            Owed::Nothing => Ok(()),
        };
        log_failure("answering with an error", sent);
    }

    /// Tells that there are no more answers; with an error where nothing else can be told.
    pub(crate) fn finish(&mut self) {
        if let Owed::Many(factory) = &self.owed {
            match factory.finish() {
                Ok(()) => self.owed = Owed::Nothing,
                Err(failure) => self.fail(failure),
            }
        }
    }

    /// Owes no answer any more, although none was given.
    pub(crate) fn forget_answer(&mut self) {
        self.owed = Owed::Nothing;
    }

    /// Gives it back to the scheduler to be executed again; what is owed then is owed by that execution.
    pub(crate) fn reschedule(mut self) {
        // SAFETY: the request is not released. The server has it back where this succeeds.
        match unsafe { check(c::TRITONBACKEND_RequestRelease(self.raw.as_ptr(), c::RELEASE_RESCHEDULE)) } {
            Ok(()) => {
                self.is_released = true;
                self.owed = Owed::Nothing;
            }
            // It is still ours, and ends here.
            Err(failure) => self.fail(failure),
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        if !matches!(self.owed, Owed::Nothing) {
            self.fail(Failure::internal("the backend gave this request up; the server's log may tell why"));
        }
        // SAFETY: it was not released, and nobody uses it after this.
        log_failure("releasing a request", unsafe {
            check(c::TRITONBACKEND_RequestRelease(self.raw.as_ptr(), c::RELEASE_ALL))
        });
    }
}

fn put_all(response: &mut Response, outputs: &[Output]) -> Result<(), Failure> {
    outputs.iter().try_for_each(|output| response.put(output))
}
