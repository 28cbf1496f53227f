//! Model repositories on disk, as the real server has them: `NAME/config.pbtxt`, `NAME/1/` and what a configuration names.
//! Nothing of a model's own files is run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use super::{
    builtin::configs,
    pbtxt::{self, Remark},
    scheduler::Strategy,
    spec::{Files, STATE_BYTES_MAX, Spec},
};
use models::ModelOptions;
use wire::proto::{
    ModelConfig,
    model_config::SchedulingChoice,
    model_sequence_batching::initial_state::StateData,
    model_version_policy::{Latest, PolicyChoice, Specific},
};

const CONFIGURATION: &str = "config.pbtxt";
const INITIAL_STATES: &str = "initial_state";
/// The most that is read of a configuration, and the most models of a server.
const CONFIGURATION_BYTES_MAX: u64 = 1 << 20;
const MODELS_MAX: usize = 10_000;

/// What a model is made of.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) config: ModelConfig,
    /// The versions that there are; the configuration says which of them are served.
    pub(super) versions: BTreeSet<i64>,
    /// What the configuration names, by what it names it.
    pub(super) files: Files,
}

/// Models to be served.
#[derive(Clone, Debug)]
pub struct Models {
    pub(super) sources: Vec<Source>,
    /// What was left out, a sentence each.
    pub notes: Vec<String>,
    /// What each model computes, a line each.
    pub served: Vec<String>,
}

impl Models {
    /// The built-in models.
    ///
    /// # Errors
    /// What is wrong with the options, in one line.
    pub fn built_in(options: &ModelOptions) -> Result<Self, String> {
        Self::of_configs(options, configs(options))
    }

    /// The built-in model of this name, without the others; none where no model has the name.
    ///
    /// # Errors
    /// What is wrong with the options, in one line.
    pub fn built_in_alone(options: &ModelOptions, name: &str) -> Result<Self, String> {
        let configs = configs(options).into_iter().filter(|config| config.name == name);
        Self::of_configs(options, configs)
    }

    fn of_configs(options: &ModelOptions, configs: impl IntoIterator<Item = ModelConfig>) -> Result<Self, String> {
        let versions: BTreeSet<_> = (1..=i64::from(options.versions)).collect();
        let source = |config| Source { config, versions: versions.clone(), files: Files::new() };
        let sources: Vec<_> = configs.into_iter().map(source).collect();
        sources.iter().try_for_each(|source| source.spec().map(drop))?;
        Ok(Self { sources, notes: Vec::new(), served: Vec::new() })
    }

    /// The models of these folders, all of which can be served.
    ///
    /// # Errors
    /// What is wrong with one of them: its place, and what it is, in one line.
    pub fn read(folders: &[PathBuf]) -> Result<Self, String> {
        let mut found = BTreeMap::new();
        let mut notes = Vec::new();
        for folder in folders {
            for (name, path) in models_in(folder)? {
                if found.contains_key(&name) {
                    return Err(format!("{}: there is another model '{name}': name each once", path.display()));
                }
                found.insert(name, read_model(&path, &mut notes)?);
                if found.len() > MODELS_MAX {
                    return Err(format!("{}: over {MODELS_MAX} models", folder.display()));
                }
            }
        }
        let (sources, served) = found.into_values().unzip();
        Ok(Self { sources, notes, served })
    }
}

impl Source {
    pub(super) fn spec(&self) -> Result<Spec, String> {
        Spec::new(self.config.clone(), &self.files)
    }
}

/// The folders in a folder, by name; files are nobody's models.
fn models_in(folder: &Path) -> Result<BTreeMap<String, PathBuf>, String> {
    let cannot = |error| format!("{}: this model repository cannot be read: {error}", folder.display());
    let mut models = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_dir() {
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| format!("{}: a model's name has to be UTF-8", path.display()))?;
            models.insert(name.to_owned(), path);
        }
    }
    Ok(models)
}

fn read_file(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("{}: it cannot be read: {error}", path.display()))?;
    if bytes.len() as u64 > most {
        return Err(format!("{}: it is larger than {most} bytes", path.display()));
    }
    Ok(bytes)
}

