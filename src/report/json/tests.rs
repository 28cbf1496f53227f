use std::{env, fs};

use super::*;
use crate::report::suite_schema;

#[test]
fn the_schemas_in_the_repository_are_those_of_the_types() {
    for (name, schema) in [("result", result_schema()), ("suite", suite_schema())] {
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
