use std::{env, fs};

use super::*;

#[test]
fn the_schema_in_the_repository_is_that_of_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/result.schema.json");
    let schema = format!("{:#}\n", result_schema());
    if env::var_os("SEQUENCE_STRESS_GENERATE").is_some() {
        fs::write(path, &schema).expect("a file");
    }
    assert!(
        fs::read_to_string(path).is_ok_and(|kept| kept == schema),
        "docs/result.schema.json is not that of the result's types: run SEQUENCE_STRESS_GENERATE=1 scripts/test lib::report::json, and \
         commit the file"
    );
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
