//! `sequence-stress`: stress an endpoint.

use std::{
    io::{IsTerminal as _, stdout},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::mpsc::{self, Receiver, Sender};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use super::{
    Failure as CommandFailure,
    checkpoints::Checkpoints,
    find_limit::find_limit,
    github,
    golden::expected,
    metrics::{Exported, metered},
    output::{Files, check_different, check_history_file, print, print_beside, say_error, say_interrupted},
    pictured::{Scratch, discard_all, pictured, tell_problem},
    prepare::{check_measured, load_words, planted_faults, recording, replay_line, server_memory, setup, start_server},
    progress::Display,
    ranks::{Party, Role, role},
    resolve, runtime,
    screen::restore,
    signals::{Questions, Signals},
};
use crate::{
    cli::{EndpointArgs, StressArgs, with_hints},
    lanes::Accused,
    preflight::Preflight,
    report::{
        Extent, LiveLines, Pictured, Summary, describe_absence, verdict_and_why, write_preflight, write_ranks,
        write_text, write_verdict_again,
    },
    run::{Absence, Asked, Glance, Observer, Progress, RunResult, Setup, SoFar},
    tui::{About, Judged, Stage, Wish},
};
use oracle::Violation;
use reference::Server;
use workload::{
    scenario::Scenario,
    seed::Seed,
    share::{Share, reserved},
};

/// What is said where a flag has no effect.
const NO_CHECKPOINT: &str =
    "--checkpoint has nothing to write without a file for the result: add --json, --csv, --hdr-log, --html or --junit";
/// How often a run of hours tells what it has shown so far.
const VERDICT_EVERY: Duration = Duration::from_secs(3600);
/// The same where the whole terminal shows the run.
const VERDICT_ON_SCREEN_EVERY: Duration = Duration::from_secs(5);
/// How often the slots and patterns that it shows are looked at.
const GLANCE_EVERY: Duration = Duration::from_millis(500);
/// So many keys may wait for their effect.
const WISHES_MAX: usize = 16;
/// The history that a page is made of.
const SCRATCH: &str = "history";
/// What is told while the whole terminal shows the run, and told again after it: the first of it.
const HELD_MAX: usize = 100;
/// What a second interrupt exits with: what is known by then.
const ENDED_WITH_VIOLATIONS: i32 = 1;
const ENDED_AT_ONCE: i32 = 3;

/// Runs a scenario and returns the exit code.
pub(super) fn stress(args: &StressArgs) -> Result<u8, CommandFailure> {
    let party = match role(&args.ranks)? {
        Role::Followed(exit_code) => return Ok(exit_code),
        Role::Leads(party) => Some(*party),
        Role::Alone => None,
    };
    let ended = match args.find_limit {
        Some(range) => find_limit(args, range, party.as_ref()),
        None => stress_once(args, party.as_ref()),
    };
    if let Some(party) = party {
        party.dismiss(ended.is_ok());
    }
    ended
}

fn stress_once(args: &StressArgs, party: Option<&Party>) -> Result<u8, CommandFailure> {
    let (source, mut scenario, seed) = resolve(&args.plan, args.overrides())?;
    if let Some(party) = party {
        party.give_each_rank_a_worker(&mut scenario, args.plan.concurrency.is_some())?;
        scenario = party.fit(scenario)?;
    }
    let (files, scratch) = checked_files(args).map_err(CommandFailure::wrong_input)?;
    let (is_kept, is_shown) = (files.have_results(), files.page().is_some());
    if args.verbose {
        show_each_step();
    }
    for note in args.endpoint.check_server(&scenario.target.model).map_err(CommandFailure::wrong_input)? {
        say_error(&note);
    }
    let exported = Exported::start(&args.metrics)?;
    let server = args.endpoint.embedded.then(|| start_server(&args.endpoint, seed)).transpose()?;
    if let Some(server) = &server {
        scenario.target.embed(server.address, server.http);
        scenario.target.metrics = Some(server.metrics.into());
    }
    let golden = expected(&args.expect, &scenario, &args.endpoint, scenario.longest())?;
    if let Some(golden) = golden.as_ref().filter(|_| args.endpoint.model.is_none()) {
        scenario.target.model.clone_from(&golden.identity.model);
    }
    let replay = replay_line(&args.endpoint, &source, &load_words(args, &scenario), seed, &scenario.target);
    let saw_violation = Arc::default();
    let has_screen = args.tui && Display::has_screen();
    let (wish, wishes) = mpsc::channel(WISHES_MAX);
    let mut terminal = Terminal {
        display: Display::new(args.quiet, args.verbose),
        wish: has_screen.then_some(wish),
        held: Vec::new(),
        extent: args.extent(),
        source_name: source.name().to_owned(),
        scenario: scenario.clone(),
        seed,
        live: LiveLines::default(),
        saw_violation: Arc::clone(&saw_violation),
        replay: replay.clone(),
        ranks: party.map(|party| (party.share().of.get(), reserved(&scenario))),
        embedded: server.as_ref().map(|server| (&args.endpoint, server)),
        checkpoints: Checkpoints::new(files),
    };
    let so_far = SoFar {
        checkpoint_every: is_kept.then(|| args.soak.checkpoint_every()),
        verdict_every: Some(if has_screen { VERDICT_ON_SCREEN_EVERY } else { VERDICT_EVERY }),
        verdict_asked: Asked::default(),
        glance_every: has_screen.then_some(GLANCE_EVERY),
        ..SoFar::default()
    };
    let asked = so_far.verdict_asked.clone();
    let options = args.history.options().or(scratch.as_ref().map(|scratch| scratch.options(SCRATCH)));
    let setup = Setup {
        fail_fast: args.fail_fast,
        recording: options.map(|options| recording(options, &args.endpoint, (source.name(), &replay), seed)),
        server_memory: server_memory(&args.endpoint, &scenario.target),
        golden: golden.clone(),
        pace: args.expect.pace,
        so_far,
        share: party.map_or(Share::WHOLE, Party::share),
        lead: party.map(|party| party.lead(source.name(), &replay)),
        ..setup(&args.endpoint, server.as_ref(), scenario.clone(), seed)
    };
    check_measured(&setup)?;
    let asked_for = setup.clone();
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        answer_questions(asked)?;
        let interrupts = interrupts_or_wishes(saw_violation, wishes)?;
        let ended = metered(exported.metrics(), source.name(), setup, &mut terminal, interrupts).await;
        ended.map_err(|error| match &server {
            Some(_) => CommandFailure::of_run(error, &"the embedded server"),
            None => CommandFailure::of_run(error, &scenario.target.endpoint),
        })
    });
    terminal.finish();
    let summary = result.map(|result| terminal.summary(result));
    let (extent, files) = (terminal.extent, terminal.checkpoints.finish());
    drop(server);
    let mut summary = summary.inspect_err(|_| files.leave())?;
    tell_problem(&mut summary, scratch.is_some());
    if let Some(party) = party {
        party.write(&asked_for, &summary.result);
    }
    write_report(&summary, extent, has_screen);
    github::show(|| summary.written());
    let pictured = match (scratch, args.history.history.as_deref().filter(|_| is_shown)) {
        (Some(scratch), _) => scratch.take(SCRATCH, golden.as_ref(), &summary),
        (None, Some(history)) => pictured(history, golden.as_ref(), summary.result.violations.iter().map(Accused::of)),
        (None, None) => Pictured::default(),
    };
    let exit_code = files.write(&summary, &pictured, args.endpoint.server_setup(seed).as_ref(), args.quiet);
    exported.finish();
    Ok(exit_code)
}

