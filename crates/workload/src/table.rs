//! Tables of a concept: an enum with a row for each variant.

/// Declares an enum of which each variant is a row: a doc comment of one line, a name, and where the table has a row type, a value of it.
///
/// ```text
/// table! {
///     /// A fruit.
///     pub enum Fruit: Row {
///         /// It keeps the doctor away.
///         Apple = "apple", Row { seeds: 5 };
///     }
/// }
/// ```
///
/// The enum is copied, compared, ordered by its rows, shown as its name, and read and written by serde as its name. It gets:
///
/// - `ALL` and `NAMES`: the variants and their names, in the order of the rows;
/// - `name()`: the row's name; `what()`: the row's doc comment; `named(name)`: the variant of a name;
/// - `row()`: the row's value, for the module that declares the table.
#[macro_export]
macro_rules! table {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $table:ident: $row:ty {
            $(#[doc = $what:literal] $(#[$of_variant:meta])* $variant:ident = $name:literal, $value:expr;)+
        }
    ) => {
        $crate::table! {
            $(#[$attribute])*
            $visible enum $table {
                $(#[doc = $what] $(#[$of_variant])* $variant = $name;)+
            }
        }

        impl $table {
            fn row(self) -> &'static $row {
                const ROWS: &[$row] = &[$($value),+];
                &ROWS[self as usize]
            }
        }
    };
    (
        $(#[$attribute:meta])*
        $visible:vis enum $table:ident {
            $(#[doc = $what:literal] $(#[$of_variant:meta])* $variant:ident = $name:literal;)+
        }
    ) => {
        $(#[$attribute])*
        #[allow(clippy::doc_markdown, reason = "the sentences are printed, too")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $visible enum $table {
            $(#[doc = $what] #[serde(rename = $name)] $(#[$of_variant])* $variant,)+
        }

        #[allow(dead_code, reason = "not every table needs all of them")]
        impl $table {
            /// All of them, in the order of the table.
            $visible const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The names of all, in the order of the table.
            $visible const NAMES: &[&str] = &[$($name),+];

            /// Its name in files, reports and on the command line.
            $visible fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }

            /// What it is, in a sentence.
            $visible fn what(self) -> &'static str {
                const WHAT: &[&str] = &[$($what.trim_ascii_start()),+];
                WHAT[self as usize]
            }

            /// The one with this name.
            $visible fn named(name: &str) -> Option<Self> {
                Self::NAMES.iter().position(|known| *known == name).map(|place| Self::ALL[place])
            }
        }

        impl std::fmt::Display for $table {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

#[cfg(test)]
mod tests {
    table! {
        /// A fruit.
        pub(super) enum Fruit: u8 {
            /// It keeps the doctor away.
            Apple = "apple", 5;
            /// It is not one.
            #[doc(hidden)]
            Tomato = "tomato-fruit", 100;
        }
    }

    #[test]
    fn a_table_has_the_names_sentences_and_values_of_its_rows() {
        assert_eq!(Fruit::ALL, [Fruit::Apple, Fruit::Tomato]);
        assert_eq!(Fruit::NAMES, ["apple", "tomato-fruit"]);
        assert_eq!(Fruit::ALL.map(Fruit::what), ["It keeps the doctor away.", "It is not one."]);
        assert_eq!(Fruit::ALL.map(|fruit| *fruit.row()), [5, 100]);
        assert_eq!((Fruit::named("tomato-fruit"), Fruit::named("pear")), (Some(Fruit::Tomato), None));
        assert_eq!(format!("{:<6}|", Fruit::Apple), "apple |");
        for fruit in Fruit::ALL {
            let text = serde_json::to_string(&fruit).expect("JSON");
            assert_eq!(text, format!("\"{fruit}\""));
            assert_eq!(serde_json::from_str::<Fruit>(&text).expect("a fruit"), fruit);
        }
    }
}
