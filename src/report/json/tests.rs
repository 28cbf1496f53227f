use std::{env, fs};

use schemars::{Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::Value;

use super::*;
use crate::{
    reading::Hunt,
    report::{compare, limit, simulation, suite, window},
};

/// Whether an object may have other properties.
const OPEN: &str = "additionalProperties";

fn each_variant(schema: &mut Schema, change: impl Fn(&mut serde_json::Map<String, Value>)) {
    let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    variants.into_iter().flatten().filter_map(Value::as_object_mut).for_each(change);
}

/// An object has no other properties than those that its type has.
fn close(schema: &mut Schema) {
    let is_enum_beside_fields = schema.get("properties").is_some() && schema.get("oneOf").is_some();
    if is_enum_beside_fields {
        // Each variant leaves room for the fields.
        schema.insert("unevaluatedProperties".to_owned(), false.into());
        each_variant(schema, |variant| _ = variant.insert(OPEN.to_owned(), true.into()));
    } else if schema.get("properties").is_some() && schema.get(OPEN).is_none() {
        schema.insert(OPEN.to_owned(), false.into());
    }
    transform_subschemas(&mut close, schema);
    if is_enum_beside_fields {
        each_variant(schema, |variant| _ = variant.remove(OPEN));
    }
}

/// The form of a document, as JSON Schema.
fn schema_of<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(close);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

fn result_schema() -> Value {
    schema_of::<Document<'static>>("The result of a run of sequence-stress")
}

fn suite_schema() -> Value {
    schema_of::<suite::Document<'static>>("The results of sequence-stress suite")
}

fn limit_schema() -> Value {
    schema_of::<limit::Document<'static>>("The result of a search for the highest load (sequence-stress --find-limit)")
}

fn hunt_schema() -> Value {
    schema_of::<Hunt>("What scripts/hunt did and found")
}

fn window_schema() -> Value {
    schema_of::<window::Document<'static>>("In which gaps a failure fails (sequence-stress replay --window)")
}

fn simulation_schema() -> Value {
    schema_of::<simulation::Document<'static>>("What simulated seeds came to (sequence-stress simulate)")
}

fn search_schema() -> Value {
    schema_of::<super::super::search::Document<'static>>("What a search came to (sequence-stress search)")
}

fn comparison_schema() -> Value {
    schema_of::<compare::Document>("What sequence-stress compare finds")
}

#[test]
fn the_schemas_in_the_repository_are_those_of_the_types() {
    let all = [
        ("result", result_schema()),
        ("suite", suite_schema()),
        ("compare", comparison_schema()),
        ("limit", limit_schema()),
        ("hunt", hunt_schema()),
        ("search", search_schema()),
        ("simulation", simulation_schema()),
        ("window", window_schema()),
    ];
    for (name, schema) in all {
        let path = format!("{}/docs/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
        let schema = format!("{schema:#}\n");
        if env::var_os("SEQUENCE_STRESS_GENERATE").is_some() {
            fs::write(&path, &schema).expect("a file");
        }
        assert!(
            fs::read_to_string(path).is_ok_and(|kept| kept == schema),
            "docs/{name}.schema.json is not that of the types: run SEQUENCE_STRESS_GENERATE=1 scripts/test lib::report::json, and \
             commit the file"
        );
    }
}

#[test]
fn each_property_of_the_result_is_described() {
    let schema = result_schema();
    let properties = schema["properties"].as_object().expect("an object");
    assert!(properties.len() > 35, "{}", properties.len());
    for (name, property) in properties {
        let is_described = property.get("description").is_some() || property.get("$ref").is_some();
        assert!(is_described, "{name}: {property}");
    }
}
