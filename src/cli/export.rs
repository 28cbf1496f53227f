//! The flags of `export`.

use std::path::PathBuf;

use clap::Args;

use crate::report::ExportFormat;

/// What to print, and how.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// The failure file; make it small first (`replay --shrink`), so that people can read what is printed
    pub file: PathBuf,
    /// What to print.
    #[arg(long, value_name = "FORMAT", default_value = ExportFormat::Python.name(), value_parser = format, help = formats())]
    pub format: ExportFormat,
    /// The golden file that the run was judged by, of a model without a formula: a script compares with its outputs
    #[arg(long, value_name = "FILE")]
    pub golden: Option<PathBuf>,
}

fn format(text: &str) -> Result<ExportFormat, String> {
    ExportFormat::named(text).ok_or_else(|| format!("there are {}", ExportFormat::NAMES.join(", ")))
}

fn formats() -> String {
    let each = ExportFormat::ALL.map(|format| format!("{format}, {}", format.what()));
    format!("What to print: {}", each.join("; "))
}
