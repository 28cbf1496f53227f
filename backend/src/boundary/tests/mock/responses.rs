//! Responses, their factories and outputs, and states.

use std::ffi::{c_char, c_uint, c_void};

use super::{
    Answer, MEMORY_GPU, Memory, Output, Place, Response, State, Tensor, c,
    call::{asked, c_functions, elsewhere, serve, tensor},
    handle, wrong,
};

c_functions! {
    fn TRITONBACKEND_ResponseNew(world, response: *mut *mut c::Response, request: *mut c::Request) {
        world.request(request)?;
        *response = handle(world.responses.add(Response { request: request.addr(), outputs: Vec::new() }));
    }

    fn TRITONBACKEND_ResponseFactoryNew(world, factory: *mut *mut c::ResponseFactory, request: *mut c::Request) {
        world.request(request)?;
        *factory = handle(world.factories.add(request.addr()));
    }

    fn TRITONBACKEND_ResponseFactoryDelete(world, factory: *mut c::ResponseFactory) {
        world.factories.end(factory.addr(), "deleted")?;
    }

    fn TRITONBACKEND_ResponseFactorySendFlags(world, factory: *mut c::ResponseFactory, flags: u32) {
        let request = *world.factories.get(factory.addr())?;
        if flags != c::COMPLETE_FINAL {
            return Err(wrong(format!("the flags {flags} are sent alone")));
        }
        world.answer(request, Answer { outputs: Vec::new(), error: None, is_final: true });
    }

    fn TRITONBACKEND_ResponseNewFromFactory(
        world, response: *mut *mut c::Response, factory: *mut c::ResponseFactory
    ) {
        let request = *world.factories.get(factory.addr())?;
        *response = handle(world.responses.add(Response { request, outputs: Vec::new() }));
    }

    fn TRITONBACKEND_ResponseDelete(world, response: *mut c::Response) {
        let response = world.responses.end(response.addr(), "deleted")?;
        world.end_outputs(response.outputs)?;
    }

    fn TRITONBACKEND_ResponseOutput(
        world, response: *mut c::Response, output: *mut *mut c::Output, name: *const c_char, datatype: c_uint,
        shape: *const i64, dims_count: u32
    ) {
        let tensor = tensor(name, datatype, shape, dims_count);
        let request = world.responses.get(response.addr())?.request;
        if world.requests.peek(request).is_some_and(|request| request.ask.is_padding) {
            return Err(wrong(format!("request {request} is padding and gets the output '{}'", tensor.name)));
        }
        let number = world.outputs.add(Output { tensor, buffer: None });
        world.responses.get(response.addr())?.outputs.push(number);
        *output = handle(number);
    }

    fn TRITONBACKEND_ResponseSend(world, response: *mut c::Response, flags: u32, error: *mut c::Error) {
        let response = world.responses.end(response.addr(), "sent")?;
        let error = if error.is_null() { None } else { Some(world.errors.get(error.addr())?.clone()) };
        let mut outputs = Vec::new();
        for output in world.end_outputs(response.outputs)? {
            match output.buffer {
                Some(memory) => outputs.push(Tensor { data: memory.bytes().into(), ..output.tensor }),
                None if error.is_some() => {}
                None => return Err(wrong(format!("output '{}' is sent without a buffer", output.tensor.name))),
            }
        }
        let error = error.map(|error| (error.code, error.text.to_string_lossy().into_owned()));
        world.answer(response.request, Answer { outputs, error, is_final: flags & c::COMPLETE_FINAL != 0 });
    }

    fn TRITONBACKEND_OutputBuffer(
        world, output: *mut c::Output, buffer: *mut *mut c_void, byte_size: u64, memory_type: *mut c_uint,
        memory_type_id: *mut i64
    ) {
        let bytes = asked(byte_size, *memory_type)?;
        let memory = world.output_memory;
        let output = world.outputs.get(output.addr())?;
        let pointer = output.buffer.insert(Memory::of(&bytes)).pointer();
        *buffer = if memory == MEMORY_GPU { elsewhere() } else { pointer };
        (*memory_type, *memory_type_id) = (memory, 0);
    }

    fn TRITONBACKEND_StateNew(
        world, state: *mut *mut c::State, request: *mut c::Request, name: *const c_char, datatype: c_uint,
        shape: *const i64, dims_count: u32
    ) {
        world.request(request)?;
        let tensor = tensor(name, datatype, shape, dims_count);
        let place = Place::Nowhere;
        *state = handle(world.states.add(State { request: request.addr(), tensor, place }));
    }

    fn TRITONBACKEND_StateBuffer(
        world, state: *mut c::State, buffer: *mut *mut c_void, byte_size: u64, memory_type: *mut c_uint,
        memory_type_id: *mut i64
    ) {
        let bytes = asked(byte_size, *memory_type)?;
        let memory = world.state_memory;
        let state = world.states.get(state.addr())?;
        let request = world.requests.get(state.request)?;
        let shared = request.ask.inputs.iter().position(|tensor| Some(&tensor.name[..]) == request.ask.state_in);
        let shared = shared.map(|place| request.inputs[place]);
        let shared = shared.filter(|input| {
            world.inputs.peek(*input).is_some_and(|input| input.buffers[0].bytes().len() == bytes.len())
        });
        let pointer = if let Some(input) = shared {
            state.place = Place::InInput(input);
            world.inputs.get(input)?.buffers[0].pointer()
        } else {
            let mut memory = Memory::of(&bytes);
            let pointer = memory.pointer();
            state.place = Place::Own(memory);
            pointer
        };
        *buffer = if memory == MEMORY_GPU { elsewhere() } else { pointer };
        (*memory_type, *memory_type_id) = (memory, 0);
    }

    fn TRITONBACKEND_StateUpdate(world, state: *mut c::State) {
        let state = world.states.end(state.addr(), "updated")?;
        let data = match &state.place {
            Place::Nowhere => return Err(wrong(format!("state '{}' is updated without a buffer", state.tensor.name))),
            Place::InInput(input) => world.inputs.get(*input)?.buffers[0].bytes().to_vec(),
            Place::Own(memory) => memory.bytes().to_vec(),
        };
        let account = world.accounts.entry(state.request).or_default();
        account.states.push(Tensor { data, ..state.tensor });
    }
}
