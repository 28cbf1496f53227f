//! What a bug report says of a failure besides its conversations.

use serde::{Deserialize, Serialize};

use crate::preflight::Preflight;

/// What is known of the server, and of replays. Nothing in it changes a replay; a file without it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Facts {
    /// The bug in one line, where a person has written one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What happens and what is expected, where a person has written that: Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Why a report has no script, where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// The server's name and version, such as `triton 2.51.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The model's idle limit, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_limit_ms: Option<u64>,
    /// The model's configuration, as `config.pbtxt` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// What was sent and answered in the last replay that failed, as a chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// The model's tensors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<Tensors>,
    /// How often it failed, a row for each server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replayed: Vec<Replayed>,
}

/// The tensors that steps are sent and answered in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tensors {
    /// The input's name.
    pub input: String,
    /// The output's name.
    pub output: String,
    /// The shape of both; -1 is any size.
    pub shape: Vec<i64>,
}

/// How often a failure was replayed on a server, and how often it failed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replayed {
    /// The server's name and version.
    pub server: String,
    /// How often it failed.
    pub failed: u32,
    /// The number of replays.
    pub runs: u32,
}

impl Facts {
    /// What a run has found out about its server.
    pub fn of(preflight: &Preflight) -> Self {
        let model = &preflight.model;
        let idle_limit_ms = model.idle_limit.map(|limit| limit.as_millis().try_into().unwrap_or(u64::MAX));
        Self {
            server: model.server.clone(),
            idle_limit_ms,
            configuration: preflight.configuration.clone(),
            tensors: Some(Tensors {
                input: model.input.name.clone(),
                output: model.output.name.clone(),
                shape: model.shape.clone().into(),
            }),
            ..Self::default()
        }
    }

    /// Whether nothing is known.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// The same after replays on the server of `seen`. Where one failed, server and chart are those of that replay.
    pub fn after(mut self, seen: Self, failed: u32, runs: u32, chart: Option<String>) -> Self {
        let server = seen.server.clone().unwrap_or_else(|| "unknown".to_owned());
        self.replayed.retain(|row| row.server != server);
        self.replayed.push(Replayed { server, failed, runs });
        if failed == 0 && self.server.is_some() {
            return self;
        }
        let Self { title, summary, withheld, replayed, .. } = self;
        Self { title, summary, withheld, replayed, chart: chart.or(self.chart), ..seen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(server: &str) -> Facts {
        Facts { server: Some(server.to_owned()), ..Facts::default() }
    }

    #[test]
    fn a_row_for_each_server_and_the_server_of_the_last_that_failed() {
        let found = Facts { title: Some("t".to_owned()), ..on("a 1") };
        let facts = found.after(on("a 1"), 0, 3, None).after(on("a 2"), 1, 3, Some("c".to_owned()));
        let facts = facts.after(on("a 1"), 2, 4, Some("d".to_owned())).after(on("a 3"), 0, 4, None);
        let rows: Vec<_> = facts.replayed.iter().map(|row| (row.server.as_str(), row.failed, row.runs)).collect();
        assert_eq!(rows, [("a 2", 1, 3), ("a 1", 2, 4), ("a 3", 0, 4)]);
        let seen = [&facts.title, &facts.server, &facts.chart].map(|text| text.as_deref());
        assert_eq!(seen, [Some("t"), Some("a 1"), Some("d")]);
    }

    #[test]
    fn nothing_is_written_of_what_is_not_known() {
        assert!(Facts::default().are_none());
        assert_eq!(toml::to_string(&Facts::default()), Ok(String::new()));
    }
}
