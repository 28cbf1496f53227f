//! JSON as requests have it, read as the real server reads it: with its words and places for what is wrong, NaN and infinities among
//! the numbers, and the first of several members of one name.

use std::fmt;

const DEPTH_MAX: usize = 256;
const VALUES_MAX: usize = 1 << 22;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// A whole number that is not negative.
    Unsigned(u64),
    /// A negative whole number.
    Negative(i64),
    /// Any other number.
    Float(f64),
    /// A text, which need not be UTF-8.
    Text(Vec<u8>),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// What is wrong with a document, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    what: &'static str,
    at: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.what, self.at)
    }
}

impl Json {
    /// Reads a document.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(text: &[u8]) -> Result<Self, Problem> {
        let mut reader = Reader { text, at: 0, values: 0 };
        reader.skip_space();
        if reader.peek().is_none() {
            return Err(reader.problem("The document is empty."));
        }
        let value = reader.value(0)?;
        reader.skip_space();
        match reader.peek() {
            // A zero ends a document.
            None | Some(0) => Ok(value),
            Some(_) => Err(reader.problem("The document root must not be followed by other values.")),
        }
    }

    /// The first member of this name; none where this is no object.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }

    pub(super) fn as_bool(&self) -> Result<bool, &'static str> {
        if let Self::Bool(value) = self { Ok(*value) } else { Err("attempt to access JSON non-boolean as boolean") }
    }

    pub(super) fn as_unsigned(&self) -> Result<u64, &'static str> {
        match self {
            Self::Unsigned(value) => Ok(*value),
            _ => Err("attempt to access JSON non-unsigned-integer as unsigned-integer"),
        }
    }

    pub(super) fn as_signed(&self) -> Result<i64, &'static str> {
        let value = match self {
            Self::Unsigned(value) => i64::try_from(*value).ok(),
            Self::Negative(value) => Some(*value),
            _ => None,
        };
        value.ok_or("attempt to access JSON non-signed-integer as signed-integer")
    }

    pub(super) fn as_double(&self) -> Result<f64, &'static str> {
        #[expect(clippy::cast_precision_loss, reason = "so does the real server")]
        match self {
            Self::Unsigned(value) => Ok(*value as f64),
            Self::Negative(value) => Ok(*value as f64),
            Self::Float(value) => Ok(*value),
            _ => Err("attempt to access JSON non-number as double"),
        }
    }

    pub(super) fn as_bytes(&self) -> Result<&[u8], &'static str> {
        if let Self::Text(text) = self { Ok(text) } else { Err("attempt to access JSON non-string as string") }
    }

    /// A text; what is not UTF-8 in it is replaced.
    pub(super) fn as_text(&self) -> Result<String, &'static str> {
        self.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    pub(super) fn as_array(&self) -> Result<&[Self], &'static str> {
        if let Self::Array(values) = self { Ok(values) } else { Err("attempt to access JSON non-array as array") }
    }

    pub(super) fn as_members(&self) -> Result<&[(String, Self)], &'static str> {
        if let Self::Object(members) = self { Ok(members) } else { Err("attempt to get members for non-object") }
    }
}

