//! The thread that reads what came, and writes what is of a sequence.

use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Write},
    sync::mpsc::{Receiver, TryRecvError},
    time::Instant,
};

use super::{
    Came, Form, Item, Losses,
    inference::{Id, Inference, NO_INPUTS, Reason, TOO_LARGE, decompressed},
    json, message,
    numbers::{Numbers, Sequence},
};
use workload::inputs::recording::{Lost, Request};

/// The most bytes that are written at a time.
const PIECE: usize = 256 << 10;

/// Why requests were left out that nothing else is wrong with.
const NO_ID: Reason = "it has no correlation ID";
const OF_ANOTHER_MODEL: Reason = "it is for another model";
const NO_ROOM: Reason = "the file was written too slowly";

/// What became of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests that were recorded with their inputs.
    pub requests: u64,
    /// Sequences that began with START.
    pub sequences: u64,
    /// Those of them of which each request from START to END was recorded.
    pub whole: u64,
    /// Requests that were recorded although no START came before them.
    pub without_start: u64,
    /// Requests that were not recorded: why, and how many.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Connections that were no HTTP, or no HTTP that is read.
    pub unreadable_connections: u64,
}

impl Summary {
    fn lose(&mut self, Losses { no_room, too_large }: Losses) {
        for (reason, count) in [(NO_ROOM, no_room), (TOO_LARGE, too_large)] {
            self.leave_out(reason, count);
        }
    }

    fn leave_out(&mut self, reason: Reason, count: u64) {
        if count > 0 {
            *self.left_out.entry(reason).or_default() += count;
        }
    }
}

pub(super) struct Writer<W: Write> {
    out: BufWriter<W>,
    models: Vec<String>,
    began: Instant,
    numbers: Numbers,
    /// How often requests were lost of which it is not known whose they are.
    gaps: u64,
    summary: Summary,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W, models: Vec<String>, began: Instant) -> Self {
        let out = BufWriter::with_capacity(PIECE, out);
        Self { out, models, began, numbers: Numbers::default(), gaps: 0, summary: Summary::default() }
    }

    /// Writes what comes until the end. Where it cannot be written any more, `failed` is called at once, and what still comes is counted.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write_all(
        mut self,
        queue: &Receiver<Item>,
        failed: impl FnOnce(&io::Error),
    ) -> Result<Summary, (Summary, io::Error)> {
        let Err(error) = self.write_on(queue) else { return Ok(self.summary) };
        let Self { out, mut summary, .. } = self;
        // What is left in the buffer would be tried again.
        let (_, _) = out.into_parts();
        failed(&error);
        for item in queue {
            match item {
                Item::Came(Came { lost, .. }) => {
                    summary.lose(lost);
                    summary.leave_out(NO_ROOM, 1);
                }
                Item::End(lost) => {
                    summary.lose(lost);
                    break;
                }
            }
        }
        Err((summary, error))
    }

    fn write_on(&mut self, queue: &Receiver<Item>) -> io::Result<()> {
        loop {
            let item = match queue.try_recv() {
                Ok(item) => item,
                Err(TryRecvError::Disconnected) => return self.out.flush(),
                Err(TryRecvError::Empty) => {
                    // A killed process leaves all that came before a pause.
                    self.out.flush()?;
                    let Ok(item) = queue.recv() else { return Ok(()) };
                    item
                }
            };
            match item {
                Item::Came(came) => self.came(came)?,
                Item::End(lost) => {
                    self.lose(lost, self.began.elapsed().as_micros())?;
                    return self.out.flush();
                }
            }
        }
    }

    fn came(&mut self, Came { at, connection, stream, form, bytes, lost }: Came) -> io::Result<()> {
        let us = at.saturating_duration_since(self.began).as_micros();
        self.lose(lost, us)?;
        let read = read(form, bytes.bytes());
        // The copy of its inputs is enough.
        drop(bytes);
        let Inference { model, id, start, end, inputs } = match read {
            Ok(Some(inference)) => inference,
            Ok(None) => return Ok(()),
            Err(reason) => {
                self.summary.leave_out(reason, 1);
                return self.gap(1, us);
            }
        };
        let is_wanted = self.models.is_empty() || self.models.contains(&model);
        let (true, Some(id)) = (is_wanted, id) else {
            self.summary.leave_out(if is_wanted { NO_ID } else { OF_ANOTHER_MODEL }, 1);
            return Ok(());
        };
        let inputs = inputs.and_then(|inputs| if inputs.is_empty() { Err(NO_INPUTS) } else { Ok(inputs) });
        let Sequence { number, whole_since } = self.numbers.of(&model, &id);
        let sequence = *number;
        if start {
            self.summary.sequences += 1;
            *whole_since = Some(self.gaps);
        }
        let is_whole = *whole_since == Some(self.gaps) && inputs.is_ok();
        if !is_whole {
            *whole_since = None;
        }
        match inputs {
            Ok(_) => {
                self.summary.requests += 1;
                self.summary.without_start += u64::from(!is_whole);
            }
            Err(reason) => self.summary.leave_out(reason, 1),
        }
        if end {
            self.summary.whole += u64::from(is_whole);
            self.numbers.forget(&model, &id);
        }
        let (inputs, left_out) = match inputs {
            Ok(inputs) => (inputs, None),
            Err(reason) => (Vec::new(), Some(reason.to_owned())),
        };
        let text = matches!(id, Id::Text(_));
        let model = (self.models.len() != 1).then_some(model);
        let us = whole(us);
        self.line(&Request { us, connection, stream, model, sequence, text, start, end, inputs, left_out })
    }

    fn lose(&mut self, lost: Losses, us: u128) -> io::Result<()> {
        self.summary.lose(lost);
        if lost.sum() > 0 { self.gap(lost.sum(), us) } else { Ok(()) }
    }

    /// Says that requests were lost of which nothing is known.
    fn gap(&mut self, lost: u64, us: u128) -> io::Result<()> {
        self.gaps += 1;
        self.line(&Lost { us: whole(us), lost })
    }

    fn line(&mut self, line: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line).map_err(io::Error::from)?;
        self.out.write_all(b"\n")
    }
}

