//! Judges a run again from its history.

mod timeline;

use std::{mem, path::Path, sync::Arc, time::Duration};

use self::timeline::Timeline;
use crate::{
    frame::{Footer, Header, OutputsJudged},
    probe::{Accounting, IdleSearch, PendingRequests, SlotCheck},
    recorder::{Found, Gauges, Recorder, Seconds, Series, Tally},
    run::{End, Interrupted, Memory, Restarts, RunResult},
};
use oracle::{
    Explainer, LongestWait, Occupancy, Ruling, VIOLATIONS_KEPT, Violation,
    golden::{Expectation, Golden, Identity},
    history::{Damage, Entry, Item, Reader, Scene},
};
use wire::transport::GoAways;
use workload::{
    event::{Event, Nanos},
    scenario::Scenario,
};

/// How long a run may go on after its last entry.
const MOST_AFTER_ENTRIES: Duration = Duration::from_secs(86_400);
/// How many seconds the events of two threads are apart at most.
const SECONDS_APART: u64 = 10;
/// How late an entry of another thread or rank may have been written: nobody waits for the check to go on.
const TOLD_WITHIN: Duration = Duration::from_secs(SECONDS_APART);
/// How many entries the explainer gets at a time, where nothing waits for them.
const BATCH: usize = 512;

/// What a history shows.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Its first line.
    pub header: Header,
    /// What the run's own end says; none where the history is cut off.
    pub footer: Option<Footer>,
    /// What its events amount to.
    pub result: RunResult,
    /// How many entries are good.
    pub entries: u64,
    /// The time of the latest of them.
    pub until: Nanos,
    /// How often entries are missing in between.
    pub gaps: u64,
    /// What is wrong with the history, where that begins.
    pub damage: Option<Damage>,
    /// In how many places something is.
    pub damages: u64,
}

/// What follows a history while it is judged.
pub(crate) trait Follower {
    /// The history's first line.
    fn begin(&mut self, _header: &Header) {}
    /// Events are missing between these times.
    fn gap(&mut self, _from: Nanos, _until: Nanos) {}
    /// An event, and what the oracle says of it.
    fn entry(&mut self, _entry: &Entry, _ruling: &Ruling) {}
    /// A violation that is explained by now.
    fn violation(&mut self, _violation: &Violation) {}
}

impl Follower for () {}

/// Judges the history in a file.
///
/// # Errors
/// When nothing can be said, because the history's first line is not as it should be.
pub fn check(path: &Path) -> Result<Checked, Damage> {
    check_by(None, path, &mut ())
}

/// Judges the history in a file, of a model without a formula by golden outputs.
///
/// # Errors
/// As [`check`]; when the golden outputs are missing, or are another model's.
pub(crate) fn check_by(
    golden: Option<&Arc<Golden>>,
    path: &Path,
    follower: &mut dyn Follower,
) -> Result<Checked, Damage> {
    let (mut reader, header) = Reader::open(path)?;
    let unusable = |problem: String| Damage { line: 1, problem, is_cut_off: false };
    let mut header: Header = serde_json::from_value(header)
        .map_err(|error| unusable(format!("the first line is not that of such a history: {error}")))?;
    if header.rules.arithmetic.formula.is_golden() {
        let judged =
            header.outputs.as_ref().ok_or_else(|| unusable("it does not say what judged outputs".to_owned()))?;
        let expectation = Expectation::of(expected(judged, golden).map_err(unusable)?);
        header.rules.golden = Some(expectation.clone());
        header.preflight.golden = Some(expectation);
    }
    header.rules.words = header.rules.words.or_with_one_status(header.preflight.model.server.as_deref());
    follower.begin(&header);
    let scenario = header.scenario.clone().checked().map_err(|problem| unusable(format!("its scenario: {problem}")))?;
    let mut check = Check::new(&header, scenario, follower);
    let (mut damage, mut damages) = (None, 0);
    while let Some(lines) = reader.next_block() {
        let read = lines.items.into_iter().try_for_each(|item| check.take_in(item, reader.line()));
        // Behind what no run writes nothing can be believed; a block that was changed says so itself, and the next is as good as ever.
        let is_unbelievable = read.is_err();
        if let Some(found) = read.err().or(lines.damage) {
            damages += 1;
            damage.get_or_insert(found);
        }
        if is_unbelievable {
            break;
        }
    }
    Ok(check.conclude(header, damage, damages))
}

