//! One attempt at counting the slots.

use std::{ops::Range, time::Duration};

use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};

use super::{SlotFinding, Terms, open_sequence::OpenSequence};
use crate::{
    probe::{
        Accounting, Site,
        accounting::Ledger,
        aside::{Aside, OwnStream, Trail},
    },
    recorder::{Counts, trace},
};
use oracle::{Leak, Outcome, Purpose, Ruling};
use wire::transport::{Client, Link, Message, Outgoing};
use workload::{
    conversation::Connection,
    event::{ContextId, Cut, EventKind},
    sequence::{CorrelationId, RequestId},
    wording::counted,
};

/// How many streams share a connection: fewer than any server should reject, because one that has to wait for a stream
/// looks as if it waited for a slot.
const STREAMS_OF_A_CONNECTION: usize = 64;
/// How long what has no right to a response is watched, at least and at most where steps are fast.
const WATCH: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));
/// How often an open sequence gets a step: so many times in its idle limit, and at least this often.
const STEPS_IN_IDLE_LIMIT: u32 = 5;
const STEP_AT_LEAST_EVERY: Duration = Duration::from_secs(2);
/// How long streams may take to close; the run itself has judged that.
const CLOSING: Duration = Duration::from_secs(1);

/// An attempt that says nothing about the slots.
#[derive(Debug)]
pub(super) struct Void {
    pub(super) why: String,
    /// Whether another one may say more.
    pub(super) again: bool,
}

/// As many sequences as there are slots, and one more.
pub(super) struct Attempt<'r> {
    number: u32,
    terms: Terms,
    client: &'r Client,
    site: Site<'r>,
    trail: &'r mut Trail,
    aside: Aside,
    /// The model's counts before.
    ledger: Ledger,
    counts: Counts,
    lines: Vec<OpenSequence>,
    outgoing: Vec<Outgoing>,
    connection: Option<Link>,
    readers: JoinSet<()>,
    sender: mpsc::Sender<(usize, Message)>,
    arrivals: mpsc::Receiver<(usize, Message)>,
    /// Whether each open sequence gets END, and not a further step.
    ending: bool,
}

impl<'r> Attempt<'r> {
    pub(super) async fn new(
        number: u32,
        terms: Terms,
        client: &'r Client,
        site: Site<'r>,
        trail: &'r mut Trail,
    ) -> Result<Self, Void> {
        let model = &site.preflight.model.name;
        let ledger = Ledger::open(client, model).await.map_err(|why| Void { why, again: false })?;
        let lines = terms.slots as usize + 1;
        let (sender, arrivals) = mpsc::channel(lines);
        let ids = (0..=terms.slots).map(|context| correlation_id(&terms, number, context)).collect();
        let aside = Aside::new(site.scenario, site.preflight, ids, Purpose::SlotCheck);
        Ok(Self {
            number,
            terms,
            client,
            site,
            trail,
            aside,
            ledger,
            counts: Counts::default(),
            lines: Vec::with_capacity(lines),
            outgoing: Vec::with_capacity(lines),
            connection: None,
            readers: JoinSet::new(),
            sender,
            arrivals,
            ending: false,
        })
    }

    pub(super) async fn run(mut self) -> Result<SlotFinding, Void> {
        let finding = self.look().await?;
        if !self.end_all().await? {
            let lost = |line: &OpenSequence| !line.is_at_rest();
            return Err(self.gave_up(lost));
        }
        let mut compared = self.compare_counts().await;
        // One that waited for a slot may have begun meanwhile, and be counted before its response was taken in.
        while compared.is_err() && self.take_in_what_came().await? {
            self.end_all().await?;
            compared = self.compare_counts().await;
        }
        compared?;
        self.close().await;
        Ok(finding)
    }