/// Microseconds as they are written.
fn whole(us: u128) -> u64 {
    u64::try_from(us).unwrap_or(u64::MAX)
}

/// Reads a request; none where it is no inference.
fn read(form: Form, bytes: &[u8]) -> Result<Option<Inference>, Reason> {
    let (Form::Message { is_compressed } | Form::Body { is_compressed, .. }) = &form;
    let plain = if *is_compressed { Some(decompressed(bytes)?) } else { None };
    let bytes = plain.as_deref().unwrap_or(bytes);
    match form {
        Form::Message { .. } => Ok(message::read(bytes)),
        Form::Body { model, json, .. } => json::read(model, bytes, json).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::recording::budget::{Budget, Held, keep};

    /// A file on a full disk.
    struct FullFile;

    impl Write for FullFile {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_waits_when_the_disk_is_full_is_counted() {
        let json = format!(
            r#"{{"parameters":{{"sequence_id":1}},"inputs":[{{"name":"A","shape":[{PIECE}],"datatype":"UINT8","parameters":{{"binary_data_size":{PIECE}}}}}]}}"#
        );
        let body = [json.as_bytes(), &vec![7; PIECE]].concat();
        let budget = Arc::new(Budget::new(10 * PIECE));
        let (sender, queue) = mpsc::channel();
        for no_room in [0, 0, 5] {
            let mut held = Held::new(&budget);
            keep(&mut held, &body);
            let form = Form::Body { model: "m".to_owned(), json: Some(json.len()), is_compressed: false };
            let lost = Losses { no_room, too_large: 0 };
            let bytes = held.expect("room");
            let came = Came { at: Instant::now(), connection: 1, stream: 1, form, bytes, lost };
            sender.send(Item::Came(came)).expect("it waits");
        }
        sender.send(Item::End(Losses { no_room: 0, too_large: 1 })).expect("it waits");
        let mut told = None;
        let writer = Writer::new(FullFile, Vec::new(), Instant::now());
        let (summary, error) = writer.write_all(&queue, |error| told = Some(error.kind())).expect_err("it is full");
        assert_eq!((told, error.kind()), (Some(io::ErrorKind::StorageFull), io::ErrorKind::StorageFull));
        assert_eq!(summary.left_out, [(NO_ROOM, 2 + 5), (TOO_LARGE, 1)].into());
    }
}
