//! The forms that a run's result is written in.

use super::{
    Pictured, Summary, html, junit,
    series::{to_csv, to_hdr_log},
    to_json,
};

/// How a form is written.
struct Row(fn(&Summary, &Pictured) -> Vec<u8>);

workload::table! {
    /// A form of a run's result. Its name is that of the flag, and its sentence the flag's help.
    pub enum Format: Row {
        /// Write the result to FILE as JSON
        Json = "json", Row(|summary, _| to_json(summary));
        /// Write a line for each second of the run, or for longer intervals of a long run, to FILE as CSV
        Csv = "csv", Row(|summary, _| to_csv(summary));
        /// Write the latencies of the same intervals to FILE as a log that HdrHistogram's tools read
        HdrLog = "hdr-log", Row(|summary, _| to_hdr_log(summary));
        /// Write a page to FILE that any browser shows, offline: with the slots and the sequences that had them
        Html = "html", Row(html::of_run);
        /// Write each check as a test case to FILE as JUnit XML, which GitLab and Jenkins show
        Junit = "junit", Row(|summary, _| junit::of_summary(summary));
    }
}

impl Format {
    /// The result of a run in this form.
    pub fn of(self, summary: &Summary, pictured: &Pictured) -> Vec<u8> {
        self.row().0(summary, pictured)
    }
}