/// Reads a model, and says what it computes.
fn read_model(path: &Path, notes: &mut Vec<String>) -> Result<(Source, String), String> {
    let file = path.join(CONFIGURATION);
    if !file.is_file() {
        return Err(format!(
            "{}: there is no {CONFIGURATION}; each folder of a model repository is a model, and this server makes up no \
             configuration",
            path.display()
        ));
    }
    let at = |Remark { line, text }: Remark| format!("{}:{line}: {text}", file.display());
    let text = String::from_utf8(read_file(&file, CONFIGURATION_BYTES_MAX)?)
        .map_err(|_| at(Remark { line: 1, text: "it is not UTF-8".to_owned() }))?;
    let wrong = |problem: String| at(Remark { line: line_of_problem(&text, &problem), text: problem });
    let (mut config, unknown) = pbtxt::read(&text).map_err(at)?;
    notes.extend(unknown.into_iter().map(at));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if config.name.is_empty() {
        name.clone_into(&mut config.name);
    }
    if config.name != name {
        return Err(wrong(format!(
            "model '{}' is in a folder named '{name}', and both names must be the same",
            config.name
        )));
    }
    let versions = versions(path)?;
    served_versions(&config, &versions).map_err(wrong)?;
    notes.extend(missing_versions(&config, &versions).map(|problem| format!("{}: {problem}", file.display())));
    let files = initial_states(path, &config)?;
    let source = Source { config, versions, files };
    let line = served(&source.spec().map_err(wrong)?);
    Ok((source, line))
}

/// The line that a problem is about: that of the first name in quotes that stands in the text.
fn line_of_problem(text: &str, problem: &str) -> usize {
    let mut quoted = problem.split('\'').skip(1).step_by(2);
    quoted.find_map(|name| pbtxt::line_of(text, name)).unwrap_or(1)
}

/// The versions of a model: its folders that have a number as their name, as the real server reads it.
fn versions(path: &Path) -> Result<BTreeSet<i64>, String> {
    let cannot = |error| format!("{}: it cannot be read: {error}", path.display());
    let mut versions = BTreeSet::new();
    for entry in fs::read_dir(path).map_err(cannot)? {
        let folder = entry.map_err(cannot)?.path();
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.parse::<i64>().ok().filter(|number| *number >= 0 && number.to_string() == name);
        versions.extend(number.filter(|_| folder.is_dir()));
    }
    if versions.is_empty() {
        return Err(format!("{}: there is no version of the model: make a folder named 1 in it", path.display()));
    }
    Ok(versions)
}

/// The versions that a configuration has served, of those that there are.
///
/// # Errors
/// When there is none of those, in the words of the real server.
pub(super) fn served_versions(config: &ModelConfig, there: &BTreeSet<i64>) -> Result<BTreeSet<i64>, String> {
    let latest = |count: u32| there.iter().rev().take(count as usize).copied().collect();
    let served: BTreeSet<_> = match config.version_policy.as_ref().and_then(|policy| policy.policy_choice.as_ref()) {
        None => latest(1),
        Some(PolicyChoice::Latest(Latest { num_versions })) => latest((*num_versions).max(1)),
        Some(PolicyChoice::All(_)) => there.clone(),
        Some(PolicyChoice::Specific(Specific { versions })) => {
            there.iter().filter(|version| versions.contains(version)).copied().collect()
        }
    };
    if served.is_empty() {
        let name = &config.name;
        return Err(format!("at least one version must be available under the version policy of model '{name}'"));
    }
    Ok(served)
}

/// A remark where a configuration names versions that there are not.
fn missing_versions(config: &ModelConfig, there: &BTreeSet<i64>) -> Option<String> {
    let Some(PolicyChoice::Specific(Specific { versions })) = &config.version_policy.as_ref()?.policy_choice else {
        return None;
    };
    let missing: Vec<_> = versions.iter().filter(|version| !there.contains(version)).map(i64::to_string).collect();
    (!missing.is_empty())
        .then(|| format!("'version_policy' names {}, which has no folder, ignored", missing.join(", ")))
}

/// The files of initial states that a configuration names.
fn initial_states(path: &Path, config: &ModelConfig) -> Result<Files, String> {
    let Some(SchedulingChoice::SequenceBatching(batching)) = &config.scheduling_choice else { return Ok(Files::new()) };
    let mut files = Files::new();
    for initial in batching.state.iter().flat_map(|state| &state.initial_state) {
        if let Some(StateData::DataFile(name)) = &initial.state_data {
            let file = path.join(INITIAL_STATES).join(name);
            files.insert(name.clone(), read_file(&file, STATE_BYTES_MAX)?);
        }
    }
    Ok(files)
}