/// The files that the run is to leave, each of which can be written, and where its history goes if only its page is to be left.
fn checked_files(args: &StressArgs) -> Result<(Files, Option<Scratch>), String> {
    let history = args.history.history.as_deref();
    check_different(args.files.named().chain(history.map(|path| ("history", path))).chain(args.expect.files()))?;
    let files = Files::check(&args.files)?;
    if args.soak.checkpoint.is_some() && !files.have_results() {
        return Err(NO_CHECKPOINT.to_owned());
    }
    history.map(check_history_file).transpose()?;
    // A page shows what a history tells.
    let scratch = files.page().filter(|_| history.is_none()).map(Scratch::beside).transpose()?;
    Ok((files, scratch))
}

/// Writes the report. Where the view filled the terminal before, nothing else is there, and the report may be longer.
fn write_report(summary: &Summary, extent: Extent, had_screen: bool) {
    print(|out| write_text(summary, extent, out));
    if had_screen && stdout().is_terminal() {
        print(|out| write_verdict_again(summary, extent, out));
    }
}

/// Has whoever sends SIGUSR1 get a verdict.
fn answer_questions(asked: Asked) -> Result<(), CommandFailure> {
    let mut questions = Questions::new().map_err(CommandFailure::could_not_test)?;
    tokio::spawn(async move {
        loop {
            questions.recv().await;
            asked.ask();
        }
    });
    Ok(())
}

