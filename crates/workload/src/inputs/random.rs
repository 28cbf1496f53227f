//! Random inputs, drawn from a seed by what a model's metadata says.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::{Budget, ElementType, InputTensor, Options, Track, element::Element, shape::known};
use crate::tensor::{TensorSpec, elements};

/// How many tracks are drawn where nobody says how many.
pub const TRACKS: usize = 32;

/// How many steps each of them has where nobody says how many.
pub const STEPS: usize = 32;

/// How many letters a word has.
const LETTERS: RangeInclusive<usize> = 1..=8;

/// From where to where the elements of an input are, as a flag gives it, such as `INPUT:-1..1`. Both ends are included.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeArg {
    /// The input's name.
    pub input: String,
    min: Limit,
    max: Limit,
}

/// A number that floating-point types and those of whole numbers may have.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    float: f64,
    whole: Option<i128>,
}

impl FromStr for RangeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write INPUT:MIN..MAX, such as INPUT:-1..1";
        // Names such as `input:0` are common.
        let named = text.rsplit_once(':').filter(|(input, _)| !input.is_empty());
        let (input, range) =
            named.ok_or_else(|| format!("'{}' does not name an input: {FORM}", text.escape_debug()))?;
        let ends = range.split_once("..").ok_or_else(|| format!("'{}' is no range: {FORM}", range.escape_debug()))?;
        let limit = |text: &str| {
            let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
            let float = number.ok_or_else(|| format!("'{}' is no number: {FORM}", text.escape_debug()))?;
            Ok::<_, String>(Limit { float, whole: text.trim().parse().ok() })
        };
        let (min, max) = (limit(ends.0)?, limit(ends.1)?);
        let is_ordered = match (min.whole, max.whole) {
            (Some(min), Some(max)) => min <= max,
            _ => min.float <= max.float,
        };
        if !is_ordered {
            return Err(format!("the range {min}..{max} is empty: write the smaller number first"));
        }
        Ok(Self { input: input.to_owned(), min, max })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.whole {
            Some(whole) => whole.fmt(f),
            None => self.float.fmt(f),
        }
    }
}

impl fmt::Display for RangeArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}..{}", self.input.escape_debug(), self.min, self.max)
    }
}

impl RangeArg {
    /// Checks the flag against the input that it names.
    pub(super) fn check(&self, spec: &TensorSpec) -> Result<(), String> {
        let wrong = |problem: String| format!("--range {self}: {problem}");
        let datatype = ElementType::of(spec).map_err(wrong)?;
        Elements::of(datatype, Some(self)).map(drop).map_err(wrong)
    }
}

/// What an input's elements are drawn from.
#[derive(Clone, Debug, PartialEq)]
enum Elements {
    Whole(RangeInclusive<i128>),
    Float(f64, f64),
    Words,
    /// Whole numbers as decimal texts.
    Decimals(RangeInclusive<i128>),
}

impl Elements {
    fn of(datatype: ElementType, range: Option<&RangeArg>) -> Result<Self, String> {
        let of_type = datatype.whole_range();
        let Some(RangeArg { min, max, .. }) = range else {
            return Ok(match (of_type, datatype) {
                (None, ElementType::Bytes) => Self::Words,
                (None, _) => Self::Float(-1.0, 1.0),
                (Some(_), _) if datatype.size() > Some(2) => Self::Whole(0..=100),
                (Some(all), _) => Self::Whole(all),
            });
        };
        let whole = || {
            let limit = |limit: &Limit| {
                limit
                    .whole
                    .ok_or_else(|| format!("an input of type {datatype} takes whole numbers, and {limit} is none"))
            };
            Ok::<_, String>(limit(min)?..=limit(max)?)
        };
        match of_type {
            Some(all) => {
                let range = whole()?;
                let (first, last) = (all.start(), all.end());
                match [*range.start(), *range.end()].iter().find(|limit| !all.contains(limit)) {
                    Some(limit) => Err(format!("{datatype} has the numbers from {first} to {last}, and not {limit}")),
                    None => Ok(Self::Whole(range)),
                }
            }
            None if datatype == ElementType::Bytes => Ok(Self::Decimals(whole()?)),
            None => {
                match [min, max]
                    .into_iter()
                    .find(|limit| !datatype.append(Element::Float(limit.float), &mut Vec::new()))
                {
                    Some(limit) => Err(format!("{limit} is too large for {datatype}")),
                    None => Ok(Self::Float(min.float, max.float)),
                }
            }
        }
    }

