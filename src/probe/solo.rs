//! One sequence before the run: whether the model computes what the oracle will take it to compute.

use super::{
    accounting::Ledger,
    aside::{Aside, OwnStream, Trail},
    site::{Clock, Liveness, Site},
    slots::free_ids,
};
use crate::preflight::{Preflight, WITHOUT_FORMULA};
use oracle::{Outcome, Purpose, Settled, Violation, ViolationKind, diagnosis::ModelFacts};
use wire::transport::{Access, Client};
use workload::{
    arithmetic::Arithmetic,
    conversation::Connection,
    event::{ContextId, Cut, EventKind},
    number::Number,
    scenario::Scenario,
    sequence::{CorrelationId, Pattern, RequestId, Step},
    wording::counted,
};

/// The values of all steps but the last. They are odd: cut to few bits, no odd number becomes 0.
const VALUES: [i64; 2] = [1_009, 20_011];
/// How often the whole sequence is sent before the model is rejected. A model that computes something else answers both alike.
const TRIES: u32 = 2;
/// How often the sequence is sent at most. Where a model's first execution takes longer than the idle limit, the server rejects the next
/// step, and nothing is known of the model.
const ATTEMPTS: u32 = 6;

impl Preflight {
    /// Sends the model one sequence before the run. Returns what a correct server would not have done.
    ///
    /// The values add up to 0, so that the sequence leaves its slot in the state that a fresh slot has. An error says in one line that the
    /// model computes something else, or that the server stopped answering.
    pub(crate) async fn try_alone(
        &self,
        client: &Client,
        scenario: &Scenario,
        access: &Access,
    ) -> Result<Vec<Violation>, String> {
        let slots = self.model.most_slots().unwrap_or(0);
        let Some(id) = free_ids(scenario, slots, 1).map(CorrelationId) else { return Ok(Vec::new()) };
        let ledger = if self.has_statistics { Ledger::open(client, &self.model.name).await.ok() } else { None };
        let (mut completed, mut whole) = (0, 0);
        let mut trail = Trail::default();
        let mut before = None;
        let (clock, liveness) = (Clock::started(), Liveness::default());
        let site = Site { scenario, access, preflight: self, clock: &clock, liveness: &liveness };
        for number in 0..ATTEMPTS {
            let told = trail.violations.len();
            let mut solo = Solo::new(site, id, number, &mut trail);
            solo.hold(client).await?;
            completed += solo.completed();
            let answers = solo.answers();
            let is_cut_short = solo.is_cut_short();
            let is_wrong = |of: &&Violation| matches!(of.kind, ViolationKind::WrongSum | ViolationKind::WrongOutput);
            let wrong = trail.violations[told..].iter().filter(is_wrong).count();
            if is_cut_short && told + wrong == trail.violations.len() {
                continue;
            }
            whole += 1;
            if self.golden.is_some() {
                if wrong < self.solo_steps() {
                    break;
                }
                if whole == TRIES {
                    return Err(self.answers_otherwise());
                }
                trail = Trail::default();
                continue;
            }
            let fits = answers.len() < self.solo_steps() || fit(&self.model.arithmetic, id, &answers);
            let numbers: Vec<_> = answers.into_iter().map(|(_, answer)| answer).collect();
            if fits || before.as_ref().is_some_and(|before| *before != numbers) {
                break;
            }
            if whole == TRIES {
                return Err(self.computes_something_else(id, &numbers));
            }
            before = Some(numbers);
        }
        // The run's accounting begins with the next count.
        if let Some(ledger) = ledger {
            let settle = scenario.limits.settle_ms.duration();
            ledger.wait_for(client, &self.model.name, completed, settle).await;
        }
        Ok(trail.explained(&ModelFacts::of(&self.model)))
    }

    /// The number of steps. A request to an iterative model is a whole sequence.
    fn solo_steps(&self) -> usize {
        if self.model.arithmetic.answers.are_iterative() { 1 } else { VALUES.len() + 1 }
    }

    fn answers_otherwise(&self) -> String {
        format!(
            "model '{}' alone on the server does not answer what the golden file has, in all {} of its first steps, twice: the model or \
             its weights are others; calibrate anew (sequence-stress golden)",
            self.model.name,
            self.solo_steps()
        )
    }

    pub(crate) fn computes_something_else(&self, id: CorrelationId, answers: &[Number]) -> String {
        let (name, arithmetic) = (&self.model.name, &self.model.arithmetic);
        let list = |numbers: &mut dyn Iterator<Item = Number>| {
            numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
        };
        let request = RequestId { worker: 0, context: 0, sequence: 0, step: 0 };
        let steps: Vec<_> = (0..answers.len()).map(|step| self.solo_step(request, step)).collect();
        format!(
            "model '{name}' does not compute {}: it answered the only sequence, {}, twice with {} instead of {}; use another model \
             (-m), or name the model's formula (--formula), unless the server gets every step wrong; or {WITHOUT_FORMULA}",
            arithmetic.formula.name(),
            list(&mut steps.iter().map(|step| step.value)),
            list(&mut answers.iter().copied()),
            list(&mut expected(arithmetic, id, &steps).into_iter()),
        )
    }

    fn solo_step(&self, first: RequestId, index: usize) -> Step {
        let (arithmetic, last) = (&self.model.arithmetic, self.solo_steps() - 1);
        let number = |index| u32::try_from(index).expect("there are few");
        let values = VALUES.map(|value| arithmetic.number(value));
        let sum = values.iter().fold(values[0].zero(), |sum, value| sum.wrapping_add(*value));
        let request = RequestId { step: number(index), ..first };
        let last_value = sum.zero().wrapping_sub(sum);
        let value = values.get(index).copied().unwrap_or(last_value);
        Step {
            request,
            pattern: Pattern::Valid,
            start: index == 0,
            end: index == last && !arithmetic.answers.are_iterative(),
            value: if self.model.tensors.is_some() { self.model.values().of(request, 0) } else { value },
            of: number(last + 1),
            special: None,
        }
    }
}

