//! The line that sends a step, with what it has to be answered with.

use super::{
    super::{
        expect::{Lawful, Token},
        helper::literal,
        quoted,
    },
    Calls, WIDTH,
};
use crate::failure::Due;
use workload::{
    conversation::Lane,
    number::{Datatype, Number},
    sequence::Flaw,
};

/// A step whose line is to be written.
#[derive(Debug)]
pub(super) struct Send {
    /// The place of its line.
    pub(super) line: usize,
    pub(super) stream: (u32, Lane),
    /// The call's arguments before what is expected.
    pub(super) before: Vec<String>,
    pub(super) expected: Expected,
    /// Those behind it.
    pub(super) behind: Vec<String>,
    /// Whether the violation was seen at this step.
    pub(super) is_accused: bool,
}

/// What a step has to be answered with.
#[derive(Debug)]
pub(super) enum Expected {
    /// This, as Python has it.
    Text(String),
    /// What the oracle says of this step of an ID; else what was due when the violation was seen.
    Lawful { id: u32, token: Token, or: Option<Due> },
}

impl Calls<'_> {
    /// Writes the line of a step.
    pub(super) fn write(&mut self, Send { line, stream, before, expected, behind, is_accused }: Send) {
        let expected = match expected {
            Expected::Text(text) => Some(text),
            Expected::Lawful { id, token, or } => match self.expecting(id).lawful(token).cloned() {
                // Here a pause may have been too long for the sequence. In the run it was not.
                Some(lawful) if matches!(or, Some(Due::Sum(sum)) if lawful.sums == [sum]) => {
                    or.and_then(|due| self.due(due))
                }
                Some(lawful) => self.lawful(&lawful),
                None => or.and_then(|due| self.due(due)),
            },
        };
        if expected.is_none() {
            self.needs.insert("open");
        }
        let expected = expected.map(|expected| format!("expect={expected}"));
        let arguments: Vec<_> = before.into_iter().chain(expected).chain(behind).collect();
        let seen_here = if is_accused { "  # the violation was seen here" } else { "" };
        let all = arguments.join(", ");
        let (context, Lane(lane)) = stream;
        self.lines[line] = if all.len() > WIDTH {
            format!("stream_{context}_{lane}.send(\n        {},\n    ){seen_here}", arguments.join(",\n        "))
        } else {
            format!("stream_{context}_{lane}.send({all}){seen_here}")
        };
    }

    /// One answer of several, as Python has them, or the only one.
    fn lawful(&mut self, lawful: &Lawful) -> Option<String> {
        if let Some(only) = lawful.only() {
            return self.due(only);
        }
        self.needs.insert("any-of");
        let mut all: Vec<_> = lawful.sums.iter().map(|sum| literal(*sum)).collect();
        if lawful.may_be_rejected {
            self.needs.extend(["texts", "rejected"]);
            all.push("*REJECTED".to_owned());
        }
        Some(format!("({})", all.join(", ")))
    }

    /// What a step has to be answered with, as Python has it; none where that is not known.
    fn due(&mut self, due: Due) -> Option<String> {
        match due {
            Due::Rejection => {
                self.needs.extend(["texts", "rejected"]);
                Some("REJECTED".to_owned())
            }
            Due::Answer => {
                self.needs.insert("answers");
                Some("ANSWER".to_owned())
            }
            Due::Sum(sum) => match &mut self.tables {
                Some(tables) => tables.outputs(sum),
                None => Some(literal(sum)),
            },
        }
    }

    /// What the server may reject a flaw with, of what it says to such a model over such a transport.
    pub(super) fn rejection(&mut self, flaw: Flaw, stream: (u32, Lane), number: Number) -> String {
        self.needs.insert("texts");
        let is_text = match &self.tables {
            Some(tables) => tables.spoils_a_text(number),
            None => number.datatype() == Datatype::Bytes,
        };
        let is_http = self.by(stream).is_http();
        let may_come = |text: &&str| match *text {
            Flaw::SHORT_TEXT | Flaw::NO_TEXT => is_text,
            Flaw::UNREADABLE => is_http,
            _ => true,
        };
        let texts: Vec<_> = flaw.rejections().filter(may_come).map(quoted).collect();
        if let [alone] = texts.as_slice() { format!("({alone},)") } else { format!("({})", texts.join(", ")) }
    }
}
