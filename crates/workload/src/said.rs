//! What a value says that its default does not: the inverse of reading flags.

use serde::Serialize;
use serde_json::Value;

/// The fields of `this` that differ from those of `default`, each with its name and its value; of a list each element.
///
/// # Panics
/// When the type is no struct whose fields are texts, numbers, truth values, or options and lists of these.
pub fn said<T: Serialize>(this: &T, default: &T) -> Vec<(String, String)> {
    let fields = |value: &T| match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        other => panic!("it is a struct: {other:?}"),
    };
    let default = fields(default);
    let of_field = |(name, value): (String, Value)| {
        let values = match value {
            Value::Array(values) => values,
            Value::Null => Vec::new(),
            value => vec![value],
        };
        values
            .into_iter()
            .map(move |value| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    };
    fields(this).into_iter().filter(|(name, value)| default.get(name) != Some(value)).flat_map(of_field).collect()
}

/// What is so where nobody says that it is not.
pub(crate) fn yes() -> bool {
    true
}

/// Whether a value is as by default, and need not be said.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Fields {
        number: u8,
        text: Option<&'static str>,
        list: Vec<u8>,
    }

    #[test]
    fn what_is_as_by_default_is_not_said() {
        let default = Fields { number: 1, text: None, list: Vec::new() };
        assert_eq!(said(&default, &default), []);
        let other = Fields { number: 2, text: Some("a"), list: vec![3, 4] };
        let told = [("list", "3"), ("list", "4"), ("number", "2"), ("text", "a")];
        assert_eq!(said(&other, &default), told.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let none = Fields { number: 1, text: None, list: Vec::new() };
        assert_eq!(said(&none, &Fields { text: Some("a"), ..default }), [], "what is not there cannot be said");
    }
}
