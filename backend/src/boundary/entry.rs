//! What the server calls.

use std::{
    ffi::{c_uint, c_void},
    ptr, slice,
    sync::Arc,
};

use super::{
    c,
    failure::{Failure, Level, caught, check, log, log_failure},
    request::{InstanceHandle, Request},
};
use crate::{instance::Instance, model::Model, spec::Spec};

/// The interface's major version has to be this, and the minor one at least that: implicit state came before it.
const API_MAJOR: u32 = 1;
const API_MINOR: u32 = 10;

/// The server calls from any of its threads: an instance goes from one to another, and a model is shared.
const _: () = {
    const fn goes_from_thread_to_thread<T: Send>() {}
    const fn is_shared<T: Send + Sync>() {}
    goes_from_thread_to_thread::<Instance>();
    is_shared::<Model>();
};

/// Runs what an entry point does; what it returns, or that it panicked, is for the server to free.
fn guarded(what: &str, act: impl FnOnce() -> Result<(), Failure>) -> *mut c::Error {
    caught(what, act).map_or_else(Failure::into_raw, |()| ptr::null_mut())
}

/// The library was opened.
///
/// # Safety
/// The server calls it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn TRITONBACKEND_Initialize(_backend: *mut c_void) -> *mut c::Error {
    guarded("opening the backend", || {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are places for a number.
        unsafe { check(c::TRITONBACKEND_ApiVersion(&raw mut major, &raw mut minor)) }?;
        if major != API_MAJOR || minor < API_MINOR {
            return Err(Failure::unsupported(format!(
                "the backend 'sequence_stress' needs version {API_MAJOR}.{API_MINOR} of the server's backend interface or a \
                 later one of {API_MAJOR}, and this server has {major}.{minor}"
            )));
        }
        Ok(())
    })
}

/// The library is about to be closed.
///
/// # Safety
/// The server calls it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn TRITONBACKEND_Finalize(_backend: *mut c_void) -> *mut c::Error {
    ptr::null_mut()
}

/// A model is loaded. Its state is a `Box<Arc<Model>>`.
///
/// # Safety
/// The server calls it, with a model of its own.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn TRITONBACKEND_ModelInitialize(model: *mut c::Model) -> *mut c::Error {
    guarded("loading the model", || {
        // SAFETY: the model is the server's.
        let config = unsafe { config(model) }?;
        let spec = Spec::read(&config).map_err(Failure::invalid)?;
        // SAFETY: the server only keeps the pointer; `ModelFinalize` takes it back.
        keep(Arc::new(Model::new(spec)), |state| unsafe { c::TRITONBACKEND_ModelSetState(model, state) })
    })
}

/// Has the server keep what belongs to one of its objects, as a `Box` in the pointer that `set` sets.
fn keep<T>(state: T, set: impl FnOnce(*mut c_void) -> *mut c::Error) -> Result<(), Failure> {
    let state = Box::into_raw(Box::new(state));
    // SAFETY: what `set` returns is a C function's own error; where it failed nobody else has the state.
    unsafe { check(set(state.cast())).inspect_err(|_| drop(Box::from_raw(state))) }
}

/// The model's configuration as JSON.
///
/// # Safety
/// The model is one of the server's.
unsafe fn config(model: *mut c::Model) -> Result<String, Failure> {
    let (mut message, mut text, mut size) = (ptr::null_mut(), ptr::null(), 0);
    // SAFETY: the message is this function's; its text dies with it and is copied before.
    unsafe {
        check(c::TRITONBACKEND_ModelConfig(model, 1, &raw mut message))?;
        let read = check(c::TRITONSERVER_MessageSerializeToJson(message, &raw mut text, &raw mut size));
        let json = read.map(|()| {
            let bytes = if text.is_null() { &[] } else { slice::from_raw_parts(text.cast::<u8>(), size) };
            // Should a NUL be counted in, it is not JSON.
            String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
        });
        log_failure("freeing the configuration", check(c::TRITONSERVER_MessageDelete(message)));
        json
    }
}

