//! Responses, and what they are made from.

use std::{
    ffi::{c_uint, c_void},
    ptr::{self, NonNull},
};

use super::{
    c,
    failure::{Failure, check, log_failure},
};
use crate::{name::Name, tensor::Output};

/// A response that is neither sent nor deleted yet.
#[derive(Debug)]
pub(crate) struct Response(NonNull<c::Response>);

// SAFETY: the server lets any thread fill, send or delete a response, one at a time; there is one owner.
unsafe impl Send for Response {}

impl Response {
    /// A response to a request.
    ///
    /// # Safety
    /// The request is one of the server's that is not released.
    pub(super) unsafe fn new(request: NonNull<c::Request>) -> Result<Self, Failure> {
        let mut response = ptr::null_mut();
        // SAFETY: the request is valid, says the caller; the response is this owner's.
        unsafe { check(c::TRITONBACKEND_ResponseNew(&raw mut response, request.as_ptr())) }?;
        Self::owned(response)
    }

    fn owned(response: *mut c::Response) -> Result<Self, Failure> {
        NonNull::new(response).map(Self).ok_or_else(|| Failure::internal("the server gave no response"))
    }

    /// Puts an output into it.
    pub(super) fn put(&mut self, (name, tensor): &Output) -> Result<(), Failure> {
        let mut place = ptr::null_mut();
        let count = dims_count(&tensor.shape)?;
        // SAFETY: the response is not sent yet; the server copies name and shape, which live over the call.
        unsafe {
            check(c::TRITONBACKEND_ResponseOutput(
                self.0.as_ptr(),
                &raw mut place,
                name.as_c().as_ptr(),
                tensor.datatype.code(),
                tensor.shape.as_ptr(),
                count,
            ))
        }?;
        fill(name, &tensor.data, |buffer, size, memory, device| {
            // SAFETY: the output belongs to this response, which is not sent yet.
            unsafe { c::TRITONBACKEND_OutputBuffer(place, buffer, size, memory, device) }
        })
    }

    /// Sends it, as an error where there is one. The server has it after that, even if that fails.
    pub(super) fn send(self, flags: u32, failure: Option<Failure>) -> Result<(), Failure> {
        let response = self.0.as_ptr();
        std::mem::forget(self);
        let error = failure.map_or(ptr::null_mut(), Failure::into_raw);
        // SAFETY: the response was this owner's, who is forgotten; the error stays this function's, who frees it.
        unsafe {
            let sent = check(c::TRITONBACKEND_ResponseSend(response, flags, error));
            if !error.is_null() {
                c::TRITONSERVER_ErrorDelete(error);
            }
            sent
        }
    }

    /// Sends it as the final answer, which may be from another thread, after its request was released.
    pub(crate) fn send_late(self) {
        log_failure("sending a late answer", self.send(c::COMPLETE_FINAL, None));
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        // SAFETY: it was not sent: that forgets the owner.
        log_failure("deleting a response", unsafe { check(c::TRITONBACKEND_ResponseDelete(self.0.as_ptr())) });
    }
}

/// What makes any number of responses to one request.
#[derive(Debug)]
pub(super) struct Factory(NonNull<c::ResponseFactory>);

impl Factory {
    /// A factory for a request.
    ///
    /// # Safety
    /// The request is one of the server's that is not released.
    pub(super) unsafe fn new(request: NonNull<c::Request>) -> Result<Self, Failure> {
        let mut factory = ptr::null_mut();
        // SAFETY: the request is valid, says the caller; the factory is this owner's.
        unsafe { check(c::TRITONBACKEND_ResponseFactoryNew(&raw mut factory, request.as_ptr())) }?;
        NonNull::new(factory).map(Self).ok_or_else(|| Failure::internal("the server gave no response factory"))
    }

    /// One more response.
    pub(super) fn response(&self) -> Result<Response, Failure> {
        let mut response = ptr::null_mut();
        // SAFETY: the factory is alive; the response is the new owner's.
        unsafe { check(c::TRITONBACKEND_ResponseNewFromFactory(&raw mut response, self.0.as_ptr())) }?;
        Response::owned(response)
    }

    /// Tells that no more responses come.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        // SAFETY: the factory is alive.
        unsafe { check(c::TRITONBACKEND_ResponseFactorySendFlags(self.0.as_ptr(), c::COMPLETE_FINAL)) }
    }
}

impl Drop for Factory {
    fn drop(&mut self) {
        // SAFETY: this is its only owner.
        log_failure("deleting a response factory", unsafe {
            check(c::TRITONBACKEND_ResponseFactoryDelete(self.0.as_ptr()))
        });
    }
}

/// The number of dimensions of a shape, as C has it.
pub(super) fn dims_count(shape: &[i64]) -> Result<u32, Failure> {
    u32::try_from(shape.len()).map_err(|_| Failure::internal("a shape has too many dimensions"))
}

/// Copies `data` into a buffer of that size that `get` asks the server for: buffer, size, memory type and device.
pub(super) fn fill(
    name: &Name,
    data: &[u8],
    get: impl FnOnce(*mut *mut c_void, u64, *mut c_uint, *mut i64) -> *mut c::Error,
) -> Result<(), Failure> {
    let (mut buffer, mut memory, mut device) = (ptr::null_mut(), c::MEMORY_CPU, 0);
    // SAFETY: what `get` returns is a C function's own error.
    unsafe { check(get(&raw mut buffer, data.len() as u64, &raw mut memory, &raw mut device)) }?;
    if data.is_empty() {
        return Ok(());
    }
    if memory != c::MEMORY_CPU && memory != c::MEMORY_CPU_PINNED {
        return Err(Failure::unsupported(format!("tensor '{name}': its buffer is not in the CPU's memory")));
    }
    if buffer.is_null() {
        return Err(Failure::internal(format!("tensor '{name}': the server gave no buffer")));
    }
    // SAFETY: the server gave a buffer of at least the size that it was asked for; it is nobody else's yet.
    unsafe { ptr::copy_nonoverlapping(data.as_ptr(), buffer.cast::<u8>(), data.len()) };
    Ok(())
}
