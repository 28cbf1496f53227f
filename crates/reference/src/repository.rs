//! The models that the server has: loaded, unloaded, and loaded again with another configuration.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use prost_reflect::{DeserializeOptions, DynamicMessage};
use tonic::{Code, Status};

use super::{
    VERSION,
    fault::{Fault, Faults},
    folder::Source,
    scheduler::HoldUntil,
    served::Served,
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
    loaded: Option<Loaded>,
    /// Whether it ever was: one that never was is not known to requests.
    was_loaded: bool,
    /// Still busy with what was queued when it was unloaded.
    leaving: Vec<Arc<Served>>,
}

/// A model that is loaded. It begins to serve when somebody asks for it: there are many, and few are used.
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
            (name, Entry { source, loaded: None, was_loaded: false, leaving: Vec::new() })
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

    /// The model of this name and version; an empty version is any.
    pub(super) fn find(&self, name: &str, version: &str) -> Result<Arc<Served>, Status> {
        let version = parse_version(version)?;
        let unknown = |code, rest: &str| Err(Status::new(code, format!("Request for unknown model: '{name}' {rest}")));
        let models = self.models();
        let Some(entry) = models.get(name).filter(|entry| entry.was_loaded) else {
            return unknown(Code::NotFound, "is not found");
        };
        match (&entry.loaded, version) {
            (_, Some(other)) if other != 1 => unknown(Code::NotFound, &format!("version {other} is not found")),
            (Some(loaded), _) => Ok(self.served(loaded)),
            (None, None) => unknown(Code::NotFound, "has no available versions"),
            (None, Some(_)) => unknown(Code::Unavailable, "version 1 is not at ready state"),
        }
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
            let loaded = models.values().filter_map(|entry| entry.loaded.as_ref());
            return Ok(loaded.map(|loaded| self.served(loaded)).collect());
        }
        let Some(loaded) = models.get(name).and_then(|entry| entry.loaded.as_ref()) else {
            return Err(Status::invalid_argument(format!("requested model '{name}' is not available")));
        };
        match version {
            None | Some(1) => Ok(vec![self.served(loaded)]),
            Some(_) => {
                Err(Status::invalid_argument(format!("requested model version is not available for model '{name}'")))
            }
        }
    }

    /// What there is, and in which state.
    pub(super) fn index(&self, only_ready: bool) -> Vec<ModelIndex> {
        let mut models = self.models_mut();
        models
            .iter_mut()
            .map(|(name, entry)| {
                entry.leaving.retain(|served| !served.is_gone());
                let (state, reason) = match (&entry.loaded, entry.leaving.is_empty()) {
                    (Some(_), _) => ("READY", ""),
                    (None, false) => ("UNLOADING", ""),
                    (None, true) if entry.was_loaded => ("UNAVAILABLE", "unloaded"),
                    (None, true) => ("", ""),
                };
                let [version, state, reason] = [VERSION, state, reason].map(str::to_owned);
                ModelIndex { name: name.clone(), version, state, reason }
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
        let spec = &models.get(name)?.loaded.as_ref()?.spec;
        Some(spec.needs().cloned().collect())
    }

    /// The same without the models that it hands its requests to, which it returns.
    fn load_alone(&self, name: &str, config: Option<&str>) -> Result<Vec<String>, Status> {
        let not_polled = || Status::internal(format!("failed to load '{name}', failed to poll from model repository"));
        let mut models = self.models_mut();
        let entry = models.get_mut(name).ok_or_else(not_polled)?;
        let config = match config {
            None if entry.loaded.is_some() => return Ok(Vec::new()),
            None => entry.source.config.clone(),
            Some(json) => {
                let config = read_config(name, json).and_then(|config| check(&config).map(|()| config));
                config.map_err(|problem| {
                    tracing::warn!("model '{name}': {problem}");
                    not_polled()
                })?
            }
        };
        let mut spec = Spec::new(config, &entry.source.files).map_err(|problem| {
            Status::invalid_argument(format!(
                "load failed for model '{name}': version 1 is at UNAVAILABLE state: Invalid argument: {problem};\n"
            ))
        })?;
        spec.settings.hold_until = self.hold_until;
        let spec = Arc::new(spec);
        let steps = spec.needs().cloned().collect();
        let served = entry.loaded.as_ref().and_then(|loaded| loaded.served.get());
        if !served.is_some_and(|served| served.resize(&spec)) {
            entry.unload();
            entry.loaded = Some(Loaded { spec, served: OnceLock::new() });
            entry.was_loaded = true;
            self.reset_others(&models, name);
        }
        Ok(steps)
    }

    /// Lets the other models lose their states, where that is planted. Only those that are in use are a chance.
    fn reset_others(&self, models: &BTreeMap<String, Entry>, name: &str) {
        let others = models.iter().filter(|(other, _)| *other != name);
        let served = others.filter_map(|(_, entry)| entry.loaded.as_ref()?.served.get());
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

    /// Rejects new sequences, and waits until what was accepted is answered.
    /// An instance of each model that serves fails, and comes back.
    pub(super) fn fail_an_instance(&self) {
        let models = self.models();
        let served = models.values().filter_map(|entry| entry.loaded.as_ref()?.served.get());
        served.for_each(|served| served.fail());
    }

    pub(super) async fn stop(&self) {
        let begun = |entry: &Entry| entry.loaded.as_ref().and_then(|loaded| loaded.served.get().cloned());
        let served: Vec<_> = self.models().values().filter_map(begun).collect();
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
    fn unload(&mut self) {
        self.leaving.retain(|served| !served.is_gone());
        if let Some(served) = self.loaded.take().and_then(|loaded| loaded.served.into_inner()) {
            served.stop();
            self.leaving.push(served);
        }
    }
}

/// A version as the real server reads it: what stands behind its digits does not count.
fn parse_version(version: &str) -> Result<Option<i64>, Status> {
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