/// A model is unloaded; its instances are gone.
///
/// # Safety
/// The server calls it, with a model that it initialized or failed to.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn TRITONBACKEND_ModelFinalize(model: *mut c::Model) -> *mut c::Error {
    guarded("unloading the model", || {
        let mut state = ptr::null_mut();
        // SAFETY: the state is null or what `ModelInitialize` made, and is taken back once.
        unsafe {
            check(c::TRITONBACKEND_ModelState(model, &raw mut state))?;
            check(c::TRITONBACKEND_ModelSetState(model, ptr::null_mut()))?;
            if !state.is_null() {
                drop(Box::from_raw(state.cast::<Arc<Model>>()));
            }
        }
        Ok(())
    })
}

/// An instance of a model is made. Its state is a `Box<Instance>`.
///
/// # Safety
/// The server calls it, with an instance of its own.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn TRITONBACKEND_ModelInstanceInitialize(
    instance: *mut c::ModelInstance,
) -> *mut c::Error {
    guarded("making an instance", || {
        let (mut model, mut state, mut kind) = (ptr::null_mut(), ptr::null_mut::<c_void>(), 0);
        // SAFETY: the instance is the server's, and its model lives longer; a state that is there is an `Arc<Model>`.
        let model = unsafe {
            check(c::TRITONBACKEND_ModelInstanceModel(instance, &raw mut model))?;
            check(c::TRITONBACKEND_ModelState(model, &raw mut state))?;
            check(c::TRITONBACKEND_ModelInstanceKind(instance, &raw mut kind))?;
            state.cast::<Arc<Model>>().as_ref().ok_or_else(|| Failure::internal("the model was not initialized"))?
        };
        if kind != c::KIND_CPU {
            let text = "instance_group: this backend computes on the CPU alone; say 'kind: KIND_CPU'";
            return Err(Failure::invalid(text));
        }
        // SAFETY: the server only keeps the pointer; `ModelInstanceFinalize` takes it back.
        keep(Instance::new(Arc::clone(model)), |state| unsafe {
            c::TRITONBACKEND_ModelInstanceSetState(instance, state)
        })
    })
}

/// An instance is about to go.
///
/// # Safety
/// The server calls it, with an instance that it initialized or failed to, and that does not execute.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn TRITONBACKEND_ModelInstanceFinalize(instance: *mut c::ModelInstance) -> *mut c::Error {
    guarded("ending an instance", || {
        let mut state = ptr::null_mut();
        // SAFETY: the state is null or what `ModelInstanceInitialize` made, and is taken back once.
        unsafe {
            check(c::TRITONBACKEND_ModelInstanceState(instance, &raw mut state))?;
            check(c::TRITONBACKEND_ModelInstanceSetState(instance, ptr::null_mut()))?;
            if !state.is_null() {
                drop(Box::from_raw(state.cast::<Instance>()));
            }
        }
        Ok(())
    })
}

/// Requests are to be executed. An error says that they are still the server's; success, that they are ours.
///
/// # Safety
/// The server calls it, with an instance that is initialized and not executing, and with that many requests.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn TRITONBACKEND_ModelInstanceExecute(
    instance: *mut c::ModelInstance,
    requests: *mut *mut c::Request,
    count: c_uint,
) -> *mut c::Error {
    guarded("executing", || {
        if requests.is_null() || count == 0 {
            return Ok(());
        }
        let mut state = ptr::null_mut::<c_void>();
        // SAFETY: the state is null or what `ModelInstanceInitialize` made, and an instance executes once at a time; the
        // requests are the server's, and ours if they are all taken.
        let (state, requests) = unsafe {
            check(c::TRITONBACKEND_ModelInstanceState(instance, &raw mut state))?;
            let state = state.cast::<Instance>().as_mut();
            let state = state.ok_or_else(|| Failure::internal("the instance was not initialized"))?;
            let requests = Request::take_all(slice::from_raw_parts(requests, count as usize), state.answers_many())?;
            (state, requests)
        };
        let handle = InstanceHandle(instance);
        // They are ours now, and whatever is not answered and released in there is when it is dropped.
        let executed = caught("an execution", || {
            state.execute(&handle, requests);
            Ok(())
        });
        if let Err(failure) = executed {
            log(Level::Error, &failure.text);
        }
        Ok(())
    })
}
