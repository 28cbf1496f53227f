//! The models that the server has: loaded, unloaded, and loaded again with another configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use prost_reflect::{DeserializeOptions, DynamicMessage};
use tonic::{Code, Status};

use super::{
    fault::{Fault, Faults},
    folder::{Source, served_versions},
    refusal::{no_version, not_ready, unknown_version},
    scheduler::HoldUntil,
    served::{Asked, Served},
    spec::{Spec, check},
    tasks::Tasks,
};
use models::text::DESCRIPTOR;
use wire::proto::{ModelConfig, repository_index_response::ModelIndex};

/// How long a shutdown waits for what is queued.
const STOP_LIMIT: Duration = Duration::from_secs(10);
const STOP_LOOK: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Repository {
    faults: Arc<Faults>,
    /// What models run as.
    tasks: Tasks,
    hold_until: HoldUntil,
    models: RwLock<BTreeMap<String, Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// What it is loaded with where a load says nothing else.
    source: Source,
    /// By version; empty where it is not loaded.
    loaded: BTreeMap<i64, Loaded>,
    /// The versions that ever were loaded: others are not known to requests.
    known: BTreeSet<i64>,
    /// Whether a configuration of it was taken to be loaded, even if it had none of the versions serve.
    is_known: bool,
    /// Still busy with what was queued when it was unloaded.
    leaving: Vec<Arc<Served>>,
}

/// A version of a model that is loaded. It begins to serve when somebody asks for it: there are many, and few are used.
#[derive(Debug)]
struct Loaded {
    spec: Arc<Spec>,
    served: OnceLock<Arc<Served>>,
}

impl Repository {
    /// A repository with these models; none is loaded. They will run as such tasks.
    pub(super) fn new(sources: Vec<Source>, faults: Arc<Faults>, hold_until: HoldUntil, tasks: Tasks) -> Self {
        let entry = |source: Source| {
            let name = source.config.name.clone();
            let (loaded, known, leaving) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
            (name, Entry { source, loaded, known, is_known: false, leaving })
        };
        Self { faults, tasks, hold_until, models: RwLock::new(sources.into_iter().map(entry).collect()) }
    }

    pub(super) fn load_all(&self) -> Result<(), Status> {
        let names: Vec<_> = self.models().keys().cloned().collect();
        names.iter().try_for_each(|name| self.load(name, None))
    }

    /// The model, which begins to serve if it did not yet.
    fn served(&self, loaded: &Loaded) -> Arc<Served> {
        Arc::clone(loaded.served.get_or_init(|| Served::start(&loaded.spec, &self.faults, &self.tasks)))
    }

