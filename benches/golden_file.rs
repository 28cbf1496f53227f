//! Measures how much memory a golden file takes, beside the size of the file: while it is written, while it is read, and then.
//!
//! `cargo bench --bench golden_file` takes a file of 10,000 steps. `cargo test --bench golden_file` takes a small one. Both fail where
//! the file takes more memory than its size and a little for each step.

use std::{
    env,
    error::Error,
    fs::{self, File},
    path::Path,
    process::Command,
    sync::Arc,
};

use oracle::golden::{Compare, Facts, Golden, Identity, Lineage, Output};
use rand::Rng as _;
use sequence_stress::golden::read_file;
use workload::{
    inputs::{ElementType, InputSet, InputTensor, Track},
    seed::Seed,
    tensor::TensorSpec,
};

/// What a step sends, and what it is answered with: each has so many bytes.
const BYTES: usize = 16 << 10;
const WIDTH: i64 = 4096;
const TRACKS: u32 = 100;
const STEPS: u32 = 100;
const QUICK_STEPS: u32 = 5;
/// What a step may take beside its bytes: names, shapes, codes, and the header's text while it is written or read.
const OF_A_STEP: u64 = 2 << 10;
/// What the first file takes, however large it is.
const ONCE: u64 = 1 << 20;
const READS: &str = "--read";

/// Golden outputs of tracks with so many steps each. No two tensors are the same.
fn golden(steps: u32) -> Golden {
    let mut random = Seed(1).generator(0);
    let mut tensor = || {
        let mut data = vec![0; BYTES];
        random.fill_bytes(&mut data);
        data
    };
    let mut input = || {
        let (name, shape) = ("INPUT".to_owned(), vec![1, WIDTH]);
        Arc::from([InputTensor { name, datatype: ElementType::Fp32, shape, data: tensor() }])
    };
    let mut track = |track: u32| {
        let steps = (0..steps).map(|_| input()).collect();
        Track { name: track.to_string(), steps, pauses: Vec::new() }
    };
    let inputs = Arc::new(InputSet::new((0..TRACKS).map(&mut track).collect()));
    let identity = Identity {
        model: "m".into(),
        version: None,
        server: None,
        configuration: None,
        inputs: inputs.digest().to_owned(),
    };
    let spec = TensorSpec { name: "OUTPUT".into(), datatype: "FP32".into(), shape: vec![-1, WIDTH] };
    let output = Output { spec, datatype: ElementType::Fp32, compare: Compare::Measured, tolerances: vec![0.0] };
    let states = (0..TRACKS).flat_map(|track| (1..=steps).map(move |steps| Lineage::Track { track, steps }));
    let seen = states.map(|lineage| (lineage, Arc::new(vec![vec![(vec![1, WIDTH], tensor())]])));
    Golden::new(identity, inputs, vec![output], Facts::default(), seen.collect::<Vec<_>>())
}

/// This process's memory in bytes: what it has, and the most that it had.
fn memory() -> Result<(u64, u64), Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let of = |field: &str| -> Result<u64, Box<dyn Error>> {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).ok_or("the system does not tell")?;
        Ok(1024 * line.trim_start_matches(':').trim_end_matches("kB").trim().parse::<u64>()?)
    };
    Ok((of("VmRSS")?, of("VmHWM")?))
}

/// Takes down what the work of a part added to the memory that the process has, and to the most that it had.
fn added<T>(of: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<(T, u64, u64), Box<dyn Error>> {
    let (before, _) = memory()?;
    let made = of()?;
    let (after, peak) = memory()?;
    Ok((made, after.saturating_sub(before), peak.saturating_sub(before)))
}

#[expect(clippy::print_stdout, reason = "it is what it is for")]
fn judge(what: &str, path: &Path, steps: u32, (after, peak): (u64, u64)) -> Result<(), Box<dyn Error>> {
    let size = fs::metadata(path)?.len();
    let limit = size + u64::from(TRACKS * steps) * OF_A_STEP + ONCE;
    let mb = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    println!("{what}: {} then, {} at the most; the file has {}", mb(after), mb(peak), mb(size));
    if peak > limit { Err(format!("{what}: it takes more than {}", mb(limit)).into()) } else { Ok(()) }
}

/// Each part is a process of its own: what one has freed would not count for the next.
fn main() -> Result<(), Box<dyn Error>> {
    // `cargo bench` adds this flag, and `cargo test` does not.
    let is_quick = !env::args().any(|argument| argument == "--bench");
    let steps = if is_quick { QUICK_STEPS } else { STEPS };
    let mut arguments = env::args_os().skip_while(|argument| argument != READS).skip(1);
    if let Some(path) = arguments.next() {
        let path = Path::new(&path);
        let (golden, after, peak) = added(|| Ok(read_file(path)?))?;
        assert_eq!(golden.words().len(), (TRACKS * steps) as usize);
        return judge("reading", path, steps, (after, peak));
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.golden");
    let ((), after, peak) = added(|| Ok(golden(steps).write_to(File::create(&path)?)?))?;
    judge("making and writing", &path, steps, (after, peak))?;
    let mut reading = Command::new(env::current_exe()?);
    reading.args((!is_quick).then_some("--bench")).arg(READS).arg(&path);
    if reading.status()?.success() { Ok(()) } else { Err("the file was not read as it should be".into()) }
}
