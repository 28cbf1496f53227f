//! A violation of a run as a failure that can be had again.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
};

use super::{Accused, Facts, Failure};
use oracle::{Violation, history::Scene};
use reference::ServerSetup;
use workload::{
    arithmetic::Arithmetic,
    conversation::{Act, Connection, Conversation, Lane, Transport},
    event::Nanos,
    inputs::Sent,
    plan::{Iteration, Manner, WorkerPlan},
    scenario::{Population, Scenario, Window},
    seed::Seed,
    sequence::{Pattern, RequestId, Trait},
    version::ModelVersion,
};

/// The most messages that are taken along: those nearest in time.
const MESSAGES_MAX: usize = 10_000;
/// The most conversations of one worker that are looked at for them.
const CONVERSATIONS_MAX: usize = 1_000_000;
/// The most sequences that are drawn of one worker's plan: a file may name any.
const DRAWN_MAX: u32 = 20_000_000;

/// The run in which something was found.
#[derive(Clone, Copy, Debug)]
pub struct Run<'r> {
    /// What was asked for.
    pub scenario: &'r Scenario,
    /// What fixed every choice.
    pub seed: Seed,
    /// How passes were carried out.
    pub manner: Manner,
    /// What the model computes.
    pub arithmetic: Arithmetic,
    /// What happened around the violation.
    pub scene: &'r Scene,
    /// How the embedded server was, if there was one.
    pub embedded: Option<&'r ServerSetup>,
    /// What was sent, where no formula says what the model computes.
    pub inputs: Option<&'r Sent>,
}

impl Failure {
    /// The failure that a violation of a run is: the conversations that had begun by then, as the plan has them, at the times at
    /// which they began. `words` are the violation's. None where it is not known what had.
    pub fn found(violation: &Violation, words: String, run: &Run<'_>) -> Option<Self> {
        let request = violation.request();
        // An answer is missed long after the request was sent.
        let around = request.and_then(|request| run.scene.sent_at(request)).unwrap_or(violation.at_ns);
        let mut begun: BTreeMap<u32, HashMap<u32, Nanos>> = BTreeMap::new();
        for its in run.scene.begun().filter(|its| its.at <= violation.at_ns) {
            begun.entry(its.context.worker).or_default().insert(its.sequence, its.at);
        }
        let mut conversations: Vec<_> =
            begun.iter().flat_map(|(&worker, begun)| conversations(worker, begun, request, run)).collect();
        let nanos = |conversation: &Conversation| conversation.at_us.saturating_mul(1000);
        conversations.sort_by_key(|its| (!its.accused, nanos(its).abs_diff(around)));
        let mut messages = 0;
        let enough = conversations.iter().position(|conversation| {
            messages += conversation.messages();
            messages > MESSAGES_MAX
        });
        conversations.truncate(enough.unwrap_or(usize::MAX).max(1));
        conversations.sort_by_key(|its| its.at_us);
        let scenario = alike(run.scenario, request);
        if let Some(width) = scenario.workers_of_a_version() {
            let worker = |its: &Conversation| place_among_versions(run.scenario, its.worker, width);
            for its in &mut conversations {
                its.worker = worker(its);
            }
        }
        let failure = Self {
            found: words,
            kind: violation.kind,
            scenario,
            seed: run.seed,
            embedded: run.embedded.cloned(),
            at_the_slots: request.is_some_and(|request| request.worker >= run.scenario.workers()),
            arithmetic: run.arithmetic,
            accused: Accused::of(violation),
            conversations,
            facts: Facts::default(),
        };
        (!failure.conversations.is_empty()).then(|| failure.renumbered())
    }
}

