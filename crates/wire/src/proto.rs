//! The wire's types. A test generates them from `proto/` and compares (`tests/tool/proto.rs`), so that builds need no generator. Only
//! the transport, and servers in tests, look at them.

#![expect(missing_docs, clippy::pedantic, reason = "generated; proto/ has the words")]

include!("proto/inference.rs");

/// The descriptors that the types were generated from, as an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!("proto/descriptors.bin");

/// The header of HTTP that says how many bytes of a body are JSON, where bytes of tensors follow.
pub(crate) const HEADER_LENGTH: &str = "inference-header-content-length";
