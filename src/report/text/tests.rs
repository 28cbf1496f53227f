//! Every message of a report, with all its variants, to be read.

use std::io::Write as _;

mod runs;

use super::*;
use crate::{
    preflight::{every_part_note, tests::every_message},
    run::{RunError, too_few_files},
};
use oracle::{CountBounds, Leak, ViolationKind, diagnosis::Cause, history::Kept};
use workload::{model::Counted, scenario::ServerAction};

/// What is written, without colours.
fn plain(write: impl FnOnce(&mut anstream::StripStream<&mut Vec<u8>>) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut anstream::StripStream::new(&mut out)).expect("memory has room");
    String::from_utf8(out).expect("UTF-8")
}

/// How a number of none, of one or of several is written.
const COUNTS: [u64; 3] = [0, 1, 2];

fn found(slots: u32) -> [SlotFinding; 6] {
    let unanswered = |later| Leak::Unanswered { open: 1, leaked: slots, waited_ms: 9, later };
    [
        SlotFinding::AllThere { slots },
        SlotFinding::Leaked { slots, leaked: 1, seen: Leak::NotHandedOn { waited_ms: 9 } },
        SlotFinding::Leaked { slots: slots + 1, leaked: slots, seen: unanswered(None) },
        SlotFinding::Leaked { slots: slots + 1, leaked: slots, seen: unanswered(Some(slots)) },
        SlotFinding::ReleasedTwice { slots, within_ms: 9 },
        SlotFinding::NotCheckable { why: "WHY".to_owned() },
    ]
}

fn counts() -> String {
    let rose = |n| Counted { success: n, fail: n, inference: n, execution: n };
    plain(|out| {
        for n in COUNTS {
            write_accounting(&Accounting::Agrees { rose: rose(n) }, out)?;
            let expected = CountBounds { success_min: 3, success_max: 3 + n, fail_max: n };
            write_accounting(&Accounting::Differs { rose: rose(n), expected }, out)?;
            if n > 0 {
                write_pending(&PendingRequests::Left { count: n }, out)?;
            }
        }
        write_accounting(&Accounting::NotCheckable { why: "WHY".to_owned() }, out)?;
        write_pending(&PendingRequests::None, out)?;
        write_pending(&PendingRequests::NotChecked { why: "WHY".to_owned() }, out)
    })
}

fn slots() -> String {
    plain(|out| {
        for n in [1_u32, 2] {
            for finding in found(n) {
                write_slots(&SlotCheck { finding, requests: n.into(), took: Duration::from_millis(7) }, out)?;
            }
            for ended_us in [None, Some(5000)] {
                let found = IdleSearch::Found { configured_us: 4000, kept_us: 4100, ended_us, trials: n };
                write_idle_limit(&found, out)?;
            }
        }
        write_idle_limit(&IdleSearch::NotAsked, out)?;
        write_idle_limit(&IdleSearch::NotCheckable { why: "WHY".to_owned() }, out)
    })
}

fn health() -> String {
    use oracle::Subject::{Model, Server};
    let not_ready =
        |of, until_ns, asked_for, executed| NotReady { of, from_ns: 1_500_000_000, until_ns, executed, asked_for };
    let mut health = Health {
        asked: 10,
        unanswered: 1,
        not_ready: vec![not_ready(Server, None, false, 1), not_ready(Model, Some(2_500_000_000), true, 2)],
        memory: Some(ServerMemory { first: 1_000_000, last: 3_000_000, growth: None }),
    };
    plain(|out| {
        write_health(&health, false, out)?;
        health.not_ready.clear();
        health.unanswered = 0;
        for (is_steady, sequences) in [(true, 1000), (false, 1000), (false, 1)] {
            let growth = Some(Growth { bytes: 2_000_000, sequences, is_steady });
            health.memory = Some(ServerMemory { first: 1_000_000, last: 3_000_000, growth });
            write_health(&health, true, out)?;
        }
        health.memory = None;
        write_health(&health, false, out)
    })
}

