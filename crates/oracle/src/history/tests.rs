use std::{
    fs::{self, File},
    os::unix::fs::{FileExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use workload::{
    conversation::{Connection, Lane, Transport},
    event::{ContextId, EventKind, Nanos},
    sequence::{CorrelationId, RequestId},
};

const SECOND: Nanos = 1_000_000_000;

fn entry(at: Nanos) -> Entry {
    let id = CorrelationId(1.try_into().expect("not zero"));
    let request = RequestId { worker: 0, context: 0, sequence: 0, step: 0 };
    let context = ContextId { worker: 0, context: 0 };
    let what = if at.is_multiple_of(2) {
        EventKind::Opened(Connection::Own, Transport::GrpcStream)
    } else {
        EventKind::Answered(request, 1.into(), None)
    };
    Entry { at, context, correlation_id: id, lane: Lane::FIRST, what }
}

fn header() -> Value {
    json!({ "format": FORMAT, "version": VERSION })
}

fn options(path: &Path, keep: Keep) -> Options {
    Options { path: path.to_owned(), keep, limit: Options::LIMIT, part: Duration::from_secs(10) }
}

fn spool(options: Options) -> Spool {
    Spool::check(&options.path).expect("it can be written");
    Spool::create(options, &header()).expect("it can be written")
}

fn finish(spool: Spool) -> Kept {
    spool.finish(Clone::clone)
}

/// What a history says: its entries' times, where gaps are, and what is wrong.
#[derive(Debug, Default, PartialEq)]
struct Told {
    times: Vec<Nanos>,
    gaps: Vec<Nanos>,
    footer: bool,
    damage: Option<Damage>,
}

fn read(path: &Path) -> Told {
    let mut told = Told::default();
    let mut reader = match Reader::open(path) {
        Ok((reader, first)) => {
            assert_eq!(first, header());
            reader
        }
        Err(damage) => return Told { damage: Some(damage), ..told },
    };
    while let Some(lines) = reader.next_block() {
        for item in lines.items {
            match item {
                Item::Entry(entry, _) => told.times.push(entry.at),
                Item::Gap(until) => told.gaps.push(until),
                Item::Footer(_) => told.footer = true,
            }
        }
        told.damage = told.damage.or(lines.damage);
    }
    told
}

/// A history of so many entries, a second apart, in a folder of its own.
fn history(name: &str, keep: Keep, entries: u64) -> (TempDir, PathBuf, Kept) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join(name);
    let mut spool = spool(options(&path, keep));
    (0..entries).for_each(|second| spool.entry(&entry(second * SECOND)));
    let kept = finish(spool);
    (folder, path, kept)
}

fn files_in(folder: &TempDir) -> usize {
    fs::read_dir(folder.path()).expect("a folder").count()
}

#[test]
fn what_was_written_is_read() {
    for name in ["h.jsonl", "h.jsonl.zst"] {
        let (folder, path, kept) = history(name, Keep::All, 100);
        let told = read(&path);
        assert_eq!(told.times, (0..100).map(|second| second * SECOND).collect::<Vec<_>>());
        assert!(told.gaps.is_empty() && told.footer && told.damage.is_none(), "{told:?}");
        assert_eq!((kept.entries, kept.left_out, kept.problem), (100, 0, None));
        assert_eq!(files_in(&folder), 1, "the parts are gone");
        let is_compressed = fs::read(&path).expect("a file").starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
        assert_eq!(is_compressed, name.ends_with("zst"));
    }
}

#[test]
fn what_is_far_from_violations_goes() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl");
    let mut spool = spool(options(&path, Keep::Around(Duration::from_secs(60))));
    let mut most_files = 0;
    for second in 0..2000 {
        spool.entry(&entry(second * SECOND));
        if second == 700 {
            spool.violation(second * SECOND);
        }
        most_files = most_files.max(files_in(&folder));
    }
    let kept = finish(spool);
    let told = read(&path);
    let there = |second: u64| told.times.contains(&(second * SECOND));
    assert!((640..=760).all(there), "what is near the violation");
    assert!((1940..2000).all(there), "what is near the end");
    assert!(!there(600) && !there(800) && !there(1900), "{:?}", told.times);
    assert_eq!((told.gaps.len(), told.damage), (2, None));
    assert_eq!(kept.entries + kept.left_out, 2000);
    assert_eq!(kept.entries, told.times.len() as u64);
    assert!(most_files < 30, "{most_files} files at a time");
}

