//! What a script has instead of numbers where no formula says what a model answers: the tensors of its steps, and the golden outputs.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{quoted, script::WIDTH, template::Needs};
use crate::report::words::state;
use oracle::golden::{Compare, Golden, Output, Word};
use wire::transport::spoil;
use workload::{
    inputs::{ElementType, InputTensor},
    number::Number,
    sequence::Flaw,
    tensor::elements,
};

/// The most bytes of tensors that a script has.
const LARGEST: usize = 16 << 20;

/// The steps that a script sends, and the states that it expects, each once.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) golden: Arc<Golden>,
    names: HashSet<String>,
    steps: String,
    states: String,
    /// The bytes of tensors by their lines in the script. The first line is empty, as a tensor may be.
    lines: HashMap<Vec<u8>, usize>,
    data: String,
    bytes: usize,
}

impl Tables {
    /// Of nothing yet.
    pub(super) fn new(golden: Arc<Golden>) -> Self {
        Self {
            golden,
            names: HashSet::new(),
            steps: String::new(),
            states: String::new(),
            lines: HashMap::from([(Vec::new(), 0)]),
            data: String::new(),
            bytes: 0,
        }
    }

    /// A step, by the name that it has in the script; with a flaw of its inputs if it has one.
    pub(super) fn step(&mut self, code: Number, flaw: Option<Flaw>) -> String {
        let flaw = flaw.filter(|flaw| is_of_inputs(*flaw));
        let place = self.golden.inputs.place(code).unwrap_or_default();
        let name = quoted(&flaw.map_or_else(|| place.clone(), |flaw| format!("{place} with {flaw}")));
        if self.names.insert(name.clone()) {
            let mut tensors = self.golden.inputs.tensors(code.value()).unwrap_or_default().to_vec();
            if let Some(flaw) = flaw {
                spoil(&mut tensors, flaw);
                tensors.iter_mut().for_each(fit);
            }
            let tensors = tensors.into_iter().map(|InputTensor { name, datatype, shape, data }| {
                format!("({}, \"{datatype}\", {shape:?}, {})", quoted(&name), self.line(&data))
            });
            let tensors = list('[', &tensors.collect::<Vec<_>>(), ']');
            put(&mut self.steps, &name, &tensors);
        }
        name
    }

    /// The golden outputs of a state, by the name that they have in the script; none where they are not known.
    pub(super) fn outputs(&mut self, sum: Number) -> Option<String> {
        let golden = Arc::clone(&self.golden);
        let word = golden.word(sum)?;
        let name = quoted(&format!("the outputs of {}", state(&golden.named(sum))));
        if self.names.insert(name.clone()) {
            let responses = list('[', &self.responses(&golden, word), ']');
            put(&mut self.states, &name, &responses);
        }
        Some(name)
    }

    /// The responses to a step, each with its judged outputs.
    fn responses(&mut self, golden: &Golden, word: &Word) -> Vec<String> {
        let steps = word.lineage.length();
        let all = word.responses.iter().map(|response| {
            let outputs = golden.outputs.iter().zip(response).filter(|(output, _)| output.is_judged());
            let outputs = outputs.map(|(output, (shape, bytes))| {
                let (line, name) = (self.line(bytes), quoted(&output.spec.name));
                format!("{name}: ({shape:?}, {line}, {:?})", output.tolerance(steps))
            });
            list('{', &outputs.collect::<Vec<_>>(), '}')
        });
        all.collect()
    }

    /// The line of a tensor's bytes. What would make the script too large is not kept.
    fn line(&mut self, data: &[u8]) -> usize {
        let next = self.lines.len();
        if let Some(line) = self.lines.get(data) {
            return *line;
        }
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes <= LARGEST {
            self.lines.insert(data.to_vec(), next);
            STANDARD.encode_string(data, &mut self.data);
            self.data.push('\n');
        }
        next
    }

    /// Why there is no script with these tensors, if they are too large.
    pub(super) fn too_large(&self) -> Option<String> {
        (self.bytes > LARGEST).then(|| {
            format!(
                "the tensors of a script may have {} MiB, and those of this failure have more: make it smaller (sequence-stress replay \
                 --shrink --golden FILE)",
                LARGEST >> 20
            )
        })
    }

