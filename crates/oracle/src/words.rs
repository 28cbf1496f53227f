//! The words of a server's errors.

use serde::{Deserialize, Serialize};

use workload::model::REFERENCE_SERVER;

/// The versions of tritonserver whose words the tests compare with what is expected here: releases 23.04, 23.07, 23.10, 24.01, 24.03,
/// 24.05, 24.08 and 24.10.
const KNOWN_TRITONS: [&str; 8] = ["2.33.0", "2.36.0", "2.39.0", "2.42.0", "2.44.0", "2.46.0", "2.49.0", "2.51.0"];
/// Those of them that tell each error over HTTP with the status 400: releases 23.04, 23.07 and 23.10.
const WITH_ONE_STATUS: [&str; 3] = ["2.33.0", "2.36.0", "2.39.0"];
/// What a tritonserver calls itself.
const TRITON: &str = "triton";

/// What Triton answers to all steps of a sequence that waited in the backlog for too long.
pub(super) const EXPIRED: &str = "timeout of the corresponding sequence has been expired";
/// What Triton answers with while a model or the server goes and comes.
const OUT_OF_SERVICE: [&str; 4] =
    ["Server is stopping", "Request for unknown model", "is not ready", "has no available versions"];

/// What Triton's Python backend answers with where an instance's process is gone, in each release.
const INSTANCE_FAILED: [&str; 2] = ["Stub process", "is not healthy"];

/// Whether an error says that the instance failed that was to execute the request.
pub(super) fn say_instance_failed(text: &str) -> bool {
    INSTANCE_FAILED.iter().all(|said| text.contains(said))
}

/// Whether it is known in which words a correct server rejects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Words {
    /// They are known, and an error in other words is a violation.
    #[default]
    Known,
    /// They are known, too. Over HTTP, the server tells every error with the status 400.
    KnownWithOneStatus,
    /// The server is one that nobody compared with what is expected here. What may be a rejection is taken for one.
    Unknown,
}

/// An error in words that are not known, which was taken for a rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherWords {
    /// What it was taken for the rejection of.
    pub of: &'static str,
    /// What it says.
    pub text: String,
}

impl Words {
    /// Of the server that calls itself so: a name and a version, `triton 2.51.0`.
    pub fn of_server(server: Option<&str>) -> Self {
        let Some(server) = server else { return Self::Unknown };
        match server.split_once(' ') {
            Some((TRITON, version)) if WITH_ONE_STATUS.contains(&version) => Self::KnownWithOneStatus,
            Some((TRITON, version)) if KNOWN_TRITONS.contains(&version) => Self::Known,
            name if name.map_or(server, |(name, _)| name) == REFERENCE_SERVER => Self::Known,
            _ => Self::Unknown,
        }
    }

    /// Of a server whose run was recorded with these words, perhaps before this tool knew of releases with one status.
    #[must_use]
    pub fn or_with_one_status(self, server: Option<&str>) -> Self {
        match Self::of_server(server) {
            Self::KnownWithOneStatus => Self::KnownWithOneStatus,
            Self::Known | Self::Unknown => self,
        }
    }

    /// Whether a correct server's words are known.
    pub fn are_known(self) -> bool {
        self != Self::Unknown
    }

    /// Whether an error says that the model does not serve just now.
    pub(super) fn say_out_of_service(self, text: &str) -> bool {
        self == Self::Unknown || OUT_OF_SERVICE.iter().any(|said| text.contains(said))
    }
}

/// Whether an error says that the sequence has to begin with START, for this ID and this model. Compatible servers may add to it.
pub(super) fn want_start(text: &str, id: &str, model: &str) -> bool {
    text.contains("must specify the START flag")
        && text.contains(&format!("sequence {id} "))
        && text.contains(&format!("'{model}'"))
}

/// What stands before the words of a step's error where an ensemble tells it, up to the ensemble's name and behind that.
const OF_ENSEMBLE: [&str; 2] = ["in ensemble '", "', "];

/// Whether an error is one of the model that the tested one calls. Triton's Python backend tells all of these with one code.
pub(super) fn are_of_a_called_model(text: &str, called: &str) -> bool {
    text.contains(&format!("Model {called} - Error when running inference: "))
}

/// Whether an error has no words, or none but an ensemble's name.
pub(super) fn says_nothing(text: &str) -> bool {
    let [before, behind] = OF_ENSEMBLE;
    let rest = text.strip_prefix(before).and_then(|rest| rest.split_once(behind)).map(|(_, rest)| rest);
    text.is_empty() || rest.is_some_and(says_nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_releases_that_are_compared_are_known() {
        for known in ["triton 2.51.0", "triton 2.42.0", "sequence-stress 0.1.0", "sequence-stress"] {
            assert_eq!(Words::of_server(Some(known)), Words::Known, "{known}");
        }
        for version in WITH_ONE_STATUS {
            assert_eq!(Words::of_server(Some(&format!("triton {version}"))), Words::KnownWithOneStatus, "{version}");
        }
        for unknown in ["triton 2.72.0", "triton", "triton 2.51.0 hybrid", "other 2.51.0", ""] {
            assert_eq!(Words::of_server(Some(unknown)), Words::Unknown, "{unknown}");
        }
        assert_eq!(Words::of_server(None), Words::Unknown);
    }

    #[test]
    fn a_run_that_was_recorded_before_releases_with_one_status_were_known_is_judged_by_what_is_known_now() {
        for recorded in [Words::Known, Words::Unknown] {
            assert_eq!(recorded.or_with_one_status(Some("triton 2.39.0")), Words::KnownWithOneStatus);
            for server in [Some("triton 2.51.0"), Some("other 1.0"), None] {
                assert_eq!(recorded.or_with_one_status(server), recorded, "{server:?}");
            }
        }
    }

    #[test]
    fn an_ensemble_puts_its_name_before_what_its_step_says() {
        for nothing in ["", "in ensemble 'a', ", "in ensemble 'a', in ensemble 'b', "] {
            assert!(says_nothing(nothing), "{nothing}");
        }
        for something in ["no", "in ensemble 'a', no", "in ensemble 'a'"] {
            assert!(!says_nothing(something), "{something}");
        }
        let step = "inference request for sequence 7 to model 'a_step1' must specify the START flag on the first request of the sequence";
        assert!(want_start(&format!("in ensemble 'a', {step}"), "7", "a"));
        assert!(!want_start(step, "7", "a"));
    }
}
