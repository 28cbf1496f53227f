//! Writes every formula in every type and form, in every format, for `scripts/verify-models`.
//!
//! `cargo run -p sequence-stress-formats --example matrix DIR` makes DIR, with a folder for each model and `manifest.json`.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use formats::{
    builder::GraphBuilder,
    element::ElementType::{self, Bool, Fp32, Int32, Int64, Text, Uint32, Uint64},
    format::Format,
    formulas::{Formula, Options, graph},
    graph::{Graph, Tensor},
    shape::{Dim, Shape},
};
use serde::Serialize;

const SLOTS: u32 = 4;
const INITIAL: i128 = 10;

/// One model of the matrix, or why there is no such one.
#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    format: &'static str,
    formula: &'static str,
    element: &'static str,
    batch: Option<u32>,
    width: Option<u32>,
    control: &'static str,
    corrid: Option<&'static str>,
    adds_corrid: bool,
    /// What a state begins with, where the formula has one of its own.
    initial: Option<i64>,
    inputs: Vec<Described>,
    outputs: Vec<Described>,
    /// The files, in the folder of the model's name.
    files: Vec<String>,
    rejected: Option<String>,
}

/// An input or an output.
#[derive(Debug, Serialize)]
struct Described {
    name: String,
    element: &'static str,
    dims: Vec<i64>,
}

impl Described {
    fn all<'a>(tensors: impl Iterator<Item = (&'a str, &'a Tensor)>) -> Vec<Self> {
        let described = |(name, tensor): (&str, &Tensor)| Self {
            name: name.into(),
            element: tensor.element.name(),
            dims: tensor.shape.dims().iter().map(|dim| dim.size()).collect(),
        };
        tensors.map(described).collect()
    }
}

fn name_of(format: Format) -> &'static str {
    match format {
        Format::Onnx => "onnx",
        Format::OpenVino => "openvino",
        Format::SavedModel => "savedmodel",
        Format::GraphDef => "graphdef",
        Format::TorchScript => "torchscript",
    }
}

fn formulas() -> [(&'static str, Formula); 5] {
    [
        ("implicit", Formula::Implicit),
        ("implicit-with-initial-state", Formula::ImplicitWithInitialState),
        ("stateless", Formula::Stateless),
        ("stateful", Formula::Stateful { initial: 0 }),
        ("stateful-from-initial", Formula::Stateful { initial: INITIAL }),
    ]
}

/// Every shape, and with the plainest ones every type of the controls and of CORRID.
fn forms(element: ElementType) -> Vec<Options> {
    let mut forms = Vec::new();
    for batch in [Some(SLOTS), None] {
        for width in [Some(1), Some(3), None] {
            forms.push(Options { element, batch, width, ..Options::default() });
        }
        for control in [Fp32, Bool] {
            forms.push(Options { element, batch, control, ..Options::default() });
        }
        for corrid in [Int32, Uint32, Int64, Uint64, Text] {
            forms.push(Options { element, batch, corrid: Some(corrid), ..Options::default() });
        }
        forms.push(Options { element, batch, corrid: Some(Int64), adds_corrid: false, ..Options::default() });
    }
    forms
}

/// One graph, which every format is to write.
struct Model {
    formula: &'static str,
    options: Options,
    initial: Option<i64>,
    graph: Graph,
}

impl Model {
    fn name(&self, format: Format) -> String {
        let Options { element, batch, width, control, corrid, adds_corrid, .. } = &self.options;
        let mut parts = vec![name_of(format).to_owned(), self.formula.to_owned(), element.name().to_lowercase()];
        parts.push(if batch.is_some() { "batch" } else { "nobatch" }.into());
        parts.push(width.map_or("open".into(), |width| format!("x{width}")));
        parts.push(format!("control-{}", control.name().to_lowercase()));
        parts.extend(corrid.map(|corrid| format!("corrid-{}", corrid.name().to_lowercase())));
        parts.extend((!adds_corrid).then(|| "not-added".to_owned()));
        parts.join("_")
    }

    /// Writes the files of one format.
    fn write(&self, directory: &Path, format: Format) -> Result<Entry, Box<dyn Error>> {
        let name = self.name(format);
        let written = format.files(&self.graph);
        for file in written.iter().flatten() {
            let path = directory.join(&name).join(&file.name);
            fs::create_dir_all(path.parent().expect("it is in the directory"))?;
            fs::write(path, &file.bytes)?;
        }
        Ok(Entry {
            name,
            format: name_of(format),
            formula: self.formula,
            element: self.options.element.name(),
            batch: self.options.batch,
            width: self.options.width,
            control: self.options.control.name(),
            corrid: self.options.corrid.map(ElementType::name),
            adds_corrid: self.options.adds_corrid,
            initial: self.initial,
            inputs: Described::all(self.graph.inputs()),
            outputs: Described::all(self.graph.outputs()),
            files: written.iter().flatten().map(|file| file.name.clone()).collect(),
            rejected: written.err(),
        })
    }
}

/// The sum of rows that are blocks of 2 by 3 elements.
fn block(element: ElementType, batch: Option<u32>) -> Result<Model, String> {
    let mut builder = GraphBuilder::new("model")?;
    let dims = batch.map(|_| Dim::Batch).into_iter().chain([Dim::Fixed(2), Dim::Fixed(3)]);
    let input = builder.input("INPUT", Tensor::new(element, Shape::new(dims.collect())))?;
    let numbers = if element == Text { builder.parse(input, Int32)? } else { input };
    let sum = builder.row_sum(numbers)?;
    let sum = if element == Text { builder.show(sum)? } else { sum };
    let output = builder.spread(sum, input)?;
    builder.output("OUTPUT", output)?;
    let options = Options { element, batch, width: Some(6), ..Options::default() };
    Ok(Model { formula: "sum", options, initial: None, graph: builder.finish()? })
}

fn models() -> Result<Vec<Model>, String> {
    let mut models = Vec::new();
    for element in ElementType::ALL.into_iter().filter(|element| *element != Bool) {
        for (formula, of) in formulas() {
            let initial = match of {
                Formula::Stateful { initial } => Some(i64::try_from(initial).expect("it is small")),
                _ => None,
            };
            for options in forms(element) {
                models.push(Model { formula, initial, graph: graph(of, &options)?, options });
            }
        }
        models.extend([block(element, Some(SLOTS))?, block(element, None)?]);
    }
    Ok(models)
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: matrix DIR")?);
    fs::create_dir(&directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    let models = models()?;
    let written = Format::ALL.iter().flat_map(|format| models.iter().map(|model| model.write(&directory, *format)));
    let entries = written.collect::<Result<Vec<_>, _>>()?;
    fs::write(directory.join("manifest.json"), serde_json::to_vec(&entries)?)?;
    Ok(())
}