#[test]
fn what_there_is_no_room_for_goes_and_what_led_to_the_first_violation_last() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl");
    let limit = 64 * 1024;
    let mut spool = spool(Options { limit, ..options(&path, Keep::All) });
    for second in 0..10_000 {
        spool.entry(&entry(second * SECOND));
        if second == 500 {
            spool.violation(second * SECOND);
        }
    }
    let kept = finish(spool);
    let told = read(&path);
    assert!(told.times.contains(&(500 * SECOND)) && told.times.contains(&(9999 * SECOND)));
    assert!(!told.times.contains(&0) && !told.gaps.is_empty() && told.damage.is_none(), "{:?}", told.damage);
    assert!(kept.bytes <= limit + 2 * 1024 && kept.left_out > 5000, "{kept:?}");
}

#[test]
fn what_comes_so_fast_that_a_part_would_fill_the_limit_is_kept_around_a_violation_too() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl");
    let (limit, violation) = (2 << 20, 3000 * (SECOND / 10_000));
    let mut spool = spool(Options { limit, ..options(&path, Keep::All) });
    for number in 0..100_000 {
        spool.entry(&entry(number * (SECOND / 10_000)));
        if number == 3000 {
            spool.violation(violation);
        }
    }
    let kept = finish(spool);
    let told = read(&path);
    assert!(told.times.contains(&violation) && told.damage.is_none(), "{kept:?}, {} entries", told.times.len());
    assert!(kept.left_out > 10_000 && kept.bytes <= limit + (512 << 10), "{kept:?}");
}

#[test]
fn where_everything_is_near_a_violation_the_limit_holds_too() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl.zst");
    let limit = 64 * 1024;
    let mut spool = spool(Options { limit, ..options(&path, Keep::DEFAULT) });
    for second in 0..10_000 {
        spool.entry(&entry(second * SECOND));
        spool.violation(second * SECOND);
    }
    let kept = finish(spool);
    let told = read(&path);
    assert!(told.times.contains(&0) && told.damage.is_none(), "{:?}", told.damage);
    assert!(kept.bytes <= limit + 2 * 1024 && kept.left_out > 5000, "{kept:?}");
}

#[test]
fn lost_entries_are_a_gap() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl");
    let mut spool = spool(options(&path, Keep::All));
    spool.entry(&entry(1));
    spool.gap(7, 5);
    spool.entry(&entry(6));
    let kept = finish(spool);
    assert_eq!((kept.entries, kept.lost), (2, 7));
    assert_eq!(read(&path), Told { times: vec![1, 6], gaps: vec![5], footer: true, damage: None });
}

#[test]
fn a_full_disk_ends_the_history_and_not_the_run() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl");
    let mut spool = spool(options(&path, Keep::All));
    // The second part goes where nothing can be written.
    symlink("/dev/full", folder.path().join("h.jsonl.part-000002")).expect("a link");
    (0..100).for_each(|second| spool.entry(&entry(second * SECOND)));
    let kept = finish(spool);
    let problem = kept.problem.expect("it is told");
    assert!(problem.contains("the history ends at about") && problem.contains("part-000002"), "{problem}");
    let told = read(&path);
    assert_eq!((told.times.len(), told.footer, told.damage), (10, true, None));
}

#[test]
fn a_file_that_cannot_be_put_together_leaves_the_parts() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl");
    let mut spool = spool(options(&path, Keep::All));
    (0..30).for_each(|second| spool.entry(&entry(second * SECOND)));
    symlink("/dev/full", &path).expect("a link");
    let problem = finish(spool).problem.expect("it is told");
    assert!(problem.contains("what there is of it is in"), "{problem}");
    fs::remove_file(&path).expect("the link");
    assert_eq!(files_in(&folder), 4);
    let error = Spool::check(&path).expect_err("the parts are in the way");
    assert!(error.contains("which a run that was killed left") && error.lines().count() == 1, "{error}");
}

#[test]
fn the_parts_of_a_killed_run_make_a_history_without_its_end() {
    for name in ["h.jsonl", "h.jsonl.zst"] {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join(name);
        let mut spool = spool(options(&path, Keep::All));
        (0..25).for_each(|second| spool.entry(&entry(second * SECOND)));
        let mut parts: Vec<_> =
            fs::read_dir(folder.path()).expect("a folder").map(|file| file.expect("a file").path()).collect();
        parts.sort();
        let whole: Vec<u8> = parts.iter().flat_map(|part| fs::read(part).expect("a file")).collect();
        let copy = folder.path().join("copy");
        fs::write(&copy, whole).expect("a file");
        let told = read(&copy);
        // The last part was not yet written.
        assert_eq!((told.times.len(), told.gaps.len(), told.footer), (20, 0, false), "{parts:?}");
        assert!(told.damage.is_some_and(|damage| damage.is_cut_off));
        let lone = read(&parts[1]).damage.expect("it cannot stand alone").problem;
        assert!(lone.contains("one part of a history"), "{lone}");
    }
}

