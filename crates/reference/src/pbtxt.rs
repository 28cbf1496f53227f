//! Model configurations as people write them: protobuf's text format.

use miette::Diagnostic as _;
use prost_reflect::DynamicMessage;

use models::text::DESCRIPTOR;
use wire::proto::ModelConfig;

/// The most fields of one file that may be unknown.
const UNKNOWN_MAX: usize = 100;

/// Something about a line of the text, counted from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) line: usize,
    pub(super) text: String,
}

/// Reads a configuration; with it comes what was not understood and left out.
///
/// # Errors
/// Why it is none.
pub(super) fn read(text: &str) -> Result<(ModelConfig, Vec<Remark>), Remark> {
    let mut text = with_colons(text);
    let mut unknown = Vec::new();
    loop {
        let error = match DynamicMessage::parse_text_format(DESCRIPTOR.clone(), &text) {
            Ok(message) => {
                let config = message.transcode_to();
                let config = config.map_err(|error| Remark { line: 1, text: error.to_string() })?;
                return Ok((config, unknown));
            }
            Err(error) => error,
        };
        let place = error.labels().and_then(|mut labels| labels.next());
        let at = place.map_or(text.len(), |place| place.offset());
        let what = Remark { line: line_at(&text, at), text: error.to_string() };
        if !is_of_unknown_field(&what.text) {
            return Err(what);
        }
        let Some(end) = field_end(text.as_bytes(), at) else {
            return Err(Remark { text: "the value of a field does not end".to_owned(), ..what });
        };
        if unknown.len() == UNKNOWN_MAX {
            return Err(Remark { text: format!("over {UNKNOWN_MAX} fields are not known"), ..what });
        }
        unknown.push(Remark { text: format!("'{}' is not known to this server, ignored", name_at(&text, at)), ..what });
        blank(&mut text, at, end);
    }
}

/// Puts a colon before lists that have none: the real server takes `input [ { } ]`, and the reader here `input: [ { } ]` alone.
fn with_colons(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut with = String::with_capacity(text.len());
    let (mut at, mut copied, mut is_value) = (0, 0, false);
    loop {
        at = skip_blank(bytes, at);
        match bytes.get(at) {
            None => break,
            Some(quote @ (b'"' | b'\'')) => {
                at = text_end(bytes, at + 1, *quote).unwrap_or(bytes.len());
                is_value = false;
            }
            Some(byte) if is_of_name(*byte) => {
                at += name_at(text, at).len();
                if !is_value && bytes.get(skip_blank(bytes, at)) == Some(&b'[') {
                    with.push_str(&text[copied..at]);
                    with.push(':');
                    copied = at;
                }
                is_value = false;
            }
            Some(byte) => {
                is_value = *byte == b':';
                at += 1;
            }
        }
    }
    with.push_str(&text[copied..]);
    with
}

/// The line in which a name stands for the first time.
pub(super) fn line_of(text: &str, name: &str) -> Option<usize> {
    let as_text = || text.find(&format!("\"{name}\""));
    let at = as_text().or_else(|| text.find(name)).filter(|_| !name.is_empty())?;
    Some(line_at(text, at))
}

fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

fn is_of_unknown_field(error: &str) -> bool {
    error.starts_with("field '") && error.contains("' not found for message '")
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn name_at(text: &str, at: usize) -> &str {
    let length = text[at..].bytes().take_while(|byte| is_of_name(*byte)).count();
    &text[at..at + length]
}

/// Where a field ends whose name begins here; none where its value has no end.
fn field_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + text[at..].iter().take_while(|byte| is_of_name(**byte)).count();
    at = skip_blank(text, at);
    if text.get(at) == Some(&b':') {
        at = skip_blank(text, at + 1);
    }
    at = value_end(text, at)?;
    let behind = skip_blank(text, at);
    Some(if matches!(text.get(behind), Some(b',' | b';')) { behind + 1 } else { at })
}

