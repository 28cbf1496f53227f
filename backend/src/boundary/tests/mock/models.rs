//! The server itself, errors and messages, and models with their instances.

use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    ptr,
};

use super::{
    Rejection, StatePointer, c,
    call::{c_functions, serve, text},
    handle, world, wrong,
};

#[unsafe(no_mangle)]
extern "C" fn TRITONSERVER_ErrorNew(code: c_uint, message: *const c_char) -> *mut c::Error {
    // SAFETY: the backend gives a text that ends.
    let text = unsafe { text(message) };
    world().error(code, &text)
}

#[unsafe(no_mangle)]
extern "C" fn TRITONSERVER_ErrorDelete(error: *mut c::Error) {
    let mut world = world();
    if let Err(Rejection::Wrong(what)) = world.errors.end(error.addr(), "deleted") {
        world.wrongs.push(what);
    }
}

#[unsafe(no_mangle)]
extern "C" fn TRITONSERVER_ErrorCode(error: *mut c::Error) -> c_uint {
    look_at_error(error).map_or(0, |(code, _)| code)
}

#[unsafe(no_mangle)]
extern "C" fn TRITONSERVER_ErrorMessage(error: *mut c::Error) -> *const c_char {
    look_at_error(error).map_or(ptr::null(), |(_, text)| text)
}

fn look_at_error(error: *mut c::Error) -> Option<(c_uint, *const c_char)> {
    let mut world = world();
    match world.errors.get(error.addr()) {
        Ok(error) => Some((error.code, error.text.as_ptr())),
        Err(Rejection::Wrong(what) | Rejection::Error(what)) => {
            world.wrongs.push(what);
            None
        }
    }
}

c_functions! {
    fn TRITONSERVER_LogMessage(world, _level: c_uint, _file: *const c_char, _line: c_int, message: *const c_char) {
        world.log.push(text(message));
    }

    fn TRITONSERVER_MessageSerializeToJson(
        world, message: *mut c::Message, base: *mut *const c_char, byte_size: *mut usize
    ) {
        let message = world.messages.get(message.addr())?;
        *base = message.as_ptr().cast();
        *byte_size = message.len();
    }

    fn TRITONSERVER_MessageDelete(world, message: *mut c::Message) {
        world.messages.end(message.addr(), "deleted")?;
    }

    fn TRITONBACKEND_ApiVersion(world, major: *mut u32, minor: *mut u32) {
        (*major, *minor) = world.api;
    }

    fn TRITONBACKEND_ModelConfig(world, model: *mut c::Model, version: u32, config: *mut *mut c::Message) {
        if version != 1 {
            return Err(wrong(format!("there is no version {version} of a configuration")));
        }
        let text = world.models.get(model.addr())?.config.clone();
        *config = handle(world.messages.add(text));
    }

    fn TRITONBACKEND_ModelState(world, model: *mut c::Model, state: *mut *mut c_void) {
        *state = world.models.get(model.addr())?.state.0;
    }

    fn TRITONBACKEND_ModelSetState(world, model: *mut c::Model, state: *mut c_void) {
        world.models.get(model.addr())?.state = StatePointer(state);
    }

    fn TRITONBACKEND_ModelInstanceModel(world, instance: *mut c::ModelInstance, model: *mut *mut c::Model) {
        *model = handle(world.instances.get(instance.addr())?.model);
    }

    fn TRITONBACKEND_ModelInstanceKind(world, instance: *mut c::ModelInstance, kind: *mut c_uint) {
        *kind = world.instances.get(instance.addr())?.kind;
    }

    fn TRITONBACKEND_ModelInstanceState(world, instance: *mut c::ModelInstance, state: *mut *mut c_void) {
        *state = world.instances.get(instance.addr())?.state.0;
    }

    fn TRITONBACKEND_ModelInstanceSetState(world, instance: *mut c::ModelInstance, state: *mut c_void) {
        world.instances.get(instance.addr())?.state = StatePointer(state);
    }

    fn TRITONBACKEND_ModelInstanceReportStatistics(
        world, instance: *mut c::ModelInstance, request: *mut c::Request, success: bool, exec_start_ns: u64,
        compute_start_ns: u64, compute_end_ns: u64, exec_end_ns: u64
    ) {
        world.instances.get(instance.addr())?;
        world.request(request)?;
        world.check_times([exec_start_ns, compute_start_ns, compute_end_ns, exec_end_ns]);
        world.accounts.entry(request.addr()).or_default().reports.push(success);
    }

    fn TRITONBACKEND_ModelInstanceReportBatchStatistics(
        world, instance: *mut c::ModelInstance, batch_size: u64, exec_start_ns: u64, compute_start_ns: u64,
        compute_end_ns: u64, exec_end_ns: u64
    ) {
        world.instances.get(instance.addr())?;
        world.check_times([exec_start_ns, compute_start_ns, compute_end_ns, exec_end_ns]);
        world.batches.push(batch_size);
    }
}
