//! The wire's types, generated from `proto/`. Only the transport, and servers in tests, look at them.

#![expect(missing_docs, clippy::pedantic, reason = "generated; proto/ has the words")]

tonic::include_proto!("inference");

/// The descriptors that the types were generated from, as an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