/// Brings the first Ctrl-C or SIGTERM; the second one ends the process.
pub(super) fn interrupts(saw_violation: Arc<AtomicBool>) -> Result<mpsc::Receiver<()>, CommandFailure> {
    interrupts_or_wishes(saw_violation, mpsc::channel(WISHES_MAX).1)
}

/// The same, where keys ask for it, too.
fn interrupts_or_wishes(
    saw_violation: Arc<AtomicBool>,
    mut wishes: Receiver<Wish>,
) -> Result<mpsc::Receiver<()>, CommandFailure> {
    let mut signals = Signals::new().map_err(CommandFailure::could_not_test)?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        ends(&mut signals, &mut wishes, |_| true).await;
        // The run may be over by now.
        let _ = sender.send(()).await;
        // Whoever presses q twice wants the report all the same.
        ends(&mut signals, &mut wishes, |wish| wish == Wish::Interrupt).await;
        restore();
        discard_all();
        say_error("interrupted twice: ended at once, without a summary");
        std::process::exit(if saw_violation.load(Relaxed) { ENDED_WITH_VIOLATIONS } else { ENDED_AT_ONCE });
    });
    Ok(receiver)
}

/// Waits for a signal, or for a key that asks for such a thing.
async fn ends(signals: &mut Signals, wishes: &mut Receiver<Wish>, is_such: fn(Wish) -> bool) {
    loop {
        tokio::select! {
            () = signals.recv() => return,
            Some(wish) = wishes.recv() => if is_such(wish) {
                return;
            }
        }
    }
}

fn show_each_step() {
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_level(false)
        .without_time()
        .with_ansi(false)
        .with_writer(std::io::stderr);
    let steps = Targets::new().with_target("sequence_stress", LevelFilter::DEBUG);
    tracing_subscriber::registry().with(lines).with(steps).init();
}

/// Shows the run to a person.
struct Terminal<'a> {
    display: Display,
    /// Where keys tell what they ask for, until the whole terminal shows the run; none where it does not.
    wish: Option<Sender<Wish>>,
    /// What was told on the whole terminal, which shows it no longer after the run.
    held: Vec<String>,
    extent: Extent,
    source_name: String,
    scenario: Scenario,
    seed: Seed,
    live: LiveLines,
    saw_violation: Arc<AtomicBool>,
    /// The command line that sends the same again, without what the preflight takes of the hints.
    replay: String,
    /// How many ranks hold the run, and their correlation IDs, where it is several.
    ranks: Option<(u32, [u64; 2])>,
    /// The server in this process, if there is one, and the flags that it was started by.
    embedded: Option<(&'a EndpointArgs, &'a Server)>,
    checkpoints: Checkpoints,
}

