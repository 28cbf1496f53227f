//! Reading what NumPy wrote: `crates/workload/tests/inputs/write.py` writes the files.

use std::{fs, num::NonZeroUsize, path::PathBuf};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

use super::*;
use crate::inputs::{ElementType, InputTensor, tests::options};

fn written(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/inputs").join(name)
}

fn spec(name: &str, datatype: &str, shape: &[i64]) -> TensorSpec {
    TensorSpec { name: name.into(), datatype: datatype.into(), shape: shape.to_vec() }
}

/// The inputs of a model that the tracks of the folder are for.
fn two() -> [TensorSpec; 2] {
    [spec("A", "FP32", &[-1, 2]), spec("B", "BYTES", &[-1, 1])]
}

fn batches() -> Options {
    Options { batches: true, ..options() }
}

fn names(tracks: &[Track]) -> Vec<&str> {
    tracks.iter().map(|track| track.name.as_str()).collect()
}

/// The message about a path, without its beginning, which names the path.
fn problem(path: &Path, declared: &[TensorSpec], options: &Options) -> String {
    let error = read(path, declared, options).err().unwrap_or_default();
    let rest = error.strip_prefix(&format!("cannot read inputs from '{}': ", path.display()));
    rest.unwrap_or(&error).replace(&format!("{}/", path.display()), "")
}

#[test]
fn a_folder_has_a_track_for_each_archive_and_folder() {
    let (tracks, notes) = read(&written("tracks"), &two(), &batches()).expect("they are right");
    assert_eq!(names(&tracks), ["packed", "parts", "plain"]);
    assert_eq!(
        notes,
        [format!("'{}' is not used: it is neither .npy nor .npz", written("tracks/notes.txt").display())]
    );
    let step = |number: u8, text: &str| {
        let numbers = [number * 2, number * 2 + 1].map(|number| f32::from(number).to_le_bytes());
        let length = [u8::try_from(text.len()).expect("short"), 0, 0, 0];
        vec![
            InputTensor { name: "A".into(), datatype: ElementType::Fp32, shape: vec![1, 2], data: numbers.concat() },
            InputTensor {
                name: "B".into(),
                datatype: ElementType::Bytes,
                shape: vec![1, 1],
                data: [&length, text.as_bytes()].concat(),
            },
        ]
    };
    let steps = [step(0, "a"), step(1, "é中"), step(2, "")].map(Into::into).to_vec();
    for track in &tracks {
        assert_eq!(track.steps, steps, "{}", track.name);
    }
    let (one, _) = read(&written("tracks/packed.npz"), &two(), &batches()).expect("it is right");
    assert_eq!((names(&one), &one[0].steps), (vec!["packed"], &steps));
    let (one, _) = read(&written("tracks/parts"), &two(), &batches()).expect("it is right");
    assert_eq!((names(&one), &one[0].steps), (vec!["parts"], &steps));
}

#[test]
fn each_type_of_an_array_is_one_of_a_tensor() {
    let types = [
        ("bf16", "BF16"),
        ("bool", "BOOL"),
        ("f2", "FP16"),
        ("f4", "FP32"),
        ("f8", "FP64"),
        ("i1", "INT8"),
        ("i2", "INT16"),
        ("i4", "INT32"),
        ("i8", "INT64"),
        ("u1", "UINT8"),
        ("u2", "UINT16"),
        ("u4", "UINT32"),
        ("u8", "UINT64"),
    ];
    let declared = types.map(|(name, datatype)| spec(name, datatype, &[2]));
    let (tracks, _) = read(&written("types.npz"), &declared, &options()).expect("all fit");
    let json = |numbers: &str| {
        let inputs: Vec<_> = types.iter().map(|(name, _)| format!("\"{name}\": [{numbers}]")).collect();
        format!("{{{}}}", inputs.join(", "))
    };
    let second = json("2, 3").replace("\"bool\": [2, 3]", "\"bool\": [true, true]");
    let text = format!("{{\"data\": [{}, {second}]}}", json("0, 1"));
    let (same, _) = perf_analyzer::read(text.as_bytes(), &declared, &options()).expect("all fit");
    let sorted = |track: &Track| {
        let mut steps: Vec<_> = track.steps.iter().map(|step| step.to_vec()).collect();
        for step in &mut steps {
            step.sort_by(|one, other| one.name.cmp(&other.name));
        }
        steps
    };
    assert_eq!(sorted(&tracks[0]), sorted(&same[0]));
}

