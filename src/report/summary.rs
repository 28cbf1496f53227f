//! A run, its verdict, and how to have it again.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Claimed, words};
use crate::{
    recorder::Times,
    run::RunResult,
    verdict::{Judged, Reached, Verdict},
};
use workload::{scenario::Scenario, seed::Seed};

/// A fault of the embedded server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlantedFault {
    /// Its name.
    pub fault: String,
    /// How often it could have happened.
    pub chances: u64,
    /// How often it happened.
    pub committed: u64,
    /// When, in µs since the run began: the first 1,000 times. What was committed before the run is not here.
    pub committed_at_us: Vec<u64>,
}

/// A run, its verdict, and how to have it again.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What was asked for.
    pub scenario: Scenario,
    /// The scenario's name.
    pub scenario_name: String,
    /// What fixed every choice.
    pub seed: Seed,
    /// The command line that sends the same again.
    pub replay: String,
    /// Where the server was in this process: the faults that were planted in it.
    pub embedded: Option<Vec<PlantedFault>>,
    /// What came of it.
    pub result: RunResult,
}

impl Summary {
    /// Errors in words that are not known of this server, which were taken for rejections: a sentence each.
    pub fn other_words(&self) -> impl Iterator<Item = String> {
        let server = self.result.preflight.model.server.as_deref().unwrap_or("a server that does not tell its name");
        self.result.tally.other_words.iter().map(move |(of, text)| {
            format!("the words of {server} are not known here: '{text}' was taken for the rejection of {of}")
        })
    }

    /// The run, to be judged.
    pub(crate) fn judged(&self) -> Judged<'_> {
        Judged { scenario: &self.scenario, result: &self.result }
    }

    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        self.judged().verdict()
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        self.judged().exit_code()
    }

    /// The verdict and its reasons if nothing changed any more; of a run that has ended the verdict itself.
    pub(super) fn so_far(&self) -> (Verdict, Vec<String>) {
        let (verdict, doubts) = self.judged().so_far();
        (verdict, doubts.iter().map(words::doubt).collect())
    }

    /// Why the run cannot be called valid although nothing failed.
    pub fn doubts(&self) -> Vec<String> {
        self.judged().doubts().iter().map(words::doubt).collect()
    }

    /// All claims, and how far the run came with them.
    pub fn claims(&self) -> Vec<Claimed> {
        self.with_hints(self.judged().claims())
    }

    /// The claims that the run did not reach, with what would reach them.
    pub fn missed_claims(&self) -> Vec<Claimed> {
        self.with_hints(self.judged().missed_claims())
    }

    fn with_hints(&self, claims: Vec<Reached>) -> Vec<Claimed> {
        let with_hint = |reached| Claimed::of(reached, &self.scenario, &self.result.preflight);
        claims.into_iter().map(with_hint).collect()
    }

    /// What the thresholds say that were missed.
    pub fn missed_thresholds(&self) -> Vec<String> {
        self.judged().missed_thresholds().iter().map(words::missed).collect()
    }

    /// Whether the run found something: violations, or a missed threshold.
    pub fn is_found(&self) -> bool {
        [1, 5].contains(&self.exit_code())
    }

    /// How long sequences waited for their first response, where the model gives several to a request. Where it gives one, the waits for
    /// slots say the same.
    pub(crate) fn first_response(&self) -> Option<&Times> {
        let gives_series = self.result.preflight.model.arithmetic.answers.are_series();
        Some(&self.result.tally.first_response).filter(|times| gives_series && times.count() > 0)
    }

    /// Requests sent in a second.
    #[expect(clippy::cast_precision_loss)]
    pub fn requests_per_second(&self) -> f64 {
        self.result.tally.total().requests as f64 / self.result.elapsed.as_secs_f64().max(1e-9)
    }

    /// Good responses in a second.
    #[expect(clippy::cast_precision_loss)]
    pub fn goodput_per_second(&self) -> f64 {
        self.result.tally.good() as f64 / self.result.elapsed.as_secs_f64().max(1e-9)
    }

    /// CPU time of this process for each request, in µs.
    #[expect(clippy::cast_precision_loss)]
    pub fn client_cpu_us_per_request(&self) -> f64 {
        self.result.cpu_us as f64 / self.result.tally.total().requests.max(1) as f64
    }
}