/// What a model computes, in a line.
fn served(spec: &Spec) -> String {
    if !spec.steps.is_empty() {
        let steps: Vec<_> = spec.steps.iter().map(|step| step.model.as_str()).collect();
        return format!("{}: ensemble of {}", spec.config.name, steps.join(" and "));
    }
    let calls = spec.parameters.calls.as_ref().map(|called| format!(", calls {called}")).unwrap_or_default();
    let strategy = match &spec.settings.strategy {
        Strategy::Direct { .. } => "Direct",
        Strategy::Oldest { .. } => "Oldest",
    };
    let state = match spec.states.len() {
        0 => "",
        1 => ", implicit state",
        _ => ", implicit states",
    };
    let formula = spec.parameters.formula;
    let of = if formula.is_sum() { format!(" of {}", spec.datatype()) } else { String::new() };
    format!("{}: {}{of}, {strategy}{state}{calls}", spec.config.name, formula.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"name: "model"
        input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
        output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
        sequence_batching {
          STATE
        }
    "#;

    /// A repository with one model of this configuration.
    fn repository(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let model = folder.path().join("model");
        fs::create_dir_all(model.join("1")).expect("a version");
        fs::write(model.join(CONFIGURATION), text).expect("a configuration");
        folder
    }

    fn good() -> String {
        GOOD.replace("STATE", "")
    }

    fn read(folder: &tempfile::TempDir) -> Result<Models, String> {
        Models::read(&[folder.path().to_owned()])
    }

    #[test]
    fn versions_are_served_as_their_policy_says() {
        for (policy, served) in [
            ("", Some(&[10][..])),
            ("latest { num_versions: 2 }", Some(&[2, 10])),
            ("all {}", Some(&[1, 2, 10])),
            ("specific { versions: [ 1, 10, 7 ] }", Some(&[1, 10])),
            ("specific { versions: [ 7 ] }", None),
        ] {
            let text = if policy.is_empty() { good() } else { format!("{}\nversion_policy {{ {policy} }}", good()) };
            let folder = repository(&text);
            for version in ["2", "10", "03", "x1"] {
                fs::create_dir(folder.path().join("model").join(version)).expect("a folder");
            }
            match (read(&folder), served) {
                (Ok(models), Some(served)) => {
                    let Source { config, versions, .. } = &models.sources[0];
                    let its = served_versions(config, versions).expect("some are served");
                    assert!(its.iter().eq(served), "{policy}: {its:?}");
                    assert_eq!(models.notes.len(), usize::from(policy.contains('7')), "{policy}: {:?}", models.notes);
                }
                (Err(problem), None) => {
                    assert!(problem.contains("at least one version must be available"), "{problem}");
                }
                (models, _) => panic!("{policy}: {models:?}"),
            }
        }
    }

    /// What is said of a repository that is rejected, without the folder's own name.
    fn problem(folder: &tempfile::TempDir) -> String {
        let problem = read(folder).expect_err("it is rejected");
        problem.replace(&folder.path().display().to_string(), "R")
    }

    #[test]
    fn a_model_is_served_as_its_configuration_says() {
        let folder = repository(&good().replace("name: \"model\"", ""));
        fs::write(folder.path().join("notes.txt"), "no model").expect("a file");
        let models = read(&folder).expect("it is right");
        assert_eq!(models.served, ["model: running-sum of INT32, Direct"]);
        assert_eq!((models.sources[0].config.name.as_str(), models.notes.len()), ("model", 0));
        let models = read(&repository(&(good() + "\nflavour: 7"))).expect("it is right");
        assert!(models.notes[0].ends_with("/model/config.pbtxt:8: 'flavour' is not known to this server, ignored"));
    }

    #[test]
    fn a_model_without_a_formula_is_what_its_parameters_and_shapes_say() {
        let gru = |parameters: &str, state: &str| {
            let text = good().replace("INT32", "FP32").replace("dims: [ 1 ]", "dims: [ 512 ]");
            let text = text.replace("sequence_batching {", &format!("sequence_batching {{ {state}"));
            read(&repository(&format!(
                r#"{text} parameters [ {{ key: "sequence_stress_formula" value {{ string_value: "gru" }} }} {parameters} ]"#
            )))
        };
        let models = gru("", "").expect("it is right");
        assert_eq!((&*models.served, models.notes.len()), (&["model: gru, Direct".to_owned()][..], 0));
        let noise = r#", { key: "sequence_stress_batch_noise" value { string_value: "1e-5" } }"#;
        let state = r#"state { input_name: "IN" output_name: "OUT" data_type: TYPE_FP32 dims: [ 512 ] }"#;
        let models = gru(noise, state).expect("it is right");
        assert_eq!(models.served, ["model: gru, Direct, implicit state"]);
        let spec = models.sources[0].spec().expect("it is right");
        assert!((spec.parameters.noise.batch - 1e-5).abs() < f64::EPSILON);
        let problem = gru("", &state.replace("512", "2")).expect_err("it is too small");
        assert!(problem.ends_with("its state has to be FP32 with the dims of its input"), "{problem}");
    }

    #[test]
    fn what_cannot_be_served_is_rejected_with_its_place() {
        let folder = repository("max_batch_size: x");
        assert!(problem(&folder).starts_with("R/model/config.pbtxt:1: "), "{}", problem(&folder));
        for (from, to, said) in [
            ("\"model\"", "\"other\"", "R/model/config.pbtxt:1: model 'other' is in a folder named 'model'"),
            (
                "TYPE_INT32",
                "TYPE_BF16",
                "R/model/config.pbtxt:2: tensor 'INPUT' is of BF16, whose sums are exact up to 256",
            ),
            (
                "dims: [ 1 ] } ]\n        output",
                "dims: [ 0 ] } ]\n        output",
                "R/model/config.pbtxt:2: tensor 'INPUT': dims",
            ),
            (
                "\"OUTPUT\" data_type: TYPE_INT32",
                "\"OUTPUT\" data_type: TYPE_FP32",
                "R/model/config.pbtxt:3: output 'OUTPUT' is FP32",
            ),
            ("sequence_batching", "dynamic_batching", "R/model/config.pbtxt:1: model 'model' has no sequence_batching"),
        ] {
            let folder = repository(&good().replace(from, to));
            assert!(problem(&folder).starts_with(said), "{}", problem(&folder));
        }
        let folder = repository(&good());
        fs::create_dir(folder.path().join("empty")).expect("a folder");
        assert!(problem(&folder).starts_with("R/empty: there is no config.pbtxt"), "{}", problem(&folder));
        let folder = repository(&good());
        fs::remove_dir(folder.path().join("model/1")).expect("it is there");
        assert!(problem(&folder).starts_with("R/model: there is no version"), "{}", problem(&folder));
        let both = repository(&good());
        let twice = Models::read(&[both.path().to_owned(), both.path().to_owned()]);
        assert!(twice.is_err_and(|problem| problem.contains("there is another model 'model'")));
        fs::rename(both.path().join("model/1"), both.path().join("model/3")).expect("it is there");
        assert_eq!(read(&both).expect("it is right").sources[0].versions, [3].into());
        let nowhere = Models::read(&[PathBuf::from("/nowhere")]);
        assert!(nowhere.is_err_and(|problem| problem.starts_with("/nowhere: this model repository cannot be read")));
    }

    #[test]
    fn files_of_initial_states_are_read_and_have_to_fit() {
        let state = r#"state { input_name: "I" output_name: "O" data_type: TYPE_INT32 dims: [ 2 ]
            initial_state { name: "init" data_type: TYPE_INT32 dims: [ 2 ] data_file: "ten" } }"#;
        let folder = repository(&GOOD.replace("STATE", state));
        assert!(problem(&folder).starts_with("R/model/initial_state/ten: it cannot be read"), "{}", problem(&folder));
        let states = folder.path().join("model").join(INITIAL_STATES);
        fs::create_dir(&states).expect("a folder");
        fs::write(states.join("ten"), [0; 7]).expect("a file");
        let said = "R/model/config.pbtxt:5: state 'I': its initial_state 'init' has 8 bytes, and its data_file 'ten' 7";
        assert_eq!(problem(&folder), said);
        fs::write(states.join("ten"), [10, 0, 0, 0, 10, 0, 0, 0]).expect("a file");
        let spec = read(&folder).expect("it is right").sources[0].spec().expect("it is right");
        let initial = spec.states.first().and_then(|state| state.initial.as_deref());
        assert_eq!(initial, Some(&[10, 0, 0, 0, 10, 0, 0, 0][..]));
    }
}
