//! Silero VAD on a real tritonserver, whose host commits the faults: models that golden outputs judge.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use oracle::golden::{Golden, Identity};
use reference::Fault;
use sequence_stress::run::Setup;
use tempfile::TempDir;
use workload::{scenario::Scenario, seed::Seed};

use crate::{
    harness::{
        golden::calibrated,
        rows::{Row, Scene, golden_rows},
        trial::{scenario, unhurried},
    },
    real::{Models, ROOT, Real, Result, Trial, with_triton},
};

/// The faults that the host can commit stand here by their names.
const HOST_FAULTS: &str = include_str!("../../models/host.py");
/// The host keeps the state of the first by slot, and that of the second by correlation ID.
const DIRECT: &str = "silero_vad";
const OLDEST: &str = "silero_vad_oldest";
/// A machine that runs a process for each model is too busy for a shorter one.
const IDLE_LIMIT_MS: &str = "1000";
/// As many steps as the longest sequences have.
const FRAMES: &str = "40";
const STREAMS: &str = "32";

/// Silero VAD, and what it answers on a server without a fault.
pub(crate) struct Silero {
    written: TempDir,
    golden: BTreeMap<&'static str, Golden>,
}

impl Silero {
    /// Writes the model and streams of speech, and finds out what a server without a fault answers to them.
    pub(crate) fn new() -> Result<Self> {
        let mut silero = Self { written: TempDir::new()?, golden: BTreeMap::new() };
        let inputs = silero.written.path().join("streams.json");
        let mut write = Command::new(PathBuf::from(ROOT).join("scripts/silero"));
        write.arg(silero.models()).args(["--idle-limit-ms", IDLE_LIMIT_MS]).arg("--inputs").arg(&inputs);
        if !write.args(["--streams", STREAMS, "--frames", FRAMES]).stdout(Stdio::null()).status()?.success() {
            return Err("scripts/silero writes no models".into());
        }
        let server = Real::start(silero.server(&silero.models()), &silero.written.path().join("log"))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        for model in [DIRECT, OLDEST] {
            let scenario = silero_scenario(Scene::Base, server.address, model);
            let golden = runtime.block_on(calibrated(scenario, Some(inputs.clone()))).map_err(|why| why.to_string())?;
            silero.golden.insert(model, golden);
        }
        server.stop()?;
        Ok(silero)
    }

    fn models(&self) -> PathBuf {
        self.written.path().join("models")
    }

    /// The rows of the faults that the host can commit in this model.
    pub(crate) fn rows(only: &str) -> Vec<Row> {
        // It has one state.
        let has =
            |row: &Row| HOST_FAULTS.contains(&format!(" \"{}\": ", row.fault)) && row.fault != Fault::ExchangeStates;
        let named = |row: &Row| row.fault.name().contains(only);
        let rows = golden_rows().into_iter().filter(|row| has(row) && named(row));
        rows.map(|row| Row { model: if row.model.contains("oldest") { OLDEST } else { DIRECT }, ..row }).collect()
    }
}

impl Models for Silero {
    const OF_A_SERVER: usize = 24;

    fn write(&self, repository: &Path, trial: &Trial) -> Result<()> {
        let Trial { row, planted, model, .. } = trial;
        let (base, own) = (self.models().join(row.model), repository.join(model));
        fs::create_dir_all(own.join("1"))?;
        fs::copy(base.join("1/model.onnx"), own.join("1/model.onnx"))?;
        let config = fs::read_to_string(base.join("config.pbtxt"))?;
        let config = config.replace(&format!("name: \"{}\"", row.model), &format!("name: \"{model}\""));
        let fault = format!("parameters [ {{ key: \"fault\" value {{ string_value: \"{planted}\" }} }} ]\n");
        Ok(fs::write(own.join("config.pbtxt"), config + &fault)?)
    }

    fn server(&self, repository: &Path) -> Command {
        let mut command = with_triton();
        command.arg("--repository").arg(repository);
        command
    }

    fn setup(&self, trial: &Trial, address: SocketAddr) -> Setup {
        // The models differ in their names and faults alone.
        let golden = &self.golden[trial.row.model];
        let identity = Identity { model: trial.model.clone(), configuration: None, ..golden.identity.clone() };
        let own = golden.of_another(identity);
        let scenario = silero_scenario(trial.row.scene, address, &trial.model);
        Setup { golden: Some(Arc::new(own)), ..Setup::new(scenario, Seed(trial.seed)) }
    }
}

fn silero_scenario(scene: Scene, address: SocketAddr, model: &str) -> Scenario {
    unhurried(scenario(scene, address, model))
}
