//! The forms that a run's result is written in.

use super::{Summary, to_json};

/// How a form is written.
struct Row(fn(&Summary) -> Vec<u8>);

workload::table! {
    /// A form of a run's result. Its name is that of the flag, and its sentence the flag's help.
    pub enum Format: Row {
        /// Write the result to FILE as JSON
        Json = "json", Row(to_json);
    }
}

impl Format {
    /// The result of a run in this form.
    pub fn of(self, summary: &Summary) -> Vec<u8> {
        self.row().0(summary)
    }
}