#[test]
fn a_history_that_is_cut_off_anywhere_is_told_from_a_whole_one() {
    for name in ["h.jsonl", "h.jsonl.zst"] {
        let (folder, path, _) = history(name, Keep::All, 40);
        let cut = folder.path().join("cut");
        let whole = fs::copy(&path, &cut).expect("a file");
        let file = File::options().write(true).open(&cut).expect("a file");
        let mut least = 40;
        for length in (0..whole).rev() {
            file.set_len(length).expect("a file");
            let told = read(&cut);
            let damage = told.damage.expect("it is cut off");
            assert!(damage.line > 0, "{length}: {damage}");
            let entries = told.times.len();
            assert!(length < whole - 1 || entries == 40, "without the last byte the footer alone is bad: {entries}");
            assert!(entries <= least, "{length}: the shorter file has more entries");
            assert!(told.times.iter().enumerate().all(|(index, at)| *at == index as u64 * SECOND));
            least = entries;
        }
        assert_eq!(least, 0);
    }
}

#[test]
fn a_byte_that_is_changed_anywhere_is_seen() {
    for name in ["h.jsonl", "h.jsonl.zst"] {
        let (folder, path, _) = history(name, Keep::All, 40);
        let changed = folder.path().join("changed");
        fs::copy(&path, &changed).expect("a file");
        let whole = fs::read(&path).expect("a file");
        let file = File::options().write(true).open(&changed).expect("a file");
        let write = |byte: u8, place: u64| file.write_all_at(&[byte], place).expect("a file");
        for (place, flip) in (0_usize..whole.len()).zip([1, 0x20, 0x80].into_iter().cycle()) {
            // Restores the byte before.
            if let Some(before) = place.checked_sub(1) {
                write(whole[before], before as u64);
            }
            write(whole[place] ^ flip, place as u64);
            let opened = Reader::open(&changed);
            let Ok((mut reader, _)) = opened else { continue };
            let mut is_seen = false;
            let mut times = Vec::new();
            while let Some(lines) = reader.next_block() {
                is_seen |= lines.damage.is_some();
                times.extend(lines.items.into_iter().filter_map(|item| match item {
                    Item::Entry(entry, _) => Some(entry.at),
                    Item::Gap(_) | Item::Footer(_) => None,
                }));
            }
            // A compressed frame has a few bits that say nothing; then nothing is lost either.
            assert!(is_seen || (name.ends_with("zst") && times.len() == 40), "{name} byte {place} flipped by {flip}");
        }
    }
}

#[test]
fn other_files_are_rejected_with_the_reason() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("h.jsonl");
    let long_line = [br#"{"format":""#.as_slice(), &vec![b'x'; 40 << 20]].concat();
    for (content, expected) in [
        (&b""[..], "it is empty"),
        (b"hello\n", "no history of sequence-stress"),
        (b"{\"format\":\"other\",\"version\":1}\n", "but 'other'"),
        (
            b"{\"format\":\"sequence-stress-history\",\"version\":3}\n",
            "version 3, and this tool reads version 2: use a newer one",
        ),
        (
            b"{\"format\":\"sequence-stress-history\",\"version\":1}\n",
            "version 1, and this tool reads version 2: use an older one",
        ),
        (b"{\"format\":\"sequence-stress-history\",\"version\":2}\n", "ends after its first line"),
        (b"{\"format\":\"sequence-stress-history\"", "it ends here"),
        (b"\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "cannot be read"),
        (&long_line, "more than 33554432 bytes"),
    ] {
        fs::write(&path, content).expect("a file");
        let damage = read(&path).damage.expect("it is no history");
        assert!(damage.problem.contains(expected), "{damage}\n  should have {expected}");
        assert!(damage.to_string().starts_with("line 1: ") || expected.contains("ends after"), "{damage}");
    }
    let missing = read(&folder.path().join("none")).damage.expect("there is none").problem;
    assert!(missing.contains("No such file"), "{missing}");
}
