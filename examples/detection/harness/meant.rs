//! Which faults the built-in scenarios are meant to find.

#![allow(clippy::enum_glob_use, reason = "a table of them")]

use std::{
    num::{NonZeroU16, NonZeroU64},
    path::{Path, PathBuf},
    time::Duration,
};

use reference::{
    Fault::{self, *},
    Options, Planted, Server, ServerSetup, When,
};
use sequence_stress::{
    run::{Restart, Setup},
    simulate::Plan,
};
use wire::simulation::Simulation;
use workload::{
    endpoint::Endpoints,
    scenario::{Elements, Overrides, Scenario, Source},
    seed::Seed,
};

use super::{
    rows::Row,
    trial::{HOLD, Outcome, models, run_and_judge},
};

/// The idle limit that the suite is made for.
const IDLE_LIMIT: Duration = Duration::from_millis(200);

/// The built-in scenario whose clients are killed, as processes of their own. Such a client has no part in a simulation.
const WITH_PROCESSES: &str = "bad-network";
/// The idle limit of runs in real time. On a busy machine the slot check cannot keep its sequences open within a shorter one.
const IDLE_LIMIT_IN_REAL_TIME: Duration = Duration::from_secs(2);

/// The most elements of an input, where it may have several.
const ELEMENTS: NonZeroU16 = NonZeroU16::new(8).expect("some");

/// The built-in scenarios, and the faults that each is there for; every fault that shows at all is in one of them.
pub const MEANT: &[(&str, &[Fault])] = &[
    (
        "l0-sequence-stress",
        &[
            OffByOne,
            ResetState,
            SkipStep,
            StartSpurious,
            ReadyMissing,
            EndSpurious,
            DropResponse,
            DuplicateResponse,
            WrongRequestId,
            WrongModelName,
            WrongModelVersion,
            WrongOutputName,
            WrongOutputType,
            WrongOutputShape,
            WrongOutputLength,
            TruncateOutput,
            EmptyResponse,
            LateResponse,
            ModelError,
            WrongErrorText,
            OutputBesideError,
            CloseStream,
            NeverClose,
            LoseEnd,
            RejectMidSequence,
            CountTwice,
            CountNot,
            LoseOwnResponse,
            SwapOwnResponses,
            LoseFinalMark,
            SurplusResponse,
        ],
    ),
    ("slot-exhaustion", &[LeakSlotAtEnd, HangInstance]),
    (
        "rapid-cycling",
        &[
            KeepState,
            StartMissing,
            EndMissing,
            RejectStart,
            EnsembleLosesStart,
            EnsembleLosesEnd,
            BlsLosesStart,
            BlsLosesEnd,
        ],
    ),
    ("interleaved-timeouts", &[LeakSlotAtIdle, ReadySpurious, ClockFromStart]),
    ("connection-drops", &[LeakSlotAtDisconnect, LoseFinalResponses, LeakSlotAtCancel]),
    ("bad-network", &[LeakSlotAtDisconnect, LateRelease]),
    ("correlation-id-routing", &[CorridOther, CorridZero, Misdeliver]),
    ("correlation-id-routing-text", &[AcceptNoStart]),
    ("correlation-id-pairs", &[CutIds, FoldIds]),
    ("correlation-id-pairs-text", &[FoldTexts]),
    ("ordering", &[OutOfOrder, SwapResponses, ExecuteTwice, EndBeforeLast]),
    ("starvation", &[SlowExecution]),
    ("backlog", &[ExtraSlot, ReaperLivelock]),
    ("slot-reuse", &[DoubleRelease, SwapStates, StateOfAnotherSlot, StateNotSaved, ExchangeStates, StateHalfSaved]),
    ("idle-boundary", &[ReapEarly, NeverReap, ClockFromStart]),
    ("strategy-switch", &[StaleState]),
    ("server-restart", &[Crash, Restart]),
    ("stub-killed", &[AnswerAfterLostState]),
    ("unusual-steps", &[AcceptBatch, RejectionEndsSequence, AcceptNoStart]),
    ("backlog-timeouts", &[ExpireEarly, IgnoreTimeout]),
    ("soak", &[LeakSlotAtIdle, CountTwice, SayNotReady]),
    ("mixed-transports", &[WrongErrorCode, WrongRequestId, StateNotSaved]),
    ("cancellation", &[LeakSlotAtCancel]),
    ("deadlines", &[RedoCancelled, LeakSlotAtCancel]),
    ("backlog-order", &[StarveBacklog, BacklogOrder]),
    ("cancel-restart", &[OrphanAtCancel]),
    ("grpc-errors", &[ErrorWithinStream, IgnoreTimeout]),
    ("other-models", &[LoadResetsOthers]),
    ("model-versions", &[VersionsShareSequences]),
];