/// The iterations of a worker that are known to have begun, and those in between.
fn conversations(
    worker: u32,
    begun: &HashMap<u32, Nanos>,
    accused: Option<RequestId>,
    run: &Run<'_>,
) -> Vec<Conversation> {
    let (Some(&first), Some(&last)) = (begun.keys().min(), begun.keys().max()) else { return Vec::new() };
    let mut plan = WorkerPlan::new(run.scenario, run.seed, worker).with_inputs(run.inputs, run.seed);
    let mut next = 0;
    let mut at = 0;
    let mut conversations = Vec::new();
    while next <= last && conversations.len() < CONVERSATIONS_MAX {
        let iteration = plan.next_iteration();
        let pass_has = u32::try_from(iteration.sequences.len()).expect("an iteration has one sequence or two");
        let Some(behind) = next.checked_add(pass_has).filter(|_| next <= DRAWN_MAX) else { break };
        let sequences = next..behind;
        next = sequences.end;
        if sequences.end <= first {
            continue;
        }
        // Where an event was lost it is as if it had begun with the one before it.
        at = sequences.clone().find_map(|sequence| begun.get(&sequence).copied()).unwrap_or(at);
        let accused_is_in = accused.is_some_and(|its| its.worker == worker && sequences.contains(&its.sequence));
        let Iteration { context, pattern, .. } = iteration;
        // What the worker did before it is over when it begins.
        let acts = iteration.acts(plan.sending(), run.manner);
        let acts = acts.into_iter().skip_while(|act| matches!(act, Act::Pause { .. })).collect();
        let mut its = Conversation { worker, context, pattern, at_us: at / 1000, accused: accused_is_in, acts };
        if run.scenario.populations.len() > 1 {
            its.acts = with_window(its.acts, plan.sending().window, its.pattern);
            let transport = plan.sending().transport();
            if transport != accused_population(run.scenario, accused).sending.transport() {
                its.acts = with_transport(its.acts, transport);
            }
        }
        conversations.push(its);
    }
    conversations
}

fn accused_worker(scenario: &Scenario, accused: Option<RequestId>) -> u32 {
    accused.map_or(0, |request| request.worker).min(scenario.workers() - 1)
}

fn accused_population(scenario: &Scenario, accused: Option<RequestId>) -> &Population {
    scenario.population_of(accused_worker(scenario, accused))
}

/// The scenario for workers that are all of one population, that of the accused, and of no phase: what they do, and when, stands in
/// their acts.
fn alike(scenario: &Scenario, accused: Option<RequestId>) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.phases.clear();
    scenario.populations.iter_mut().for_each(|population| population.phase = None);
    if scenario.populations.len() > 1 {
        let worker = accused_worker(&scenario, accused);
        let mut population = accused_population(&scenario, accused).clone();
        population.name.clear();
        population.sending.window = Window::All;
        scenario.correlation_ids.form = scenario.id_form(worker);
        population.correlation_ids = None;
        scenario.populations = match scenario.versions().as_slice() {
            [version] => {
                scenario.target.version = *version;
                vec![Population { version: None, ..population }]
            }
            versions => {
                let all: Vec<_> = (0..scenario.workers()).map(|worker| scenario.version_of(worker)).collect();
                let workers = |version| all.iter().filter(|its| **its == version).count();
                let most = versions.iter().map(|version| workers(*version)).max().unwrap_or(1);
                population.load.workers = u32::try_from(most).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
                let name = |version: &Option<ModelVersion>| version.map(|version| format!("version {version}"));
                let of = |version| Population {
                    name: name(version).unwrap_or_default(),
                    version: *version,
                    ..population.clone()
                };
                versions.iter().map(of).collect()
            }
        };
    }
    scenario
}

/// The number that a worker gets where each version has so many, and those of the first version come first.
fn place_among_versions(scenario: &Scenario, worker: u32, width: u32) -> u32 {
    let version = scenario.versions().iter().position(|version| *version == scenario.version_of(worker));
    let version = version.and_then(|version| u32::try_from(version).ok()).expect("one of the scenario's versions");
    version * width + scenario.place_in_version(worker)
}

/// The acts with their transport at each stream that is opened.
fn with_transport(acts: Vec<Act>, its: Transport) -> Vec<Act> {
    let mut is_open = false;
    let mut all = Vec::with_capacity(acts.len() + 1);
    for act in acts {
        match act {
            Act::Open { lane, over, by, within_us } => {
                is_open |= lane == Lane::FIRST;
                all.push(Act::Open { lane, over, by: by.or(Some(its)), within_us });
                continue;
            }
            Act::Send { lane: Lane::FIRST, .. } if !is_open => {
                is_open = true;
                all.push(Act::Open { lane: Lane::FIRST, over: Connection::Own, by: Some(its), within_us: None });
            }
            Act::Close { lane } | Act::Cancel { lane } | Act::Reset { lane } | Act::Kill { lane } => {
                is_open &= lane != Lane::FIRST;
            }
            _ => {}
        }
        all.push(act);
    }
    all
}

/// The acts with waits in place of a window.
fn with_window(acts: Vec<Act>, window: Window, pattern: Pattern) -> Vec<Act> {
    let Window::Steps(most) = window else { return acts };
    if pattern.has(Trait::Queues) {
        return acts;
    }
    let with_wait = |act: Act| {
        let wait = match act {
            Act::Send { lane, .. } => Some(Act::Await { lane, unanswered: most.get() - 1 }),
            _ => None,
        };
        wait.into_iter().chain([act])
    };
    acts.into_iter().flat_map(with_wait).collect()
}