impl Terminal<'_> {
    /// Shows nothing more of the run but its report.
    fn finish(&mut self) {
        self.display.finish();
        self.held.drain(..).for_each(|what| say_error(&what));
    }

    fn show_on_screen(&mut self, preflight: &Preflight) {
        let Some(wish) = self.wish.take() else { return };
        let model = &preflight.model;
        let server = model.server.as_ref().map_or_else(String::new, |server| format!(" on {server}"));
        let about = About {
            target: format!("{}{server}, {}", model.name, self.source_name),
            slots: model.slots,
            phases: self.scenario.phases.clone(),
            replay: with_hints(&self.replay, &preflight.told),
        };
        self.display.show_on_screen(about, wish);
    }

    fn summary(&self, result: RunResult) -> Summary {
        let embedded = self.embedded.map(|(endpoint, server)| planted_faults(endpoint, server, &result));
        Summary {
            scenario: self.scenario.clone(),
            scenario_name: self.source_name.clone(),
            seed: self.seed,
            replay: with_hints(&self.replay, &result.preflight.told),
            embedded,
            result,
        }
    }
}

impl Observer for Terminal<'_> {
    fn found(&mut self, preflight: &Preflight) {
        if self.extent != Extent::Short {
            print(|out| write_preflight(&self.scenario, &self.source_name, self.seed, preflight, self.extent, out));
            if let Some((of, ids)) = self.ranks {
                print(|out| write_ranks(of, ids, out));
            }
        }
        self.show_on_screen(preflight);
    }

    fn violation(&mut self, violation: &Violation) {
        self.saw_violation.store(true, Relaxed);
        let Self { display, live, .. } = self;
        // A terminal that shows the whole run has no room for lines; a file has.
        if display.tell_screen(|news| news.violation(violation.clone())) && stdout().is_terminal() {
            return;
        }
        display.suspend(|| print(|out| live.write(violation, out)));
    }

    fn progress(&mut self, progress: &Progress) {
        // One that is still to be explained is one, too.
        if progress.violations > 0 {
            self.saw_violation.store(true, Relaxed);
        }
        self.display.show("", &self.scenario, progress);
        if let Some(problem) = self.checkpoints.problem() {
            self.trouble(&problem);
        }
    }

    fn looks_at(&mut self, what: &str, up_to: Option<Duration>) {
        self.display.show_check(what, up_to);
    }

    fn checkpoint(&mut self, so_far: RunResult) {
        self.checkpoints.write(self.summary(so_far));
    }

    fn glance(&mut self, glance: Glance) {
        self.display.tell_screen(|news| news.glance(glance));
    }

    fn load_ended(&mut self) {
        self.display.tell_screen(|news| news.stage(Stage::Checks));
    }

    fn verdict(&mut self, so_far: RunResult) {
        let summary = self.summary(so_far);
        let judged = || {
            let (verdict, why) = verdict_and_why(&summary);
            Judged { verdict, why, missed: summary.missed_thresholds() }
        };
        if self.display.tell_screen(|news| news.judged(judged())) {
            return;
        }
        self.display.suspend(|| print_beside(|out| write_text(&summary, self.extent, out)));
    }

    fn away(&mut self, within: Duration) {
        self.trouble(&format!("the server does not answer: waiting up to {within:?} until it is ready again"));
    }

    fn back(&mut self, absence: Absence) {
        self.trouble(&format!("the server is ready again: it was away {}", describe_absence(&absence)));
    }

    fn trouble(&mut self, what: &str) {
        if self.display.tell_screen(|news| news.note(what.to_owned())) {
            if self.held.len() < HELD_MAX {
                self.held.push(what.to_owned());
            }
            return;
        }
        self.display.suspend(|| say_error(what));
    }

    fn interrupted(&mut self, drain: Duration) {
        if self.display.tell_screen(|news| news.stage(Stage::Stopping)) {
            return;
        }
        self.display.suspend(|| say_interrupted(drain));
    }
}