/// A built-in scenario and a fault that it is meant to find.
#[derive(Clone, Copy, Debug)]
pub struct Meant {
    pub scenario: &'static str,
    pub row: &'static Row,
}

/// All of them, one by one.
pub fn all() -> Vec<Meant> {
    let of = |(scenario, faults): &(&'static str, &'static [Fault])| {
        let scenario = *scenario;
        faults.iter().map(move |fault| Meant { scenario, row: Row::of(*fault) })
    };
    MEANT.iter().flat_map(of).collect()
}

impl Meant {
    /// Runs the scenario, as the suite does, against a reference server that always commits the fault; or never.
    pub fn run(&self, is_planted: bool, seed: u64, program: Option<PathBuf>) -> Outcome {
        let faults = if is_planted { vec![Planted::always(self.row.fault)] } else { Vec::new() };
        let is_simulated = self.scenario != WITH_PROCESSES;
        let idle_limit = if is_simulated { IDLE_LIMIT } else { IDLE_LIMIT_IN_REAL_TIME };
        let models = models(idle_limit, self.row.execution_ms);
        let options =
            Options { models, faults, fault_seed: Seed(seed), fault_hold: HOLD, threads: 1, ..Options::default() };
        let _simulation = is_simulated.then(Simulation::begin);
        let server = Server::start(options).expect("a free port");
        let overrides = Overrides {
            endpoint: Some(Endpoints::of_both(server.address, server.http)),
            model: Some(self.row.model.to_owned()),
            ..Overrides::default()
        };
        let source = Source::named(Path::new(self.scenario)).expect("it is built in");
        let scenario = Scenario::resolve(&source, overrides).expect("a scenario");
        let setup = Setup {
            restart: Some(Restart::by(server.restarter())),
            instance_failure: Some(Restart::by(server.failure_of_an_instance())),
            program,
            ..Setup::new(scenario, Seed(seed))
        };
        let outcome = run_and_judge(setup);
        Outcome { committed: Some(server.committed(self.row.fault)), ..outcome }
    }

    /// The same in virtual time, without sockets, with a server that commits the fault at these chances; none where it has something that
    /// is not simulated. Each worker has at most so many iterations.
    pub fn simulated(&self, when: When, iterations: u64) -> Option<Plan> {
        let source = Source::named(Path::new(self.scenario)).expect("it is built in");
        let overrides = Overrides { model: Some(self.row.model.to_owned()), ..Overrides::default() };
        let mut scenario = Scenario::resolve(&source, overrides).expect("a scenario");
        for population in &mut scenario.populations {
            let most = |its: NonZeroU64| its.min(NonZeroU64::new(iterations).expect("some"));
            population.load.iterations = population.load.iterations.map(most);
            // It shows in the last of several elements, and requests have one by default.
            if self.row.fault == WrongElement {
                population.values.elements = Some(Elements { min: NonZeroU16::MIN, max: ELEMENTS });
            }
        }
        let setup = ServerSetup {
            instances: 2,
            max_batch_size: 4,
            candidates: Some(4),
            idle_limit: IDLE_LIMIT,
            execution_time: Duration::from_millis(self.row.execution_ms),
            versions: u32::try_from(scenario.versions().len()).expect("few"),
            fault: vec![Planted { fault: self.row.fault, when }],
            fault_hold: HOLD,
            ..ServerSetup::default()
        };
        Plan::new(scenario, setup).ok()
    }
}
