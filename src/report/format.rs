//! The forms that a run's result is written in.

use std::io;

use super::{Summary, json};

/// How a form is written.
struct Row(fn(&Summary, &mut dyn io::Write) -> io::Result<()>);

workload::table! {
    /// A form of a run's result. Its name is that of the flag, and its sentence the flag's help.
    pub enum Format: Row {
        /// Write the result to FILE as JSON
        Json = "json", Row(|summary, mut out| json::write_json(summary, &mut out));
    }
}

impl Format {
    /// Writes the result of a run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(self, summary: &Summary, out: &mut impl io::Write) -> io::Result<()> {
        self.row().0(summary, out)
    }
}
