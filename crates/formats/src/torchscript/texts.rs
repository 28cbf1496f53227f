//! Texts, which torch has no tensors of: lists, that methods of the module make tensors of and the other way round.

use crate::{
    element::ElementType,
    graph::{Graph, Node, Operation},
    shape::Dim,
};

/// Why a graph's texts cannot be lists; none where they can.
pub(super) fn obstacle(graph: &Graph) -> Option<String> {
    graph.nodes.iter().find_map(|node| obstacle_at(graph, node))
}

fn obstacle_at(graph: &Graph, node: &Node) -> Option<String> {
    let is_text = |element: ElementType| element == ElementType::Text;
    if is_text(node.tensor.element) && (node.tensor.shape.is_batch() || node.tensor.shape.dims().len() != 1) {
        return Some("texts are lists, which have a single axis; leave the batch axis out".into());
    }
    match &node.operation {
        Operation::Parse if node.tensor.element.range().is_some_and(|(_, greatest)| greatest > u32::MAX.into()) => {
            Some(format!("texts are read as numbers of up to 32 bits, not of {}", node.tensor.element))
        }
        Operation::Spread => {
            let is_repeated =
                graph.tensor(node.operands[0]).shape.dims() == [Dim::Fixed(1)] || !is_text(node.tensor.element);
            let is_like = is_text(node.tensor.element) == is_text(graph.tensor(node.operands[1]).element);
            (!is_repeated || !is_like)
                .then(|| "a list of texts is one text repeated, as often as another list is long".into())
        }
        Operation::Input(_) | Operation::Parse | Operation::Show => None,
        _ if is_text(node.tensor.element) => {
            Some("texts are given, read, written and repeated, and nothing else".into())
        }
        _ => None,
    }
}

/// The methods that the code of a graph with texts calls, in the language. Up to 18 digits fit into its own numbers, and more are none
/// of 32 bits.
pub(super) const METHODS: &str = r#"  def parsed(self: __torch__.Model,
    texts: List[str],
    least: int,
    greatest: int,
    dtype: int) -> Tensor:
    numbers = annotate(List[int], [])
    for i in range(torch.len(texts)):
      text = texts[i]
      is_negative = torch.startswith(text, "-")
      if torch.__or__(is_negative, torch.startswith(text, "+")):
        digits = torch.slice(text, 1)
      else:
        digits = text
      number = 0
      if torch.isdigit(digits):
        short = torch.lstrip(digits, "0")
        if torch.__and__(torch.gt(torch.len(short), 0), torch.lt(torch.len(short), 19)):
          number = int(short)
        if is_negative:
          number = torch.neg(number)
      if torch.__or__(torch.lt(number, least), torch.gt(number, greatest)):
        number = 0
      _0 = torch.append(numbers, number)
    return torch.tensor(numbers, dtype=dtype)
  def shown(self: __torch__.Model,
    numbers: Tensor) -> List[str]:
    texts = annotate(List[str], [])
    for i in range(torch.numel(numbers)):
      _0 = torch.append(texts, str(int(torch.select(numbers, 0, i))))
    return texts
"#;

#[cfg(test)]
mod tests {
    use super::obstacle;
    use crate::{
        element::ElementType::{Int32, Int64, Text},
        formulas::{Formula, Options, graph},
    };

    fn said(options: &Options) -> Option<String> {
        obstacle(&graph(Formula::Implicit, options).expect("it has one"))
    }

    #[test]
    fn texts_are_lists_of_one_axis() {
        let texts = Options { element: Text, batch: None, width: None, ..Options::default() };
        assert_eq!(said(&texts), None);
        assert_eq!(said(&Options { corrid: Some(Int64), ..texts.clone() }), None);
        let batch = said(&Options { batch: Some(4), ..texts.clone() });
        assert_eq!(batch.as_deref(), Some("texts are lists, which have a single axis; leave the batch axis out"));
        let corrid = said(&Options { element: Int32, corrid: Some(Text), ..texts });
        assert_eq!(corrid.as_deref(), Some("texts are read as numbers of up to 32 bits, not of UINT64"));
    }
}