/// Judges all that happened in a run of which this header tells. An error says in one line which entry no run has.
pub(crate) fn check_entries(header: Header, entries: Vec<Entry>) -> Result<Checked, String> {
    let follower = &mut ();
    let mut check = Check::new(&header, header.scenario.clone(), follower);
    for entry in entries {
        check.entry(entry)?;
    }
    Ok(check.conclude(header, None, 0))
}

/// What judged a run's outputs: golden ones, which are the file's that was named, or nothing.
fn expected(judged: &OutputsJudged, golden: Option<&Arc<Golden>>) -> Result<Arc<Golden>, String> {
    let Identity { model, inputs, .. } = &judged.of;
    match golden {
        Some(golden) if golden.identity.model != *model => {
            Err(format!("the golden file is of model '{}', and the run is of model '{model}'", golden.identity.model))
        }
        Some(golden) if golden.identity.inputs != *inputs => Err(format!(
            "the golden file of model '{model}' has other inputs than the run had: name the one that the run was judged by (--golden FILE)"
        )),
        Some(golden) => Ok(Arc::clone(golden)),
        None => judged.without_golden().map(Arc::new).ok_or_else(|| {
            format!("the run was judged by golden outputs of model '{model}': name the file (--golden FILE)")
        }),
    }
}

struct Check<'c> {
    recorder: Recorder,
    seconds: Seconds,
    series: Series,
    gauges: Gauges,
    explainer: Explainer,
    /// What the explainer gets next.
    batch: Vec<Entry>,
    occupancy: Occupancy,
    timeline: Timeline,
    violations: Vec<Violation>,
    /// Counts what the recorder does not.
    of_all: Tally,
    follower: &'c mut dyn Follower,
    entries: u64,
    until: Nanos,
    /// Time that the entries cover, without the gaps.
    covered: Nanos,
    footer: Option<Footer>,
}

impl<'c> Check<'c> {
    fn new(header: &Header, scenario: Scenario, follower: &'c mut dyn Follower) -> Self {
        let (seconds, preflight) = (Seconds::default(), &header.preflight);
        let occupancy = preflight.occupancy(&scenario).told_within(TOLD_WITHIN);
        let (rules, threshold) = (header.rules.clone(), preflight.limits.threshold);
        Self {
            recorder: Recorder::of(&scenario, rules, threshold, None, seconds.clone()),
            seconds,
            series: Series::default(),
            gauges: Gauges::of(&scenario),
            explainer: preflight.explainer(&scenario),
            batch: Vec::new(),
            occupancy: if header.several_clocks { occupancy.of_several_clocks() } else { occupancy },
            timeline: Timeline::new(scenario),
            violations: Vec::new(),
            of_all: Tally::default(),
            follower,
            entries: 0,
            until: 0,
            covered: 0,
            footer: None,
        }
    }

    fn take_in(&mut self, item: Item, line: u64) -> Result<(), Damage> {
        let damage = |line, problem| Damage { line, problem, is_cut_off: false };
        match item {
            Item::Entry(entry, line) => self.entry(entry).map_err(|problem| damage(line, problem)),
            Item::Gap(until) => {
                self.timeline.gap(until);
                self.occupancy.forget();
                self.explainer.gap(self.until, until);
                self.follower.gap(self.until, until);
                self.until = self.until.max(until);
                Ok(())
            }
            Item::Footer(footer) => {
                let footer = serde_json::from_value(footer);
                self.footer = Some(footer.map_err(|error| damage(line, format!("the run's end: {error}")))?);
                Ok(())
            }
        }
    }

    fn entry(&mut self, entry: Entry) -> Result<(), String> {
        self.timeline.check(&entry)?;
        let mut violations = Vec::new();
        for cut in self.timeline.missed(&entry) {
            violations.extend(self.record(cut).violations);
        }
        self.entries += 1;
        self.covered += entry.at.saturating_sub(self.until);
        self.until = self.until.max(entry.at);
        self.occupancy.take(&entry);
        violations.extend(self.of_all());
        if self.timeline.is_known(&entry) {
            let ruling = self.record(entry.clone().event());
            self.follower.entry(&entry, &ruling);
            violations.extend(ruling.violations);
        }
        self.batch.push(entry);
        let is_waited_for = self.explainer.waits(Duration::ZERO).is_some();
        if is_waited_for || !violations.is_empty() || self.batch.len() >= BATCH {
            self.give_evidence();
        }
        for violation in violations {
            self.explainer.accuse(violation, Duration::from_nanos(self.until));
        }
        self.hand_on(false);
        Ok(())
    }

