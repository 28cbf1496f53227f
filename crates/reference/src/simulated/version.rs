//! A version of the model of a simulated server: it has sequences and slots of its own.

use std::{collections::BTreeSet, mem, sync::Arc, time::Duration};

use super::{Answer, loaded::Loaded};
use crate::{
    execution::Ticket,
    fault::Faults,
    refusal::{no_version, not_ready},
    scheduler::{Moment, Request, SequenceId},
    spec::Spec,
    transitions::{Flags, Pair, Watch},
};

#[derive(Debug)]
pub(super) struct Version {
    faults: Arc<Faults>,
    /// What becomes of sequences, where somebody wants to know.
    watch: Option<Watch>,
    /// As it was loaded last.
    loaded: Loaded,
    /// Whether it was unloaded since then.
    is_unloaded: bool,
    /// The same of before, until their sequences are over.
    leaving: Vec<Loaded>,
}

impl Version {
    pub(super) fn new(spec: &Arc<Spec>, faults: &Arc<Faults>) -> Self {
        Self {
            faults: Arc::clone(faults),
            watch: None,
            loaded: Loaded::new(spec, faults),
            is_unloaded: false,
            leaving: Vec::new(),
        }
    }

    pub(super) fn spec(&self) -> &Arc<Spec> {
        &self.loaded.spec
    }

    pub(super) fn watch(&mut self) {
        self.loaded.scheduler.watch();
        self.watch = Some(Watch::default());
    }

    pub(super) fn pairs(&self) -> BTreeSet<Pair> {
        self.watch.as_ref().map(Watch::pairs).unwrap_or_default()
    }

    /// Takes a request in; its answer where it is rejected at once. It may name the version.
    pub(super) fn enqueue(
        &mut self,
        mut request: Request<Ticket<usize>>,
        is_named: bool,
        now: Moment,
    ) -> Option<Answer> {
        let Loaded { spec, scheduler, .. } = &mut self.loaded;
        if self.is_unloaded {
            let name = &spec.config.name;
            let refused = if is_named { not_ready(name, spec.version) } else { no_version(name) };
            return Some(Err(refused.into()));
        }
        request.end |= spec.is_iterative;
        let id = request.id.clone();
        let Some(watch) = &mut self.watch else {
            let rejected = scheduler.enqueue(request, now).err()?;
            return Some(Err(rejected.status(&spec.config.name, &id).into()));
        };
        let before = watch.before(&id, scheduler);
        let (name, flags) = (request.payload.reply, Flags::of(request.start, request.end));
        let cancelled = Arc::clone(&request.cancelled);
        let queued = scheduler.enqueue(request, now);
        watch.arrived(before, flags, (name, &id, cancelled), queued);
        Some(Err(queued.err()?.status(&spec.config.name, &id).into()))
    }

    pub(super) fn cancelled(&mut self, now: Moment) {
        self.loaded.cancelled(now);
        self.leaving.iter_mut().for_each(|leaving| leaving.cancelled(now));
        if let Some(watch) = &mut self.watch {
            watch.cancelled(&self.loaded.scheduler);
        }
    }

    pub(super) fn load(&mut self, spec: &Arc<Spec>) {
        if self.is_unloaded || !self.loaded.resize(spec) {
            self.unload();
            self.begin(spec);
        }
    }

    fn begin(&mut self, spec: &Arc<Spec>) {
        self.loaded = Loaded::new(spec, &self.faults);
        self.is_unloaded = false;
        if self.watch.is_some() {
            self.loaded.scheduler.watch();
        }
    }

    pub(super) fn unload(&mut self) {
        if !mem::replace(&mut self.is_unloaded, true) {
            if let Some(watch) = &mut self.watch {
                watch.reloaded(&self.loaded.scheduler);
            }
            let nothing = Loaded::new(&self.loaded.spec, &self.faults);
            let mut leaving = mem::replace(&mut self.loaded, nothing);
            leaving.scheduler.stop();
            self.leaving.push(leaving);
        }
    }

    pub(super) fn reload(&mut self) {
        self.unload();
        self.leaving.clear();
        self.begin(&Arc::clone(&self.loaded.spec));
    }

    pub(super) fn fail(&mut self) {
        self.loaded.fail();
    }

    pub(super) fn is_in_use(&self) -> bool {
        !self.loaded.is_gone()
    }

    pub(super) fn reset_states(&mut self) {
        self.loaded.reset_states();
    }

    pub(super) fn disconnected(&mut self, id: &SequenceId) {
        self.loaded.scheduler.disconnected(id);
    }

    pub(super) fn advance(
        &mut self,
        now: Moment,
        more: &mut impl FnMut() -> Duration,
        answers: &mut Vec<(usize, Answer)>,
    ) {
        for leaving in &mut self.leaving {
            leaving.advance(now, None, more, answers);
        }
        self.leaving.retain(|leaving| !leaving.is_gone());
        self.loaded.advance(now, self.watch.as_mut(), more, answers);
    }

    pub(super) fn next_wake(&self) -> Option<Moment> {
        self.leaving.iter().chain([&self.loaded]).filter_map(Loaded::next_wake).min()
    }

    pub(super) fn is_live(&self, id: &SequenceId) -> bool {
        self.loaded.scheduler.is_live(id)
    }
}
