//! What is sent with every call besides: headers, whose values are secrets.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::conversation::Transport;

/// What stands where a value is not written down.
pub const WITHHELD: &str = "…";

/// Words that may stand before a value that the environment has.
const SCHEMES: [&str; 3] = ["Bearer", "Basic", "Token"];

/// What asks Triton to end a stream with an error that it finds after it took a request in. A transport of its own sends it.
pub const ENDS_WITH_ERRORS: &str = "triton_grpc_error";

/// Names that belong to the protocol, and not to who calls.
const OF_THE_PROTOCOL: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "inference-header-content-length",
    "keep-alive",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// A text that is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for whom it is meant.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WITHHELD)
    }
}

/// The name of a header that a run sends or reads, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HeaderName(String);

impl HeaderName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HeaderName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.trim().to_ascii_lowercase();
        let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(is_of_a_name) {
            return Err(format!("'{text}' is not the name of a header: use letters, digits, '-', '_' and '.'"));
        }
        if is_of_the_protocol(&name) {
            return Err(format!("header '{name}' belongs to the protocol: use another name"));
        }
        Ok(Self(name))
    }
}

impl TryFrom<String> for HeaderName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HeaderName> for String {
    fn from(name: HeaderName) -> Self {
        name.0
    }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_of_the_protocol(name: &str) -> bool {
    name.starts_with("grpc-") || name.ends_with("-bin") || OF_THE_PROTOCOL.contains(&name)
}

/// A header, `NAME: VALUE`. Where it is written down, its value is not, unless the environment has it: `NAME: $VARIABLE`, or
/// `NAME: Bearer $VARIABLE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Header {
    name: String,
    value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Given(Secret),
    /// What stands before it, and the environment's variable.
    OfTheEnvironment(Option<&'static str>, String),
    /// It was given once, and is not written down.
    Withheld,
}

impl Header {
    /// Whether the header is written down without its value: only the name of a variable is written with it.
    pub fn is_withheld_where_written(&self) -> bool {
        !matches!(self.value, Value::OfTheEnvironment(..))
    }

    /// The name, in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value, with what `environment` says of a variable.
    ///
    /// # Errors
    /// When it is not known, or cannot be sent; the value is not in the text.
    pub fn value(&self, environment: impl Fn(&str) -> Option<String>) -> Result<Secret, String> {
        let name = &self.name;
        match &self.value {
            Value::Given(secret) => Ok(secret.clone()),
            Value::Withheld => Err(format!(
                "the value of header '{name}' is written down nowhere: give it again, with -H '{name}: VALUE' or -H '{name}: \
                 $VARIABLE'"
            )),
            Value::OfTheEnvironment(scheme, variable) => {
                let value = environment(variable).ok_or_else(|| {
                    format!(
                        "header '{name}': the environment has no variable {variable} in UTF-8: set it, and export it"
                    )
                })?;
                let value = value.trim();
                check_value(value)
                    .map_err(|problem| format!("header '{name}': of the variable {variable} {problem}"))?;
                Ok(Secret(scheme.map_or_else(|| value.to_owned(), |scheme| format!("{scheme} {value}"))))
            }
        }
    }
}

/// Reads one; what is wrong is told without the value.
impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) =
            text.split_once(':').ok_or("a header is written as 'NAME: VALUE', and this one has no colon")?;
        let name = name.trim().to_ascii_lowercase();
        let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(is_of_a_name) {
            return Err(
                "before the colon stands a name of letters, digits, '-', '_' and '.'; it does not here".to_owned()
            );
        }
        if is_of_the_protocol(&name) {
            return Err(format!("header '{name}' belongs to the protocol, and cannot be set"));
        }
        if name == ENDS_WITH_ERRORS {
            return Err(format!("header '{name}' lets errors end streams: use --transport {}", Transport::GrpcStatus));
        }
        let value = read_value(value.trim()).map_err(|problem| format!("header '{name}': {problem}"))?;
        Ok(Self { name, value })
    }
}

