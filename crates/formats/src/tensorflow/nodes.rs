//! The nodes of a graph, as they grow.

use super::proto;
use crate::{
    element::{ElementType, Scalar},
    shape::Shape,
};

/// Attributes, by their names.
pub(super) type Attributes<'a> = &'a [(&'static str, proto::Given)];

pub(super) fn of_type(element: ElementType) -> proto::Given {
    proto::Given::Type(element.row().tensorflow)
}

pub(super) fn shape(shape: &Shape) -> proto::Shape {
    proto::Shape { dim: shape.dims().iter().map(|dim| proto::Dimension { size: dim.size() }).collect() }
}

/// The nodes that there are already.
#[derive(Debug, Default)]
pub(super) struct Nodes(pub(super) Vec<proto::Node>);

impl Nodes {
    pub(super) fn operation(&mut self, name: &str, op: &str, inputs: &[String], attributes: Attributes) {
        let attr =
            attributes.iter().map(|(name, given)| ((*name).into(), proto::Attribute { given: Some(given.clone()) }));
        self.0.push(proto::Node { name: name.into(), op: op.into(), input: inputs.to_vec(), attr: attr.collect() });
    }

    pub(super) fn constant(&mut self, name: &str, element: ElementType, dims: &[u32], content: Vec<u8>) {
        let shape = shape(&Shape::fixed(dims.iter().copied()));
        let is_text = element == ElementType::Text;
        let (content, texts) = if is_text { (Vec::new(), vec![content]) } else { (content, Vec::new()) };
        let tensor = proto::Tensor { dtype: element.row().tensorflow, shape: Some(shape), content, texts };
        self.operation(name, "Const", &[], &[("dtype", of_type(element)), ("value", proto::Given::Tensor(tensor))]);
    }

    pub(super) fn scalar(&mut self, name: &str, element: ElementType, scalar: &Scalar) {
        self.constant(name, element, &[], scalar.bytes(element).expect("the builder checked it"));
    }

    /// A list of numbers of 32 bits; its name.
    pub(super) fn integers(&mut self, name: String, numbers: &[i32]) -> String {
        let length = u32::try_from(numbers.len()).expect("a list is short");
        let content = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(&name, ElementType::Int32, &[length], content);
        name
    }

    pub(super) fn cast(&mut self, made: &str, of: String, from: ElementType, to: ElementType) {
        self.operation(made, "Cast", &[of], &[("SrcT", of_type(from)), ("DstT", of_type(to))]);
    }

    pub(super) fn strided(&mut self, made: &str, inputs: &[String], element: ElementType, begin: i64, end: i64) {
        let attributes = [
            ("T", of_type(element)),
            ("Index", of_type(ElementType::Int32)),
            ("begin_mask", proto::Given::Integer(begin)),
            ("end_mask", proto::Given::Integer(end)),
        ];
        self.operation(made, "StridedSlice", inputs, &attributes);
    }

    pub(super) fn read_text(&mut self, made: &str, text: &str, element: ElementType) {
        self.operation(made, "StringToNumber", &[text.to_owned()], &[("out_type", of_type(element))]);
    }

    /// Numbers of 64 bits without a sign, as ten times all digits but the last, and the last: up to 2.13 at least no larger numbers are
    /// read than those of INT64, which wraps.
    pub(super) fn read_long_text(&mut self, made: &str, text: &str) {
        let part = |part: &str| format!("{made}.{part}");
        for (digits, rewrite) in [("tens", r"0\1"), ("ones", r"\2")] {
            let attributes = [
                ("pattern", proto::Given::Text(b"^[+]?([0-9]*)([0-9])$".to_vec())),
                ("rewrite", proto::Given::Text(rewrite.into())),
            ];
            let digits = part(digits);
            self.operation(&format!("{digits}.text"), "StaticRegexReplace", &[text.to_owned()], &attributes);
            self.read_text(&digits, &format!("{digits}.text"), ElementType::Int64);
        }
        let of_element = [("T", of_type(ElementType::Int64))];
        self.scalar(&part("ten"), ElementType::Int64, &Scalar::Whole(10));
        self.operation(&part("shifted"), "Mul", &[part("tens"), part("ten")], &of_element);
        self.operation(&part("low"), "AddV2", &[part("shifted"), part("ones")], &of_element);
        self.cast(made, part("low"), ElementType::Int64, ElementType::Uint64);
    }
}
