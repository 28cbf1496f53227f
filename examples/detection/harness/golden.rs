//! The golden outputs by which models without a formula are judged.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
};

use oracle::golden::Golden;
use reference::Server;
use sequence_stress::{
    golden::{Asked, Subject},
    preflight::Hints,
    run::RunError,
};
use wire::simulation::{self, Simulation};
use workload::{inputs, scenario::Scenario, seed::Seed};

use super::{
    rows::{Scene, has_formula},
    trial::{options, scenario},
};

type Made = Mutex<BTreeMap<(Scene, u64, &'static str), Arc<OnceLock<Arc<Golden>>>>>;

/// What a correct reference server's model answers in a scene; none where its formula says that. Each is found out once.
///
/// The thread must not be in a simulation.
pub fn golden_of(scene: Scene, execution_ms: u64, model: &'static str) -> Option<Arc<Golden>> {
    static MADE: Made = Mutex::new(BTreeMap::new());
    if has_formula(model) {
        return None;
    }
    let key = (scene, execution_ms, model);
    let its = Arc::clone(MADE.lock().expect("no thread panics with it").entry(key).or_default());
    let made = its.get_or_init(|| {
        let _simulation = Simulation::begin();
        let server = Server::start(options(scene, execution_ms, Vec::new(), 0)).expect("a free port");
        let golden = simulation::wait_for(calibrated(scenario(scene, server.address, model), None));
        Arc::new(golden.expect("a correct server can be calibrated"))
    });
    Some(Arc::clone(made))
}

/// What the idle server of a scenario answers to inputs of this file, or to such as are drawn.
///
/// # Errors
/// When the server does not answer as it should, or the inputs are not the model's.
pub async fn calibrated(scenario: Scenario, inputs: Option<PathBuf>) -> Result<Golden, RunError> {
    let options = inputs::Options {
        batches: true,
        model: None,
        optional: Vec::new(),
        shapes: Vec::new(),
        ranges: Vec::new(),
        tracks: None,
        steps: None,
        seed: Seed(0),
    };
    let asked = Asked { inputs, options, compare: Vec::new() };
    Subject::new(scenario, Hints::default(), &asked).await?.calibrate(&mut |_| ()).await
}