/// Writes a text with its quotes.
pub(super) fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            0x08 => out.extend(b"\\b"),
            0x0c => out.extend(b"\\f"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0..0x20 => out.extend(format!("\\u{byte:04X}").into_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// Writes a number that need not be whole, with a point or an exponent.
pub(super) fn write_double(out: &mut Vec<u8>, value: f64) {
    let text = match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ if value == 0.0 || (1e-6..1e21).contains(&value.abs()) => {
            let text = value.to_string();
            if text.contains('.') { text } else { text + ".0" }
        }
        _ => format!("{value:e}"),
    };
    out.extend(text.into_bytes());
}

/// Writes values with commas between them.
pub(super) fn write_all<T>(
    out: &mut Vec<u8>,
    values: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut Vec<u8>, T),
) {
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        each(out, value);
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    values: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Takes this byte, if it is the next one.
    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn problem(&self, what: &'static str) -> Problem {
        Problem { what, at: self.at }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, Problem> {
        self.values += 1;
        if depth > DEPTH_MAX {
            return Err(self.problem("Values are nested too deeply."));
        }
        if self.values > VALUES_MAX {
            return Err(self.problem("There are too many values."));
        }
        match self.peek() {
            Some(b'{') => self
                .list(b'}', "Missing a comma or '}' after an object member.", |reader| reader.member(depth))
                .map(Json::Object),
            Some(b'[') => self
                .list(b']', "Missing a comma or ']' after an array element.", |reader| reader.value(depth + 1))
                .map(Json::Array),
            Some(b'"') => self.string().map(Json::Text),
            Some(b't') => self.literal(b"true", Json::Bool(true)),
            Some(b'f') => self.literal(b"false", Json::Bool(false)),
            Some(b'n') => self.literal(b"null", Json::Null),
            _ => self.number(),
        }
    }

    fn literal(&mut self, word: &[u8], value: Json) -> Result<Json, Problem> {
        let is_there = word.iter().all(|byte| self.take(*byte));
        if is_there { Ok(value) } else { Err(self.problem("Invalid value.")) }
    }

    /// What stands in brackets, with commas between; this is `missing` where there is neither a comma nor the end.
    fn list<T>(
        &mut self,
        close: u8,
        missing: &'static str,
        item: impl Fn(&mut Self) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.take(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            self.skip_space();
            if self.take(close) {
                return Ok(items);
            }
            if !self.take(b',') {
                return Err(self.problem(missing));
            }
            self.skip_space();
        }
    }

    fn member(&mut self, depth: usize) -> Result<(String, Json), Problem> {
        if self.peek() != Some(b'"') {
            return Err(self.problem("Missing a name for object member."));
        }
        let name = String::from_utf8_lossy(&self.string()?).into_owned();
        self.skip_space();
        if !self.take(b':') {
            return Err(self.problem("Missing a colon after a name of object member."));
        }
        self.skip_space();
        Ok((name, self.value(depth + 1)?))
    }

    fn string(&mut self) -> Result<Vec<u8>, Problem> {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            match self.peek() {
                None | Some(0) => return Err(self.problem("Missing a closing quotation mark in string.")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => self.escape(&mut text)?,
                Some(0..0x20) => return Err(self.problem("Invalid escape character in string.")),
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), Problem> {
        let began = self.at;
        let plain = match self.text.get(self.at + 1) {
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'u') => {
                self.at += 2;
                return self.unicode(began, text);
            }
            _ => return Err(self.problem("Invalid escape character in string.")),
        };
        text.push(plain);
        self.at += 2;
        Ok(())
    }

    /// What stands behind `\u`.
    fn unicode(&mut self, began: usize, text: &mut Vec<u8>) -> Result<(), Problem> {
        let mut code = self.hex(began)?;
        if (0xd800..0xdc00).contains(&code) {
            let not_paired = Problem { what: "The surrogate pair in string is invalid.", at: began };
            if !(self.take(b'\\') && self.take(b'u')) {
                return Err(not_paired);
            }
            let low = self.hex(began)?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(not_paired);
            }
            code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        let code = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        text.extend(code.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn hex(&mut self, began: usize) -> Result<u32, Problem> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let wrong = Problem { what: "Incorrect hex digit after \\u escape in string.", at: began };
            code = code << 4 | digit.ok_or(wrong)?;
            self.at += 1;
        }
        Ok(code)
    }

    /// Takes digits, and returns whether there was one.
    fn digits(&mut self) -> bool {
        let began = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at > began
    }

    fn number(&mut self) -> Result<Json, Problem> {
        let began = self.at;
        let is_negative = self.take(b'-');
        match self.peek() {
            Some(b'N') => return self.literal(b"NaN", Json::Float(f64::NAN)),
            Some(b'I') => return self.infinity(is_negative),
            Some(b'0') => self.at += 1,
            _ if self.digits() => {}
            _ => return Err(self.problem("Invalid value.")),
        }
        let mut is_whole = true;
        if self.take(b'.') {
            is_whole = false;
            if !self.digits() {
                return Err(self.problem("Miss fraction part in number."));
            }
        }
        if self.take(b'e') || self.take(b'E') {
            is_whole = false;
            let _has_sign = self.take(b'+') || self.take(b'-');
            if !self.digits() {
                return Err(self.problem("Miss exponent in number."));
            }
        }
        let text = str::from_utf8(&self.text[began..self.at]).expect("digits and signs are ASCII");
        if is_whole {
            let negative =
                || text.parse().map(|value| if value == 0 { Json::Unsigned(0) } else { Json::Negative(value) });
            let whole = if is_negative { negative() } else { text.parse().map(Json::Unsigned) };
            if let Ok(whole) = whole {
                return Ok(whole);
            }
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Json::Float(value)),
            _ => Err(Problem { what: "Number too big to be stored in double.", at: began }),
        }
    }

    fn infinity(&mut self, is_negative: bool) -> Result<Json, Problem> {
        let value = if is_negative { f64::NEG_INFINITY } else { f64::INFINITY };
        self.literal(b"Inf", Json::Null)?;
        if self.peek() == Some(b'i') { self.literal(b"inity", Json::Float(value)) } else { Ok(Json::Float(value)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the real server said it.
    #[test]
    fn what_is_wrong_is_told_as_the_real_server_tells_it() {
        const MEMBER: &str = "Missing a comma or '}' after an object member.";
        const ESCAPE: &str = "Invalid escape character in string.";
        const HEX: &str = "Incorrect hex digit after \\u escape in string.";
        const PAIR: &str = "The surrogate pair in string is invalid.";
        const FOLLOWED: &str = "The document root must not be followed by other values.";
        for (text, what, at) in [
            ("{", "Missing a name for object member.", 1),
            (r#"{"a":1,}"#, "Missing a name for object member.", 7),
            ("{a:1}", "Missing a name for object member.", 1),
            (r#"{"a" 1}"#, "Missing a colon after a name of object member.", 5),
            (r#"{"a""#, "Missing a colon after a name of object member.", 4),
            (r#"{"a":1 "b":2}"#, MEMBER, 7),
            (r#"{"a":1"#, MEMBER, 6),
            (r#"{"a":01}"#, MEMBER, 6),
            (r#"{"a":falsex}"#, MEMBER, 10),
            ("[1 2]", "Missing a comma or ']' after an array element.", 3),
            ("[1,]", "Invalid value.", 3),
            (r#"{"a":"#, "Invalid value.", 5),
            (r#"{"a":-}"#, "Invalid value.", 6),
            (r#"{"a":tru}"#, "Invalid value.", 8),
            (r#"{"a":Na}"#, "Invalid value.", 7),
            (r#"{"a":In}"#, "Invalid value.", 7),
            (r#"{"a":Infinit}"#, "Invalid value.", 12),
            (r#"{"a":+1}"#, "Invalid value.", 5),
            (r#"{"a":"\x"}"#, ESCAPE, 6),
            ("{\"a\":\"\n\"}", ESCAPE, 6),
            (r#"{"a":"\"#, ESCAPE, 6),
            (r#"{"a":"\u12g4"}"#, HEX, 6),
            (r#"{"a":"\ud800"}"#, PAIR, 6),
            (r#"{"a":"\ud800\u0041"}"#, PAIR, 6),
            (r#"{"a":1e400}"#, "Number too big to be stored in double.", 5),
            (r#"{"a":1.}"#, "Miss fraction part in number.", 7),
            (r#"{"a":1e}"#, "Miss exponent in number.", 7),
            (r#"{"a":"abc"#, "Missing a closing quotation mark in string.", 9),
            (" ", "The document is empty.", 1),
            ("{} x", FOLLOWED, 3),
            ("[1]]", FOLLOWED, 3),
        ] {
            assert_eq!(Json::read(text.as_bytes()), Err(Problem { what, at }), "{text}");
        }
    }

    #[test]
    fn values_are_read() {
        let members = |text: &str| match Json::read(text.as_bytes()) {
            Ok(Json::Array(values)) => values,
            other => panic!("{other:?}"),
        };
        let text = |text: &str| Json::Text(text.as_bytes().to_vec());
        assert_eq!(
            members(r" [ 0, -0, 18446744073709551615, -9223372036854775808, true, false, null ] "),
            [
                Json::Unsigned(0),
                Json::Unsigned(0),
                Json::Unsigned(u64::MAX),
                Json::Negative(i64::MIN),
                Json::Bool(true),
                Json::Bool(false),
                Json::Null
            ]
        );
        assert_eq!(
            members(r"[18446744073709551616, 1.5, 1e-400, 2E+2, Inf, -Infinity]"),
            [18_446_744_073_709_551_616.0, 1.5, 0.0, 200.0, f64::INFINITY, f64::NEG_INFINITY].map(Json::Float)
        );
        assert!(matches!(members("[NaN]")[..], [Json::Float(value)] if value.is_nan()));
        assert_eq!(
            members(r#"["\"\\\/\b\f\n\r\t", "\u00e9\ud83d\ude00", "\udc00"]"#),
            [text("\"\\/\u{8}\u{c}\n\r\t"), text("é😀"), text("\u{fffd}")]
        );
        let object = Json::read(b"{\"a\":1,\"a\":2}\0").expect("it is right");
        assert_eq!((object.get("a"), object.get("b")), (Some(&Json::Unsigned(1)), None));
    }

    #[test]
    fn what_is_deep_or_large_is_rejected() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert!(Json::read(nested(DEPTH_MAX).as_bytes()).is_ok());
            for depth in [DEPTH_MAX + 1, 100_000] {
                let problem = Json::read(nested(depth).as_bytes()).expect_err("it is deep");
                assert_eq!(problem.what, "Values are nested too deeply.");
            }
        }
        let many = format!("[{}1]", "1,".repeat(VALUES_MAX));
        assert_eq!(Json::read(many.as_bytes()).expect_err("they are many").what, "There are too many values.");
    }

    #[test]
    fn texts_and_numbers_are_written_as_the_real_server_writes_them() {
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).expect("UTF-8")
        };
        let text = written(&|out| write_text(out, "a\"b\\\né/\u{1}".as_bytes()));
        assert_eq!(text, r#""a\"b\\\né/\u0001""#);
        for (value, expected) in [
            (1.0, "1.0"),
            (0.1_f32.into(), "0.10000000149011612"),
            (1e30_f32.into(), "1.0000000150474662e30"),
            (1e300, "1e300"),
            (1e21, "1e21"),
            (1e20, "100000000000000000000.0"),
            (1e-7, "1e-7"),
            (0.0001, "0.0001"),
            (123_456_789.123, "123456789.123"),
            (0.0, "0.0"),
            (5e-324, "5e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(written(&|out| write_double(out, value)), expected);
        }
    }
}
