//! The shapes of tensors.

use std::fmt;

/// The size of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// The rows of a batch: each execution has as many as it has. It comes first.
    Batch,
    /// It is not known before a tensor is there.
    Open,
    /// It is always the same.
    Fixed(u32),
}

impl Dim {
    /// The size as files of most formats have it, -1 where it is not fixed.
    pub fn size(self) -> i64 {
        match self {
            Self::Fixed(size) => size.into(),
            Self::Batch | Self::Open => -1,
        }
    }
}

/// What a tensor's axes are; none of a single element.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(Vec<Dim>);

impl Shape {
    /// A shape with these axes.
    pub fn new(dims: Vec<Dim>) -> Self {
        Self(dims)
    }

    /// Its axes.
    pub fn dims(&self) -> &[Dim] {
        &self.0
    }

    /// A shape with axes of these sizes.
    pub(crate) fn fixed(sizes: impl IntoIterator<Item = u32>) -> Self {
        Self(sizes.into_iter().map(Dim::Fixed).collect())
    }

    /// One element for each row of a batch, or one.
    pub fn one(is_batch: bool) -> Self {
        Self(if is_batch { vec![Dim::Batch, Dim::Fixed(1)] } else { vec![Dim::Fixed(1)] })
    }

    /// Its first axis is that of the batch.
    pub fn is_batch(&self) -> bool {
        self.0.first() == Some(&Dim::Batch)
    }

    /// The batch is nowhere but in front.
    pub(crate) fn is_in_order(&self) -> bool {
        !self.0.iter().skip(1).any(|dim| *dim == Dim::Batch)
    }

    /// The numbers of the axes behind that of the batch.
    pub(crate) fn row_axes(&self) -> impl Iterator<Item = i64> {
        (i64::from(self.is_batch())..).take(self.0.len() - usize::from(self.is_batch()))
    }

    /// The shape of a row's sum: every axis but that of the batch is 1.
    pub(crate) fn of_row_sum(&self) -> Self {
        Self(self.0.iter().map(|dim| if *dim == Dim::Batch { Dim::Batch } else { Dim::Fixed(1) }).collect())
    }

    /// The shape of what comes of two tensors element by element, where axes of 1 are repeated; none where they do not fit.
    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        let rank = self.0.len().max(other.0.len());
        let padded = |shape: &Self| [vec![Dim::Fixed(1); rank - shape.0.len()], shape.0.clone()].concat();
        let joined = padded(self).into_iter().zip(padded(other)).map(|pair| match pair {
            (one, Dim::Fixed(1)) => Some(one),
            (Dim::Fixed(1), other) => Some(other),
            (one, other) => (one == other).then_some(one),
        });
        joined.collect::<Option<_>>().map(Self)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |dim: &Dim| match dim {
            Dim::Batch => "batch".to_owned(),
            Dim::Open => "?".to_owned(),
            Dim::Fixed(size) => size.to_string(),
        };
        write!(f, "[{}]", self.0.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Dim::{self, Batch, Fixed, Open},
        Shape,
    };

    fn joined(one: &[Dim], other: &[Dim]) -> Option<Vec<Dim>> {
        let joined = Shape::new(one.to_vec()).joined(&Shape::new(other.to_vec()));
        joined.map(|shape| shape.dims().to_vec())
    }

    #[test]
    fn axes_of_one_element_are_repeated() {
        assert_eq!(joined(&[Batch, Fixed(1)], &[Batch, Open]), Some(vec![Batch, Open]));
        assert_eq!(joined(&[], &[Batch, Fixed(3)]), Some(vec![Batch, Fixed(3)]));
        assert_eq!(joined(&[Fixed(1)], &[Batch, Fixed(3)]), Some(vec![Batch, Fixed(3)]));
    }

    #[test]
    fn what_does_not_fit_is_no_shape() {
        assert_eq!(joined(&[Fixed(2)], &[Fixed(3)]), None);
        assert_eq!(joined(&[Batch], &[Open]), None);
        assert_eq!(joined(&[Open], &[Fixed(3)]), None);
    }

    #[test]
    fn a_row_sum_leaves_the_batch() {
        let shape = Shape::new(vec![Batch, Open, Fixed(2)]);
        assert_eq!(shape.of_row_sum().dims(), [Batch, Fixed(1), Fixed(1)]);
        assert_eq!(shape.row_axes().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(shape.to_string(), "[batch, ?, 2]");
        assert_eq!(Shape::new(vec![Open]).row_axes().collect::<Vec<_>>(), [0]);
    }
}
