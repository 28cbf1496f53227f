//! What types, shapes and names an operation takes.

use crate::{
    element::{ElementType, Scalar},
    shape::Shape,
};

/// Formats take these names for nodes, and TorchScript as words of its language.
pub(super) fn name(name: &str) -> Result<(), String> {
    let is_word = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if is_word && name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return Ok(());
    }
    Err(format!("'{name}' is no name: use letters, digits and '_', a letter first"))
}

pub(super) fn scalar(value: &Scalar, element: ElementType) -> Result<(), String> {
    let bytes = value.bytes(element);
    bytes.map(|_| ()).ok_or_else(|| format!("{element} does not have the value {value:?}"))
}

pub(super) fn number(what: &str, element: ElementType) -> Result<(), String> {
    if element.is_number() { Ok(()) } else { Err(format!("{what}: {element} has no arithmetic")) }
}

pub(super) fn truth(what: &str, element: ElementType) -> Result<(), String> {
    let is_truth = element == ElementType::Bool;
    if is_truth { Ok(()) } else { Err(format!("{what}: {element} is not {}", ElementType::Bool)) }
}

pub(super) fn text(what: &str, text: ElementType, number: ElementType) -> Result<(), String> {
    if text == ElementType::Text && number.range().is_some() {
        return Ok(());
    }
    Err(format!("{what}: {text} and {number} are not texts and whole numbers"))
}

pub(super) fn joined(what: &str, one: &Shape, other: &Shape) -> Result<Shape, String> {
    one.joined(other).ok_or_else(|| format!("{what}: the shapes {one} and {other} do not fit"))
}
