//! The JSON that `perf_analyzer` takes with `--input-data`.
//!
//! It is read as the sources of that tool read it (`data_loader.cc`, `SerializeExplicitTensor` in `perf_utils.cc`), with these differences:
//! numbers are taken for FP16 and BF16, too, and whole ones for all floating-point types; 0 and 1 are taken for BOOL; a number that a
//! type does not have is an error, and is not cut to its last bits; and so are a sequence without steps and a name that is there twice.

use std::{
    borrow::Cow,
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    marker::PhantomData,
};

use base64::{
    Engine as _,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value as Json, value::RawValue};

use super::{
    Budget, ElementType, InputTensor, Options, Track,
    element::Element,
    no_input,
    shape::{known, with_batch},
};
use crate::tensor::TensorSpec;

/// As there, padding may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The name that a step may have beside its inputs: which model it is for.
const NO_INPUT: &str = "model";

/// Reads the tracks of a file, and what there is to say about it.
pub(super) fn read(
    bytes: &[u8],
    declared: &[TensorSpec],
    options: &Options,
) -> Result<(Vec<Track>, Vec<String>), String> {
    let text = str::from_utf8(bytes).map_err(|error| format!("it is no UTF-8 text: {error}"))?;
    let text = with_quoted_floats(text);
    let Entries(top) = serde_json::from_str(&text)
        .map_err(|error| format!("it is no JSON object of perf_analyzer's form: {error}"))?;
    let Some(data) = top.get("data") else {
        return Err("it has no 'data': perf_analyzer's form is {\"data\": [[{\"INPUT\": [1]}, …], …]}".to_owned());
    };
    let mut reader = Reader { declared, options, budget: Budget::whole() };
    let tracks = reader.tracks(data)?;
    let note = |_: &&RawValue| "'validation_data' is not used: a golden file has the expected outputs".to_owned();
    Ok((tracks, top.get("validation_data").map(note).into_iter().collect()))
}

/// An object's entries, none of them read yet.
struct Entries<'j>(BTreeMap<String, &'j RawValue>);

impl<'de: 'j, 'j> Deserialize<'de> for Entries<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<'j>(PhantomData<&'j ()>);

        impl<'de: 'j, 'j> Visitor<'de> for Object<'j> {
            type Value = Entries<'j>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'j>, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    match entries.entry(name) {
                        Entry::Vacant(entry) => entry.insert(map.next_value()?),
                        Entry::Occupied(entry) => {
                            let problem = format!("'{}' is there twice", entry.key().escape_debug());
                            return Err(A::Error::custom(problem));
                        }
                    };
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Object(PhantomData))
    }
}

struct Reader<'r> {
    declared: &'r [TensorSpec],
    options: &'r Options,
    budget: Budget,
}

type Step = Vec<InputTensor>;

impl Reader<'_> {
    fn tracks(&mut self, data: &RawValue) -> Result<Vec<Track>, String> {
        let items: Vec<&RawValue> = part(data, "'data'", "a list of sequences")?;
        let is_sequence = |item: &&&RawValue| item.get().starts_with('[');
        let sequences = items.iter().filter(is_sequence).count();
        if sequences == 0 && !items.is_empty() {
            return Ok(vec![self.track(1, &items)?]);
        }
        if sequences < items.len() {
            return Err("'data' has both lists and objects: write a list of steps for each sequence".to_owned());
        }
        let mut tracks = Vec::new();
        for (number, item) in (1..).zip(items) {
            let steps: Vec<&RawValue> = part(item, &format!("'sequence {number}'"), "a list of steps")?;
            if steps.is_empty() {
                return Err(format!("'sequence {number}' has no steps: each sequence needs at least one"));
            }
            tracks.push(self.track(number, &steps)?);
        }
        Ok(tracks)
    }

    fn track(&mut self, number: usize, items: &[&RawValue]) -> Result<Track, String> {
        let name = format!("sequence {number}");
        let mut steps = Vec::new();
        for (number, item) in (1..).zip(items) {
            let step = self.step(item).map_err(|problem| format!("'{name}', step {number}: {problem}"))?;
            steps.push(step.into());
        }
        Ok(Track { name, steps, pauses: Vec::new() })
    }

    fn step(&mut self, step: &RawValue) -> Result<Step, String> {
        let Entries(inputs) = part(step, "the step", "an object with a list of elements for each input")?;
        let mut tensors = Vec::new();
        for (name, tensor) in inputs {
            match self.declared.iter().find(|spec| spec.name == name) {
                Some(spec) => {
                    let of = |problem| format!("input '{name}': {problem}");
                    tensors.push(self.tensor(spec, tensor).map_err(of)?);
                }
                None if name == NO_INPUT => {}
                None => return Err(no_input(&name, self.declared)),
            }
        }
        Ok(tensors)
    }

    fn tensor(&mut self, spec: &TensorSpec, tensor: &RawValue) -> Result<InputTensor, String> {
        let datatype = ElementType::of(spec)?;
        let (content, sizes) = parts(tensor)?;
        let data = match content {
            Content::Elements(elements) => elements_of(elements, datatype)?,
            Content::Base64(text) => decoded(text)?,
        };
        self.budget.take(data.len())?;
        let shape = match sizes {
            Some(sizes) => with_batch(&sizes, spec, self.options.batches)?,
            None => known(spec, self.options)?,
        };
        Ok(InputTensor { name: spec.name.clone(), datatype, shape, data })
    }
}

