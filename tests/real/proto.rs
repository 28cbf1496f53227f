//! The project's `proto/` against the descriptors that NVIDIA's own client carries.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// Prints the client's descriptors as one encoded `FileDescriptorSet`, in hexadecimal.
const DUMP: &str = "
from google.protobuf import descriptor_pb2
from tritonclient.grpc import model_config_pb2, service_pb2
files = descriptor_pb2.FileDescriptorSet()
for module in (model_config_pb2, service_pb2):
    module.DESCRIPTOR.CopyToProto(files.file.add())
print(files.SerializeToString().hex())
";

/// All messages and enums of a set of files, by full name, and the methods of its services.
#[derive(Default)]
struct Protocol {
    messages: BTreeMap<String, DescriptorProto>,
    enums: BTreeMap<String, EnumDescriptorProto>,
    methods: BTreeMap<String, (String, String, bool, bool)>,
}

impl Protocol {
    fn new(files: &[FileDescriptorProto]) -> Self {
        let mut protocol = Self::default();
        for file in files {
            let package = file.package();
            file.message_type.iter().for_each(|message| protocol.add_message(package, message));
            file.enum_type.iter().for_each(|each| protocol.add_enum(package, each));
            for service in &file.service {
                for method in &service.method {
                    let name = format!("{package}.{}/{}", service.name(), method.name());
                    let (takes, gives) = (method.input_type().to_owned(), method.output_type().to_owned());
                    protocol.methods.insert(name, (takes, gives, method.client_streaming(), method.server_streaming()));
                }
            }
        }
        protocol
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        message.nested_type.iter().for_each(|nested| self.add_message(&name, nested));
        message.enum_type.iter().for_each(|each| self.add_enum(&name, each));
        self.messages.insert(name, message.clone());
    }

    fn add_enum(&mut self, scope: &str, each: &EnumDescriptorProto) {
        self.enums.insert(format!("{scope}.{}", each.name()), each.clone());
    }
}

/// What the wire and generated code know of a field.
fn facts(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let oneof = field.oneof_index.map(|index| message.oneof_decl[usize::try_from(index).expect("an index")].name());
    format!(
        "{} = {} {:?} {:?} {} in {oneof:?}",
        field.name(),
        field.number(),
        field.label(),
        field.r#type(),
        field.type_name()
    )
}

fn client_descriptors() -> FileDescriptorSet {
    let packages = std::env::var("SEQUENCE_STRESS_TRITONCLIENT").expect("scripts/test tells where NVIDIA's client is");
    let output = Command::new("python3").args(["-c", DUMP]).env("PYTHONPATH", packages).output().expect("python3 runs");
    let hex = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let hex = hex.trim().as_bytes();
    let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal");
    let bytes: Vec<u8> = hex.chunks(2).map(digits).collect();
    FileDescriptorSet::decode(bytes.as_slice()).expect("descriptors")
}

#[test]
#[ignore = "needs NVIDIA's client: run scripts/test"]
fn the_protocol_is_that_of_nvidias_client() {
    let ours = FileDescriptorSet::decode(wire::proto::DESCRIPTORS).expect("descriptors");
    let (ours, theirs) = (Protocol::new(&ours.file), Protocol::new(&client_descriptors().file));
    assert!(ours.messages.len() > 30 && ours.methods.len() > 8, "the comparison compares something");

    for (name, method) in &ours.methods {
        assert_eq!(Some(method), theirs.methods.get(name), "{name}");
    }
    for (name, message) in &ours.messages {
        let other = theirs.messages.get(name).unwrap_or_else(|| panic!("the client has no message {name}"));
        let names: BTreeSet<_> = message.field.iter().map(FieldDescriptorProto::name).collect();
        let reserved_numbers: BTreeSet<_> =
            message.reserved_range.iter().flat_map(|range| range.start()..range.end()).collect();
        let reserved_names: BTreeSet<_> = message.reserved_name.iter().map(String::as_str).collect();
        for field in &message.field {
            let same = other.field.iter().find(|theirs| theirs.name() == field.name());
            let same = same.unwrap_or_else(|| panic!("the client has no field {name}.{}", field.name()));
            assert_eq!(facts(message, field), facts(other, same), "{name}");
        }
        // What the project leaves out is reserved, by name and by number, and nothing else is.
        let left_out: Vec<_> = other.field.iter().filter(|field| !names.contains(field.name())).collect();
        assert_eq!(left_out.iter().map(|field| field.name()).collect::<BTreeSet<_>>(), reserved_names, "{name}");
        assert_eq!(left_out.iter().map(|field| field.number()).collect::<BTreeSet<_>>(), reserved_numbers, "{name}");
    }
    for (name, each) in &ours.enums {
        let other = theirs.enums.get(name).unwrap_or_else(|| panic!("the client has no enum {name}"));
        let values = |each: &EnumDescriptorProto| {
            each.value.iter().map(|v| (v.name().to_owned(), v.number())).collect::<Vec<_>>()
        };
        assert_eq!(values(each), values(other), "{name}");
    }
}
