//! Requests, responses and counts as HTTP writes them: JSON, with tensors' bytes behind it.

use serde_json::{Map, Number, Value};

use super::{
    Mutations,
    change::{Changed, ID, Request, Response},
};

/// A body. What is asked of an input or output of it is so of its first one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Body {
    json: Map<String, Value>,
    /// The bytes behind the JSON; none where it is JSON alone.
    raw: Option<Vec<u8>>,
}

/// A request's body, or a response's.
pub(super) struct Asked<'b>(pub(super) &'b mut Body);
pub(super) struct Said<'b>(pub(super) &'b mut Body);

impl Body {
    /// Reads a body that begins with so many bytes of JSON, or is JSON alone; none where it is something else.
    pub(super) fn read(bytes: &[u8], json: Option<usize>) -> Option<Self> {
        let (text, raw) = bytes.split_at_checked(json.unwrap_or(bytes.len()))?;
        let Ok(Value::Object(map)) = serde_json::from_slice(text) else { return None };
        Some(Self { json: map, raw: json.map(|_| raw.to_vec()) })
    }

    /// The body with this text as an error.
    pub(super) fn of_error(text: &str) -> Self {
        Self { json: Map::from_iter([("error".to_owned(), text.into())]), raw: None }
    }

    /// Its bytes, and how many of them are JSON where others are behind it.
    pub(super) fn write(self) -> (Vec<u8>, Option<usize>) {
        let Self { json, raw } = self;
        let mut bytes = Value::Object(json).to_string().into_bytes();
        let length = bytes.len();
        let has_raw = raw.is_some();
        bytes.extend(raw.unwrap_or_default());
        (bytes, has_raw.then_some(length))
    }

    /// Whether it says that something failed.
    pub(super) fn is_error(&self) -> bool {
        self.json.contains_key("error")
    }

    /// The ID of the request.
    pub(super) fn id(&self) -> Option<&str> {
        self.json.get("id")?.as_str()
    }

    /// The same as the answer to the request with this ID.
    pub(super) fn answering(mut self, id: Option<&str>) -> Self {
        match id {
            Some(id) => _ = self.json.insert("id".to_owned(), id.into()),
            None => _ = self.json.remove("id"),
        }
        self
    }

    fn parameters(&self) -> Option<&Map<String, Value>> {
        self.json.get("parameters")?.as_object()
    }

    fn parameters_mut(&mut self) -> Option<&mut Map<String, Value>> {
        self.json.get_mut("parameters")?.as_object_mut()
    }

    fn first(&self, kind: &str) -> Option<&Map<String, Value>> {
        self.json.get(kind)?.get(0)?.as_object()
    }

    fn first_mut(&mut self, kind: &str) -> Option<&mut Map<String, Value>> {
        self.json.get_mut(kind)?.get_mut(0)?.as_object_mut()
    }

    /// How many bytes behind the JSON are the data of a tensor.
    fn raw_size(&self, kind: &str) -> Option<usize> {
        let size = self.first(kind)?.get("parameters")?.get("binary_data_size")?.as_u64()?;
        usize::try_from(size).ok().filter(|size| self.raw.as_ref().is_some_and(|raw| raw.len() >= *size))
    }

    fn elements(&mut self, kind: &str) -> Option<&mut Vec<Value>> {
        let mut list = self.first_mut(kind)?.get_mut("data")?.as_array_mut()?;
        while list.first().is_some_and(Value::is_array) {
            list = list.first_mut()?.as_array_mut()?;
        }
        Some(list)
    }

    fn has_data(&self, kind: &str) -> bool {
        let mut element = self.first(kind).and_then(|first| first.get("data")).filter(|data| data.is_array());
        while let Some(Value::Array(list)) = element {
            element = list.first();
        }
        self.raw_size(kind).map_or(element.is_some(), |size| size > 0)
    }

    fn is_number(&self, kind: &str) -> bool {
        let datatype = self.first(kind).and_then(|first| first.get("datatype"));
        datatype.and_then(Value::as_str).is_some_and(|datatype| datatype != "BYTES")
    }

    fn change_data(&mut self, kind: &str) {
        if self.raw_size(kind).is_some() {
            if let Some(byte) = self.raw.as_mut().and_then(|raw| raw.first_mut()) {
                *byte = byte.wrapping_add(1);
            }
        } else if let Some(element) = self.elements(kind).and_then(|elements| elements.first_mut()) {
            *element = other(element);
        }
    }

    fn cut_data(&mut self, kind: &str) {
        let Some(size) = self.raw_size(kind) else {
            self.elements(kind).and_then(Vec::pop);
            return;
        };
        if let Some(raw) = &mut self.raw {
            raw.remove(size - 1);
        }
        if let Some(told) = self.first_mut(kind).and_then(|first| first.get_mut("parameters")) {
            told["binary_data_size"] = (size - 1).into();
        }
    }