enum Content<'j> {
    Elements(&'j RawValue),
    Base64(&'j RawValue),
}

/// What a tensor's elements are written as, and its shape where it has one.
fn parts(tensor: &RawValue) -> Result<(Content<'_>, Option<Vec<i64>>), String> {
    const FORM: &str = "a list of elements, or an object with 'content' or 'b64', and 'shape'";
    if tensor.get().starts_with('[') {
        return Ok((Content::Elements(tensor), None));
    }
    let Entries(entries) = part(tensor, "it", FORM)?;
    let sizes = entries.get("shape").map(|sizes| part(sizes, "'shape'", "a list of whole numbers")).transpose()?;
    if let Some(text) = entries.get("b64") {
        return Ok((Content::Base64(text), sizes));
    }
    let content = entries.get("content").ok_or_else(|| format!("it has no elements: write {FORM}"))?;
    if content.get().starts_with('[') {
        return Ok((Content::Elements(content), sizes));
    }
    let Entries(entries) = part(content, "'content'", "a list of elements, or an object with 'b64'")?;
    let text = entries
        .get("b64")
        .ok_or("'content' is an object without 'b64': write a list of elements, or an object with 'b64'")?;
    Ok((Content::Base64(text), sizes))
}

/// The bytes of a list's elements. They are never there as a list: one of small numbers takes many times the file's size.
fn elements_of(list: &RawValue, datatype: ElementType) -> Result<Vec<u8>, String> {
    let elements = ElementsOf(datatype);
    serde_json::Deserializer::from_str(list.get()).deserialize_seq(elements).map_err(|error| without_place(&error))
}

struct ElementsOf(ElementType);

impl<'de> Visitor<'de> for ElementsOf {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u8>, A::Error> {
        let Self(datatype) = self;
        let mut data = Vec::new();
        let mut number: u64 = 0;
        while let Some(element) = list.next_element()? {
            number += 1;
            if !value(&element, datatype).is_some_and(|value| datatype.append(value, &mut data)) {
                let hint = match element {
                    Json::Array(_) => ": write all elements as one flat list, and 'shape' beside it",
                    _ => "",
                };
                let shown = shortened(&element.to_string());
                return Err(A::Error::custom(format!("element {number}, {shown}, is none of type {datatype}{hint}")));
            }
            if data.len() > Budget::MAX {
                return Err(A::Error::custom(Budget::too_much()));
            }
        }
        Ok(data)
    }
}

fn value(json: &Json, datatype: ElementType) -> Option<Element<'_>> {
    match json {
        Json::String(text) if datatype != ElementType::Bytes => {
            text.parse().ok().filter(|number: &f64| !number.is_finite()).map(Element::Float)
        }
        _ => Element::of_json(json),
    }
}

fn decoded(text: &RawValue) -> Result<Vec<u8>, String> {
    let text: String = part(text, "'b64'", "a text")?;
    // As many encoders write it, in lines.
    let text: String = text.split_ascii_whitespace().collect();
    BASE64.decode(text).map_err(|error| format!("'b64' is no Base64: {error}"))
}

/// Reads a part of the file. What is wrong in it is said without a place, because the place would count from where the part begins.
fn part<'j, T: Deserialize<'j>>(json: &'j RawValue, what: &str, wanted: &str) -> Result<T, String> {
    serde_json::from_str(json.get()).map_err(|error| format!("{what} is not {wanted}: {}", without_place(&error)))
}

fn without_place(error: &serde_json::Error) -> String {
    let mut error = error.to_string();
    error.truncate(error.rfind(" at line ").unwrap_or(error.len()));
    error
}

fn shortened(text: &str) -> String {
    const MAX: usize = 40;
    match text.char_indices().nth(MAX) {
        Some((place, _)) => format!("{}…", &text[..place]),
        None => text.to_owned(),
    }
}

/// `perf_analyzer` takes `NaN`, `Inf` and `Infinity` for numbers, which JSON does not have: they become texts.
fn with_quoted_floats(text: &str) -> Cow<'_, str> {
    const NAMES: [&str; 6] = ["-Infinity", "-Inf", "-NaN", "Infinity", "Inf", "NaN"];
    let mut quoted = String::new();
    let mut copied = 0;
    let mut place = 0;
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(place) {
        if byte == b'"' {
            place = behind_text(bytes, place);
            continue;
        }
        let begins = || NAMES.iter().find(|name| bytes[place..].starts_with(name.as_bytes()));
        let Some(name) = Some(byte).filter(|byte| b"-IN".contains(byte)).and_then(|_| begins()) else {
            place += 1;
            continue;
        };
        quoted.push_str(&text[copied..place]);
        quoted.extend(["\"", name, "\""]);
        place += name.len();
        copied = place;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    quoted.push_str(&text[copied..]);
    Cow::Owned(quoted)
}

/// Where the text ends whose quotation mark is here.
fn behind_text(bytes: &[u8], mut place: usize) -> usize {
    loop {
        place += 1;
        match bytes.get(place) {
            None => return place,
            Some(b'"') => return place + 1,
            Some(b'\\') => place += 1,
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