    fn models(&self) -> RwLockReadGuard<'_, BTreeMap<String, Entry>> {
        self.models.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn models_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Entry>> {
        self.models.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The model of this name and version; an empty version is the newest.
    pub(super) fn find(&self, name: &str, version: &str) -> Result<Arc<Served>, Status> {
        let version = parse_version(version)?;
        let unknown = |code, rest: &str| Err(Status::new(code, format!("Request for unknown model: '{name}' {rest}")));
        let models = self.models();
        let Some(entry) = models.get(name).filter(|entry| entry.is_known) else {
            return unknown(Code::NotFound, "is not found");
        };
        match version {
            None => match entry.loaded.last_key_value() {
                Some((_, newest)) => Ok(self.served(newest)),
                None => Err(no_version(name)),
            },
            Some(version) => match entry.loaded.get(&version) {
                Some(loaded) => Ok(self.served(loaded)),
                None if entry.known.contains(&version) => Err(not_ready(name, version)),
                None => Err(unknown_version(name, version)),
            },
        }
    }

    /// The version of the model that has a sequence of a step's correlation ID, besides the version that the step is to, where it is
    /// planted that the step goes there.
    pub(super) fn of_another_version(&self, model: &Served, request: &Asked) -> Option<Arc<Served>> {
        if request.start || !self.faults.has(Fault::VersionsShareSequences) {
            return None;
        }
        let models = self.models();
        let versions = &models.get(&model.name)?.loaded;
        let others = versions.iter().filter(|(version, _)| **version != model.version);
        let mut others = others.filter_map(|(_, loaded)| loaded.served.get());
        let other = others.find(|other| other.has_sequence(&request.id))?;
        self.faults.happens(Fault::VersionsShareSequences).then(|| Arc::clone(other))
    }

    /// The versions that a model's metadata tells: all that serve, or the one that was asked for.
    pub(super) fn versions(&self, served: &Served, asked: &str) -> Vec<String> {
        if !asked.is_empty() {
            return vec![served.version.to_string()];
        }
        let models = self.models();
        models.get(&served.name).map(|entry| entry.loaded.keys().map(i64::to_string).collect()).unwrap_or_default()
    }

    /// Whether the model can serve.
    pub(super) fn is_ready(&self, name: &str, version: &str) -> Result<bool, Status> {
        parse_version(version)?;
        Ok(self.find(name, version).is_ok_and(|served| served.says_ready()))
    }

    /// The models whose statistics were asked for; an empty name is all.
    pub(super) fn counting(&self, name: &str, version: &str) -> Result<Vec<Arc<Served>>, Status> {
        let version = parse_version(version)?;
        let models = self.models();
        if name.is_empty() {
            let loaded = models.values().flat_map(|entry| entry.loaded.values());
            return Ok(loaded.map(|loaded| self.served(loaded)).collect());
        }
        let Some(loaded) = models.get(name).map(|entry| &entry.loaded).filter(|loaded| !loaded.is_empty()) else {
            return Err(Status::invalid_argument(format!("requested model '{name}' is not available")));
        };
        match version {
            None => Ok(loaded.values().map(|loaded| self.served(loaded)).collect()),
            Some(version) => match loaded.get(&version) {
                Some(loaded) => Ok(vec![self.served(loaded)]),
                None => Err(Status::invalid_argument(format!(
                    "requested model version is not available for model '{name}'"
                ))),
            },
        }
    }

    /// What there is, and in which state.
    pub(super) fn index(&self, only_ready: bool) -> Vec<ModelIndex> {
        let mut models = self.models_mut();
        models
            .iter_mut()
            .flat_map(|(name, entry)| {
                entry.leaving.retain(|served| !served.is_gone());
                entry.index(name)
            })
            .filter(|model| !only_ready || model.state == "READY")
            .collect()
    }

    /// Loads a model, with this configuration in place of its own where one is given. One that cannot be loaded leaves
    /// what is there.
    pub(super) fn load(&self, name: &str, config: Option<&str>) -> Result<(), Status> {
        let steps = self.load_alone(name, config)?;
        let problem = steps.iter().find_map(|step| {
            let loaded = self.load(step, None).map_err(|failure| failure.message().to_owned());
            let has_steps = || self.steps_of(step).is_some_and(|steps| !steps.is_empty());
            let nested = || format!("its step '{step}' is an ensemble or calls a model, which is not served");
            loaded.err().or_else(|| has_steps().then(nested))
        });
        let Some(problem) = problem else { return Ok(()) };
        self.unload(name);
        Err(Status::invalid_argument(format!("load failed for model '{name}': {problem}")))
    }

    /// The models that a model hands its requests to; none where no such model is loaded.
    fn steps_of(&self, name: &str) -> Option<Vec<String>> {
        let models = self.models();
        Some(models.get(name)?.loaded.first_key_value()?.1.spec.needs().cloned().collect())
    }

    /// The same without the models that it hands its requests to, which it returns.
    fn load_alone(&self, name: &str, config: Option<&str>) -> Result<Vec<String>, Status> {
        let not_polled = || Status::internal(format!("failed to load '{name}', failed to poll from model repository"));
        let mut models = self.models_mut();
        let entry = models.get_mut(name).ok_or_else(not_polled)?;
        let config = match config {
            None if !entry.loaded.is_empty() => return Ok(Vec::new()),
            None => entry.source.config.clone(),
            Some(json) => {
                let config = read_config(name, json).and_then(|config| check(&config).map(|()| config));
                config.map_err(|problem| {
                    tracing::warn!("model '{name}': {problem}");
                    not_polled()
                })?
            }
        };
        entry.is_known = true;
        let versions = served_versions(&config, &entry.source.versions)
            .map_err(|problem| Status::invalid_argument(format!("load failed for model '{name}': {problem}\n")))?;
        let of_version = |version: &i64| {
            let mut spec = Spec::new(config.clone(), &entry.source.files)?;
            (spec.version, spec.settings.hold_until) = (*version, self.hold_until);
            Ok(spec)
        };
        let specs: Vec<_> = versions.iter().map(of_version).collect::<Result<_, _>>().map_err(|problem: String| {
            let of = |version| format!("version {version} is at UNAVAILABLE state: Invalid argument: {problem};\n");
            let all: String = versions.iter().map(of).collect();
            Status::invalid_argument(format!("load failed for model '{name}': {all}"))
        })?;
        let steps = specs.first().map(|spec| spec.needs().cloned().collect());
        if entry.take(specs) {
            self.reset_others(&models, name);
        }
        Ok(steps.unwrap_or_default())
    }

    /// Lets the other models lose their states, where that is planted. Only those that are in use are a chance.
    fn reset_others(&self, models: &BTreeMap<String, Entry>, name: &str) {
        let others = models.iter().filter(|(other, _)| *other != name);
        let served = others.flat_map(|(_, entry)| entry.begun());
        for other in served.filter(|other| other.is_in_use()) {
            if self.faults.happens(Fault::LoadResetsOthers) {
                other.reset_states();
            }
        }
    }

    /// Unloads a model; one that is not there is unloaded already.
    pub(super) fn unload(&self, name: &str) {
        if let Some(entry) = self.models_mut().get_mut(name) {
            entry.unload();
        }
    }

    /// An instance of each model that serves fails, and comes back.
    pub(super) fn fail_an_instance(&self) {
        self.models().values().flat_map(Entry::begun).for_each(|served| served.fail());
    }

    /// Rejects new sequences, and waits until what was accepted is answered.
    pub(super) async fn stop(&self) {
        let served: Vec<_> = self.models().values().flat_map(Entry::begun).cloned().collect();
        for model in &served {
            model.stop();
        }
        let all_gone = async {
            while served.iter().any(|served| !served.is_gone()) {
                tokio::time::sleep(STOP_LOOK).await;
            }
        };
        // What a fault made hang would keep the server.
        let _ = tokio::time::timeout(STOP_LIMIT, all_gone).await;
    }
}

impl Entry {
    /// The versions that somebody asked for.
    fn begun(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.loaded.values().filter_map(|loaded| loaded.served.get())
    }

