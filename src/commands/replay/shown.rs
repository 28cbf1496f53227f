//! What the runs of a replay have shown, in words.

use std::{collections::BTreeMap, io};

use crate::{
    cli::ReplayArgs,
    failure::{Failure, late_fault},
    report::counted,
};
use oracle::ViolationKind;

/// How often a failure showed.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) runs: u32,
    pub(super) failed: u32,
    /// Runs that failed in another way.
    pub(super) otherwise: BTreeMap<ViolationKind, u32>,
}

impl Shown {
    /// Says how often it failed, and what to try where it did not.
    pub(super) fn write(&self, failure: &Failure, args: &ReplayArgs, out: &mut impl io::Write) -> io::Result<()> {
        let Self { runs, failed, otherwise, .. } = self;
        let kind = failure.kind;
        if *failed > 0 {
            writeln!(out, "{kind}: failed in {failed} of {}", counted((*runs).into(), "run"))?;
        } else {
            writeln!(out, "{kind}: did not fail in {}; {}", counted((*runs).into(), "run"), what_next(failure, args))?;
        }
        for (kind, runs) in otherwise {
            writeln!(out, "{kind} instead in {}", counted((*runs).into(), "run"))?;
        }
        let messages = counted(failure.messages() as u64, "message");
        let conversations = counted(failure.conversations.len() as u64, "conversation");
        writeln!(out, "{messages} in {conversations}; a seed fixes what is sent, not what the server does at once")
    }

    /// What is true of a failure of which no message could be left out. `wanted` is in how many runs a smaller one had to fail.
    pub(super) fn of_the_smallest(&self, wanted: u32) -> &'static str {
        if self.failed >= wanted {
            "each is needed"
        } else {
            "with fewer messages it failed less often, and with these it fails seldom, too: a larger -n keeps more of them"
        }
    }
}

/// What to try where it did not fail.
pub(super) fn what_next(failure: &Failure, args: &ReplayArgs) -> String {
    let mut hints = vec!["more runs may show it (-n)".to_owned()];
    if args.at_once {
        hints.push("its original timing (without --at-once)".to_owned());
    }
    match (&failure.embedded, args.url.as_slice()) {
        (None, _) => hints.push("the server where it was found (-u)".to_owned()),
        (Some(_), [_, ..]) => hints.push("the reference server where it was found (without -u)".to_owned()),
        // That is where it ran; of a long run the file has only a part, which may have fewer chances.
        (Some(server), []) => {
            hints.extend(
                late_fault(server).map(|fault| format!("an earlier chance than {fault} (embedded, in the file)")),
            );
        }
    }
    hints.join(", or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_needed_where_the_failure_still_shows() {
        let shown = |failed| Shown { runs: 3, failed, ..Shown::default() };
        assert_eq!(shown(2).of_the_smallest(2), "each is needed");
        for failed in [0, 1] {
            assert!(!shown(failed).of_the_smallest(2).contains("needed"), "{failed} of 3");
        }
    }
}
