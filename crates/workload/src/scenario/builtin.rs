//! The scenarios that are compiled in.

use std::{ffi::OsStr, path::Path};

use super::{ScenarioError, Source};
use crate::wording::meant;

/// A scenario that is compiled in.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// What `--scenario` calls it.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
    /// Whether the suite has it; what takes long has to be asked for.
    pub in_suite: bool,
}

macro_rules! scenarios {
    ($($name:literal)*; outside the suite: $($outside:literal)*) => {
        /// The scenarios that are compiled in, the default one first.
        pub const BUILTIN: &[Builtin] = &[
            $(Builtin { name: $name, text: include_str!(concat!("../../../../scenarios/", $name, ".toml")), in_suite: true },)*
            $(Builtin { name: $outside, text: include_str!(concat!("../../../../scenarios/", $outside, ".toml")), in_suite: false },)*
        ];
    };
}

scenarios! {
    "l0-sequence-stress"
    "slot-exhaustion"
    "rapid-cycling"
    "interleaved-timeouts"
    "connection-drops"
    "bad-network"
    "correlation-id-routing"
    "correlation-id-routing-text"
    "correlation-id-pairs"
    "correlation-id-pairs-text"
    "ordering"
    "starvation"
    "backlog"
    "slot-reuse"
    "idle-boundary"
    "strategy-switch"
    "server-restart"
    "unusual-steps"
    "backlog-timeouts"
    "soak"
    "mixed-transports"
    "cancellation"
    "cancel-restart"
    "deadlines"
    "backlog-order";
    outside the suite:
    "long-sequences"
    "correlation-id-nul"
    "affinity"
    "model-management"
    "model-versions"
    "stub-killed"
    "other-models"
    "grpc-errors"
}

impl Builtin {
    /// What it is for: the first sentence of the file's first comment.
    pub fn what(&self) -> String {
        let comment = self.text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
        let comment = comment.collect::<Vec<_>>().join(" ");
        comment.split_inclusive(". ").next().unwrap_or_default().trim_end_matches([' ', '.']).to_owned()
    }
}

impl Source {
    /// The scenario that `--scenario` names: a file, or one that is compiled in.
    ///
    /// # Errors
    /// When it is neither, or the file cannot be read.
    pub fn named(name: &Path) -> Result<Self, ScenarioError> {
        let builtin = BUILTIN.iter().find(|builtin| OsStr::new(builtin.name) == name.as_os_str());
        match builtin {
            Some(Builtin { name, text, .. }) => Ok(Self::from_text(name, text)),
            // A name without a folder or an ending was hardly meant for a file.
            None if name.extension().is_none() && name.components().count() == 1 && !name.exists() => {
                let name = name.display().to_string();
                let names = BUILTIN.iter().map(|builtin| builtin.name);
                let meant = match name.as_str() {
                    "hostile" => "hostile requests have a command of their own: `sequence-stress hostile`".to_owned(),
                    _ => meant(&name, names, "list them with `sequence-stress scenarios`"),
                };
                Err(ScenarioError::of(name, format!("no such file, and no built-in scenario of this name; {meant}")))
            }
            None => Self::from_file(name.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Overrides, Scenario};

    #[test]
    fn each_is_a_scenario_and_says_in_a_line_what_it_is_for() {
        for builtin in BUILTIN {
            let source = Source::named(Path::new(builtin.name)).expect("it is compiled in");
            let scenario = Scenario::resolve(&source, Overrides::default());
            assert!(scenario.is_ok(), "{}: {scenario:?}", builtin.name);
            let what = builtin.what();
            assert!((20..=130).contains(&what.len()) && !what.contains('\n'), "{}: {what:?}", builtin.name);
        }
    }

    #[test]
    fn a_name_that_there_is_not_is_told_with_those_that_there_are() {
        let error = Source::named(Path::new("cancelation")).expect_err("it is misspelt").to_string();
        assert!(
            error.ends_with("no such file, and no built-in scenario of this name; did you mean 'cancellation'?"),
            "{error}"
        );
        let error = Source::named(Path::new("hostile")).expect_err("it is a command").to_string();
        assert!(error.ends_with("a command of their own: `sequence-stress hostile`"), "{error}");
        let error = Source::named(Path::new("no/such.toml")).expect_err("there is none").to_string();
        assert!(error.starts_with("no/such.toml: cannot read the scenario"), "{error}");
    }
}