fn read_value(text: &str) -> Result<Value, String> {
    if text == WITHHELD {
        return Ok(Value::Withheld);
    }
    let (scheme, last) = text.rsplit_once(' ').map_or((None, text), |(scheme, last)| (Some(scheme.trim()), last));
    let variable = last.strip_prefix('$').filter(|variable| is_variable(variable));
    match (variable, scheme) {
        (None, _) => {
            check_value(text).map_err(|problem| format!("its {problem}"))?;
            Ok(Value::Given(Secret(text.to_owned())))
        }
        (Some(variable), None) => Ok(Value::OfTheEnvironment(None, variable.to_owned())),
        (Some(variable), Some(scheme)) => {
            let known = SCHEMES.into_iter().find(|known| known.eq_ignore_ascii_case(scheme));
            let known = known.ok_or_else(|| {
                format!("before a $VARIABLE nothing may stand but {}: put the whole value into it", SCHEMES.join(", "))
            })?;
            Ok(Value::OfTheEnvironment(Some(known), variable.to_owned()))
        }
    }
}

fn is_variable(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("value is empty".to_owned());
    }
    // What else HTTP takes, gRPC does not.
    if value.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
        Ok(())
    } else {
        Err("value has characters that no header can have: only printable ASCII can be sent".to_owned())
    }
}

impl TryFrom<String> for Header {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Header> for String {
    fn from(header: Header) -> Self {
        header.to_string()
    }
}

/// As it may be written down.
impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value } = self;
        match value {
            Value::Given(_) | Value::Withheld => write!(f, "{name}: {WITHHELD}"),
            Value::OfTheEnvironment(None, variable) => write!(f, "{name}: ${variable}"),
            Value::OfTheEnvironment(Some(scheme), variable) => write!(f, "{name}: {scheme} ${variable}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_environment(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn a_value_is_sent_and_not_shown() {
        let header: Header = "Authorization:  Bearer hunter2 ".parse().expect("a header");
        assert_eq!(header.name(), "authorization");
        assert_eq!(header.value(no_environment).expect("a value").reveal(), "Bearer hunter2");
        let shown = format!("{header:?} {header} {:?}", header.value(no_environment));
        assert!(!shown.contains("hunter2"), "{shown}");
        let written = serde_json::to_string(&header).expect("JSON");
        assert_eq!(written, r#""authorization: …""#);
        let read: Header = serde_json::from_str(&written).expect("a header");
        assert!(
            read.value(no_environment)
                .expect_err("it is not known")
                .contains("give it again, with -H 'authorization: VALUE'")
        );
    }

    #[test]
    fn a_value_of_the_environment_is_looked_up_there() {
        let environment = |name: &str| (name == "TOKEN").then(|| "hunter2\n".to_owned());
        for (text, value, written) in [
            ("a: $TOKEN", "hunter2", "a: $TOKEN"),
            ("a: bearer $TOKEN", "Bearer hunter2", "a: Bearer $TOKEN"),
            ("a: $1", "$1", "a: …"),
            ("a: pa$$word", "pa$$word", "a: …"),
        ] {
            let header: Header = text.parse().expect(text);
            assert_eq!(header.value(environment).expect(text).reveal(), value);
            assert_eq!(header.to_string(), written);
        }
        let other: Header = "a: $OTHER".parse().expect("a header");
        assert!(other.value(environment).expect_err("it is not set").contains("no variable OTHER"));
        let control = |_: &str| Some("hunter2\u{7}".to_owned());
        let rejected = other.value(control).expect_err("it cannot be sent");
        assert!(rejected.contains("printable ASCII") && !rejected.contains("hunter2"), "{rejected}");
    }

    #[test]
    fn what_cannot_be_sent_is_rejected_without_telling_it() {
        for (text, reason) in [
            ("hunter2", "no colon"),
            (": hunter2", "before the colon"),
            ("hunter 2: hunter2", "before the colon"),
            ("a:", "value is empty"),
            ("a: hunter2 ü", "printable ASCII"),
            ("a: hunter2\nb: hunter2", "printable ASCII"),
            ("a: hunter2 $TOKEN", "nothing may stand"),
            ("grpc-timeout: hunter2", "belongs to the protocol"),
            ("Content-Type: hunter2", "belongs to the protocol"),
            ("a-bin: hunter2", "belongs to the protocol"),
            ("triton_grpc_error: true", "use --transport grpc-status"),
        ] {
            let error = text.parse::<Header>().expect_err(text);
            assert!(error.contains(reason) && !error.contains("hunter2"), "{text:?}: {error}");
        }
    }
}
