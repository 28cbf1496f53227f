//! TorchScript: an archive of code in its language, and of pickles. State is buffers of the module.
//!
//! The arguments of `forward` are the graph's inputs in their order; several outputs are a tuple.

mod pickle;
mod texts;

use std::fmt::Write as _;

use crate::{
    archive::archive,
    element::{ElementType, Scalar},
    graph::{Graph, Kept, Node, Operation, Value},
    widening::widened,
};
use pickle::{Object, pickle};

/// What all files of an archive are in.
const FOLDER: &str = "model";
/// The revision of the archive's form: with pickles, since torch 1.4.
const VERSION: &str = "3\n";
/// Names that mean something in the language.
const WORDS: [&str; 41] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "self", "parsed", "shown", "torch", "training", "try", "while", "with",
    "yield", "forward",
];
const WRITABLE: &str = "a string takes everything";

/// The file of a graph, of types that torch has tensors of and of names that are no words of the language.
pub(crate) fn model(graph: &Graph) -> Result<Vec<u8>, String> {
    if let Some(obstacle) = texts::obstacle(graph) {
        return Err(format!("TorchScript: {obstacle}"));
    }
    let is_unknown = |element: &ElementType| *element != ElementType::Text && element.row().torch.is_none();
    if let Some(element) = graph.elements().find(is_unknown) {
        return Err(format!("TorchScript: torch has no tensors of {element} that it computes with"));
    }
    let variables = graph.variables.iter().map(|kept| kept.name.as_str());
    if let Some(name) = graph.inputs().map(|(name, _)| name).chain(variables).find(|name| WORDS.contains(name)) {
        return Err(format!("TorchScript: '{name}' is a word of its language; call the tensor otherwise"));
    }
    // Of these torch has all operations on a CPU.
    let graph = widened(graph, ElementType::with_wider_floats);
    let mut files = vec![
        ("data.pkl".to_owned(), pickle(&module(&graph))),
        ("code/__torch__.py".to_owned(), code(&graph).into_bytes()),
        ("constants.pkl".to_owned(), pickle(&Object::Tuple(Vec::new()))),
    ];
    let storages = graph.variables.iter().enumerate().map(|(index, kept)| (format!("data/{index}"), kept.bytes()));
    files.extend(storages);
    files.push(("version".to_owned(), VERSION.into()));
    Ok(archive(&files.into_iter().map(|(name, bytes)| (format!("{FOLDER}/{name}"), bytes)).collect::<Vec<_>>()))
}

/// The module as an object: its buffers, and what every module has.
fn module(graph: &Graph) -> Object {
    let mut attributes: Vec<_> =
        graph.variables.iter().enumerate().map(|(index, kept)| (kept.name.clone(), buffer(index, kept))).collect();
    attributes.push(("training".into(), Object::Truth(false)));
    attributes.push(("_is_full_backward_hook".into(), Object::None));
    Object::Instance(Box::new(Object::Global("__torch__", "Model")), attributes)
}

/// A tensor over a storage, which is a file of the archive.
fn buffer(index: usize, kept: &Kept) -> Object {
    let (_, storage) = kept.element.row().torch.expect("a graph with other types was rejected");
    let dims = kept.dims();
    let integers = |numbers: &[u32]| Object::Tuple(numbers.iter().copied().map(Object::Integer).collect());
    // Every axis but the first is 1.
    let strides = vec![1; dims.len()];
    let storage = Object::Tuple(vec![
        Object::Text("storage".into()),
        Object::Global("torch", storage),
        Object::Text(index.to_string()),
        Object::Text("cpu".into()),
        Object::Integer(dims.iter().product()),
    ]);
    let no_hooks = Object::Call(Box::new(Object::Global("collections", "OrderedDict")), Vec::new());
    let arguments = vec![
        Object::Persistent(Box::new(storage)),
        Object::Integer(0),
        integers(&dims),
        integers(&strides),
        Object::Truth(false),
        no_hooks,
    ];
    Object::Call(Box::new(Object::Global("torch._utils", "_rebuild_tensor_v2")), arguments)
}

/// The class of the module.
fn code(graph: &Graph) -> String {
    let mut code = String::from("class Model(Module):\n  __parameters__ = []\n  __buffers__ = [");
    for kept in &graph.variables {
        write!(code, "\"{}\", ", kept.name).expect(WRITABLE);
    }
    code.push_str("]\n");
    for kept in &graph.variables {
        writeln!(code, "  {} : Tensor", kept.name).expect(WRITABLE);
    }
    code.push_str("  training : bool\n  _is_full_backward_hook : Optional[bool]\n  def forward(self: __torch__.Model");
    for (name, tensor) in graph.inputs() {
        write!(code, ",\n    {name}: {}", class(tensor.element)).expect(WRITABLE);
    }
    let (kind, result) = result(graph);
    writeln!(code, ") -> {kind}:").expect(WRITABLE);
    for (value, node) in graph.values() {
        if let Some(expression) = expression(graph, node) {
            writeln!(code, "    {} = {expression}", name(graph, value)).expect(WRITABLE);
        }
    }
    for kept in &graph.variables {
        let next = name(graph, kept.next);
        let rows = rows(kept, &next);
        writeln!(code, "    {}_kept = torch.copy_({rows}, {next})", name(graph, kept.read)).expect(WRITABLE);
    }
    writeln!(code, "    return {result}").expect(WRITABLE);
    let has_texts = graph.elements().any(|element| element == ElementType::Text);
    if has_texts { code + texts::METHODS } else { code }
}

