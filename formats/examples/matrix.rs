//! Writes every formula in every type and form, in every format, for `scripts/verify-models`.
//!
//! `cargo run -p sequence-stress-formats --example matrix DIR` makes DIR, with a folder for each model and `manifest.json`.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use sequence_stress_formats::{
    element::ElementType::{self, Bool, Fp32, Int32, Int64, Text, Uint32, Uint64},
    format::Format,
    formulas::{Formula, Options, graph},
    graph::{Graph, Tensor},
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
    /// What a state begins with, where the formula has one of its own.
    initial: Option<i64>,
    inputs: Vec<Described>,
    outputs: Vec<Described>,
    /// The files, in the folder of the model's name.
    files: Vec<&'static str>,
    refused: Option<String>,
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
    }
    forms
}

fn name(format: Format, formula: &str, options: &Options) -> String {
    let mut parts = vec![format.name().to_owned(), formula.to_owned(), options.element.name().to_lowercase()];
    parts.push(if options.batch.is_some() { "batch" } else { "nobatch" }.into());
    parts.push(options.width.map_or("open".into(), |width| format!("x{width}")));
    parts.push(format!("control-{}", options.control.name().to_lowercase()));
    parts.extend(options.corrid.map(|corrid| format!("corrid-{}", corrid.name().to_lowercase())));
    parts.join("_")
}

fn entry(
    directory: &Path,
    format: Format,
    (formula, of): (&'static str, Formula),
    options: &Options,
) -> Result<Entry, Box<dyn Error>> {
    let name = name(format, formula, options);
    let graph: Graph = graph(of, options)?;
    let written = format.files(&graph);
    for file in written.iter().flatten() {
        let path = directory.join(&name).join(file.name);
        fs::create_dir_all(path.parent().expect("it is in the directory"))?;
        fs::write(path, &file.bytes)?;
    }
    let initial = match of {
        Formula::Stateful { initial } => Some(i64::try_from(initial)?),
        _ => None,
    };
    Ok(Entry {
        name,
        format: format.name(),
        formula,
        element: options.element.name(),
        batch: options.batch,
        width: options.width,
        control: options.control.name(),
        corrid: options.corrid.map(ElementType::name),
        initial,
        inputs: Described::all(graph.inputs()),
        outputs: Described::all(graph.outputs()),
        files: written.iter().flatten().map(|file| file.name).collect(),
        refused: written.err().map(|refusal| refusal.reason().into()),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: matrix DIR")?);
    fs::create_dir(&directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    let mut entries = Vec::new();
    for format in Format::ALL {
        for formula in formulas() {
            for element in ElementType::ALL.into_iter().filter(|element| *element != Bool) {
                for options in forms(element) {
                    entries.push(entry(&directory, format, formula, &options)?);
                }
            }
        }
    }
    fs::write(directory.join("manifest.json"), serde_json::to_vec(&entries)?)?;
    Ok(())
}
