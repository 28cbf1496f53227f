//! TensorRT's plans, which TensorRT alone can make, on the GPU that they are for.

use std::{
    fs, io,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use formats::{element::ElementType, graph::Graph, shape::Dim};

use super::model::VERSION;

/// A plan, in a model's folder.
pub(super) const PLAN: &str = "1/model.plan";
/// TensorRT's own program.
const PROGRAM: &str = "trtexec";
/// The most elements of a row, of plans for rows of any number.
const WIDTH_MAX: u32 = 32;
/// How long a plan may take, and how often it is looked whether it is made.
const LIMIT: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(10);

/// The command, to be run in a model's folder, that makes its plan.
///
/// # Errors
/// When TensorRT has no such type.
pub(super) fn command(graph: &Graph, max_batch_size: u32) -> Result<Vec<String>, String> {
    use ElementType::{Bool, Fp16, Fp32, Int32, Int64};
    for (name, tensor) in graph.inputs() {
        if ![Bool, Fp16, Fp32, Int32, Int64].contains(&tensor.element) {
            let element = if tensor.element == ElementType::Text { "texts" } else { tensor.element.name() };
            return Err(format!("no plans of {element} are written for TensorRT, which {name} is of"));
        }
    }
    let shapes = |batch: u32, width: u32| {
        let shape = |dims: &[Dim]| {
            let size = |dim: &Dim| match dim {
                Dim::Batch => batch,
                Dim::Open => width,
                Dim::Fixed(size) => *size,
            };
            dims.iter().map(|dim| size(dim).to_string()).collect::<Vec<_>>().join("x")
        };
        let input = |(name, dims)| format!("{name}:{}", shape(dims));
        let inputs = graph.inputs().map(|(name, tensor)| (name, tensor.shape.dims()));
        inputs.filter(|(_, dims)| !dims.iter().all(|dim| matches!(dim, Dim::Fixed(_)))).map(input).collect::<Vec<_>>()
    };
    let mut words = vec![PROGRAM.to_owned(), format!("--onnx={VERSION}/model.onnx"), format!("--saveEngine={PLAN}")];
    if graph.inputs().any(|(_, tensor)| tensor.element == Fp16) {
        words.push("--fp16".to_owned());
    }
    if !shapes(1, 1).is_empty() {
        let sizes = [("min", 1, 1), ("opt", max_batch_size, 1), ("max", max_batch_size, WIDTH_MAX)];
        words.extend(sizes.map(|(name, batch, width)| format!("--{name}Shapes={}", shapes(batch, width).join(","))));
    }
    Ok(words)
}

/// What became of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Made,
    /// There is no TensorRT here.
    NoProgram,
}

/// Makes the plan of the model in this folder.
///
/// # Errors
/// Why there is none.
pub(super) fn make(folder: &Path, words: &[&str]) -> Result<Plan, String> {
    let log = folder.join("trtexec.log");
    let output = fs::File::create(&log).map_err(|error| error.to_string())?;
    let errors = output.try_clone().map_err(|_| "its output cannot be kept")?;
    let child = Command::new(words[0])
        .args(&words[1..])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn();
    let plan = match child {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Plan::NoProgram),
        Err(error) => Err(format!("{PROGRAM} cannot be run: {error}")),
        Ok(child) => wait(child, &log).map(|()| Plan::Made),
    };
    // What it said is in what failed.
    let _ = fs::remove_file(&log);
    match plan {
        Ok(Plan::Made) if !folder.join(PLAN).is_file() => Err(format!("{PROGRAM} ended well and left no plan")),
        plan => plan,
    }
}

fn wait(mut child: Child, log: &Path) -> Result<(), String> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                let said = fs::read(log).unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
                return Err(format!("{PROGRAM} failed ({status}): {}", last.trim()));
            }
            Ok(None) if began.elapsed() < LIMIT => thread::sleep(LOOK),
            Ok(None) => {
                // It may have ended by itself just now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{PROGRAM} took over {} s", LIMIT.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
