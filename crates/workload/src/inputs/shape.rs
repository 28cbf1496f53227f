//! The shapes of inputs: as a file has them, as a flag gives them, or as the model's metadata says.

use std::{fmt, str::FromStr};

use super::Options;
use crate::tensor::TensorSpec;

/// The shape of an input as a flag gives it, such as `INPUT:1,16000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeArg {
    /// The input's name.
    pub input: String,
    /// The size of each dimension, without the batch dimension.
    pub sizes: Vec<i64>,
}

impl FromStr for ShapeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write INPUT:SIZE,SIZE, such as INPUT:1,16000";
        // Names such as `input:0` are common.
        let (input, sizes) = text
            .rsplit_once(':')
            .filter(|(input, _)| !input.is_empty())
            .ok_or_else(|| format!("'{}' does not name an input: {FORM}", text.escape_debug()))?;
        let size = |text: &str| match text.trim().parse() {
            Ok(size) if size > 0 => Ok(size),
            _ => Err(format!("'{}' is no size of a dimension from 1 on: {FORM}", text.escape_debug())),
        };
        let sizes = sizes.split(',').map(size).collect::<Result<_, _>>()?;
        Ok(Self { input: input.to_owned(), sizes })
    }
}

impl fmt::Display for ShapeArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<_> = self.sizes.iter().map(i64::to_string).collect();
        write!(f, "{}:{}", self.input.escape_debug(), sizes.join(","))
    }
}

impl ShapeArg {
    /// Checks the flag against the input that it names.
    pub(super) fn check(&self, spec: &TensorSpec, batches: bool) -> Result<(), String> {
        let shape = with_batch(&self.sizes, spec, batches).map_err(|problem| format!("--shape {self}: {problem}"))?;
        let is_as = |(size, declared): (&i64, &i64)| *declared == -1 || size == declared;
        if shape.len() == spec.shape.len() && shape.iter().zip(&spec.shape).all(is_as) {
            return Ok(());
        }
        Err(format!(
            "--shape {self} does not fit input {spec}: write a shape such as --shape {}",
            example(spec, batches)
        ))
    }
}

/// A shape with the batch dimension, where the model batches. One that has it already has to have the size 1 there.
pub(super) fn with_batch(shape: &[i64], spec: &TensorSpec, batches: bool) -> Result<Vec<i64>, String> {
    if !batches || shape.len() > spec.shape.len() {
        return Ok(shape.to_vec());
    }
    if shape.len() == spec.shape.len() {
        return match shape.first() {
            Some(1) | None => Ok(shape.to_vec()),
            Some(size) => Err(format!(
                "the batch dimension of shape {shape:?} has the size {size}: a step of a sequence has a batch of 1"
            )),
        };
    }
    Ok([1].iter().chain(shape).copied().collect())
}

/// The shape of an input that says nothing of its own: as a flag gives it, else as the metadata has it.
pub(super) fn known(spec: &TensorSpec, options: &Options) -> Result<Vec<i64>, String> {
    if let Some(arg) = options.shapes.iter().find(|arg| arg.input == spec.name) {
        return with_batch(&arg.sizes, spec, options.batches);
    }
    let mut shape = spec.shape.clone();
    if let Some(batch) = shape.first_mut().filter(|_| options.batches) {
        *batch = 1;
    }
    if shape.iter().any(|size| *size < 0) {
        let example = example(spec, options.batches);
        return Err(format!("the shape of input {spec} is open: give its sizes with --shape {example}"));
    }
    Ok(shape)
}

/// The flag for an input, with any size where a dimension is open.
fn example(spec: &TensorSpec, batches: bool) -> ShapeArg {
    const ANY: i64 = 16_000;
    let without_batch = spec.shape.iter().skip(usize::from(batches));
    let sizes = without_batch.map(|size| if *size < 0 { ANY } else { *size }).collect();
    ShapeArg { input: spec.name.clone(), sizes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{inputs::tests::options, tensor::TensorSpec};

    fn spec(shape: &[i64]) -> TensorSpec {
        TensorSpec { name: "AUDIO".into(), datatype: "FP32".into(), shape: shape.to_vec() }
    }

    fn arg(text: &str) -> ShapeArg {
        text.parse().expect("a flag")
    }

    #[test]
    fn a_flag_has_a_name_and_sizes() {
        assert_eq!(arg("input:0:1, 16000"), ShapeArg { input: "input:0".into(), sizes: vec![1, 16_000] });
        assert_eq!(arg("a:1,2").to_string(), "a:1,2");
        for (text, expected) in [
            ("1,2", "'1,2' does not name an input: write INPUT:SIZE,SIZE, such as INPUT:1,16000"),
            (":1", "':1' does not name an input: write INPUT:SIZE,SIZE, such as INPUT:1,16000"),
            ("a:", "'' is no size of a dimension from 1 on: write INPUT:SIZE,SIZE, such as INPUT:1,16000"),
            ("a:-1", "'-1' is no size of a dimension from 1 on: write INPUT:SIZE,SIZE, such as INPUT:1,16000"),
            ("a:1x3", "'1x3' is no size of a dimension from 1 on: write INPUT:SIZE,SIZE, such as INPUT:1,16000"),
        ] {
            assert_eq!(text.parse::<ShapeArg>(), Err(expected.to_owned()));
        }
    }

    #[test]
    fn a_shape_is_the_flags_or_the_metadatas() {
        let shape = |shape: &[i64], batches, flag: &[&str]| {
            let options = super::Options { batches, shapes: flag.iter().map(|text| arg(text)).collect(), ..options() };
            options.check(&[spec(shape)]).and_then(|()| known(&spec(shape), &options))
        };
        assert_eq!(shape(&[-1, 4], true, &[]), Ok(vec![1, 4]));
        assert_eq!(shape(&[2, 4], false, &[]), Ok(vec![2, 4]));
        assert_eq!(shape(&[-1, 1, -1], true, &["AUDIO:1,512"]), Ok(vec![1, 1, 512]));
        assert_eq!(shape(&[-1, -1], true, &["AUDIO:1,512"]), Ok(vec![1, 512]), "the batch dimension may be there");
        assert_eq!(shape(&[1, -1], false, &["AUDIO:1,512"]), Ok(vec![1, 512]));
        for (declared, batches, flag, expected) in [
            (
                &[-1, 1, -1][..],
                true,
                &[][..],
                "the shape of input AUDIO FP32[-1, 1, -1] is open: give its sizes with --shape AUDIO:1,16000",
            ),
            (
                &[-1, 1],
                false,
                &["AUDIO:2,2"],
                "--shape AUDIO:2,2 does not fit input AUDIO FP32[-1, 1]: write a shape such as --shape AUDIO:16000,1",
            ),
            (
                &[-1, -1],
                true,
                &["AUDIO:2,2"],
                "--shape AUDIO:2,2: the batch dimension of shape [2, 2] has the size 2: a step of a sequence has a batch of 1",
            ),
            (&[4], false, &["AUDO:4"], "--shape AUDO:4: the model has no input 'AUDO': it has AUDIO"),
            (
                &[4],
                false,
                &["AUDIO:4", "AUDIO:4"],
                "--shape AUDIO:4: input 'AUDIO' is there twice: give each input once",
            ),
        ] {
            assert_eq!(shape(declared, batches, flag), Err(expected.to_owned()));
        }
    }
}