    fn append(&mut self, key: &str, more: &str) {
        if let Some(Value::String(text)) = self.json.get_mut(key) {
            text.push_str(more);
        }
    }
}

/// An element that differs by one, and is of the same type.
fn other(element: &Value) -> Value {
    match element {
        Value::Bool(value) => (!value).into(),
        Value::Number(number) => {
            // The last bit alone, because the smallest and the largest number have one, too.
            let whole = number.as_i64().map(|whole| (whole ^ 1).into());
            let whole = whole.or_else(|| number.as_u64().map(|whole| (whole ^ 1).into()));
            // One more would be the same as FP32 where the number is large.
            let other = |value: f64| if value.abs() < 1e6 { value + 1.0 } else { value / 2.0 };
            let float = || number.as_f64().and_then(|value| Number::from_f64(other(value))).map(Value::Number);
            whole.or_else(float).unwrap_or(Value::Null)
        }
        other => other.clone(),
    }
}

const INPUTS: &str = "inputs";
const OUTPUTS: &str = "outputs";

impl Request for Asked<'_> {
    fn is_of_sequence(&self) -> bool {
        self.0.parameters().is_some_and(|parameters| parameters.contains_key(ID))
    }

    fn has(&self, flag: &str) -> bool {
        self.0.parameters().and_then(|parameters| parameters.get(flag)) == Some(&Value::Bool(true))
    }

    fn set(&mut self, flag: &str, value: bool) {
        if let Some(parameters) = self.0.parameters_mut() {
            parameters.insert(flag.to_owned(), value.into());
        }
    }

    fn change_id(&mut self) {
        match self.0.parameters_mut().and_then(|parameters| parameters.get_mut(ID)) {
            Some(Value::String(id)) => id.push('x'),
            Some(id) => {
                let next = id.as_u64().map(|id| id.wrapping_add(1).into());
                let next = next.or_else(|| Some(id.as_i64()?.wrapping_add(1).into()));
                *id = next.unwrap_or_else(|| id.clone());
            }
            None => {}
        }
    }

    fn has_number(&self) -> bool {
        self.0.is_number(INPUTS) && self.0.has_data(INPUTS)
    }

    fn change_number(&mut self) {
        self.0.change_data(INPUTS);
    }
}

impl Response for Said<'_> {
    /// A request over HTTP has one response.
    fn is_final(&self) -> bool {
        false
    }

    fn lose_final_mark(&mut self) {}

    fn has_request_id(&self) -> bool {
        self.0.id().is_some_and(|id| !id.is_empty())
    }

    fn change_request_id(&mut self) {
        self.0.append("id", "-9999");
    }

    fn change_model_name(&mut self) {
        self.0.append("model_name", "_other");
    }

    fn change_model_version(&mut self) {
        self.0.append("model_version", "9");
    }

    fn has_output(&self) -> bool {
        self.0.first(OUTPUTS).is_some()
    }

    fn change_output_name(&mut self) {
        if let Some(Value::String(name)) = self.0.first_mut(OUTPUTS).and_then(|first| first.get_mut("name")) {
            name.push_str("_OTHER");
        }
    }

    fn has_dimension(&self) -> bool {
        let shape = self.0.first(OUTPUTS).and_then(|first| first.get("shape")).and_then(Value::as_array);
        shape.is_some_and(|shape| !shape.is_empty())
    }

    fn lose_dimension(&mut self) {
        if let Some(Value::Array(shape)) = self.0.first_mut(OUTPUTS).and_then(|first| first.get_mut("shape")) {
            shape.pop();
        }
    }

    fn is_number(&self) -> bool {
        self.0.is_number(OUTPUTS)
    }

    fn change_output_type(&mut self) {
        if let Some(datatype) = self.0.first_mut(OUTPUTS).and_then(|first| first.get_mut("datatype")) {
            *datatype = if datatype == "FP32" { "INT32" } else { "FP32" }.into();
        }
    }

    fn has_data(&self) -> bool {
        self.0.has_data(OUTPUTS)
    }

    fn change_data(&mut self) {
        self.0.change_data(OUTPUTS);
    }

    fn cut_data(&mut self) {
        self.0.cut_data(OUTPUTS);
    }

    fn lose_outputs(&mut self) {
        self.0.json.insert(OUTPUTS.to_owned(), Value::Array(Vec::new()));
        self.0.raw = self.0.raw.as_ref().map(|_| Vec::new());
    }
}

