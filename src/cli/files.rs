//! The files that a command leaves.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use crate::report::Format;

/// The files that a run, or the check of a history, leaves.
#[derive(Clone, Debug, Args)]
pub struct FileArgs {
    /// The result.
    #[command(flatten)]
    pub results: ResultArgs,
    /// Write the first violation to FILE
    ///
    /// `sequence-stress replay FILE` repeats the failure. Without a violation the tool says so and leaves FILE untouched.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub failure: Option<PathBuf>,
}

impl FileArgs {
    /// Each file that is asked for, with its flag.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let results = self.results.0.iter().map(|(format, path)| (format.name(), path.as_path()));
        results.chain(self.failure.iter().map(|path| ("failure", path.as_path())))
    }
}

/// A flag for each form of the result.
#[derive(Clone, Debug, Default)]
pub struct ResultArgs(pub Vec<(Format, PathBuf)>);

impl Args for ResultArgs {
    fn augment_args(command: Command) -> Command {
        let flag = |format: Format| {
            let flag = Arg::new(format.name()).long(format.name());
            flag.value_name("FILE").value_parser(value_parser!(PathBuf)).help(format.what()).help_heading("Output")
        };
        command.args(Format::ALL.map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ResultArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut results = Self::default();
        results.update_from_arg_matches(matches)?;
        Ok(results)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let path = |format: Format| Some((format, matches.get_one::<PathBuf>(format.name())?.clone()));
        self.0 = Format::ALL.into_iter().filter_map(path).collect();
        Ok(())
    }
}
