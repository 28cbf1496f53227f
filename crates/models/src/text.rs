//! Configurations in protobuf's text format, as people write them: what fits stands on one line, and the same configuration is the
//! same text.

use std::{fmt::Write as _, sync::LazyLock};

use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};

use wire::proto::{self, ModelConfig};

/// What a configuration is made of.
pub static DESCRIPTOR: LazyLock<MessageDescriptor> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(proto::DESCRIPTORS).expect("the build made them");
    pool.get_message_by_name("inference.ModelConfig").expect("proto/ has it")
});

const CONTROL: &str = "inference.ModelSequenceBatching.Control";
const WIDTH: usize = 120;
const INDENT: &str = "  ";
/// What stands at the top, of which the backend and the platform need not be given.
const FIRST: [&str; 4] = ["name", "backend", "platform", "max_batch_size"];

/// A configuration as text.
pub(super) fn print(config: &ModelConfig) -> String {
    let mut message = DynamicMessage::new(DESCRIPTOR.clone());
    message.transcode_from(config).expect("it is this message");
    let mut lines = Vec::new();
    for name in FIRST {
        let field = DESCRIPTOR.get_field_by_name(name).expect("proto/ has it");
        if !matches!(name, "backend" | "platform") || message.has_field(&field) {
            lines.extend(field_lines(&field, &message.get_field(&field)));
        }
    }
    let rest = message.fields().filter(|(field, _)| !FIRST.contains(&field.name()));
    lines.extend(rest.flat_map(|(field, value)| field_lines(&field, value)));
    lines.into_iter().fold(String::new(), |text, line| text + &line + "\n")
}

/// The lines of a message's fields; of a control its kind, too, where that is the one that need not be given.
fn lines(message: &DynamicMessage) -> Vec<String> {
    let descriptor = message.descriptor();
    let is_control = descriptor.full_name() == CONTROL;
    let of_field = |field: FieldDescriptor| {
        let is_given = message.has_field(&field) || is_control && field.name() == "kind";
        if is_given { field_lines(&field, &message.get_field(&field)) } else { Vec::new() }
    };
    descriptor.fields().flat_map(of_field).collect()
}

fn field_lines(field: &FieldDescriptor, value: &Value) -> Vec<String> {
    let name = field.name();
    match value {
        Value::Message(message) => nested(name, lines(message)),
        Value::List(values) if matches!(field.kind(), Kind::Message(_)) => {
            values.iter().filter_map(Value::as_message).flat_map(|message| nested(name, lines(message))).collect()
        }
        Value::List(values) => {
            let values: Vec<_> = values.iter().map(|value| scalar(field, value)).collect();
            vec![format!("{name}: [ {} ]", values.join(", "))]
        }
        Value::Map(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| (*key).clone());
            let kind = field.kind();
            let of_entry = kind.as_message().expect("a map's entries are messages");
            let (key_of, value_of) = (of_entry.map_entry_key_field(), of_entry.map_entry_value_field());
            let entry = |(key, value): (&MapKey, &Value)| {
                let key = field_lines(&key_of, &key.clone().into());
                nested(name, [key, field_lines(&value_of, value)].concat())
            };
            entries.into_iter().flat_map(entry).collect()
        }
        scalar_value => vec![format!("{name}: {}", scalar(field, scalar_value))],
    }
}

/// A message within another, on one line where it fits wherever it stands.
fn nested(name: &str, within: Vec<String>) -> Vec<String> {
    let words: Vec<_> = within.iter().map(|line| line.trim_start()).collect();
    let line = if words.is_empty() { format!("{name} {{ }}") } else { format!("{name} {{ {} }}", words.join(" ")) };
    if line.len() <= WIDTH && within.len() <= 4 {
        return vec![line];
    }
    let within = within.into_iter().map(|line| format!("{INDENT}{line}"));
    [format!("{name} {{")].into_iter().chain(within).chain(["}".to_owned()]).collect()
}

fn scalar(field: &FieldDescriptor, value: &Value) -> String {
    match value {
        Value::F32(value) => format!("{value:?}"),
        Value::F64(value) => format!("{value:?}"),
        Value::String(value) => quoted(value),
        Value::EnumNumber(number) => {
            let kind = field.kind();
            let name = kind.as_enum().and_then(|kind| kind.get_value(*number));
            name.map_or_else(|| number.to_string(), |value| value.name().to_owned())
        }
        whole_or_truth => whole_or_truth.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c if c.is_ascii_control() => _ = write!(quoted, "\\{:03o}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
