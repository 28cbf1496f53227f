//! The faults of the way back: what the server is told to do wrong with its answers.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tonic::{Code, Status};

use super::{
    fault::{Fault, Faults},
    scheduler::SequenceId,
    stream::{Outbox, Sender},
    tensor::Datatype,
};
use wire::proto::{ModelInferResponse, ModelStreamInferResponse};

/// Decides and commits faults of answers and streams.
#[derive(Debug)]
pub(super) struct Misbehaviour {
    pub(super) faults: Arc<Faults>,
    /// The open streams, where an answer may be sent on another one.
    streams: Mutex<Vec<Weak<Outbox>>>,
    /// Streams that are not closed.
    kept: Mutex<Vec<Sender>>,
}

impl Misbehaviour {
    pub(super) fn new(faults: Arc<Faults>) -> Self {
        Self { faults, streams: Mutex::default(), kept: Mutex::default() }
    }

    pub(super) fn happens(&self, fault: Fault) -> bool {
        self.faults.happens(fault)
    }

    /// The correlation ID that is looked at for this one.
    pub(super) fn fold(&self, id: SequenceId) -> SequenceId {
        if ![Fault::CutIds, Fault::FoldIds, Fault::FoldTexts].into_iter().any(|fault| self.faults.has(fault)) {
            return id;
        }
        let alone =
            |number: u64, bits: u64, fault| if number > bits && self.happens(fault) { number & bits } else { number };
        match id {
            SequenceId::Number(number) => {
                SequenceId::Number(alone(alone(number, u32::MAX.into(), Fault::CutIds), u8::MAX.into(), Fault::FoldIds))
            }
            SequenceId::Text(text) => {
                let folded = fold_text(&text);
                let its = SequenceId::Text(text);
                if folded != its && self.happens(Fault::FoldTexts) { folded } else { its }
            }
        }
    }

    pub(super) fn opened(&self, outbox: &Arc<Outbox>) {
        if self.faults.has(Fault::Misdeliver) {
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.retain(|stream| stream.strong_count() > 0);
            streams.push(Arc::downgrade(outbox));
        }
    }

    fn another_stream(&self, than: &Arc<Outbox>) -> Option<Arc<Outbox>> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = streams.iter().filter_map(Weak::upgrade).filter(|stream| stream.is_open());
        open.find(|stream| !Arc::ptr_eq(stream, than))
    }

    /// Keeps a stream open that should be closed.
    pub(super) fn keep_open(&self, sender: Sender) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
    }

    /// Puts all answers to a request into its place on its stream, or does something else with them.
    pub(super) fn deliver(&self, outbox: &Arc<Outbox>, place: u64, mut answers: Vec<ModelStreamInferResponse>) {
        let is_alone = answers.len() == 1;
        let good = answers.iter_mut().filter(|answer| answer.error_message.is_empty());
        good.filter_map(|answer| answer.infer_response.as_mut()).for_each(|response| self.spoil(response));
        if answers.len() > 1 {
            self.spoil_order(&mut answers);
        }
        if self.happens(Fault::DropResponse) {
            answers.clear();
        }
        if let Some(last) = answers.last().cloned() {
            if self.happens(Fault::DuplicateResponse) {
                answers.push(last);
            } else if let Some(other) = self.another_stream(outbox).filter(|_| self.happens(Fault::Misdeliver)) {
                answers.pop();
                other.intrude(last);
            } else if is_alone && let Some(hold) = self.faults.holds_up(Fault::LateResponse) {
                let outbox = Arc::clone(outbox);
                tokio::spawn(async move {
                    tokio::time::sleep(hold).await;
                    outbox.fill(place, answers);
                });
                return;
            }
        }
        outbox.fill(place, answers);
    }

    /// Spoils what several answers to one request are together.
    fn spoil_order(&self, answers: &mut Vec<ModelStreamInferResponse>) {
        let (first, last) = (0, answers.len() - 1);
        if self.happens(Fault::SwapOwnResponses) {
            // The final mark stays where it is.
            let [one, other] = answers.get_disjoint_mut([first, last]).expect("there are two");
            std::mem::swap(&mut one.infer_response, &mut other.infer_response);
            if let (Some(one), Some(other)) = (&mut one.infer_response, &mut other.infer_response) {
                std::mem::swap(&mut one.parameters, &mut other.parameters);
            }
        }
        if self.happens(Fault::LoseFinalMark)
            && let Some(response) = &mut answers[last].infer_response
        {
            response.parameters.remove("triton_final_response");
        }
        if self.happens(Fault::SurplusResponse) {
            answers.insert(first, answers[first].clone());
        }
        if self.happens(Fault::LoseOwnResponse) {
            answers.remove(first);
        }
    }

    /// Spoils what a good answer says.
    pub(super) fn spoil(&self, response: &mut ModelInferResponse) {
        if self.happens(Fault::WrongRequestId) {
            "9999-0-0-0".clone_into(&mut response.id);
        }
        if self.happens(Fault::WrongModelName) {
            "another".clone_into(&mut response.model_name);
        }
        if self.happens(Fault::WrongModelVersion) {
            response.model_version.push('7');
        }
        if self.happens(Fault::EmptyResponse) {
            response.outputs.clear();
            response.raw_output_contents.clear();
        }
        let (Some(output), Some(data)) = (response.outputs.first_mut(), response.raw_output_contents.first_mut())
        else {
            return;
        };
        // Of BYTES four zeros are an empty text.
        let element = Datatype::named(&output.datatype).and_then(Datatype::size).unwrap_or(4);
        if self.happens(Fault::WrongOutputName) {
            output.name.push_str("_2");
        }
        if self.happens(Fault::WrongOutputType) {
            let other = if output.datatype == "FP32" { "INT32" } else { "FP32" };
            other.clone_into(&mut output.datatype);
        }
        if self.happens(Fault::WrongOutputShape) {
            output.shape.pop();
        }
        if self.happens(Fault::WrongOutputLength) {
            data.resize(data.len() + element, 0);
        }
        if self.happens(Fault::TruncateOutput) {
            data.pop();
        }
    }

    /// Spoils what an error says.
    pub(super) fn spoil_error(&self, failure: Status) -> Status {
        if self.happens(Fault::WrongErrorText) { Status::new(failure.code(), "no") } else { failure }
    }

    /// Spoils the code of an error, where codes are told.
    pub(super) fn spoil_code(&self, failure: Status) -> Status {
        let is_other = failure.code() != Code::Internal && self.happens(Fault::WrongErrorCode);
        if is_other { Status::internal(failure.message()) } else { failure }
    }
}

/// A text without what texts that are nearly the same differ in; a number, where it is the digits of one.
fn fold_text(text: &str) -> SequenceId {
    if let Ok(number) = text.parse() {
        return SequenceId::Number(number);
    }
    let folded = text.replace("e\u{301}", "\u{e9}").to_lowercase();
    let folded = folded.trim_end_matches([' ', '\0']);
    SequenceId::Text(folded.chars().take(127).collect::<String>().into())
}
