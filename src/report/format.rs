//! The forms that a run's result is written in.

use super::{
    Summary, junit,
    series::{to_csv, to_hdr_log},
    to_json,
};

/// How a form is written.
struct Row(fn(&Summary) -> Vec<u8>);

workload::table! {
    /// A form of a run's result. Its name is that of the flag, and its sentence the flag's help.
    pub enum Format: Row {
        /// Write the result to FILE as JSON
        Json = "json", Row(to_json);
        /// Write a line for each second of the run, or for longer intervals of a long run, to FILE as CSV
        Csv = "csv", Row(to_csv);
        /// Write the latencies of the same intervals to FILE as a log that HdrHistogram's tools read
        HdrLog = "hdr-log", Row(to_hdr_log);
        /// Write each check as a test case to FILE as JUnit XML, which GitLab and Jenkins show
        Junit = "junit", Row(junit::of_summary);
    }
}

impl Format {
    /// The result of a run in this form.
    pub fn of(self, summary: &Summary) -> Vec<u8> {
        self.row().0(summary)
    }
}