#[test]
fn an_array_without_a_name_is_for_the_only_input() {
    let of = |declared: &[TensorSpec], options: &Options| {
        let (tracks, _) = read(&written("line.npy"), declared, options)?;
        Ok::<_, String>((tracks[0].name.clone(), tracks[0].steps.len(), tracks[0].steps[0][0].shape.clone()))
    };
    let named = |shape: &[i64]| Ok(("line".to_owned(), 3, shape.to_vec()));
    assert_eq!(of(&[spec("I", "INT32", &[-1, 1])], &batches()), named(&[1, 1]), "one element leaves no doubt");
    assert_eq!(of(&[spec("I", "INT32", &[1])], &options()), named(&[1]));
    let two = [spec("I", "INT32", &[1]), spec("J", "INT32", &[1])];
    assert_eq!(of(&two, &Options { optional: vec!["J".into()], ..options() }), named(&[1]));
    assert_eq!(
        problem(&written("line.npy"), &two, &options()),
        "the model has several inputs (I, J): write an .npz file, or a folder with INPUT.npy for each"
    );
    let folder = TempDir::new().expect("a folder");
    for name in ["b.npy", "a.npy"] {
        fs::copy(written("line.npy"), folder.path().join(name)).expect("a file");
    }
    let one = [spec("I", "INT32", &[1])];
    assert_eq!(names(&read(folder.path(), &one, &options()).expect("two tracks").0), ["a", "b"]);
    let inputs = [spec("a", "INT32", &[1]), spec("b", "INT32", &[1])];
    let (tracks, _) = read(folder.path(), &inputs, &options()).expect("one track");
    assert_eq!((tracks.len(), tracks[0].steps[2].len()), (1, 2));
}

