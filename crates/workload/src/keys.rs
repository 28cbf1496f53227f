//! Names of a fixed list as the keys of tables in files.

use std::fmt;

use serde::{
    Deserializer,
    de::{Error, Visitor},
};

/// Reads a name, and returns its place in the list; `what` says what it is the name of.
///
/// # Errors
/// When the list does not have it; the error names those that it has.
pub(crate) fn place<'de, D: Deserializer<'de>>(
    deserializer: D,
    what: &'static str,
    names: &'static [&'static str],
) -> Result<usize, D::Error> {
    struct Name {
        what: &'static str,
        names: &'static [&'static str],
    }
    impl Visitor<'_> for Name {
        type Value = usize;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "the name of a {}", self.what)
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
            let place = self.names.iter().position(|known| *known == name);
            place.ok_or_else(|| E::unknown_field(name, self.names))
        }
    }
    deserializer.deserialize_identifier(Name { what, names })
}
