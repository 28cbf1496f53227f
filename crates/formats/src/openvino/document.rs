//! The XML of layers and edges, and the constants, as they grow.

use std::fmt::Write as _;

use crate::{element::ElementType, graph::Tensor, shape::Shape};

/// A `String` takes whatever is written to it.
const WRITABLE: &str = "a string takes everything";

/// A type as attributes have it, and as ports have it.
pub(super) fn names(element: ElementType) -> (&'static str, &'static str) {
    element.row().openvino.expect("a graph with other types was rejected")
}

/// An output port of a layer, and what comes out of it.
#[derive(Clone, Debug)]
pub(super) struct Port {
    layer: usize,
    number: usize,
    pub(super) tensor: Tensor,
}

/// What a layer is, but for its ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer<'a> {
    pub(super) kind: &'a str,
    /// The set of operations that its meaning is from.
    pub(super) set: &'a str,
    /// Attributes in XML.
    pub(super) data: &'a str,
    /// What its result is called outside, if it is known there.
    pub(super) name: Option<&'a str>,
}

/// A model in the making.
#[derive(Debug, Default)]
pub(super) struct Document {
    layers: String,
    edges: String,
    bin: Vec<u8>,
    count: usize,
}

impl Document {
    /// A layer that one thing comes out of; where.
    pub(super) fn add(&mut self, layer: Layer, operands: &[Port], tensor: Tensor) -> Port {
        let number = operands.len();
        let output = format!("<output>{}</output>", port_xml(number, &tensor, layer.name));
        Port { layer: self.add_layer(layer, operands, &output), number, tensor }
    }

    /// A layer that nothing comes out of.
    pub(super) fn add_last(&mut self, layer: Layer, operands: &[Port]) {
        self.add_layer(layer, operands, "");
    }

    fn add_layer(&mut self, layer: Layer, operands: &[Port], output: &str) -> usize {
        let Layer { kind, set, data, name } = layer;
        let number = self.count;
        self.count += 1;
        let name = name.map_or_else(|| format!("{kind}.{number}"), ToOwned::to_owned);
        write!(self.layers, "<layer id=\"{number}\" name=\"{name}\" type=\"{kind}\" version=\"{set}\">")
            .expect(WRITABLE);
        if !data.is_empty() {
            write!(self.layers, "<data {data}/>").expect(WRITABLE);
        }
        if !operands.is_empty() {
            let ports = operands.iter().enumerate();
            let ports = ports.fold(String::new(), |ports, (port, from)| ports + &port_xml(port, &from.tensor, None));
            write!(self.layers, "<input>{ports}</input>").expect(WRITABLE);
        }
        writeln!(self.layers, "{output}</layer>").expect(WRITABLE);
        for (port, from) in operands.iter().enumerate() {
            let ends = format!("from-layer=\"{}\" from-port=\"{}\"", from.layer, from.number);
            writeln!(self.edges, "<edge {ends} to-layer=\"{number}\" to-port=\"{port}\"/>").expect(WRITABLE);
        }
        number
    }

    /// A constant of these bytes.
    pub(super) fn constant(&mut self, tensor: Tensor, bytes: &[u8]) -> Port {
        // Readers want elements where their type may begin.
        self.bin.resize(self.bin.len().next_multiple_of(8), 0);
        let (offset, size, element) = (self.bin.len(), bytes.len(), names(tensor.element).0);
        self.bin.extend_from_slice(bytes);
        let shape = sizes(&tensor.shape);
        let data = format!("element_type=\"{element}\" shape=\"{shape}\" offset=\"{offset}\" size=\"{size}\"");
        self.add(Layer { kind: "Const", set: "opset1", data: &data, name: None }, &[], tensor)
    }

    /// A list of numbers of 64 bits.
    pub(super) fn integers(&mut self, numbers: &[i64]) -> Port {
        let length = u32::try_from(numbers.len()).expect("a list is short");
        let tensor = Tensor::new(ElementType::Int64, Shape::fixed([length]));
        let bytes: Vec<_> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(tensor, &bytes)
    }

    /// The XML, and the constants.
    pub(super) fn finish(self, name: &str) -> (String, Vec<u8>) {
        let Self { layers, edges, bin, .. } = self;
        let layers = format!("<layers>\n{layers}</layers>\n<edges>\n{edges}</edges>\n");
        (format!("<?xml version=\"1.0\"?>\n<net name=\"{name}\" version=\"11\">\n{layers}</net>\n"), bin)
    }
}

/// A shape as attributes have it.
pub(super) fn sizes(shape: &Shape) -> String {
    shape.dims().iter().map(|dim| dim.size().to_string()).collect::<Vec<_>>().join(",")
}

/// A port, with the name by which the tensor is known outside.
fn port_xml(port: usize, tensor: &Tensor, name: Option<&str>) -> String {
    let dims = tensor.shape.dims().iter().fold(String::new(), |dims, dim| format!("{dims}<dim>{}</dim>", dim.size()));
    let names_of = name.map(|name| format!(" names=\"{name}\"")).unwrap_or_default();
    format!("<port id=\"{port}\" precision=\"{}\"{names_of}>{dims}</port>", names(tensor.element).1)
}