fn connections_and_waits() -> String {
    use ServerAction::{Reload, ReloadDirect, ReloadOldest, Restart};
    plain(|out| {
        for n in COUNTS {
            write_go_aways(GoAways { connections: n, retried: n, cut: n }, out)?;
        }
        for population in ["", "fast"] {
            let population = population.to_owned();
            let correlation_id = workload::sequence::CorrelationId(std::num::NonZeroU64::MIN);
            let holder = |slot| Holder { population: population.clone(), correlation_id, slot, held_ms: 5 };
            let holders = vec![holder(None), holder(Some(3))];
            let longest =
                LongestWait { population: population.clone(), correlation_id, at_ns: 1_000_000, waited_ms: 9, holders };
            write_longest_wait(&longest, out)?;
        }
        let span = |server: Option<ServerAction>| PhaseSpan {
            name: "second".to_owned(),
            began_us: 1_000_000,
            ended_us: 2_000_000,
            server: server.map(|action| format!("{}, in 20 ms", action.what())),
        };
        let actions = [Reload, ReloadDirect, ReloadOldest, Restart].map(Some);
        write_phases(&[None].into_iter().chain(actions).map(span).collect::<Vec<_>>(), out)
    })
}

fn history_and_faults() -> String {
    plain(|out| {
        for n in COUNTS {
            let kept = Kept { entries: n, left_out: n, lost: n, ..Kept::default() };
            describe_history(&HistoryWritten { path: "FILE".into(), kept }, out)?;
            let fates = [(n, 0, false), (n, n, false), (n, n, true)];
            for (chances, committed, is_found) in if n == 0 { &fates[..1] } else { &fates } {
                let planted = PlantedFault { fault: "off-by-one".to_owned(), chances: *chances, committed: *committed };
                write_planted(&planted, *is_found, out)?;
            }
        }
        for memory in [
            Memory { after_10_s: Some(1), at_end: Some(2), peak: Some(3) },
            Memory { after_10_s: None, at_end: Some(2), peak: Some(3) },
            Memory::default(),
        ] {
            writeln!(out, "{}", describe_memory(&memory))?;
        }
        Ok(())
    })
}

fn kinds_and_causes() -> String {
    let kinds = ViolationKind::ALL.iter().map(|kind| format!("{kind}: {}\n", kind.what()));
    let causes = Cause::ALL.iter().map(|cause| format!("{cause} ({}): {}\n", cause.class(), cause.what()));
    kinds.chain(causes).collect()
}

#[test]
fn every_message_with_all_its_variants() {
    let parts: Vec<_> = every_part_note().into_iter().map(|note| format!("{note}\n")).collect();
    let why = || "WHY".to_owned();
    let errors = [
        RunError::Interrupted,
        RunError::Endpoint(why()),
        RunError::Access(why()),
        RunError::History(why()),
        RunError::Resources(too_few_files(1000, 500)),
    ];
    let errors = errors.map(|error| format!("{error}\n"));
    let before = every_message().map(|(title, lines)| (title, lines.concat()));
    let sections = [
        ("what is found before the run", runs::preflights()),
        ("counts", counts()),
        ("slots", slots()),
        ("health", health()),
        ("connections and waits", connections_and_waits()),
        ("history and faults", history_and_faults()),
        ("parts of the protocol", parts.concat()),
        ("errors", errors.concat()),
        ("kinds and causes", kinds_and_causes()),
        ("violations that are not shown", runs::not_shown()),
        ("verdicts", runs::verdicts()),
        ("claims", runs::claims()),
        ("a report", runs::report()),
        ("a suite", runs::suite()),
    ];
    let text: Vec<_> = before.into_iter().chain(sections).map(|(title, text)| format!("== {title}\n{text}")).collect();
    insta::assert_snapshot!(text.join("\n"));
}