    fn unload(&mut self) {
        while let Some((version, _)) = self.loaded.first_key_value() {
            self.unload_version(*version);
        }
    }

    fn unload_version(&mut self, version: i64) {
        self.leaving.retain(|served| !served.is_gone());
        if let Some(served) = self.loaded.remove(&version).and_then(|loaded| loaded.served.into_inner()) {
            served.stop();
            self.leaving.push(served);
        }
    }

    /// Has versions of these, and no others, serve. Returns whether one was begun anew: one that differs in the number of instances, or
    /// in which versions serve, goes on.
    fn take(&mut self, specs: Vec<Spec>) -> bool {
        let is_left = |version: &i64| specs.iter().all(|spec| spec.version != *version);
        let left: Vec<_> = self.loaded.keys().copied().filter(is_left).collect();
        for version in left {
            self.unload_version(version);
        }
        let mut is_begun = false;
        for spec in specs.into_iter().map(Arc::new) {
            let version = spec.version;
            let served = self.loaded.get(&version).and_then(|loaded| loaded.served.get());
            if !served.is_some_and(|served| served.resize(&spec)) {
                self.unload_version(version);
                self.loaded.insert(version, Loaded { spec, served: OnceLock::new() });
                self.known.insert(version);
                is_begun = true;
            }
        }
        is_begun
    }

    /// What the index says of each version.
    fn index(&self, name: &str) -> Vec<ModelIndex> {
        let told = |version: &str, state: &str, reason: &str| {
            let [name, version, state, reason] = [name, version, state, reason].map(str::to_owned);
            ModelIndex { name, version, state, reason }
        };
        if self.known.is_empty() {
            return vec![told("", "", "")];
        }
        let of = |version: &i64| {
            let is_leaving = || self.leaving.iter().any(|served| served.version == *version);
            let (state, reason) = match () {
                () if self.loaded.contains_key(version) => ("READY", ""),
                () if is_leaving() => ("UNLOADING", ""),
                () => ("UNAVAILABLE", "unloaded"),
            };
            told(&version.to_string(), state, reason)
        };
        self.known.iter().map(of).collect()
    }
}

/// A version as the real server reads it: what stands behind its digits does not count.
pub(super) fn parse_version(version: &str) -> Result<Option<i64>, Status> {
    if version.is_empty() {
        return Ok(None);
    }
    let text = version.trim_start();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let behind = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let Ok(number) = text[..text.len() - behind.len()].parse::<i64>() else {
        return Err(Status::invalid_argument(format!(
            "failed to get model version from specified version string '{version}' (details: stol), version should be an integral value > 0"
        )));
    };
    if number < 0 {
        return Err(Status::invalid_argument(format!(
            "invalid model version specified '{version}' , version should be an integral value > 0"
        )));
    }
    Ok(Some(number))
}

/// Reads a configuration as JSON, in protobuf's mapping.
pub(super) fn read_config(name: &str, json: &str) -> Result<ModelConfig, String> {
    let mut reader = serde_json::Deserializer::from_str(json);
    // Fields that this server has no use for are no reason to reject a configuration that the real one takes.
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let message = DynamicMessage::deserialize_with_options(DESCRIPTOR.clone(), &mut reader, &options)
        .and_then(|message| reader.end().map(|()| message))
        .map_err(|error| error.to_string())?;
    let mut config: ModelConfig = message.transcode_to().map_err(|error| error.to_string())?;
    if config.name.is_empty() {
        name.clone_into(&mut config.name);
    }
    if config.name != name {
        return Err(format!("the configuration is that of '{}'", config.name));
    }
    Ok(config)
}
