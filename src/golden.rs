//! What a model without a formula answers: finds it out, on an idle server, and reads it from files.

mod calibration;
mod facts;

use std::{
    fs::{self, File},
    io::BufReader,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;

use self::calibration::Calibration;
pub use self::calibration::Phase;
use crate::{
    preflight::{Hints, Preflight, check_model, identity},
    probe::{
        player::{Last, Player},
        site::{Clock, Liveness, Site},
    },
    run::RunError,
};
use oracle::golden::{Compare, Facts, Gathered, Golden, Identity, Lineage, Misfit, Named, Output};
use wire::transport::{Access, Client};
use workload::{
    inputs::{ElementType, InputSet, Options, random, read},
    model::Model,
    scenario::Scenario,
    tensor::TensorSpec,
};

/// What is asked of a model without a formula.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Where its inputs are; none where they are drawn.
    pub inputs: Option<PathBuf>,
    /// What else is known of them.
    pub options: Options,
    /// How outputs are compared, where not as measured.
    pub compare: Vec<(String, Compare)>,
}

/// Some patterns have more steps than lengths are drawn.
pub(crate) const LEAST_STEPS: u32 = 32;

/// The most bytes of a golden file.
const LARGEST: u64 = 8 << 30;

/// Reads a golden file.
///
/// # Errors
/// In one line, when it cannot be read, or is none.
pub fn read_file(path: &Path) -> Result<Golden, String> {
    let shown = path.display();
    let error = |problem: &dyn std::fmt::Display| format!("cannot use the golden file {shown}: {problem}");
    let about = fs::metadata(path).map_err(|problem| error(&problem))?;
    if !about.is_file() {
        return Err(error(&"it is no file"));
    }
    let size = about.len();
    if size > LARGEST {
        return Err(error(&format!("it has {size} bytes, and no golden file is as large")));
    }
    let file = File::open(path).map_err(|problem| error(&problem))?;
    Golden::read_from(BufReader::new(file), size).map_err(|damaged| error(&damaged))
}

/// A server with a model that has no formula, and what is sent to it.
pub struct Subject {
    scenario: Scenario,
    hints: Hints,
    access: Access,
    client: Client,
    /// What is sent and asked for; nothing is expected.
    blind: Arc<Golden>,
    /// What was found out about the inputs, a sentence each.
    pub notes: Vec<String>,
}

impl Subject {
    /// Asks the server about the model, and reads or draws its inputs.
    ///
    /// # Errors
    /// When the server or the model is not such that it can be tested, or the inputs are not the model's.
    pub async fn new(scenario: Scenario, hints: Hints, asked: &Asked) -> Result<Self, RunError> {
        let (access, client) = connected(&scenario)?;
        let name = scenario.target.model.clone();
        let endpoint = |why: String| RunError::Endpoint(why);
        check_model(&client, &name).await.map_err(endpoint)?;
        let declared = client.declared(&name).await.map_err(|error| {
            endpoint(format!("cannot read the metadata of model '{name}', which tell its inputs: {error}"))
        })?;
        let configuration = client.configuration(&name).await.ok();
        let server = client.server_name().await.ok().filter(|server| !server.is_empty());
        let named = scenario.target.version.map(|version| version.to_string());
        let version = named.or_else(|| declared.newest().map(str::to_owned));
        let batches = configuration.as_ref().is_none_or(|configuration| configuration.settings().batches);
        let optional = configuration.as_ref().map(wire::transport::Configuration::optional_inputs).unwrap_or_default();
        let steps = asked.options.steps.or_else(|| NonZeroUsize::new(scenario.longest().max(LEAST_STEPS) as usize));
        let options = Options { batches, optional, steps, model: Some(name.clone()), ..asked.options.clone() };
        let found = match &asked.inputs {
            Some(path) => read(path, &declared.inputs, &options),
            None => random::draw(&declared.inputs, &options),
        };
        let (tracks, notes) = found.map_err(RunError::Access)?;
        let inputs = Arc::new(InputSet::new(tracks));
        let model = Model { name, version, server, ..Model::default() };
        let identity = Identity { inputs: inputs.digest().to_owned(), ..identity(&model, configuration.as_ref()) };
        let outputs = outputs(&declared.outputs, &asked.compare).map_err(RunError::Access)?;
        let blind = Arc::new(Golden::new(identity, inputs, outputs, Facts::default(), []));
        Ok(Self { scenario, hints, access, client, blind, notes })
    }

