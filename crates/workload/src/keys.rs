//! Tables in files whose keys are names of a fixed list.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, Visitor},
};

/// Reads a table, and puts each value in the place of its name. `what` says what the table is, and `key` what its keys name. The error
/// about a name that the list does not have names those that it has.
pub(crate) fn table<'de, D: Deserializer<'de>, T: Copy + Default + Deserialize<'de>, const N: usize>(
    deserializer: D,
    what: &'static str,
    key: &'static str,
    names: &'static [&'static str],
) -> Result<[T; N], D::Error> {
    deserializer.deserialize_map(Table { what, name: Name { key, names }, values: PhantomData })
}

struct Table<T, const N: usize> {
    what: &'static str,
    name: Name,
    values: PhantomData<T>,
}

impl<'de, T: Copy + Default + Deserialize<'de>, const N: usize> Visitor<'de> for Table<T, N> {
    type Value = [T; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<[T; N], A::Error> {
        let mut values = [T::default(); N];
        while let Some(place) = map.next_key_seed(self.name)? {
            values[place] = map.next_value()?;
        }
        Ok(values)
    }
}

/// Reads a name, as its place in the list.
#[derive(Clone, Copy)]
struct Name {
    key: &'static str,
    names: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name of a {}", self.key)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
        let place = self.names.iter().position(|known| *known == name);
        place.ok_or_else(|| E::unknown_field(name, self.names))
    }
}