    /// Appends an element.
    fn draw(&self, datatype: ElementType, generator: &mut ChaCha8Rng, data: &mut Vec<u8>) {
        let fits = match self {
            Self::Whole(range) => datatype.append(Element::Whole(generator.random_range(range.clone())), data),
            Self::Float(min, max) => {
                let part: f64 = generator.random();
                // The difference of the two may be more than the type has.
                datatype.append(Element::Float(min * (1.0 - part) + max * part), data)
            }
            Self::Words => {
                let letters = generator.random_range(LETTERS);
                let word: String = (0..letters).map(|_| char::from(generator.random_range(b'a'..=b'z'))).collect();
                datatype.append(Element::Text(&word), data)
            }
            Self::Decimals(range) => {
                datatype.append(Element::Text(&generator.random_range(range.clone()).to_string()), data)
            }
        };
        debug_assert!(fits, "the range is one of the type's");
    }

    /// The most bytes that an element has.
    fn bytes_max(&self, datatype: ElementType) -> usize {
        let of_text = match self {
            Self::Decimals(range) => range.start().to_string().len().max(range.end().to_string().len()),
            Self::Words | Self::Whole(_) | Self::Float(..) => *LETTERS.end(),
        };
        datatype.size().unwrap_or(4 + of_text)
    }
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(range) => write!(f, "whole numbers from {} to {}", range.start(), range.end()),
            Self::Float(min, max) => write!(f, "numbers from {min} to {max}"),
            Self::Words => write!(f, "words of {} to {} letters", LETTERS.start(), LETTERS.end()),
            Self::Decimals(range) => write!(f, "texts of whole numbers from {} to {}", range.start(), range.end()),
        }
    }
}

/// One input that is drawn.
struct Drawn<'d> {
    name: &'d str,
    datatype: ElementType,
    shape: Vec<i64>,
    elements: Elements,
}

/// Draws tracks for a model with these inputs: the tracks, and a sentence about each input.
///
/// The same seed draws the same. Further tracks and steps leave those before them as they are. An optional input that no flag names is left
/// out, unless all are optional: random values of an input that a model can do without are often values that it does not take.
///
/// # Errors
/// When a shape is open, a flag does not fit the model, or the tracks would be too large; in one line that says which flag to give.
pub fn draw(declared: &[TensorSpec], options: &Options) -> Result<(Vec<Track>, Vec<String>), String> {
    options.check(declared)?;
    let tracks = options.tracks.map_or(TRACKS, Into::into);
    let steps = options.steps.map_or(STEPS, Into::into);
    let mut inputs = Vec::new();
    let mut notes = Vec::new();
    let is_optional = |spec: &TensorSpec| options.optional.contains(&spec.name);
    let all_are_optional = declared.iter().all(is_optional);
    for spec in declared {
        let datatype = ElementType::of(spec)?;
        if is_optional(spec) && !all_are_optional && !options.names(&spec.name) {
            let name = &spec.name;
            notes
                .push(format!("the optional input {name} is left out: --range {name}:MIN..MAX or --shape has it sent"));
            continue;
        }
        let shape = match known(spec, options) {
            Ok(shape) => shape,
            Err(problem) if is_optional(spec) => {
                notes.push(format!("the optional input {} is left out: {problem}", spec.name));
                continue;
            }
            Err(problem) => return Err(format!("cannot draw random inputs: {problem}")),
        };
        let elements = Elements::of(datatype, options.ranges.iter().find(|range| range.input == spec.name))?;
        notes.push(format!("random inputs: {} {datatype}{shape:?}, {elements}", spec.name));
        inputs.push(Drawn { name: &spec.name, datatype, shape, elements });
    }
    if inputs.is_empty() {
        return Err("cannot draw random inputs: the model has none that is needed, or whose shape is known".to_owned());
    }
    bound(&inputs, tracks, steps)?;
    Ok(((0..tracks).map(|place| track(place, steps, &inputs, options)).collect(), notes))
}

/// Checks that so much is not too large.
fn bound(inputs: &[Drawn<'_>], tracks: usize, steps: usize) -> Result<(), String> {
    let of_input = |input: &Drawn<'_>| {
        let data = elements(&input.shape).saturating_mul(input.elements.bytes_max(input.datatype));
        data.saturating_add(Budget::OF_A_TENSOR)
    };
    let of_step = inputs.iter().map(of_input).fold(0, usize::saturating_add);
    if of_step.saturating_mul(tracks).saturating_mul(steps) > Budget::MAX {
        let tracks = format!("--tracks {tracks} and --steps {steps}");
        return Err(format!("cannot draw random inputs: with {tracks} {}", Budget::too_much()));
    }
    Ok(())
}