fn expected(arithmetic: &Arithmetic, id: CorrelationId, steps: &[Step]) -> Vec<Number> {
    let mut sum = arithmetic.number(0);
    let mut expected = |step: &Step| {
        sum = sum.wrapping_add(step.value);
        arithmetic.stateless_answer(step, id).unwrap_or_else(|| arithmetic.answer(sum, step, id))
    };
    steps.iter().map(&mut expected).collect()
}

/// Whether a server with a single fault may answer so although its model computes the formula.
///
/// True where one response is right, or differs from the response before by the step's value, or where the server executed no step,
/// or each step twice. The last response does not count as right: its sum, 0, is what many other models answer.
fn fit(arithmetic: &Arithmetic, id: CorrelationId, answers: &[(Step, Number)]) -> bool {
    let steps: Vec<_> = answers.iter().map(|(step, _)| *step).collect();
    let right = expected(arithmetic, id, &steps);
    let telling = answers.len().min(VALUES.len());
    if answers[..telling].iter().zip(&right).any(|((_, answer), right)| answer == right) {
        return true;
    }
    if arithmetic.formula.is_stateless() {
        return false;
    }
    let sums: Vec<_> = answers.iter().map(|(step, answer)| arithmetic.sum(*answer, step, id)).collect();
    let right: Vec<_> = right.iter().zip(&steps).map(|(right, step)| arithmetic.sum(*right, step, id)).collect();
    let rises = sums.windows(2).zip(&steps[1..]).any(|(sums, step)| sums[1] == sums[0].wrapping_add(step.value));
    rises
        || sums.iter().zip(&steps).all(|(sum, step)| *sum == step.value.zero())
        || sums.iter().zip(&right).all(|(sum, right)| *sum == right.wrapping_add(*right))
}

struct Solo<'p> {
    site: Site<'p>,
    id: CorrelationId,
    first: RequestId,
    aside: Aside,
    trail: &'p mut Trail,
    settled: Vec<Settled>,
}

impl<'p> Solo<'p> {
    fn new(site: Site<'p>, id: CorrelationId, sequence: u32, trail: &'p mut Trail) -> Self {
        let aside = Aside::new(site.scenario, site.preflight, vec![id], Purpose::Trial);
        let ContextId { worker, context } = aside.place(0);
        let first = RequestId { worker, context, sequence, step: 0 };
        Self { site, id, first, aside, trail, settled: Vec::new() }
    }

    /// Sends the sequence, until the server answers a step with an error or not at all.
    async fn hold(&mut self, client: &Client) -> Result<(), String> {
        let Site { scenario, preflight, .. } = self.site;
        let by = preflight.looks_go_over(scenario);
        let id = self.id.on_the_wire(scenario.correlation_ids.form);
        // The run reports connections that cannot be made.
        let Ok(mut stream) = self.site.link().and_then(|link| OwnStream::open(&preflight.model, &link, by, id)) else {
            return Ok(());
        };
        self.observe(EventKind::Opened(Connection::Own, by));
        for index in 0..preflight.solo_steps() {
            let step = preflight.solo_step(self.first, index);
            self.observe(EventKind::Sent(step));
            if !stream.send(step) || !self.is_answered(&mut stream, step.request, client).await? {
                return Ok(());
            }
        }
        stream.outgoing = None;
        self.observe(EventKind::HalfClosed);
        let last = preflight.solo_step(self.first, preflight.solo_steps() - 1);
        match stream.answer(last.request, preflight.limits.silence).await {
            EventKind::Cut(Cut::Ended) => self.observe(EventKind::Closed),
            EventKind::GaveUp => self.observe(EventKind::NotClosed),
            came => self.take_in(came, client).await?,
        }
        Ok(())
    }

    /// Waits for the response to the last step. Returns whether the next step can follow.
    async fn is_answered(
        &mut self,
        stream: &mut OwnStream,
        request: RequestId,
        client: &Client,
    ) -> Result<bool, String> {
        let before = self.settled.len();
        let came = stream.answer(request, self.site.preflight.limits.lost_after).await;
        self.take_in(came, client).await?;
        Ok(self.settled.len() > before && self.settled.last().is_some_and(|last| last.outcome == Outcome::Completed))
    }

    /// Takes in what came; an error where the stream broke because the server is gone.
    async fn take_in(&mut self, came: EventKind, client: &Client) -> Result<(), String> {
        if let EventKind::Cut(cut @ (Cut::Broken(_) | Cut::Status(..) | Cut::Ended)) = &came
            && client.server_live().await.is_err()
        {
            let reason = cut.reason();
            return Err(match self.settled.len() {
                0 => format!("the server stopped answering before its first response: {reason}"),
                answered => format!(
                    "the server stopped answering before the run, after {}: {reason}",
                    counted(answered as u64, "response")
                ),
            });
        }
        self.observe(came);
        Ok(())
    }

    fn observe(&mut self, kind: EventKind) {
        self.settled.extend(self.aside.observe(self.trail, self.site.clock.now(), 0, kind).settled);
    }

    /// How many steps were executed.
    fn completed(&self) -> u64 {
        self.settled.iter().filter(|settled| settled.outcome == Outcome::Completed).count() as u64
    }

    /// Whether a step was not executed.
    fn is_cut_short(&self) -> bool {
        self.completed() < self.site.preflight.solo_steps() as u64
    }

    fn answers(&self) -> Vec<(Step, Number)> {
        self.settled.iter().filter_map(|settled| Some((settled.step, settled.sum?))).collect()
    }
}
