//! Requests and their inputs.

use std::ffi::{c_char, c_uint, c_void};

use super::{
    Id, Input, MEMORY_GPU, c,
    call::{c_functions, elsewhere, serve, text},
    handle, rejected, wrong,
};

c_functions! {
    fn TRITONBACKEND_RequestFlags(world, request: *mut c::Request, flags: *mut u32) {
        *flags = world.request(request)?.ask.flags;
    }

    fn TRITONBACKEND_RequestCorrelationId(world, request: *mut c::Request, id: *mut u64) {
        match &world.request(request)?.ask.id {
            Id::Number(number) => *id = *number,
            Id::Text(_) => return Err(rejected("the correlation ID is a text")),
        }
    }

    fn TRITONBACKEND_RequestCorrelationIdString(world, request: *mut c::Request, id: *mut *const c_char) {
        match &world.request(request)?.ask.id {
            Id::Text(text) => *id = text.as_ptr(),
            Id::Number(_) => return Err(rejected("the correlation ID is a number")),
        }
    }

    fn TRITONBACKEND_RequestInput(
        world, request: *mut c::Request, name: *const c_char, input: *mut *mut c::Input
    ) {
        let name = text(name);
        let request = world.request(request)?;
        let place = request.ask.inputs.iter().position(|tensor| tensor.name == name);
        let place = place.ok_or_else(|| rejected(format!("input '{name}' does not exist in request")))?;
        *input = handle(request.inputs[place]);
    }

    fn TRITONBACKEND_RequestOutputCount(world, request: *mut c::Request, count: *mut u32) {
        *count = u32::try_from(world.request(request)?.ask.wants.len()).unwrap_or(u32::MAX);
    }

    fn TRITONBACKEND_RequestOutputName(
        world, request: *mut c::Request, index: u32, name: *mut *const c_char
    ) {
        let wanted = world.request(request)?.ask.wants.get(index as usize);
        *name = wanted.ok_or_else(|| wrong(format!("no output {index} is wanted")))?.as_ptr();
    }

    fn TRITONBACKEND_RequestRelease(world, request: *mut c::Request, flags: u32) {
        let number = request.addr();
        world.request(request)?;
        match flags {
            c::RELEASE_ALL => {
                world.release(number, "released")?;
                world.accounts.entry(number).or_default().releases += 1;
            }
            c::RELEASE_RESCHEDULE if world.is_failing => {}
            c::RELEASE_RESCHEDULE => {
                let request = world.request(request)?;
                request.is_given = false;
                request.ask.flags = 0;
                world.rescheduled.push(number);
                world.accounts.entry(number).or_default().reschedules += 1;
            }
            other => return Err(wrong(format!("a release has the flags {other}"))),
        }
    }

    fn TRITONBACKEND_InputProperties(
        world, input: *mut c::Input, name: *mut *const c_char, datatype: *mut c_uint, shape: *mut *const i64,
        dims_count: *mut u32, byte_size: *mut u64, buffer_count: *mut u32
    ) {
        let Input { tensor, buffers } = world.inputs.get(input.addr())?;
        if !name.is_null() {
            return Err(wrong("nobody needs the name of an input that was asked for by its name"));
        }
        *datatype = tensor.code;
        *shape = tensor.shape.as_ptr();
        *dims_count = u32::try_from(tensor.shape.len()).unwrap_or(u32::MAX);
        *byte_size = tensor.data.len() as u64;
        *buffer_count = u32::try_from(buffers.len()).unwrap_or(u32::MAX);
    }

    fn TRITONBACKEND_InputBuffer(
        world, input: *mut c::Input, index: u32, buffer: *mut *const c_void, byte_size: *mut u64,
        memory_type: *mut c_uint, memory_type_id: *mut i64
    ) {
        let Input { tensor, buffers } = world.inputs.get(input.addr())?;
        let memory = buffers.get_mut(index as usize).ok_or_else(|| wrong(format!("there is no buffer {index}")))?;
        *buffer = if tensor.memory == MEMORY_GPU { elsewhere() } else { memory.pointer() };
        *byte_size = memory.bytes().len() as u64;
        (*memory_type, *memory_type_id) = (tensor.memory, 0);
    }
}