#[test]
fn tracks_and_steps_are_as_many_as_wanted() {
    let sized = |tracks: usize, steps: usize| {
        let options = Options { tracks: NonZeroUsize::new(tracks), steps: NonZeroUsize::new(steps), ..batches() };
        read(&written("tracks"), &two(), &options)
    };
    let (tracks, notes) = sized(2, 7).expect("they are right");
    assert_eq!((names(&tracks), notes.len()), (vec!["packed", "parts"], 1));
    assert_eq!(tracks[0].steps.len(), 7);
    assert_eq!((&tracks[0].steps[3], &tracks[0].steps[6]), (&tracks[0].steps[0], &tracks[0].steps[0]));
    let (tracks, notes) = sized(5, 2).expect("they are right");
    assert_eq!((tracks.len(), tracks[0].steps.len()), (3, 2));
    assert_eq!(notes[1], format!("'{}' has 3 tracks, fewer than the 5 of --tracks", written("tracks").display()));
    let error = sized(3, usize::MAX).err().unwrap_or_default();
    let expected = format!("with --steps {} the inputs take more than 1024 MiB: use fewer or smaller ones", usize::MAX);
    assert!(error.ends_with(&expected), "{error}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let one = [spec("I", "INT32", &[1])];
    let folder = TempDir::new().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    assert_eq!(problem(&place("none"), &one, &options()), "No such file or directory (os error 2)");
    assert_eq!(
        problem(folder.path(), &one, &options()),
        "the folder has no inputs: write TRACK.npz, or TRACK/INPUT.npy, into it"
    );
    assert_eq!(
        problem(Path::new("/dev/zero"), &one, &options()),
        "it is neither a file nor a folder: write the inputs into a file"
    );
    fs::write(place("a.txt"), "1 2 3").expect("a file");
    assert_eq!(
        problem(&place("a.txt"), &one, &options()),
        "its form is not known: inputs are a folder, or a .json, .jsonl, .npz or .npy file"
    );
    fs::write(place("a.json"), r#"{"data": [[{"I": [1]}], []]}"#).expect("a file");
    assert_eq!(
        problem(&place("a.json"), &one, &options()),
        "'sequence 2' has no steps: each sequence needs at least one"
    );
    fs::write(place("a.npz"), "PK, and no more").expect("a file");
    let error = problem(folder.path(), &one, &options());
    assert!(error.starts_with("'a.npz': it is no .npz file, or is damaged: "), "{error}");
    fs::remove_file(place("a.npz")).expect("a file");
    fs::copy(written("objects.npy"), place("o.npy")).expect("a file");
    assert_eq!(
        problem(folder.path(), &one, &options()),
        "'o.npy': its elements are pickled Python objects (dtype object), which are not read: save texts as numpy.array(texts, dtype='S') or dtype='U'"
    );
    assert_eq!(
        problem(&written("tracks"), &two()[..1], &batches()),
        "'packed.npz': the model has no input 'B': it has A"
    );
    let other = [spec("A", "FP64", &[-1, 2]), two()[1].clone()];
    assert_eq!(
        problem(&written("tracks"), &other, &batches()),
        "'packed', step 1: input 'A' has type FP32, and the model takes A FP64[-1, 2]"
    );
    let parts = place("parts");
    fs::create_dir(&parts).expect("a folder");
    fs::copy(written("tracks/parts/A.npy"), parts.join("A.npy")).expect("a file");
    assert_eq!(problem(&parts, &two(), &batches()), "'parts', step 1: input B BYTES[-1, 1] is missing");
    fs::copy(written("line.npy"), parts.join("B.npy")).expect("a file");
    let three = [two()[0].clone(), spec("B", "INT32", &[-1, 1])];
    assert!(read(&parts, &three, &batches()).is_ok());
    let mut longer = fs::read(written("line.npy")).expect("a file");
    let header = longer.windows(4).position(|bytes| bytes == b"(3,)").expect("its shape");
    longer[header + 1] = b'4';
    longer.extend([0; 4]);
    fs::write(parts.join("B.npy"), longer).expect("a file");
    assert_eq!(
        problem(&parts, &three, &batches()).split_once("': ").map(|(_, rest)| rest.to_owned()),
        Some("input 'B': it has 4 steps, and input 'A' has 3".to_owned())
    );
    let range = Options { ranges: vec!["A:0..1".parse().expect("a range")], ..batches() };
    assert_eq!(
        problem(&written("tracks"), &two(), &range),
        "--range A:0..1 is for random inputs: leave it out, or leave out the path of the inputs"
    );
}

/// Reads damaged forms of a file: each is tracks that fit the model, or an error in one line.
fn damage(file: &str, bytes: &[u8], declared: &[TensorSpec], options: &Options) {
    const MUTANTS: u64 = 400;
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join(file);
    let mut errors = 0;
    let mut attempt = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("a file");
        match read(&path, declared, options) {
            Ok((tracks, _)) => check(&tracks, declared, &options.optional).expect("they fit"),
            Err(error) => {
                errors += 1;
                assert!(error.starts_with("cannot read inputs from '") && !error.contains('\n'), "{error}");
            }
        }
    };
    for length in 0..bytes.len() {
        attempt(&bytes[..length]);
    }
    let mut generator = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..MUTANTS {
        let mut mutant = bytes.to_vec();
        for _ in 0..generator.random_range(1..=3) {
            let place = generator.random_range(0..mutant.len());
            match generator.random_range(0..4) {
                0 => mutant[place] = generator.random(),
                1 => mutant[place] ^= 1 << generator.random_range(0..8),
                2 => mutant.truncate(place.max(1)),
                _ => mutant.splice(place..place, [b"0]}\",\n\xff"[generator.random_range(0..7)]]).for_each(drop),
            }
        }
        attempt(&mutant);
    }
    assert!(errors > bytes.len(), "{file}: {errors} errors");
}

#[test]
fn damaged_files_are_errors_in_one_line() {
    let json = br#"{"data": [[{"A": {"content": [1, -Inf], "shape": [2]}, "B": ["a\u00e9"]}], [{"A": {"b64": "AAAAAAAAAAA="}, "B": ["x"]}]], "validation_data": []}"#;
    damage("a.json", json, &two(), &batches());
    for name in ["tracks/plain.npz", "tracks/packed.npz"] {
        damage("a.npz", &fs::read(written(name)).expect("a file"), &two(), &batches());
    }
    let line = [spec("I", "INT32", &[1])];
    damage("a.npy", &fs::read(written("line.npy")).expect("a file"), &line, &options());
    let texts = [spec("B", "BYTES", &[-1, 1])];
    damage("a.npy", &fs::read(written("tracks/parts/B.npy")).expect("a file"), &texts, &batches());
}

#[test]
fn what_the_proxy_recorded_is_read_with_what_is_missing() {
    let line = |us: u64, start: bool, end: bool, data: &str| {
        format!(
            r#"{{"us":{us},"connection":1,"stream":1,"model":"m","sequence":1,"text":false,"start":{start},"end":{end},"inputs":[{{"name":"A","datatype":"INT8","shape":[1,1],"b64":"{data}"}}]}}"#
        )
    };
    let header = serde_json::to_string(&recording::Header::new(None)).expect("JSON");
    let text = [header, line(1, true, false, "AQ=="), line(5, false, true, "Ag=="), String::new()].join("\n");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("traffic.jsonl");
    fs::write(&path, text + "{").expect("a file");
    let declared = [TensorSpec { name: "A".into(), datatype: "INT8".into(), shape: vec![-1, 1] }];
    let (tracks, notes) = read(&path, &declared, &options()).expect("it is a recording");
    let data: Vec<_> = tracks[0].steps.iter().map(|step| step[0].data.clone()).collect();
    assert_eq!((tracks.len(), data), (1, vec![vec![1], vec![2]]));
    assert!(notes.iter().any(|note| note.contains("ends in the middle of a line")), "{notes:?}");
    let two = fs::read_to_string(&path)
        .expect("a file")
        .replace(r#""shape":[1,1],"b64":"Ag==""#, r#""shape":[2,1],"b64":"AgI=""#);
    let of_two = folder.path().join("two.jsonl");
    fs::write(&of_two, two).expect("a file");
    assert_eq!(
        problem(&of_two, &declared, &batches()),
        "'sequence 1', step 2: input 'A': the batch dimension of shape [2, 1] has the size 2: a step of a sequence has a batch of 1"
    );
    let of_another = Options { model: Some("other".into()), ..options() };
    assert!(read(&path, &declared, &of_another).is_err());
}