/// The type of what `forward` gives, and the expression.
fn result(graph: &Graph) -> (String, String) {
    let names: Vec<_> = graph.outputs.iter().map(|(_, value)| name(graph, *value)).collect();
    let classes: Vec<_> = graph.outputs.iter().map(|(_, value)| class(graph.tensor(*value).element)).collect();
    if let ([name], [class]) = (&names[..], &classes[..]) {
        return ((*class).into(), name.clone());
    }
    (format!("Tuple[{}]", classes.join(", ")), format!("({})", names.join(", ")))
}

/// What values of a type are in the language.
fn class(element: ElementType) -> &'static str {
    if element == ElementType::Text { "List[str]" } else { "Tensor" }
}

/// What a value is called. Inputs begin with a letter.
fn name(graph: &Graph, value: Value) -> String {
    match &graph.nodes[value.0].operation {
        Operation::Input(name) => name.clone(),
        _ => format!("_{}", value.0),
    }
}

/// How a value is made; none of an input.
fn expression(graph: &Graph, node: &Node) -> Option<String> {
    let operands: Vec<_> = node.operands.iter().map(|operand| name(graph, *operand)).collect();
    let all = operands.join(", ");
    let element = node.tensor.element;
    let dtype = element.row().torch.map_or(0, |(number, _)| number);
    Some(match &node.operation {
        Operation::Input(_) => return None,
        Operation::Constant(scalar) => {
            format!("torch.full([], {}, dtype={dtype}, layout=None, device=None, pin_memory=None)", literal(scalar))
        }
        Operation::Cast => format!("torch.to({all}, {dtype})"),
        Operation::Add => format!("torch.add({all})"),
        Operation::Multiply => format!("torch.mul({all})"),
        Operation::Not => format!("torch.logical_not({all})"),
        Operation::And => format!("torch.logical_and({all})"),
        Operation::Select => format!("torch.where({all})"),
        Operation::RowSum => {
            let axes: Vec<_> = graph.tensor(node.operands[0]).shape.row_axes().map(|axis| axis.to_string()).collect();
            // Without its type a sum of whole numbers has 64 bits.
            format!("torch.sum({all}, [{}], True, dtype={dtype})", axes.join(", "))
        }
        Operation::Spread if element == ElementType::Text => {
            format!("torch.mul({}, torch.len({}))", operands[0], operands[1])
        }
        Operation::Spread => format!("torch.contiguous(torch.expand_as({all}))"),
        // The rows are a view of the buffer, which changes.
        Operation::Read(variable) => format!("torch.clone({})", rows(&graph.variables[*variable], &all)),
        Operation::Parse => {
            let (least, greatest) = element.range().expect("the builder takes whole numbers alone");
            format!("(self).parsed({all}, {least}, {greatest}, {dtype}, )")
        }
        Operation::Show => format!("(self).shown({all}, )"),
        Operation::Weights(..) | Operation::Layer(_) => unreachable!("a network was rejected"),
    })
}

fn literal(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Truth(truth) => if *truth { "True" } else { "False" }.into(),
        Scalar::Whole(number) => number.to_string(),
        Scalar::Text(_) => unreachable!("a graph with such texts was rejected"),
    }
}

/// As many rows of what is kept as `like` has.
fn rows(kept: &Kept, like: &str) -> String {
    let whole = format!("self.{}", kept.name);
    if kept.slots.is_some() { format!("torch.slice({whole}, 0, 0, torch.size({like}, 0))") } else { whole }
}

#[cfg(test)]
mod tests {
    use super::model;
    use crate::{
        element::ElementType::{Text, Uint32, Uint64},
        formulas::{Formula, Names, Options, graph},
    };

    fn rejected(options: &Options) -> String {
        let graph = graph(Formula::Stateless, options).expect("it has one");
        model(&graph).expect_err("it is rejected")
    }

    #[test]
    fn types_that_torch_does_not_have_are_rejected() {
        for element in [Uint32, Uint64] {
            let said = rejected(&Options { corrid: Some(element), ..Options::default() });
            assert_eq!(said, format!("TorchScript: torch has no tensors of {element} that it computes with"));
        }
        let said = rejected(&Options { element: Text, ..Options::default() });
        assert_eq!(said, "TorchScript: texts are lists, which have a single axis; leave the batch axis out");
    }

    #[test]
    fn words_of_the_language_are_rejected() {
        let names = Names { input: "lambda".into(), ..Names::default() };
        let said = rejected(&Options { names, ..Options::default() });
        assert_eq!(said, "TorchScript: 'lambda' is a word of its language; call the tensor otherwise");
    }
}