impl Mutations {
    /// Changes the server's statistics.
    pub(super) fn change_counts(&self, statistics: &mut Body) -> Changed {
        if !self.shift_counts() {
            return false;
        }
        let models = statistics.json.get_mut("model_stats").and_then(Value::as_array_mut);
        for model in models.into_iter().flatten() {
            for (path, shift) in [
                ("/execution_count", &self.executions),
                ("/inference_count", &self.successes),
                ("/inference_stats/success/count", &self.successes),
            ] {
                if let Some(count) = model.pointer_mut(path)
                    && let Some(before) = count.as_u64()
                {
                    *count = shift.of(before).into();
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str, raw: Option<&[u8]>) -> Body {
        let bytes = [text.as_bytes(), raw.unwrap_or_default()].concat();
        Body::read(&bytes, raw.map(|_| text.len())).expect("a body")
    }

    /// The JSON of a body, and what is behind it.
    fn parts(body: Body) -> (String, Vec<u8>) {
        let (bytes, json) = body.write();
        let (text, raw) = bytes.split_at(json.unwrap_or(bytes.len()));
        (String::from_utf8(text.to_vec()).expect("a text"), raw.to_vec())
    }

    #[test]
    fn the_first_element_of_the_first_tensor_changes_within_its_type() {
        for (datatype, before, after) in [
            ("INT32", "[[7,9]]", "[[6,9]]"),
            ("INT8", "[-1]", "[-2]"),
            ("INT8", "[127]", "[126]"),
            ("INT64", "[-9223372036854775808]", "[-9223372036854775807]"),
            ("UINT64", "[18446744073709551615]", "[18446744073709551614]"),
            ("FP32", "[0.5]", "[1.5]"),
            ("FP32", "[16777216.0]", "[8388608.0]"),
            ("BOOL", "[false]", "[true]"),
        ] {
            let text = |data: &str| format!(r#"{{"inputs":[{{"data":{data},"datatype":"{datatype}"}}]}}"#);
            let mut its = body(&text(before), None);
            let mut asked = Asked(&mut its);
            assert!(asked.has_number(), "{datatype}");
            asked.change_number();
            assert_eq!(parts(its), (text(after), Vec::new()), "{datatype}");
        }
        let mut text = body(r#"{"inputs":[{"data":["a"],"datatype":"BYTES"}]}"#, None);
        assert!(!Asked(&mut text).has_number());
        let json = r#"{"inputs":[{"datatype":"INT16","parameters":{"binary_data_size":2}}]}"#;
        let mut its = body(json, Some(&[255, 1, 7]));
        Asked(&mut its).change_number();
        assert_eq!(parts(its), (json.to_owned(), vec![0, 1, 7]));
    }

    #[test]
    fn the_last_byte_of_the_first_output_goes_and_those_of_the_next_stay() {
        let json = |size: u8| {
            format!(
                r#"{{"outputs":[{{"parameters":{{"binary_data_size":{size}}}}},{{"parameters":{{"binary_data_size":1}}}}]}}"#
            )
        };
        let mut its = body(&json(2), Some(&[1, 2, 3]));
        assert!(Said(&mut its).has_data());
        Said(&mut its).cut_data();
        assert_eq!(parts(its), (json(1), vec![1, 3]));
        let mut its = body(r#"{"outputs":[{"data":[1,2]}]}"#, None);
        Said(&mut its).cut_data();
        assert_eq!(parts(its).0, r#"{"outputs":[{"data":[1]}]}"#);
    }

    #[test]
    fn what_is_not_as_it_should_be_is_left_alone() {
        assert_eq!(Body::read(b"{", None), None);
        assert_eq!(Body::read(b"[1]", None), None);
        assert_eq!(Body::read(b"{}", Some(3)), None);
        for text in [r"{}", r#"{"inputs":3,"outputs":{},"parameters":[]}"#, r#"{"inputs":[],"outputs":[4],"id":7}"#] {
            let mut its = body(text, None);
            let mut asked = Asked(&mut its);
            assert!(!asked.is_of_sequence() && !asked.has("sequence_start") && !asked.has_number(), "{text}");
            asked.change_id();
            asked.set("sequence_start", true);
            let mut said = Said(&mut its);
            assert!(!said.has_output() && !said.has_data() && !said.has_request_id(), "{text}");
            said.change_request_id();
            said.change_model_name();
            assert_eq!(
                parts(its).0,
                body(text, None).write().0.as_slice().iter().map(|byte| char::from(*byte)).collect::<String>()
            );
        }
        assert!(!Asked(&mut body(r#"{"inputs":[{"data":[[]],"datatype":"INT8"}]}"#, None)).has_number());
        // A size that is not there.
        let mut its = body(r#"{"outputs":[{"parameters":{"binary_data_size":9}}]}"#, Some(&[1]));
        assert!(!Said(&mut its).has_data());
    }
}
