//! The C functions of the server that are called, as `tritonserver.h` and `tritonbackend.h` declare them (API 1.19).
//!
//! Enums are plain unsigned numbers there and here, so that a value that is not known is no undefined behaviour.

use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    marker::{PhantomData, PhantomPinned},
};

macro_rules! opaque {
    ($($name:ident)*) => {
        $(
            /// An object of the server, known by its address alone.
            #[derive(Debug)]
            #[repr(C)]
            pub(crate) struct $name {
                _bytes: [u8; 0],
                _not_ours: PhantomData<(*mut u8, PhantomPinned)>,
            }
        )*
    };
}

opaque! { Error Message Model ModelInstance Request Input Response ResponseFactory Output State }

/// `TRITONSERVER_Error_Code`.
pub(crate) const ERROR_INTERNAL: c_uint = 1;
pub(crate) const ERROR_INVALID_ARG: c_uint = 3;
pub(crate) const ERROR_UNSUPPORTED: c_uint = 5;
/// `TRITONSERVER_MemoryType`.
pub(crate) const MEMORY_CPU: c_uint = 0;
pub(crate) const MEMORY_CPU_PINNED: c_uint = 1;
/// `TRITONSERVER_InstanceGroupKind`.
pub(crate) const KIND_CPU: c_uint = 1;
/// `TRITONSERVER_RequestFlag`.
pub(crate) const FLAG_START: u32 = 1;
pub(crate) const FLAG_END: u32 = 2;
/// `TRITONSERVER_RequestReleaseFlag`.
pub(crate) const RELEASE_ALL: u32 = 1;
pub(crate) const RELEASE_RESCHEDULE: u32 = 2;
/// `TRITONSERVER_ResponseCompleteFlag`.
pub(crate) const COMPLETE_FINAL: u32 = 1;

unsafe extern "C" {
    pub(crate) fn TRITONSERVER_ErrorNew(code: c_uint, message: *const c_char) -> *mut Error;
    pub(crate) fn TRITONSERVER_ErrorDelete(error: *mut Error);
    pub(crate) fn TRITONSERVER_ErrorCode(error: *mut Error) -> c_uint;
    pub(crate) fn TRITONSERVER_ErrorMessage(error: *mut Error) -> *const c_char;
    pub(crate) fn TRITONSERVER_LogMessage(
        level: c_uint,
        file: *const c_char,
        line: c_int,
        message: *const c_char,
    ) -> *mut Error;
    pub(crate) fn TRITONSERVER_MessageSerializeToJson(
        message: *mut Message,
        base: *mut *const c_char,
        byte_size: *mut usize,
    ) -> *mut Error;
    pub(crate) fn TRITONSERVER_MessageDelete(message: *mut Message) -> *mut Error;

    pub(crate) fn TRITONBACKEND_ApiVersion(major: *mut u32, minor: *mut u32) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ModelConfig(model: *mut Model, version: u32, config: *mut *mut Message) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ModelState(model: *mut Model, state: *mut *mut c_void) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ModelSetState(model: *mut Model, state: *mut c_void) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ModelInstanceModel(instance: *mut ModelInstance, model: *mut *mut Model) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ModelInstanceKind(instance: *mut ModelInstance, kind: *mut c_uint) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ModelInstanceState(instance: *mut ModelInstance, state: *mut *mut c_void)
    -> *mut Error;
    pub(crate) fn TRITONBACKEND_ModelInstanceSetState(instance: *mut ModelInstance, state: *mut c_void) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ModelInstanceReportStatistics(
        instance: *mut ModelInstance,
        request: *mut Request,
        success: bool,
        exec_start_ns: u64,
        compute_start_ns: u64,
        compute_end_ns: u64,
        exec_end_ns: u64,
    ) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ModelInstanceReportBatchStatistics(
        instance: *mut ModelInstance,
        batch_size: u64,
        exec_start_ns: u64,
        compute_start_ns: u64,
        compute_end_ns: u64,
        exec_end_ns: u64,
    ) -> *mut Error;

    pub(crate) fn TRITONBACKEND_RequestFlags(request: *mut Request, flags: *mut u32) -> *mut Error;
    pub(crate) fn TRITONBACKEND_RequestCorrelationId(request: *mut Request, id: *mut u64) -> *mut Error;
    pub(crate) fn TRITONBACKEND_RequestCorrelationIdString(request: *mut Request, id: *mut *const c_char)
    -> *mut Error;
    pub(crate) fn TRITONBACKEND_RequestInput(
        request: *mut Request,
        name: *const c_char,
        input: *mut *mut Input,
    ) -> *mut Error;
    pub(crate) fn TRITONBACKEND_RequestOutputCount(request: *mut Request, count: *mut u32) -> *mut Error;
    pub(crate) fn TRITONBACKEND_RequestOutputName(
        request: *mut Request,
        index: u32,
        name: *mut *const c_char,
    ) -> *mut Error;
    pub(crate) fn TRITONBACKEND_RequestRelease(request: *mut Request, flags: u32) -> *mut Error;
    pub(crate) fn TRITONBACKEND_InputProperties(
        input: *mut Input,
        name: *mut *const c_char,
        datatype: *mut c_uint,
        shape: *mut *const i64,
        dims_count: *mut u32,
        byte_size: *mut u64,
        buffer_count: *mut u32,
    ) -> *mut Error;
    pub(crate) fn TRITONBACKEND_InputBuffer(
        input: *mut Input,
        index: u32,
        buffer: *mut *const c_void,
        byte_size: *mut u64,
        memory_type: *mut c_uint,
        memory_type_id: *mut i64,
    ) -> *mut Error;

    pub(crate) fn TRITONBACKEND_ResponseNew(response: *mut *mut Response, request: *mut Request) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ResponseFactoryNew(
        factory: *mut *mut ResponseFactory,
        request: *mut Request,
    ) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ResponseFactoryDelete(factory: *mut ResponseFactory) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ResponseFactorySendFlags(factory: *mut ResponseFactory, flags: u32) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ResponseNewFromFactory(
        response: *mut *mut Response,
        factory: *mut ResponseFactory,
    ) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ResponseDelete(response: *mut Response) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ResponseOutput(
        response: *mut Response,
        output: *mut *mut Output,
        name: *const c_char,
        datatype: c_uint,
        shape: *const i64,
        dims_count: u32,
    ) -> *mut Error;
    pub(crate) fn TRITONBACKEND_ResponseSend(response: *mut Response, flags: u32, error: *mut Error) -> *mut Error;
    pub(crate) fn TRITONBACKEND_OutputBuffer(
        output: *mut Output,
        buffer: *mut *mut c_void,
        byte_size: u64,
        memory_type: *mut c_uint,
        memory_type_id: *mut i64,
    ) -> *mut Error;

    pub(crate) fn TRITONBACKEND_StateNew(
        state: *mut *mut State,
        request: *mut Request,
        name: *const c_char,
        datatype: c_uint,
        shape: *const i64,
        dims_count: u32,
    ) -> *mut Error;
    pub(crate) fn TRITONBACKEND_StateBuffer(
        state: *mut State,
        buffer: *mut *mut c_void,
        byte_size: u64,
        memory_type: *mut c_uint,
        memory_type_id: *mut i64,
    ) -> *mut Error;
    pub(crate) fn TRITONBACKEND_StateUpdate(state: *mut State) -> *mut Error;
}