    /// Counts how many sequences can be open at a time.
    async fn look(&mut self) -> Result<SlotFinding, Void> {
        let slots = self.terms.slots as usize;
        for _ in 0..slots {
            self.start()?;
        }
        self.until(self.terms.patience, |attempt| attempt.started() == slots).await?;
        // An early one may be idle and gone by now, and its slot another's.
        self.prove_open(0..slots).await?;
        if self.started() == 0 && self.terms.stuck {
            let why =
                format!("none of {} was answered, as requests of the run were not", counted(slots as u64, "START"));
            return Err(Void { why, again: false });
        }
        if self.started() < slots {
            return Ok(self.leaked().await);
        }
        let sent = Instant::now();
        self.start()?;
        if self.is_answered_early().await? {
            let within_ms = millis(sent.elapsed());
            self.prove_open(0..slots).await?;
            return Ok(SlotFinding::ReleasedTwice { slots: self.terms.slots, within_ms });
        }
        self.send(0, true)?;
        let handed_on = |attempt: &Self| attempt.lines[0].ended && attempt.lines[slots].is_started();
        if !self.until(self.terms.patience, handed_on).await? {
            let seen = Leak::NotHandedOn { waited_ms: millis(self.terms.patience) };
            return Ok(SlotFinding::Leaked { slots: self.terms.slots, leaked: 1, seen });
        }
        Ok(SlotFinding::AllThere { slots: self.terms.slots })
    }

    /// Watches whether the last START, for which there is no slot, is answered.
    async fn is_answered_early(&mut self) -> Result<bool, Void> {
        let last = self.lines.len() - 1;
        // As long as others are answered that were sent behind it, and some time more.
        for _ in 0..2 {
            self.prove_open(0..last).await?;
        }
        let watch = (self.terms.idle_limit / 4).clamp(WATCH.0, WATCH.1).max(self.terms.step * 2);
        self.until(watch, |attempt| attempt.lines[last].is_started()).await
    }

    async fn leaked(&mut self) -> SlotFinding {
        let started = self.started();
        let Terms { slots, patience, .. } = self.terms;
        let leaked = slots - u32::try_from(started).unwrap_or(slots);
        let ended = matches!(self.end_all().await, Ok(true));
        // A slot that is free now goes to one that waits.
        let _ = self.until(patience / 4, |attempt| attempt.started() == attempt.lines.len()).await;
        let later = u32::try_from(self.started() - started).ok().filter(|_| started > 0 && ended);
        let seen = Leak::Unanswered { open: slots - leaked, leaked, waited_ms: millis(patience), later };
        SlotFinding::Leaked { slots, leaked, seen }
    }

    fn started(&self) -> usize {
        self.lines.iter().filter(|line| line.is_started()).count()
    }

    /// Waits until it is certain that those of these sequences that had a START answered are all open now.
    async fn prove_open(&mut self, which: Range<usize>) -> Result<(), Void> {
        let now = self.site.clock.now();
        let open: Vec<_> = which.filter(|&line| self.lines[line].is_open()).collect();
        for &line in &open {
            if self.lines[line].has_room() {
                self.send(line, false)?;
            }
        }
        let are_open = |attempt: &Self| open.iter().all(|&line| attempt.lines[line].was_open_at(now));
        if self.until(self.terms.patience, are_open).await? {
            return Ok(());
        }
        Err(self.gave_up(|line| line.is_open() && !line.was_open_at(now)))
    }

    /// Steps of such sequences have waited for too long.
    fn gave_up(&mut self, such: impl Fn(&OpenSequence) -> bool) -> Void {
        let lost: Vec<_> = (0..self.lines.len()).filter(|&line| such(&self.lines[line])).collect();
        for line in lost {
            self.observe(line, EventKind::GaveUp);
        }
        Void { why: "steps of its open sequences were not answered".to_owned(), again: false }
    }

    /// Ends every sequence that is open, or comes to be; returns whether all of them ended.
    async fn end_all(&mut self) -> Result<bool, Void> {
        self.ending = true;
        self.keep_open()?;
        let limit = self.terms.patience;
        self.until(limit, |attempt| attempt.lines.iter().all(OpenSequence::is_at_rest)).await
    }

