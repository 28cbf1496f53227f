//! The generated code in `crates/wire/src/proto/` against the protocol files in `proto/`.

use std::{env, fs, path::Path};

use prost::Message as _;

/// The files that `proto/` generates, each with its name in `crates/wire/src/proto/`.
fn generated() -> [(&'static str, Vec<u8>); 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let descriptors = protox::compile(["grpc_service.proto"], [proto]).expect("descriptors");
    let encoded = descriptors.encode_to_vec();
    tonic_prost_build::configure()
        .generate_default_stubs(true)
        .out_dir(folder.path())
        .compile_fds(descriptors)
        .expect("code");
    [("descriptors.bin", encoded), ("inference.rs", fs::read(folder.path().join("inference.rs")).expect("the code"))]
}

#[test]
fn what_is_generated_from_the_protocols_files_is_what_is_in_the_repository() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/crates/wire/src/proto"));
    for (name, content) in generated() {
        let path = folder.join(name);
        if env::var_os("SEQUENCE_STRESS_GENERATE").is_some() {
            fs::write(&path, &content).expect("a file");
        }
        let is_same = fs::read(&path).is_ok_and(|kept| kept == content);
        assert!(
            is_same,
            "crates/wire/src/proto/{name} differs from what proto/ generates: run SEQUENCE_STRESS_GENERATE=1 scripts/test tool::proto, and commit the file"
        );
    }
}
