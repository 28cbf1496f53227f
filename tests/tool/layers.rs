//! Dependencies between modules point down: each uses only those that stand before it. The native backend stands alone.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use sequence_stress::reference::Fault;

/// The modules in the order in which data flows; those of one line may use each other.
const LAYERS: [&[&str]; 12] = [
    &[
        "answers",
        "arithmetic",
        "claim",
        "conversation",
        "endpoint",
        "header",
        "keys",
        "number",
        "rounds",
        "seed",
        "sequence",
        "simulation",
        "table",
        "tensor",
        "whole_file",
        "wording",
    ],
    &["controls", "event", "model", "net"],
    &["scenario"],
    &["plan", "proto", "proxy", "repository"],
    &["transport", "reference"],
    &["history"],
    &["oracle"],
    &["recorder"],
    &["failure"],
    &["engine"],
    &["report", "cli"],
    &["commands"],
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            rust_files(&entry, found);
        } else if entry.extension().is_some_and(|ending| ending == "rs") {
            found.push(entry);
        }
    }
}

/// The modules of this crate that a file names, in `use crate::{a::…, b::…}` or as `crate::a::…`.
fn used(text: &str) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    for (place, _) in text.match_indices("crate::") {
        let rest = &text[place + "crate::".len()..];
        let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        let Some(list) = rest.strip_prefix('{') else {
            modules.insert(word(rest));
            continue;
        };
        let mut depth = 1;
        let mut item_begins = true;
        for (index, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' => item_begins |= depth == 1,
                c if item_begins && c.is_alphabetic() => {
                    modules.insert(word(&list[index..]));
                    item_begins = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    modules
}

fn layer(module: &str) -> usize {
    let place = LAYERS.iter().position(|layer| layer.contains(&module));
    place.unwrap_or_else(|| panic!("module {module} has no place in the table"))
}

#[test]
fn modules_use_only_what_stands_before_them() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let mut checked = 0;
    for file in files {
        let module = file.strip_prefix(&src).expect("below src").components().next().expect("a name");
        let module = module.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        if ["lib", "main"].contains(&module.as_str()) || file.ends_with("tests.rs") {
            continue;
        }
        for other in used(&fs::read_to_string(&file).expect("a file")) {
            assert!(other == module || layer(&other) <= layer(&module), "{} uses {other}", file.display());
            checked += 1;
        }
    }
    assert!(checked > 40, "only {checked} uses were found");
}

#[test]
fn uses_are_found_in_every_form() {
    let text = "use crate::{a::{b, c}, d, e::f};\nuse crate::g::h;\nlet x = crate::i::j();";
    assert_eq!(used(text), ["a", "d", "e", "g", "i"].map(str::to_owned).into());
}

#[test]
fn the_native_backend_is_unsafe_in_its_boundary_alone() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("backend/src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let is_boundary = |file: &PathBuf| file.starts_with(src.join("boundary"));
    let (boundary, safe): (Vec<_>, Vec<_>) = files.into_iter().partition(is_boundary);
    assert!(boundary.len() > 3 && safe.len() > 5, "{boundary:?} {safe:?}");
    for file in safe.iter().filter(|file| !file.ends_with("lib.rs")) {
        let text = fs::read_to_string(file).expect("a file");
        assert!(text.contains("\n#![forbid(unsafe_code)]\n"), "{} does not forbid unsafe code", file.display());
    }
    let manifest = fs::read_to_string(src.join("../Cargo.toml")).expect("a file");
    assert!(!manifest.contains("path ="), "the backend depends on nothing of this repository");
}

#[test]
fn the_native_models_faults_are_named_as_the_reference_servers() {
    let table = include_str!("../../backend/src/fault.rs");
    let (_, table) = table.split_once("\nfaults! {\n").expect("the table");
    let (table, _) = table.split_once("\n}").expect("the table's end");
    let mut rows = 0;
    for row in table.lines() {
        let name = row.split('"').nth(1).unwrap_or_else(|| panic!("'{row}' has no name"));
        assert!(Fault::named(name).is_some(), "the reference server has no '{name}'");
        rows += 1;
    }
    assert!(rows > 30, "only {rows} faults were found");
}