    /// Takes in what comes, and keeps the open sequences from going idle, until something is so; returns whether it is.
    async fn until(&mut self, limit: Duration, is_so: impl Fn(&Self) -> bool) -> Result<bool, Void> {
        let every = self.step_every() / 4;
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut waited, mut looked_at) = (Duration::ZERO, Instant::now());
        while !is_so(self) {
            if waited >= limit {
                return Ok(false);
            }
            tokio::select! {
                biased;
                Some((line, message)) = self.arrivals.recv() => self.take_in(line, message).await?,
                now = ticks.tick() => {
                    // What the process itself slept through, stopped or starved, is no wait for the server.
                    waited += now.duration_since(looked_at).min(every * 2);
                    looked_at = now;
                    self.keep_open()?;
                }
            }
        }
        Ok(true)
    }

    fn step_every(&self) -> Duration {
        (self.terms.idle_limit / STEPS_IN_IDLE_LIMIT).clamp(Duration::from_millis(4), STEP_AT_LEAST_EVERY)
    }

    fn keep_open(&mut self) -> Result<(), Void> {
        let (now, every) = (self.site.clock.now(), self.step_every());
        for line in 0..self.lines.len() {
            if self.ending && self.lines[line].is_open() {
                self.send(line, true)?;
            } else if self.lines[line].is_due(now, every) {
                self.send(line, false)?;
            }
        }
        Ok(())
    }

    /// Takes in what has come already; returns whether there was anything.
    async fn take_in_what_came(&mut self) -> Result<bool, Void> {
        let mut came = false;
        while let Ok((line, message)) = self.arrivals.try_recv() {
            self.take_in(line, message).await?;
            came = true;
        }
        Ok(came)
    }

    /// Opens the next sequence on a stream of its own.
    fn start(&mut self) -> Result<(), Void> {
        let index = self.lines.len();
        let context = u32::try_from(index).expect("slots are counted in 32 bits");
        let Site { scenario, preflight, .. } = self.site;
        let id = correlation_id(&self.terms, self.number, context).on_the_wire(scenario.correlation_ids.form);
        let by = preflight.looks_go_over(scenario);
        let link = self.connection_for(index)?;
        let opened = OwnStream::open(&preflight.model, &link, by, id);
        let OwnStream { outgoing, mut incoming, .. } =
            opened.map_err(|error| Void { why: error.to_string(), again: false })?;
        let sender = self.sender.clone();
        self.readers.spawn(async move {
            loop {
                let message = incoming.next().await;
                let is_last = !matches!(message, Message::Received(_));
                // Nobody takes it in where the attempt is over.
                if sender.send((index, message)).await.is_err() || is_last {
                    return;
                }
            }
        });
        self.outgoing.extend(outgoing);
        // A worker's sequences are numbered through.
        let sequence = self.number * (self.terms.slots + 1) + context;
        let first = RequestId { worker: self.aside.place(context).worker, context, sequence, step: 0 };
        self.lines.push(OpenSequence::new(first, preflight.model.values()));
        self.observe(index, EventKind::Opened(Connection::Own, by));
        self.send(index, false)
    }

    fn connection_for(&mut self, line: usize) -> Result<Link, Void> {
        if !line.is_multiple_of(STREAMS_OF_A_CONNECTION)
            && let Some(connection) = &self.connection
        {
            return Ok(connection.clone());
        }
        let connection = self.site.link().map_err(|error| Void { why: error.to_string(), again: false })?;
        self.connection = Some(connection.clone());
        Ok(connection)
    }

    fn send(&mut self, line: usize, end: bool) -> Result<(), Void> {
        // Told before it is handed over: the server cannot see the step before this time.
        let now = self.site.clock.now();
        let step = self.lines[line].next_step(end, now);
        self.observe(line, EventKind::Sent(step));
        self.counts.requests += 1;
        trace::sent(self.place(line), &step);
        match self.outgoing[line].room_now() {
            Some(room) => room.send(step),
            None => return Err(Void { why: "a stream takes no further step".to_owned(), again: true }),
        }
        Ok(())
    }

    fn place(&self, line: usize) -> ContextId {
        self.aside.place(u32::try_from(line).expect("slots are counted in 32 bits"))
    }

    async fn take_in(&mut self, line: usize, message: Message) -> Result<(), Void> {
        let cut = match message {
            Message::ServedBy(_) => return Ok(()),
            Message::Received(received) => return self.answered(line, EventKind::Received(Box::new(received))),
            Message::End => Cut::Ended,
            Message::Status(code, text) => Cut::Status(code, text),
            Message::Broken(reason) => Cut::Broken(reason),
            Message::DeadlinePassed => Cut::Deadline,
            Message::Lapsed(reason) => {
                self.observe(line, EventKind::Cut(Cut::Lapsed));
                return Err(Void { why: format!("the connection of one of its streams ended: {reason}"), again: true });
            }
        };
        let reason = cut.reason().to_owned();
        if !self.site.server_is_there(&reason).await {
            return Err(Void { why: "the server died".to_owned(), again: false });
        }
        self.observe(line, EventKind::Cut(cut));
        Err(Void { why: format!("one of its streams broke: {reason}"), again: true })
    }

    fn answered(&mut self, line: usize, received: EventKind) -> Result<(), Void> {
        let before = self.trail.violations.len();
        let Ruling { settled, distrust, .. } = self.observe(line, received);
        let Some(settled) = settled.filter(|_| !distrust) else {
            return Err(Void { why: "a stream brought what it should not".to_owned(), again: true });
        };
        trace::settled(self.place(line), self.site.clock.now(), &settled);
        let lawful = self.trail.violations.len() == before;
        let why = match settled.outcome {
            Outcome::Completed => {
                self.counts.completed += 1;
                self.lines[line].accepted(&settled.step, settled.sent_at);
                return Ok(());
            }
            // Its clock runs while it waits for a slot, so it may be gone as soon as it has one; all ends soon anyway.
            Outcome::Rejected if lawful && (self.ending || line == self.terms.slots as usize) => {
                self.lines[line].reaped();
                return Ok(());
            }
            Outcome::Rejected if lawful => format!(
                "its sequences could not be kept open within the idle limit, {} ms: this machine or the server is too slow",
                self.terms.idle_limit.as_millis()
            ),
            Outcome::Rejected | Outcome::Expired | Outcome::Failed | Outcome::Indeterminate => {
                "one of its steps was rejected".to_owned()
            }
        };
        Err(Void { why, again: true })
    }

    /// Has the oracle judge what happened; what it objects to is kept.
    fn observe(&mut self, line: usize, kind: EventKind) -> Ruling {
        let context = self.place(line).context;
        self.aside.observe(self.trail, self.site.clock.now(), context, kind)
    }

    /// Whether the model's counts rose by what was answered here, and nobody else's requests.
    async fn compare_counts(&self) -> Result<(), Void> {
        let settle = self.site.scenario.limits.settle_ms.duration();
        let model = &self.site.preflight.model;
        match self.ledger.compare(self.client, model, &self.counts, settle).await {
            Accounting::Agrees { .. } => Ok(()),
            Accounting::Differs { rose, expected } => Err(Void {
                why: format!(
                    "others may use the model: its counts rose by {} during the slot check, and had to by {}",
                    counted(rose.success, "success"),
                    expected.success_min
                ),
                again: false,
            }),
            Accounting::NotCheckable { why } => Err(Void { why, again: false }),
        }
    }

    /// Closes the streams in good order, where all is answered; what still waits is cancelled.
    async fn close(self) {
        let Self { outgoing, mut arrivals, sender, readers, .. } = self;
        drop((outgoing, sender));
        let closed = async { while arrivals.recv().await.is_some() {} };
        let _ = tokio::time::timeout(CLOSING, closed).await;
        drop(readers);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn correlation_id(terms: &Terms, attempt: u32, sequence: u32) -> CorrelationId {
    let offset = u64::from(attempt) * (u64::from(terms.slots) + 1) + u64::from(sequence);
    CorrelationId(terms.first_id.checked_add(offset).expect("there is room for every attempt"))
}