    /// Of which model and inputs golden outputs would be, and how they would be compared, as a name for a file.
    pub fn key(&self) -> String {
        #[derive(Serialize)]
        struct Key<'k> {
            identity: &'k Identity,
            outputs: &'k [Output],
        }
        let key = Key { identity: &self.blind.identity, outputs: &self.blind.outputs };
        let text = serde_json::to_vec(&key).expect("it has nothing that JSON does not have");
        workload::inputs::hex(&<sha2::Sha256 as sha2::Digest>::digest(text)[..16])
    }

    /// Nothing that is expected: what is sent, and which outputs are asked for.
    pub fn blind(&self) -> Arc<Golden> {
        Arc::clone(&self.blind)
    }

    /// Finds out what the model answers, and how exactly.
    ///
    /// # Errors
    /// When the server does not answer as it should.
    pub async fn calibrate(&self, progress: &mut dyn FnMut(Phase)) -> Result<Golden, RunError> {
        let preflight = self.preflight(&self.blind).await?;
        let (clock, liveness) = (Clock::started(), Liveness::default());
        let site = self.site(&preflight, &clock, &liveness);
        let player = Player::new(site, Arc::clone(&self.blind)).map_err(RunError::Endpoint)?;
        let made = Calibration::new(player, Arc::clone(&self.blind)).run(progress).await;
        let mut golden = made.map_err(RunError::Endpoint)?;
        golden.configuration.clone_from(&preflight.configuration);
        Ok(golden)
    }

    /// Sends so many tracks once, alone, and returns the states whose outputs are others than the golden ones, and how many were compared:
    /// none where no output is judged.
    ///
    /// # Errors
    /// When the server does not answer as it should, or is another than the golden outputs are of.
    pub async fn verify(&self, golden: &Arc<Golden>, tracks: usize) -> Result<(usize, Vec<(Named, Misfit)>), RunError> {
        let preflight = self.preflight(golden).await?;
        let (clock, liveness) = (Clock::started(), Liveness::default());
        let site = self.site(&preflight, &clock, &liveness);
        let mut player = Player::new(site, Arc::clone(golden)).map_err(RunError::Endpoint)?;
        let (mut compared, mut differ) = (0, Vec::new());
        let mut compare = |lineage: Lineage, gathered: &Gathered| {
            let sum = lineage.number(&golden.inputs);
            compared += 1;
            differ.extend(golden.differs_from(sum, gathered).map(|how| (golden.named(sum), how)));
        };
        for track in (0..golden.inputs.tracks().len().min(tracks)).filter(|_| golden.judges()) {
            let path: Vec<_> = (0..golden.steps() as usize).map(|step| (track, step)).collect();
            let track = u32::try_from(track).unwrap_or(u32::MAX);
            let seen =
                player.together(std::slice::from_ref(&path), Last::WithoutEnd).await.map_err(RunError::Endpoint)?;
            for (steps, gathered) in (1..).zip(seen.iter().flatten()) {
                compare(Lineage::Track { track, steps }, gathered);
            }
            // How many of these were measured differs from one track to the next.
            for steps in (1..=golden.ended_steps()).filter(|steps| steps.is_power_of_two()) {
                let lineage = Lineage::Ended { track, steps };
                if golden.knows(lineage.number(&golden.inputs)) {
                    let path = path[..steps as usize].to_vec();
                    let seen = player.together(&[path], Last::WithEnd).await.map_err(RunError::Endpoint)?;
                    seen.iter().filter_map(|seen| seen.last()).for_each(|gathered| compare(lineage, gathered));
                }
            }
        }
        Ok((compared, differ))
    }

    /// A subject for golden outputs that are there.
    ///
    /// # Errors
    /// When the endpoint is none, or the credentials cannot be had.
    pub fn of(scenario: Scenario, hints: Hints, golden: &Arc<Golden>) -> Result<Self, RunError> {
        let (access, client) = connected(&scenario)?;
        Ok(Self { scenario, hints, access, client, blind: Arc::clone(golden), notes: Vec::new() })
    }

    async fn preflight(&self, golden: &Arc<Golden>) -> Result<Preflight, RunError> {
        let asked = Preflight::ask(&self.client, &self.scenario, self.hints, Some(golden)).await;
        let preflight = asked.map_err(RunError::Endpoint)?;
        match preflight.rejects_golden().or_else(|| preflight.cannot_be_sent(&self.scenario)) {
            Some(why) => Err(RunError::Endpoint(why)),
            None => Ok(preflight),
        }
    }

    fn site<'s>(&'s self, preflight: &'s Preflight, clock: &'s Clock, liveness: &'s Liveness) -> Site<'s> {
        Site { scenario: &self.scenario, access: &self.access, preflight, clock, liveness }
    }
}

/// What it takes to be let in, and a connection for calls.
fn connected(scenario: &Scenario) -> Result<(Access, Client), RunError> {
    let access = Access::new(&scenario.target).map_err(RunError::Access)?;
    if let Some(why) = scenario.lacks_an_endpoint() {
        return Err(RunError::Endpoint(why));
    }
    let limit = scenario.limits.connect_ms.duration();
    let client = Client::new(scenario.target.endpoint.for_calls(), &access, limit);
    let client = client.map_err(|error| RunError::Endpoint(error.to_string()))?;
    Ok((access, client.of_version(&scenario.target.model, scenario.target.version)))
}

/// The outputs that are asked for, each with the rule by which it is compared.
fn outputs(declared: &[TensorSpec], compare: &[(String, Compare)]) -> Result<Vec<Output>, String> {
    if let Some((name, _)) = compare.iter().find(|(name, _)| declared.iter().all(|spec| spec.name != *name)) {
        let names: Vec<_> = declared.iter().map(|spec| spec.name.as_str()).collect();
        return Err(format!("--compare names '{name}', and the model has the outputs {}", names.join(", ")));
    }
    let rule = |spec: &TensorSpec| compare.iter().rev().find(|(name, _)| *name == spec.name).map(|(_, rule)| *rule);
    let mut outputs = Vec::new();
    for spec in declared {
        let compare = rule(spec).unwrap_or_default();
        if compare == Compare::Ignore {
            continue;
        }
        let datatype = ElementType::named(&spec.datatype).ok_or_else(|| {
            format!("output {spec} has a type that is not known here: leave it out (--compare {}=ignore)", spec.name)
        })?;
        outputs.push(Output { spec: spec.clone(), datatype, compare, tolerances: Vec::new() });
    }
    if outputs.is_empty() {
        return Err("every output is left out (--compare …=ignore): at least one has to be asked for".to_owned());
    }
    Ok(outputs)
}