fn track(place: usize, steps: usize, inputs: &[Drawn<'_>], options: &Options) -> Track {
    let mut generator = options.seed.of_inputs(place as u64);
    let mut tensor = |input: &Drawn<'_>| {
        let mut data = Vec::new();
        for _ in 0..elements(&input.shape) {
            input.elements.draw(input.datatype, &mut generator, &mut data);
        }
        InputTensor { name: input.name.to_owned(), datatype: input.datatype, shape: input.shape.clone(), data }
    };
    let steps = (0..steps).map(|_| inputs.iter().map(&mut tensor).collect()).collect();
    Track { name: format!("random {}", place + 1), steps, pauses: Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::{
        inputs::{check, tests::options},
        seed::Seed,
    };

    fn spec(name: &str, datatype: &str, shape: &[i64]) -> TensorSpec {
        TensorSpec { name: name.into(), datatype: datatype.into(), shape: shape.to_vec() }
    }

    fn sized(tracks: usize, steps: usize) -> Options {
        Options { tracks: NonZeroUsize::new(tracks), steps: NonZeroUsize::new(steps), ..options() }
    }

    /// The numbers that an input of this type has in one track.
    fn drawn(datatype: &str, range: &[&str]) -> Result<Vec<u8>, String> {
        let ranges = range.iter().map(|range| range.parse().expect("a range")).collect();
        let declared = [spec("I", datatype, &[1000])];
        let (tracks, _) = draw(&declared, &Options { ranges, ..sized(1, 1) })?;
        check(&tracks, &declared, &[])?;
        Ok(tracks[0].steps[0][0].data.clone())
    }

    fn numbers<const N: usize, T: Copy>(data: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
        data.chunks_exact(N).map(|bytes| number(bytes.try_into().expect("so many"))).collect()
    }

    #[test]
    fn a_range_has_a_name_and_two_numbers() {
        for text in ["input:0:-1..1", "I:0.5..1000", "I:-170141183460469231731687303715884105728..0", "I:3..3"] {
            assert_eq!(text.parse::<RangeArg>().map(|range| range.to_string()), Ok(text.to_owned()));
        }
        for (text, expected) in [
            ("-1..1", "'-1..1' does not name an input: write INPUT:MIN..MAX, such as INPUT:-1..1"),
            ("I:1", "'1' is no range: write INPUT:MIN..MAX, such as INPUT:-1..1"),
            ("I:a..1", "'a' is no number: write INPUT:MIN..MAX, such as INPUT:-1..1"),
            ("I:0..inf", "'inf' is no number: write INPUT:MIN..MAX, such as INPUT:-1..1"),
            ("I:0..", "'' is no number: write INPUT:MIN..MAX, such as INPUT:-1..1"),
            ("I:1..-1", "the range 1..-1 is empty: write the smaller number first"),
        ] {
            assert_eq!(text.parse::<RangeArg>(), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_seed_draws_the_same_and_more_leaves_it_so() {
        let declared = [spec("A", "FP32", &[-1, 3]), spec("B", "BYTES", &[-1, 2])];
        let draw = |tracks, steps, seed| {
            let options = Options { batches: true, seed: Seed(seed), ..sized(tracks, steps) };
            let (tracks, _) = super::draw(&declared, &options).expect("the shapes are known");
            check(&tracks, &declared, &[]).expect("they fit");
            tracks
        };
        let (few, many) = (draw(2, 3, 1), draw(4, 5, 1));
        assert_eq!(draw(2, 3, 1), few);
        assert_ne!(draw(2, 3, 2), few);
        for (few, many) in few.iter().zip(&many) {
            assert_eq!((&few.name, &few.steps[..]), (&many.name, &many.steps[..3]));
        }
        assert_ne!(many[0].steps, many[1].steps);
        assert_eq!(many[3].name, "random 4");
        assert_eq!((many.len(), many[0].steps.len()), (4, 5));
        let (tracks, _) = super::draw(&declared, &Options { batches: true, ..options() }).expect("as by default");
        assert_eq!((tracks.len(), tracks[0].steps.len()), (TRACKS, STEPS));
    }

    #[test]
    fn elements_fill_their_range() {
        let floats = numbers(&drawn("FP32", &[]).expect("drawn"), f32::from_le_bytes);
        assert!(floats.iter().all(|number| number.abs() <= 1.0));
        assert!(floats.iter().any(|number| *number < -0.9) && floats.iter().any(|number| *number > 0.9));
        let whole = numbers(&drawn("INT64", &[]).expect("drawn"), i64::from_le_bytes);
        assert_eq!((whole.iter().min(), whole.iter().max()), (Some(&0), Some(&100)));
        let whole = numbers(&drawn("INT32", &["I:-3..-1"]).expect("drawn"), i32::from_le_bytes);
        assert_eq!((whole.iter().min(), whole.iter().max()), (Some(&-3), Some(&-1)));
        let bytes = drawn("UINT8", &[]).expect("drawn");
        assert_eq!((bytes.iter().min(), bytes.iter().max()), (Some(&0), Some(&255)));
        let truths = drawn("BOOL", &[]).expect("drawn");
        assert!(truths.contains(&0) && truths.contains(&1) && truths.iter().all(|truth| *truth < 2));
        let wide = numbers(&drawn("FP64", &["I:-1.7e308..1.7e308"]).expect("drawn"), f64::from_le_bytes);
        assert!(wide.iter().all(|number| number.is_finite()) && wide.iter().any(|number| number.abs() > 1e308));
        let halves = numbers(&drawn("FP16", &["I:0..65504"]).expect("drawn"), half::f16::from_le_bytes);
        assert!(halves.iter().all(|number| number.is_finite()));
        let words = drawn("BYTES", &[]).expect("drawn");
        assert!(words.iter().filter(|byte| byte.is_ascii_lowercase()).count() > 1000);
        let one = drawn("BYTES", &["I:12..12"]).expect("drawn");
        assert_eq!(one, b"\x02\0\0\x0012".repeat(1000));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (datatype, range, expected) in [
            ("INT8", "I:0..128", "--range I:0..128: INT8 has the numbers from -128 to 127, and not 128"),
            ("INT8", "I:0..0.5", "--range I:0..0.5: an input of type INT8 takes whole numbers, and 0.5 is none"),
            ("BYTES", "I:0..0.5", "--range I:0..0.5: an input of type BYTES takes whole numbers, and 0.5 is none"),
            ("FP16", "I:0..70000", "--range I:0..70000: 70000 is too large for FP16"),
            ("FP32", "J:0..1", "--range J:0..1: the model has no input 'J': it has I"),
        ] {
            assert_eq!(drawn(datatype, &[range]), Err(expected.to_owned()));
        }
        assert_eq!(
            drawn("FP32", &["I:0..1", "I:0..2"]),
            Err("--range I:0..2: input 'I' is there twice: give each input once".to_owned())
        );
        let open = [spec("A", "FP32", &[1]), spec("B", "FP32", &[1, -1])];
        let problem = "the shape of input B FP32[1, -1] is open: give its sizes with --shape B:1,16000";
        let error = draw(&open, &sized(1, 1)).err().unwrap_or_default();
        assert_eq!(error, format!("cannot draw random inputs: {problem}"));
        let (tracks, notes) = draw(&open, &Options { optional: vec!["B".into()], ..sized(1, 1) }).expect("A is enough");
        assert_eq!(tracks[0].steps[0].len(), 1);
        let drawn = "random inputs: A FP32[1], numbers from -1 to 1";
        assert_eq!(notes, [drawn, "the optional input B is left out: --range B:MIN..MAX or --shape has it sent"]);
        let all = vec!["A".into(), "B".into()];
        let (tracks, notes) = draw(&open, &Options { optional: all, ..sized(1, 1) }).expect("A can be drawn");
        assert_eq!(
            (tracks[0].steps[0].len(), notes[1].as_str()),
            (1, &*format!("the optional input B is left out: {problem}"))
        );
        let ranges = vec!["B:3..4".parse().expect("a range")];
        let known = [spec("A", "FP32", &[1]), spec("B", "FP32", &[1])];
        let named = Options { optional: vec!["B".into()], ranges, ..sized(1, 1) };
        assert_eq!(draw(&known, &named).expect("both are drawn").0[0].steps[0].len(), 2);
        let error = draw(&open[..1], &sized(1 << 40, 1 << 40)).err().unwrap_or_default();
        assert_eq!(
            error,
            "cannot draw random inputs: with --tracks 1099511627776 and --steps 1099511627776 the inputs take more than 1024 MiB: use fewer or smaller ones"
        );
        let error = draw(&[spec("A", "STRANGE", &[1])], &options()).err().unwrap_or_default();
        assert!(error.starts_with("the type STRANGE of input A STRANGE[1] is not supported: one of BOOL, "), "{error}");
    }
}
