//! Which crate may use which, and which module: down only. The order of modules stands in each `lib.rs`, that of crates in the manifests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use reference::Fault;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            rust_files(&entry, found);
        } else if entry.extension().is_some_and(|ending| ending == "rs") {
            found.push(entry);
        }
    }
}

/// The modules that a file names of a crate, in `use CRATE::{a::…, b::…}` or as `CRATE::a::…`.
fn used(text: &str, of: &str) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    let of = format!("{of}::");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for (place, _) in text.match_indices(&of).filter(|(place, _)| !text[..*place].ends_with(is_word)) {
        let rest = &text[place + of.len()..];
        let word = |text: &str| text.chars().take_while(|c| is_word(*c)).collect::<String>();
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

/// The modules that a `lib.rs` declares, each with the number of its paragraph.
fn paragraphs(lib: &str) -> BTreeMap<String, usize> {
    let declared = |line: &str| {
        let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?;
        Some(name.strip_suffix(';')?.to_owned())
    };
    let of = |(number, paragraph): (usize, &str)| {
        paragraph.lines().filter_map(declared).map(|name| (name, number)).collect::<Vec<_>>()
    };
    lib.split("\n\n").enumerate().flat_map(of).collect()
}

#[test]
fn modules_use_only_those_of_their_paragraph_and_above() {
    let mut checked = 0;
    for folder in ["src", "crates/workload/src", "crates/wire/src"] {
        let src = Path::new(ROOT).join(folder);
        let places = paragraphs(&fs::read_to_string(src.join("lib.rs")).expect("a file"));
        let place = |module: &str| {
            *places.get(module).unwrap_or_else(|| panic!("{folder}/lib.rs does not declare the module {module}"))
        };
        let mut files = Vec::new();
        rust_files(&src, &mut files);
        for file in files {
            let module = file.strip_prefix(&src).expect("below src").components().next().expect("a name");
            let module = module.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
            if ["lib", "main"].contains(&module.as_str()) || file.ends_with("tests.rs") {
                continue;
            }
            for other in used(&fs::read_to_string(&file).expect("a file"), "crate") {
                assert!(place(&other) <= place(&module), "{} uses {other}", file.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 40, "only {checked} uses were found");
}

/// What a manifest names in a table of dependencies.
fn dependencies(manifest: &str, table: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(Path::new(ROOT).join(manifest)).expect("a manifest");
    let manifest: toml::Table = toml::from_str(&text).expect("TOML");
    let named = manifest.get(table).map(|table| table.as_table().expect("a table").keys().cloned().collect());
    named.unwrap_or_default()
}

/// What of these packages is no library of others.
fn own(names: BTreeSet<String>) -> BTreeSet<String> {
    let all = ["workload", "oracle", "wire", "formats", "models", "reference", "sequence-stress"];
    names.into_iter().filter(|name| all.contains(&name.as_str())).collect()
}

#[test]
fn crates_use_only_what_they_may() {
    for (of, may_use) in [
        ("workload", &[][..]),
        ("oracle", &["workload"]),
        ("wire", &["workload"]),
        ("formats", &[]),
        ("models", &["formats", "wire", "workload"]),
        ("reference", &["models", "wire", "workload"]),
    ] {
        let used = own(dependencies(&format!("crates/{of}/Cargo.toml"), "dependencies"));
        assert_eq!(used, may_use.iter().map(|name| (*name).to_owned()).collect(), "{of}");
    }
    for pure in ["workload", "oracle"] {
        let used = dependencies(&format!("crates/{pure}/Cargo.toml"), "dependencies");
        for waits in ["futures-util", "hyper", "tokio", "tonic"] {
            assert!(!used.contains(waits), "{pure} is pure, and uses {waits}");
        }
    }
    let backend = ["dependencies", "dev-dependencies"].map(|table| own(dependencies("backend/Cargo.toml", table)));
    assert_eq!(backend, [BTreeSet::new(), BTreeSet::new()], "the backend uses no crate of this repository");
}

/// Of the client the server knows names, connections and messages: nothing that decides what is sent, or what is right.
#[test]
fn the_reference_server_derives_what_is_right_by_itself() {
    let mut files = Vec::new();
    rust_files(&Path::new(ROOT).join("crates/reference/src"), &mut files);
    let (mut of_workload, mut of_wire) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        let text = fs::read_to_string(file).expect("a file");
        of_workload.append(&mut used(&text, "workload"));
        of_wire.append(&mut used(&text, "wire"));
    }
    assert_eq!(of_workload, ["chance", "model", "seed", "table", "time", "wide", "wording"].map(str::to_owned).into());
    assert_eq!(of_wire, ["net", "proto", "simulation"].map(str::to_owned).into());
}

#[test]
fn uses_are_found_in_every_form() {
    let text = "use crate::{a::{b, c}, d, e::f};\nuse crate::g::h;\nlet x = crate::i::j();\nuse other_crate::k;";
    assert_eq!(used(text, "crate"), ["a", "d", "e", "g", "i"].map(str::to_owned).into());
    let lib = "//! Words.\n\nmod a;\npub mod b;\n\n#[cfg(test)]\nmod c;\npub use b::D;\n";
    assert_eq!(paragraphs(lib), [("a", 1), ("b", 1), ("c", 2)].map(|(name, number)| (name.to_owned(), number)).into());
}

#[test]
fn the_native_backend_is_unsafe_in_its_boundary_alone() {
    let src = Path::new(ROOT).join("backend/src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let is_boundary = |file: &PathBuf| file.starts_with(src.join("boundary"));
    let (boundary, safe): (Vec<_>, Vec<_>) = files.into_iter().partition(is_boundary);
    assert!(boundary.len() > 3 && safe.len() > 5, "{boundary:?} {safe:?}");
    for file in safe.iter().filter(|file| !file.ends_with("lib.rs")) {
        let text = fs::read_to_string(file).expect("a file");
        assert!(text.contains("\n#![forbid(unsafe_code)]\n"), "{} does not forbid unsafe code", file.display());
    }
}

#[test]
fn the_real_servers_models_have_faults_of_the_reference_servers_names() {
    let native = include_str!("../../backend/src/fault.rs");
    let calling = include_str!("../../models/bls.py");
    let mut rows = 0;
    for (text, begin) in [(native, "\nfaults! {\n"), (calling, "\nFAULTS = {\n")] {
        let (_, table) = text.split_once(begin).expect("the table");
        let (table, _) = table.split_once("\n}").expect("the table's end");
        for row in table.lines() {
            let name = row.split('"').nth(1).unwrap_or_else(|| panic!("'{row}' has no name"));
            assert!(Fault::named(name).is_some(), "the reference server has no '{name}'");
            rows += 1;
        }
    }
    assert!(rows > 30, "only {rows} faults were found");
}