    /// Violations that only all contexts together show.
    fn of_all(&mut self) -> Vec<Violation> {
        let violations = self.occupancy.violations();
        for violation in &violations {
            self.of_all.violation(violation.kind);
        }
        violations
    }

    fn give_evidence(&mut self) {
        let batch = mem::take(&mut self.batch);
        let bytes = batch.iter().map(Entry::memory).sum();
        self.explainer.take(batch, bytes);
        self.seconds.leave_offered(self.occupancy.offered());
        collect(&self.seconds, &mut self.series, &mut self.gauges);
    }

    fn record(&mut self, event: Event) -> Ruling {
        let (context, lane) = (event.context, event.lane);
        let ruling = self.recorder.record(event);
        if ruling.settled.is_some() {
            self.timeline.settled(context, lane);
        }
        ruling
    }

    fn hand_on(&mut self, is_over: bool) {
        while let Some(violation) = self.explainer.explained(Duration::from_nanos(self.until), is_over) {
            if self.violations.len() < VIOLATIONS_KEPT {
                self.follower.violation(&violation);
                self.violations.push(violation);
            }
        }
    }

    fn conclude(mut self, header: Header, damage: Option<Damage>, damages: u64) -> Checked {
        self.give_evidence();
        self.occupancy.conclude();
        for violation in self.of_all() {
            self.explainer.accuse(violation, Duration::from_nanos(self.until));
        }
        self.hand_on(true);
        // What a cut-off history leaves waiting is not known.
        self.recorder.interrupt(self.until);
        let mut tally = self.recorder.close();
        self.seconds.leave_offered(self.occupancy.offered());
        collect(&self.seconds, &mut self.series, &mut self.gauges);
        tally.merge(&self.of_all);
        let longest_wait = self.occupancy.longest_wait();
        tally.reached.add(&self.occupancy.reached());
        let mut violations = self.violations;
        for violation in self.footer.iter().flat_map(|footer| &footer.violations).cloned() {
            tally.violation(violation.kind);
            violations.truncate(VIOLATIONS_KEPT - 1);
            self.follower.violation(&violation);
            violations.push(violation);
        }
        let gaps = self.timeline.gaps;
        if let Some(footer) = self.footer.as_ref().filter(|footer| gaps > 0 || footer.kept.problem.is_some()) {
            complete(&mut tally, footer);
        }
        let covered = Duration::from_nanos(self.covered);
        let misses_server = self.explainer.misses_server();
        let scene = self.explainer.into_scene();
        let mut result = result(&header, self.footer.as_ref(), tally, (violations, scene), (covered, longest_wait));
        result.series = self.series;
        result.revise_causes(&header.scenario);
        result.miss_server_header(header.scenario.target.server_header.as_ref().filter(|_| misses_server));
        let is_whole = gaps == 0 && damage.is_none();
        let elapsed = result.elapsed.min(Duration::from_nanos(self.until) + MOST_AFTER_ENTRIES);
        result.thresholds = thresholds(self.gauges.conclude(elapsed), self.footer.as_ref(), is_whole);
        let (footer, entries, until) = (self.footer, self.entries, self.until);
        Checked { header, footer, result, entries, until, gaps, damage, damages }
    }
}

/// Takes in the seconds that are over.
fn collect(seconds: &Seconds, series: &mut Series, gauges: &mut Gauges) {
    for second in seconds.take() {
        series.add(second.number, &second.interval);
        gauges.second(&second);
        // The events of several threads are a little out of order.
        gauges.close_before(second.number.saturating_sub(SECONDS_APART));
    }
}

/// What thresholds came to; the run itself says it of what the events do not show.
fn thresholds(of_events: Vec<Found>, footer: Option<&Footer>, is_whole: bool) -> Vec<Found> {
    let said = footer.map_or(&[][..], |footer| &footer.thresholds);
    let known = |found: Found| {
        let of_the_run =
            said.iter().find(|said| (&said.threshold, &said.population) == (&found.threshold, &found.population));
        match of_the_run {
            Some(said) if !is_whole || !found.threshold.measure.is_of_events() || !found.measured => said.clone(),
            Some(said) => {
                Found { ended_the_run: said.ended_the_run, missed: found.missed || said.ended_the_run, ..found }
            }
            // Where entries are missing, nobody knows what happened there.
            None if !is_whole => Found { value: None, at_s: None, measured: false, missed: false, ..found },
            None => found,
        }
    };
    of_events.into_iter().map(known).collect()
}

