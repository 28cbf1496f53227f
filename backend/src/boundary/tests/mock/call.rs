//! A call of a C function: whether it is to fail, and what is given to it.

use std::{
    ffi::{CStr, c_char, c_uint, c_void},
    ptr,
};

use super::{
    CHANGED, INTERNAL, INVALID_ARGUMENT, Rejection, TAKES_ANYWAY, TOLD_TO_FAIL, Tensor, World, c, world, wrong,
};

/// Does what a function does, unless it is told to fail.
pub(super) fn serve(name: &'static str, act: impl FnOnce(&mut World) -> Result<(), Rejection>) -> *mut c::Error {
    let mut world = world();
    let calls = world.calls.entry(name).or_default();
    *calls += 1;
    let call = (name, *calls);
    CHANGED.notify_all();
    world.is_failing = world.to_fail == Some(call);
    let acts = world.gives_nothing != Some(name) && (!world.is_failing || TAKES_ANYWAY.contains(&name));
    let outcome = if acts { act(&mut world) } else { Ok(()) };
    match outcome {
        Ok(()) if world.is_failing => world.error(INTERNAL, TOLD_TO_FAIL),
        Ok(()) => ptr::null_mut(),
        Err(Rejection::Error(text)) => world.error(INVALID_ARGUMENT, &text),
        Err(Rejection::Wrong(text)) => {
            world.wrongs.push(format!("{name}: {text}"));
            world.error(INTERNAL, &text)
        }
    }
}

/// Defines C functions that return an error; each has to have the signature by which it is called.
macro_rules! c_functions {
    ($(fn $name:ident($world:ident, $($argument:ident: $type:ty),*) $body:block)*) => {$(
        #[allow(unused_unsafe, reason = "some give no place to write to")]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> *mut c::Error {
            // SAFETY: what the backend gives are texts that end, shapes of that length, and places for what is asked for.
            serve(stringify!($name), |$world| unsafe { $body; Ok(()) })
        }
        const _: [unsafe extern "C" fn($($type),*) -> *mut c::Error; 2] = [c::$name, $name];
    )*};
}
pub(super) use c_functions;

pub(super) unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller says that it is a text that ends.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A tensor without its data.
pub(super) unsafe fn tensor(name: *const c_char, code: c_uint, shape: *const i64, dims: u32) -> Tensor {
    // SAFETY: the caller says that these are a text that ends, and a shape of that length.
    let (name, shape) = unsafe { (text(name), std::slice::from_raw_parts(shape, dims as usize).to_vec()) };
    Tensor { name, code, shape, data: Vec::new(), cuts: Vec::new(), memory: c::MEMORY_CPU }
}

/// What a buffer is asked for with: its size, and the memory that would be best.
pub(super) fn asked(size: u64, memory: c_uint) -> Result<Vec<u8>, Rejection> {
    if memory != c::MEMORY_CPU {
        return Err(wrong(format!("a buffer in memory {memory} is asked for")));
    }
    usize::try_from(size)
        .map(|size| vec![0xDD; size])
        .map_err(|_| wrong(format!("a buffer of {size} bytes is asked for")))
}

/// An address that nobody may touch.
pub(super) fn elsewhere() -> *mut c_void {
    ptr::without_provenance_mut(0xBAD_0000)
}