    /// What a script needs to send these tensors, and to compare those.
    pub(super) fn needs(&self) -> Needs {
        let inputs = self.golden.inputs.tracks().iter().flat_map(|track| &track.codes);
        let inputs = inputs.flat_map(|code| self.golden.inputs.tensors(*code).unwrap_or_default());
        let outputs = || self.golden.outputs.iter().map(|output| output.datatype);
        let types: HashSet<_> = inputs.map(|input| input.datatype).chain(outputs()).collect();
        let is_cosine = |output: &Output| matches!(output.compare, Compare::Cosine(_));
        let needs = [
            ("golden", true),
            ("flags", true),
            ("texts-in", types.contains(&ElementType::Bytes)),
            ("halves-in", types.contains(&ElementType::Bf16)),
            ("cosine", self.golden.outputs.iter().any(is_cosine)),
        ];
        needs.into_iter().filter_map(|(name, is_needed)| is_needed.then_some(name)).collect()
    }

    /// Whether a flaw of a step's inputs is one of a text: flaws are the first input's.
    pub(super) fn spoils_a_text(&self, code: Number) -> bool {
        let inputs = self.golden.inputs.tensors(code.value()).unwrap_or_default();
        inputs.first().is_some_and(|first| first.datatype == ElementType::Bytes)
    }

    /// Whether any output has texts.
    pub(super) fn answers_with_texts(&self) -> bool {
        self.golden.outputs.iter().any(|output| output.datatype == ElementType::Bytes)
    }

    /// The tables as Python has them.
    pub(super) fn text(&self) -> String {
        let output = |output: &Output| {
            let rule = output.compare.to_string();
            let rule = rule.split(':').next().unwrap_or_default();
            format!("    {}: (\"{}\", \"{rule}\"),\n", quoted(&output.spec.name), output.datatype)
        };
        let outputs: String = self.golden.outputs.iter().map(output).collect();
        let table = |lines: &str| if lines.is_empty() { "{}".to_owned() } else { format!("{{\n{lines}}}") };
        let mut text = String::new();
        for (what, name, lines) in [
            ("Of each output its type, and how it is compared.", "OUTPUTS", &outputs),
            (
                "Of each step its inputs: name, type, shape, and the line of DATA with the elements.",
                "STEPS",
                &self.steps,
            ),
            (
                "Of each state the responses, and of their outputs: shape, line of DATA, and how far off they may be.",
                "GOLDEN",
                &self.states,
            ),
        ] {
            writeln!(text, "# {what}\n{name} = {}", table(lines)).expect("memory takes everything");
        }
        format!("{text}DATA = \"\"\"\n{}\"\"\".splitlines()\n", self.data)
    }
}

/// Whether a flaw is one of the inputs that a script says in its tables.
pub(super) fn is_of_inputs(flaw: Flaw) -> bool {
    matches!(flaw, Flaw::BatchOfTwo | Flaw::OtherType | Flaw::OtherShape | Flaw::OtherInput)
}

/// Gives a tensor as many elements as its shape says; what is in them decides nothing.
fn fit(tensor: &mut InputTensor) {
    let count = elements(&tensor.shape);
    if tensor.datatype.count(&tensor.data) != Some(count) {
        // A text of no length has four bytes for that.
        tensor.data = vec![0; count * tensor.datatype.size().unwrap_or(4)];
    }
}

/// A list of Python's, on one line where it is short.
fn list(open: char, items: &[String], close: char) -> String {
    let line = items.join(", ");
    if line.len() <= WIDTH {
        return format!("{open}{line}{close}");
    }
    let items: Vec<_> = items.iter().map(|item| format!("        {},\n", item.replace('\n', "\n    "))).collect();
    format!("{open}\n{}    {close}", items.concat())
}

fn put(table: &mut String, name: &str, value: &str) {
    writeln!(table, "    {name}: {value},").expect("memory takes everything");
}