/// Skips white space and comments.
fn skip_blank(text: &[u8], mut at: usize) -> usize {
    loop {
        match text.get(at) {
            Some(b'#') => at += text[at..].iter().take_while(|byte| **byte != b'\n').count(),
            Some(byte) if byte.is_ascii_whitespace() || *byte == 0x0b => at += 1,
            _ => return at,
        }
    }
}

/// The end of a message, a list, texts, or a word.
fn value_end(text: &[u8], begin: usize) -> Option<usize> {
    let (mut at, mut depth) = (begin, 0_usize);
    loop {
        let before = at;
        match text.get(at)? {
            b'{' | b'[' | b'<' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' | b'>' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            quote @ (b'"' | b'\'') => at = text_end(text, at + 1, *quote)?,
            b'-' => at = skip_blank(text, at + 1),
            byte if is_of_name(*byte) || *byte == b'.' => {
                at += text[at..].iter().take_while(|byte| is_of_name(**byte) || b".+-".contains(byte)).count();
            }
            _ if depth > 0 => at += 1,
            _ => return None,
        }
        let next = skip_blank(text, at);
        let is_sign = text[before] == b'-';
        let goes_on = matches!(text.get(next), Some(b'"' | b'\'')) && matches!(text[before], b'"' | b'\'');
        if depth == 0 && !is_sign && !goes_on {
            return Some(at);
        }
        at = next;
    }
}

fn text_end(text: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            byte if *byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Puts blanks in place of a part, so that lines stay where they are.
fn blank(text: &mut String, begin: usize, end: usize) {
    let blanks: String = text[begin..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
    text.replace_range(begin..end, &blanks);
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::proto::model_config::SchedulingChoice;

    #[test]
    fn what_is_not_known_is_left_out_and_said() {
        let text = "name: \"a\"\n\
            colour: \"re\\\"d}\" 'x' # no } end\n\
            max_batch_size: 4\n\
            input [ { name: \"I [\" shade: -1.5e3, data_type: TYPE_FP32 dims: [ -1 ] } ]\n\
            deep { a [ { b: '}' } ] c < d: 1 > } ;\n\
            sequence_batching { oldest { max_candidate_sequences: 3 } newest: [1,\n 2] idle: no }\n";
        let (config, unknown) = read(text).expect("it can be read");
        let said: Vec<_> = unknown.iter().map(|remark| (remark.line, remark.text.as_str())).collect();
        let say = |name: &str| format!("'{name}' is not known to this server, ignored");
        let [colour, shade, deep, newest, idle] = ["colour", "shade", "deep", "newest", "idle"].map(say);
        assert_eq!(said, [(2, &*colour), (4, &*shade), (5, &*deep), (6, &*newest), (7, &*idle)]);
        assert_eq!((config.name.as_str(), config.max_batch_size), ("a", 4));
        assert_eq!((config.input[0].name.as_str(), &config.input[0].dims[..]), ("I [", &[-1][..]));
        assert!(matches!(config.scheduling_choice, Some(SchedulingChoice::SequenceBatching(_))));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, said) in [
            ("name: \"a\"\nmax_batch_size: \"4\"\n", 2, "expected an integer"),
            ("name: \"a\"\n\nmax_batch_size: 99999999999\n", 3, "out of range"),
            ("max_batch_size: 1\nmax_batch_size: 2\n", 2, "is already set"),
            ("sequence_batching { }\ndynamic_batching { }\n", 2, "already set for oneof"),
            ("input [ { data_type:\nTYPE_INT33 } ]\n", 2, "'TYPE_INT33' was not found"),
            ("name: \"a\n\"\n", 1, "invalid string"),
            ("input [ {\n", 2, "reached end of input"),
            ("name = \"a\"\n", 1, "invalid token"),
            ("other {\n a: 1\n", 1, "does not end"),
            ("\nother: }\n", 2, "does not end"),
        ] {
            let problem = read(text).expect_err(text);
            assert!(problem.line == line && problem.text.contains(said), "{text:?}: {problem:?}");
        }
        let many = "other: 1\n".repeat(UNKNOWN_MAX + 1);
        assert!(read(&many).is_err_and(|problem| problem.text.contains("over 100 fields")));
    }
}
