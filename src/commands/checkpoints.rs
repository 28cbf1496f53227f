//! Writes what a run has shown so far to its files, while the run goes on.

use std::{
    mem,
    sync::Arc,
    thread::{self, JoinHandle},
};

use super::output::Files;
use crate::report::Summary;

/// The files of a run, and who writes a checkpoint to them: a thread of its own, because a disk may be slow.
pub(super) struct Checkpoints {
    files: Arc<Files>,
    writing: Option<JoinHandle<Result<(), String>>>,
    /// The first problem, until it is told.
    problem: Problem,
}

#[derive(Default)]
enum Problem {
    #[default]
    None,
    Found(String),
    Told,
}

impl Checkpoints {
    pub(super) fn new(files: Files) -> Self {
        Self { files: Arc::new(files), writing: None, problem: Problem::None }
    }

    /// Writes what the run has shown so far. While the checkpoint before is being written, this one is left out.
    pub(super) fn write(&mut self, so_far: Summary) {
        self.take_in();
        if self.writing.is_none() {
            let files = Arc::clone(&self.files);
            self.writing = Some(thread::spawn(move || files.write_checkpoint(&so_far)));
        }
    }

    /// Why a checkpoint could not be written: the first time that one could not.
    pub(super) fn problem(&mut self) -> Option<String> {
        self.take_in();
        match mem::take(&mut self.problem) {
            Problem::None => None,
            Problem::Found(problem) => {
                self.problem = Problem::Told;
                Some(problem)
            }
            Problem::Told => {
                self.problem = Problem::Told;
                None
            }
        }
    }

    /// The files, when no checkpoint is being written any more.
    pub(super) fn finish(mut self) -> Files {
        // What went wrong goes wrong again with the result itself, and is told then.
        let _ = self.writing.take().map(JoinHandle::join);
        Arc::into_inner(self.files).expect("the thread that had them has ended")
    }

    fn take_in(&mut self) {
        let Some(done) = self.writing.take_if(|writing| writing.is_finished()) else { return };
        let written =
            done.join().unwrap_or_else(|_| Err("a checkpoint could not be written: its thread failed".to_owned()));
        if let (Err(problem), Problem::None) = (written, &self.problem) {
            self.problem = Problem::Found(problem);
        }
    }
}
