//! The sequences of others: some that are live all the time, and one that begins and ends at each look.

use std::{mem, pin::pin};

use crate::{
    preflight::Preflight,
    probe::{
        Site,
        aside::{Aside, OwnStream, Trail},
    },
};
use oracle::{Outcome, Purpose, Violation};
use workload::{
    conversation::{Connection, Transport},
    event::{ContextId, Cut, EventKind},
    sequence::{CorrelationId, Pattern, RequestId, Step},
};

/// How often those that are live go on within their idle limit while something is waited for.
const KEPT_ALIVE: u32 = 4;

/// The server is gone, for the reason that a stream ended with.
pub(super) struct Gone(pub(super) String);

pub(super) struct Others<'s> {
    site: Site<'s>,
    by: Transport,
    ids: Vec<CorrelationId>,
    aside: Aside,
    trail: Trail,
    /// By context: its stream, and the last step that was sent.
    streams: Vec<Option<OwnStream>>,
    last: Vec<RequestId>,
}

impl<'s> Others<'s> {
    /// Sequences of these IDs. That of the last one is not live between looks.
    pub(super) fn new(site: Site<'s>, ids: Vec<CorrelationId>) -> Self {
        let Site { scenario, preflight, .. } = site;
        let aside = Aside::new(scenario, preflight, ids.clone(), Purpose::SlotCheck);
        let last = |context| {
            let ContextId { worker, context } = aside.place(context);
            RequestId { worker, context, sequence: 0, step: 0 }
        };
        let contexts = 0..u32::try_from(ids.len()).expect("there are few");
        let (by, last) = (preflight.looks_go_over(scenario), contexts.map(last).collect());
        let streams = ids.iter().map(|_| None).collect();
        Self { site, by, ids, aside, trail: Trail::default(), streams, last }
    }

    /// Begins those that are live, and makes sure that a slot is left; returns what a correct server would not have done.
    pub(super) async fn begin(&mut self) -> Result<Vec<Violation>, Gone> {
        for context in 0..self.ids.len() - 1 {
            self.exchange(context, true, false).await?;
        }
        // The second one shows whether the first one gave its slot back.
        self.look().await?;
        self.look().await?;
        Ok(mem::take(&mut self.trail.violations))
    }

    /// Lets each go on, and one begin and end; returns what a correct server would not have done.
    pub(super) async fn go_on(&mut self) -> Result<Vec<Violation>, Gone> {
        self.keep_alive().await?;
        self.look().await?;
        Ok(mem::take(&mut self.trail.violations))
    }

    /// Ends all.
    pub(super) async fn end(&mut self) -> Result<(), Gone> {
        for context in 0..self.ids.len() - 1 {
            self.exchange(context, false, true).await?;
        }
        Ok(())
    }

    /// Waits for something, and lets those that are live go on meanwhile.
    pub(super) async fn until<T>(&mut self, done: impl Future<Output = T>) -> Result<T, Gone> {
        let Preflight { model, limits, .. } = self.site.preflight;
        let interval = model.idle_limit.unwrap_or(limits.lost_after) / KEPT_ALIVE;
        let mut done = pin!(done);
        loop {
            tokio::select! {
                biased;
                it = &mut done => return Ok(it),
                () = tokio::time::sleep(interval) => self.keep_alive().await?,
            }
        }
    }

    async fn keep_alive(&mut self) -> Result<(), Gone> {
        for context in 0..self.ids.len() - 1 {
            // One that was idle for too long begins anew.
            if self.exchange(context, false, false).await? != Some(Outcome::Completed) {
                self.exchange(context, true, false).await?;
            }
        }
        Ok(())
    }

    /// A sequence that needs a slot of its own, and gives it back. Those that are live keep theirs meanwhile: a slot that is lost shows.
    async fn look(&mut self) -> Result<(), Gone> {
        let (context, limit) = (self.ids.len() - 1, self.site.preflight.limits.lost_after);
        let request = self.send(context, true, true)?;
        while let Some(mut stream) = self.streams[context].take() {
            let came = self.until(stream.answer(request, limit)).await?;
            self.streams[context] = Some(stream);
            if self.take_in(context, came).await?.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Sends a step, and waits for what becomes of it; none where its stream broke.
    async fn exchange(&mut self, context: usize, start: bool, end: bool) -> Result<Option<Outcome>, Gone> {
        let limit = self.site.preflight.limits.lost_after;
        let request = self.send(context, start, end)?;
        while let Some(stream) = &mut self.streams[context] {
            let came = stream.answer(request, limit).await;
            if let Some(outcome) = self.take_in(context, came).await? {
                return Ok(outcome);
            }
        }
        Ok(None)
    }

    fn send(&mut self, context: usize, start: bool, end: bool) -> Result<RequestId, Gone> {
        let mut request = self.last[context];
        (request.sequence, request.step) =
            if start { (request.sequence + 1, 0) } else { (request.sequence, request.step + 1) };
        self.last[context] = request;
        let value = self.site.preflight.model.values().of(request, i64::from(request.step) + 1);
        let step = Step { request, pattern: Pattern::Valid, start, end, value, of: request.step + 1, special: None };
        self.open(context)?;
        self.observe(context, EventKind::Sent(step));
        if let Some(stream) = &self.streams[context] {
            stream.send(step);
        }
        Ok(request)
    }

    /// Takes in what came on a stream. Returns what became of the step, where that is known now.
    async fn take_in(&mut self, context: usize, came: EventKind) -> Result<Option<Option<Outcome>>, Gone> {
        if let EventKind::Cut(cut) = &came {
            let reason = cut.reason().to_owned();
            self.streams[context] = None;
            if !self.site.server_is_there(&reason).await {
                return Err(Gone(reason));
            }
        }
        let (is_served_by, is_late) = (matches!(came, EventKind::ServedBy(_)), came == EventKind::GaveUp);
        let outcome = self.observe(context, came);
        if is_late {
            // What comes later belongs to nothing any more.
            self.streams[context] = None;
            self.observe(context, EventKind::Cut(Cut::ByClient));
        }
        Ok((!is_served_by).then_some(outcome))
    }

    fn open(&mut self, context: usize) -> Result<(), Gone> {
        if self.streams[context].is_some() {
            return Ok(());
        }
        let id = self.ids[context].on_the_wire(self.site.scenario.correlation_ids.form);
        let opened = self.site.link().and_then(|link| OwnStream::open(&self.site.preflight.model, &link, self.by, id));
        let stream = opened.map_err(|error| Gone(error.to_string()))?;
        self.streams[context] = Some(stream);
        self.observe(context, EventKind::Opened(Connection::Own, self.by));
        Ok(())
    }

    fn observe(&mut self, context: usize, kind: EventKind) -> Option<Outcome> {
        let number = u32::try_from(context).expect("there are few");
        let ruling = self.aside.observe(&mut self.trail, self.site.clock.now(), number, kind);
        ruling.settled.map(|settled| settled.outcome)
    }
}