/// Counts what the run saw where entries are missing.
fn complete(tally: &mut Tally, footer: &Footer) {
    for (&kind, &counted) in &footer.violations_by_kind {
        let found = tally.violations.entry(kind).or_default();
        *found = counted.max(*found);
    }
    tally.slow = tally.slow.max(footer.slow);
    tally.reached = footer.reached;
}

fn result(
    header: &Header,
    footer: Option<&Footer>,
    tally: Tally,
    (violations, scene): (Vec<Violation>, Scene),
    (covered, longest_wait): (Duration, Option<LongestWait>),
) -> RunResult {
    let is_whole = footer.is_some_and(|footer| footer.counts.requests == tally.total().requests);
    let unknown = || "the history does not tell".to_owned();
    RunResult {
        origin: header.origin.clone(),
        preflight: header.preflight.clone(),
        accounting: footer
            .map_or_else(|| Accounting::NotCheckable { why: unknown() }, |footer| footer.accounting.clone()),
        pending: footer.map_or_else(|| PendingRequests::NotChecked { why: unknown() }, |footer| footer.pending.clone()),
        slots: footer.map_or_else(|| SlotCheck::not_checkable(unknown()), |footer| footer.slots.clone()),
        idle_limit: footer.and_then(|footer| footer.idle_limit.clone()).unwrap_or(IdleSearch::NotAsked),
        iterations: footer.map_or(0, |footer| footer.iterations),
        began: None,
        elapsed: footer.filter(|_| is_whole).map_or(covered, |footer| footer.elapsed),
        cpu_us: footer.map_or(0, |footer| share(footer.cpu_us, tally.total().requests, footer.counts.requests)),
        memory: footer.map_or(Memory::default(), |footer| footer.memory),
        interrupted: Interrupted(footer.is_some_and(|footer| footer.interrupted)),
        end: if footer.is_some() { End::Known } else { End::CutOff },
        beside: footer.iter().flat_map(|footer| &footer.violations).cloned().collect(),
        recorded: None,
        scene: Arc::new(scene),
        phases: footer.map_or_else(Vec::new, |footer| footer.phases.clone()),
        arrived: footer.map_or_else(Vec::new, |footer| footer.arrived.clone()),
        broken_off: footer.and_then(|footer| footer.broken_off.clone()),
        longest_wait,
        go_aways: footer.map_or(GoAways::default(), |footer| footer.go_aways),
        restarts: footer.map_or_else(Restarts::default, |footer| footer.restarts.clone()),
        health: footer.and_then(|footer| footer.health.clone()),
        series: Series::default(),
        thresholds: Vec::new(),
        ranks: None,
        own: None,
        tally,
        violations,
    }
}

/// What falls to `part` of so many.
fn share(all: u64, part: u64, of: u64) -> u64 {
    let share = u128::from(all) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

impl Checked {
    /// What is missing, and where the run said otherwise: a sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let Some(footer) = &self.footer else { return remarks };
        let kept = &footer.kept;
        if self.damage.is_some() {
            remarks.push(format!(
                "{} of {} entries are good: what happened elsewhere is taken from the run's own counts",
                self.entries, kept.entries
            ));
        }
        if kept.left_out + kept.lost > 0 {
            remarks.push(format!(
                "{} entries are there, {} were left out and {} lost: what happened there is taken from the run's own counts",
                kept.entries, kept.left_out, kept.lost
            ));
        }
        remarks.extend(kept.problem.clone());
        for (kind, found) in &self.result.tally.violations {
            let counted = footer.violations_by_kind.get(kind).copied().unwrap_or(0);
            if *found != counted {
                remarks.push(format!("the run counted {counted} {kind} and this check {found}"));
            }
        }
        for (kind, counted) in &footer.violations_by_kind {
            if !self.result.tally.violations.contains_key(kind) {
                remarks.push(format!("the run counted {counted} {kind} and this check none"));
            }
        }
        remarks
    }
}
