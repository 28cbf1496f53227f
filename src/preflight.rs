//! What is found out about server and model before anything is sent.

mod computes;
mod configured;
mod ensemble;
mod golden;
mod limits;
mod parts;
mod reaching;
mod replicas;
mod serving;

use std::{borrow::Cow, collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use self::{
    computes::{arithmetic, check_answers, check_elements, check_json, value_bits},
    configured::{
        CALLS_ANOTHER, OF_SEVERAL, also_with, configured, loaded_in_phases, may_become_oldest, may_differ_in_length,
    },
    golden::{golden_notes, whatever_tensors, without_formula},
    limits::idle_limit,
    parts::{is_missing, missing, note},
    reaching::{check_server, no_inference_server},
    replicas::check_alike,
    serving::{check_versions, named_and_answering},
};
use oracle::{
    Explainer, Occupancy, Rules, Words,
    diagnosis::ModelFacts,
    golden::{Expectation, Golden, Identity},
};
use wire::transport::{CallError, Client, Declared};
use workload::{
    arithmetic::Formula,
    controls::{self, Controls, Told},
    conversation::Transport,
    inputs::{Pace, Sent},
    model::{Model, Settings, Strategy, Tensors, ToldIds},
    number::Datatype,
    plan::Manner,
    scenario::{Phase, Population, Reuse, Scenario},
    sequence::{IdForm, Pattern},
    tensor::{ELEMENTS_MAX, Shape, TensorSpec, elements},
    version::ModelVersion,
    wording::counted,
};

pub(crate) use self::parts::Wanted;
pub(crate) use self::{computes::WITHOUT_FORMULA, golden::identity, limits::PATIENCE_MAX, serving::check_model};
pub use self::{
    limits::RunLimits,
    parts::{Note, Part},
};

/// A type whose sums cannot be checked.
const BF16: &str = "BF16";

/// What the command line tells of an endpoint that does not tell it itself.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Hints {
    /// How many sequences can have a slot at a time.
    pub slots: Option<u32>,
    /// The idle limit.
    #[serde(default, with = "workload::time::optional")]
    pub idle_limit: Option<Duration>,
    /// The sequence batcher's strategy.
    pub strategy: Option<Strategy>,
    /// What the model computes.
    #[serde(default)]
    pub formula: Option<Formula>,
    /// What a new sequence's state begins with.
    #[serde(default)]
    pub initial_state: Option<i64>,
    /// How often a decoupled model answers a request.
    #[serde(default)]
    pub responses: Option<u32>,
}

/// What was found out, and what follows from it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Preflight {
    /// The model under test.
    pub model: Model,
    /// How long the run waits.
    pub limits: RunLimits,
    /// Which parts of the protocol the endpoint has.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Whether the server counts requests, so that its counts can be checked.
    pub has_statistics: bool,
    /// What was taken from the command line, because the endpoint does not tell it.
    #[serde(default)]
    pub told: Hints,
    /// The model's configuration as text, as far as its fields are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// What the run will do otherwise than asked, and what it cannot check, a sentence each.
    pub notes: Vec<Note>,
    /// What the model answers, where no formula says it.
    #[serde(skip)]
    pub golden: Option<Expectation>,
    /// Which model that has to be of.
    #[serde(skip)]
    pub(crate) identity: Option<Identity>,
}

impl Preflight {
    /// What the model makes of how passes are carried out.
    pub fn manner(&self) -> Manner {
        Manner {
            after_answers: self.model.mixes_pipelined.is_some(),
            idle_limit: idle_limit(&self.model),
            batches: self.model.batches,
            one_step: self.model.arithmetic.answers.are_iterative(),
        }
    }

    /// What a correct server may do, for what is known of the model.
    pub(crate) fn rules(&self, scenario: &Scenario) -> Rules {
        let model = self.model.clone();
        Rules {
            words: Words::of_server(model.server.as_deref()),
            model: model.name,
            calls: model.calls,
            version: model.version,
            output: model.output.name,
            shape: model.shape,
            arithmetic: model.arithmetic,
            idle_limit: model.idle_limit,
            straggling: self.limits.lawful,
            mixes: model.mixes_pipelined.is_some(),
            restarts: scenario.may_be_restarted(),
            controls: model.controls,
            golden: self.golden.clone(),
        }
    }

    /// Who explains the violations of a run.
    pub(crate) fn explainer(&self, scenario: &Scenario) -> Explainer {
        let facts = ModelFacts::of(&self.model).with_ids(scenario.id_forms());
        Explainer::new(facts.with_untold_servers(scenario.target.untold_servers()), self.limits.lost_after)
    }

    /// Who follows which sequences have the model's slots.
    pub(crate) fn occupancy(&self, scenario: &Scenario) -> Occupancy {
        let Model { idle_limit, batching, .. } = self.model;
        // Of several servers, or versions, each has its own slots; nobody knows which server has a sequence.
        let has_several = scenario.target.has_several_servers() || scenario.has_several_versions();
        let slots = self.model.most_slots().filter(|_| !has_several);
        Occupancy::new(scenario, (slots, batching), idle_limit, self.limits.lawful)
    }

    /// The same for requests that name this version.
    pub(crate) fn of_version(&self, version: Option<ModelVersion>) -> Cow<'_, Self> {
        if version == self.model.asked_version {
            return Cow::Borrowed(self);
        }
        let told = version.map(|version| version.to_string());
        let model = Model { asked_version: version, version: told, ..self.model.clone() };
        Cow::Owned(Self { model, ..self.clone() })
    }

    /// Whether the endpoint says whether the server and the model are ready.
    pub(super) fn tells_readiness(&self) -> bool {
        self.parts.iter().any(|part| part.part == Wanted::Health.name() && part.has)
    }

    /// What the looks after the run go over: streams, where there are some and they are open to everybody.
    pub(crate) fn looks_go_over(&self, scenario: &Scenario) -> Transport {
        let lacks_streams = self.parts.iter().any(|part| part.part == Wanted::Streaming.name() && !part.has);
        let own = scenario.populations.first().map(|population| population.sending.transport());
        // A server that is looked at by itself may have other endpoints than the balancer before it.
        let own = own.filter(|by| lacks_streams && scenario.target.endpoint.speak(*by));
        own.unwrap_or_else(|| scenario.target.endpoint.usual())
    }

    /// Why the model cannot be sent what the scenario has, if it cannot.
    pub(crate) fn cannot_be_sent(&self, scenario: &Scenario) -> Option<String> {
        let Model { name, arithmetic, shape, .. } = &self.model;
        let numbers = check_json(name, arithmetic.datatype, scenario)
            .and_then(|()| value_bits(name, arithmetic, shape, scenario).map(drop));
        let inputs = self.golden.as_ref().and_then(|golden| golden::not_in_json(golden, name, scenario));
        let answers = check_answers(name, arithmetic.answers, scenario).err();
        numbers.err().or(inputs).or(answers).or_else(|| self.cannot_take_ids(scenario))
    }

    /// Sends recorded tracks at so many times their pace. An error says in one line why that cannot be.
    pub(crate) fn send_at(&mut self, times: f64, scenario: &Scenario) -> Result<(), String> {
        // What pauses for longer is no sequence any more.
        let longest = idle_limit(&self.model) / 2;
        let Some(tensors) = &mut self.model.tensors else {
            return Err(
                "--pace needs recorded tracks: --golden FILE, of a recording of the proxy (proxy --record)".to_owned()
            );
        };
        let inputs = Arc::clone(&tensors.sent.inputs);
        let pauses = || inputs.tracks().iter().flat_map(|track| &track.pauses);
        if pauses().next().is_none() {
            return Err(
                "--pace: no track of the golden file has recorded times: calibrate with a recording of the proxy \
                        (golden --inputs FILE.jsonl)"
                    .to_owned(),
            );
        }
        let clipped = pauses().filter(|pause| pause.div_f64(times) > longest).count();
        if clipped > 0 {
            self.notes.push(
                format!(
                    "{} of the recording are cut to {} ms, half of the idle limit: longer ones would end their sequences",
                    counted(clipped as u64, "pause"),
                    longest.as_millis()
                )
                .into(),
            );
        }
        let sent = Sent { pace: Some(Pace { times, longest }), inputs };
        *tensors = Arc::new(Tensors { sent, outputs: tensors.outputs.clone() });
        // Each step may be preceded by the longest pause.
        let pauses = longest.saturating_mul(scenario.longest());
        self.limits = RunLimits::with_pauses(scenario, &self.model, pauses);
        Ok(())
    }

    /// Why the golden outputs are not this model's, if they are not. A model that the run loads anew may have another configuration.
    pub(crate) fn rejects_golden(&self) -> Option<String> {
        golden::is_of_another(self.golden.as_ref()?, self.identity.as_ref()?, self.configuration.as_deref())
    }

    /// Why the model cannot take correlation IDs of the scenario's form, if it cannot.
    fn cannot_take_ids(&self, scenario: &Scenario) -> Option<String> {
        let name = &self.model.name;
        let keeps_by_id = self.model.mixes_pipelined.is_some() || self.model.told_ids != ToldIds::None;
        if keeps_by_id && scenario.id_forms().any(IdForm::is_near) {
            return Some(format!(
                "model '{name}' may keep its state by correlation ID, and may then lawfully take two that are nearly the same for \
                 one: use another correlation_ids.form, or another model (-m)"
            ));
        }
        let has = |texts: bool| scenario.id_forms().any(|form| form.is_text() == texts);
        // The real server does not reject them: it tells the model whatever lies in memory, and can die of it.
        let (told, other) = match self.model.told_ids {
            ToldIds::Integers if has(true) => ("integers", "texts"),
            ToldIds::Texts if has(false) => ("texts", "integers"),
            ToldIds::None | ToldIds::Integers | ToldIds::Texts => return None,
        };
        Some(format!(
            "model '{name}' is told correlation IDs as {told}, so it cannot be sent {other}: use another correlation_ids.form, \
             or another model (-m)"
        ))
    }

    /// Asks the server about itself and the scenario's model. An error says in one line why that cannot be tested.
    pub(crate) async fn ask(
        client: &Client,
        scenario: &Scenario,
        hints: Hints,
        golden: Option<&Arc<Golden>>,
    ) -> Result<Self, String> {
        let name = scenario.target.model.as_str();
        let unwell = check_server(client, scenario).await?;
        let sends_over_streams =
            scenario.populations.iter().any(|population| population.sending.transport().is_stream());
        let streaming = match client.streams().await {
            // What else becomes of streams is for the run to tell.
            Err(error) if !is_missing(&error) && !matches!(error, CallError::Rejected(_)) => Ok(()),
            streaming => streaming,
        };
        if let (Err(error), true) = (&streaming, sends_over_streams) {
            return Err(format!("no stream of requests can be opened: {error}"));
        }
        let is_silent = |error: &CallError| matches!(error, CallError::Unimplemented);
        let knows_no_health = unwell.as_ref().is_some_and(is_silent);
        let unwell = check_versions(client, scenario).await?.or(unwell);
        check_alike(client, name).await?;
        let declared = missing(client.declared(name).await)
            .map_err(|error| format!("cannot read the metadata of model '{name}': {error}"))?;
        let configuration = missing(client.configuration(name).await)
            .map_err(|error| format!("cannot read the configuration of model '{name}': {error}"))?;
        let mut notes: Vec<_> = unwell.iter().map(|error| note(Wanted::Health, error)).collect();
        let mut parts = vec![
            Part::of(Wanted::Health, unwell.as_ref()),
            Part::of(Wanted::Streaming, streaming.as_ref().err()),
            Part::of(Wanted::Metadata, declared.as_ref().err()),
            Part::of(Wanted::Configuration, configuration.as_ref().err()),
        ];
        let declared = match (declared, &configuration) {
            (Ok(declared), _) => declared,
            (Err(error), Ok(configuration)) => {
                notes.push(note(Wanted::Metadata, &error));
                let (inputs, outputs) = configuration.tensors();
                Declared { inputs, outputs, versions: Vec::new() }
            }
            (Err(error), Err(other)) if knows_no_health && is_silent(&error) && is_silent(other) => {
                return Err(no_inference_server(scenario));
            }
            (Err(error), Err(_)) => {
                return Err(format!("neither metadata nor configuration tell the tensors of model '{name}': {error}"));
            }
        };
        if let Err(error) = &configuration {
            notes.push(note(Wanted::Configuration, error));
        }
        let configuration = configuration.ok();
        let settings = ensemble::settings(client, configuration.as_ref()).await?;
        let batches = settings.as_ref().is_none_or(|settings| settings.batches);
        let (input, output, shape, datatype) = match golden {
            Some(golden) => whatever_tensors(golden, name, &declared)?,
            None => choose_tensors(name, &declared, batches)?,
        };
        if golden.is_none() {
            check_elements(name, &input, &shape, scenario)?;
        }
        let mut told = hints;
        if settings.is_some() {
            (told.slots, told.idle_limit, told.strategy) = (None, None, None);
        }
        // A server may be built or set up without them.
        let no_statistics = client.counted(name).await.err();
        parts.push(Part::of(Wanted::Statistics, no_statistics.as_ref()));
        let server = client.server_name().await.ok().filter(|server| !server.is_empty());
        let mut known = configured(name, settings.as_ref(), hints, &mut notes)?;
        if !settings.as_ref().is_some_and(|settings| settings.implicit_state) {
            may_become_oldest(&mut known, scenario);
        }
        if let Some(configuration) = &configuration {
            also_with(&mut known, &loaded_in_phases(configuration, scenario));
        }
        may_differ_in_length(&mut known, scenario);
        notes.extend(no_statistics.iter().map(|error| note(Wanted::Statistics, error)));
        let arithmetic = match golden {
            Some(golden) => without_formula(golden, settings.as_ref(), &mut told, &mut notes),
            None => arithmetic(name, settings.as_ref(), (datatype, &shape), scenario, &mut told, &mut notes)?,
        };
        check_answers(name, arithmetic.answers, scenario)?;
        let (asked_version, version) = named_and_answering(scenario, &declared);
        let mut model = Model { asked_version, version, server, input, output, shape, arithmetic, ..known };
        check_errors(&model, scenario)?;
        let identity = golden.map(|_| identity(&model, configuration.as_ref()));
        if let Some(golden) = golden {
            notes.extend(golden_notes(golden, scenario));
            let outputs = golden.asked().map(str::to_owned).collect();
            model.tensors =
                Some(Arc::new(Tensors { sent: Sent { inputs: Arc::clone(&golden.inputs), pace: None }, outputs }));
        }
        if model.version.is_none() {
            let what = "the model's version, because the server does not say which versions it has";
            notes.push(Note::NotChecked(what.to_owned()));
        }
        if scenario.target.controls && golden.is_none() && !arithmetic.answers.are_iterative() {
            model.controls =
                settings.as_ref().and_then(|settings| controls(settings, scenario, &declared.outputs, &mut notes));
        }
        notes.extend(sends_after_answers(scenario, &model));
        let configuration = configuration.and_then(|configuration| configuration.to_text().ok());
        notes.extend(calls(scenario));
        let has_statistics = no_statistics.is_none();
        let (limits, golden) = (RunLimits::new(scenario, &model), golden.cloned().map(Expectation::of));
        Ok(Self { model, limits, parts, has_statistics, told, configuration, notes, golden, identity })
    }
}

/// Makes sure that the server may know streams that errors end, where the scenario has such.
fn check_errors(model: &Model, scenario: &Scenario) -> Result<(), String> {
    let ends_with_errors = |population: &Population| population.sending.transport().ends_with_errors();
    if model.may_end_streams_with_errors() || !scenario.populations.iter().any(ends_with_errors) {
        return Ok(());
    }
    Err(format!(
        "the transport {} needs a server that knows triton_grpc_error, as tritonserver does since 24.08: {} does not",
        Transport::GrpcStatus,
        model.server.as_deref().unwrap_or("this one")
    ))
}

/// The input and the output that the run uses, the shape that is sent, and the type.
fn choose_tensors(
    model: &str,
    Declared { inputs, outputs, .. }: &Declared,
    batches: bool,
) -> Result<(TensorSpec, TensorSpec, Shape, Datatype), String> {
    let list = |tensors: &[TensorSpec]| tensors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let reject = || {
        Err(format!(
            "model '{model}' takes [{}] and gives [{}]: the tool needs one input and an output of the same shape, of at most \
             {ELEMENTS_MAX} elements, and of the same type, one of {}, where it judges by a formula; {WITHOUT_FORMULA}",
            list(inputs),
            list(outputs),
            Datatype::of_the_protocol().map(Datatype::name).collect::<Vec<_>>().join(", ")
        ))
    };
    let output = match outputs.as_slice() {
        [output] => Some(output),
        _ => outputs.iter().find(|output| output.name == "OUTPUT"),
    };
    let ([input], Some(output)) = (inputs.as_slice(), output) else { return reject() };
    if input.datatype == BF16 {
        return Err(format!(
            "model '{model}' takes {input}, and sums of {BF16} are exact up to 256 alone, which is too little to tell answers apart: take \
             a model of another type (-m); or {WITHOUT_FORMULA}"
        ));
    }
    let datatype = Datatype::named(&input.datatype).filter(|_| input.datatype == output.datatype);
    match (Shape::common(input, output, batches), datatype) {
        (Some(shape), Some(datatype)) => Ok((input.clone(), output.clone(), shape, datatype)),
        _ => reject(),
    }
}

/// The output in which the model says what it saw of a request, where its configuration names one.
fn controls(
    settings: &Settings,
    scenario: &Scenario,
    outputs: &[TensorSpec],
    notes: &mut Vec<Note>,
) -> Option<Controls> {
    let Some(name) = settings.parameters.get(controls::PARAMETER) else {
        let what = "what the model saw of each request, because it does not report it";
        notes.push(Note::NotChecked(format!("{what} (parameter {})", controls::PARAMETER)));
        return None;
    };
    let output = outputs.iter().find(|output| output.name == *name);
    let shape = output
        .filter(|output| output.datatype == controls::DATATYPE)
        .and_then(TensorSpec::smallest_shape)
        .filter(|shape| elements(shape) == controls::ELEMENTS);
    if shape.is_none() {
        notes.push(Note::NotChecked(format!(
            "what the model saw of each request, because its parameter {} names '{name}', which is no output of {} {}",
            controls::PARAMETER,
            controls::ELEMENTS,
            controls::DATATYPE
        )));
    }
    let shape = shape?;
    let Told { start, end, ready, corrid_bits } = settings.told;
    let controls = [("START", start), ("END", end), ("READY", ready), ("CORRID", corrid_bits.is_some())];
    let untold: Vec<_> = controls.into_iter().filter(|(_, is_told)| !is_told).map(|(name, _)| name).collect();
    if !untold.is_empty() {
        notes.push(Note::NotChecked(format!(
            "{}, because the model does not report {}",
            listed(&untold),
            if untold.len() == 1 { "it" } else { "them" }
        )));
    }
    // With another strategy there may be another number of slots.
    let slots = settings.chain.as_ref().map_or(Some(settings.slots), |chain| chain.told_slots);
    let slots = slots.filter(|_| !scenario.phases.iter().any(Phase::changes_model));
    Some(Controls { output: name.clone(), shape, told: settings.told, slots })
}

/// Words as a sentence lists them.
fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [alone] => (*alone).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// What is said where steps are calls, and so do not go out as asked for.
fn calls(scenario: &Scenario) -> Vec<Note> {
    let of_calls = || scenario.populations.iter().filter(|population| !population.sending.transport().is_stream());
    let mut notes = Vec::new();
    if of_calls().any(|population| population.sending.window.has_room(1)) {
        notes.push(
            "window is 1 where steps are calls of their own: nothing orders two calls but the response to the first"
                .into(),
        );
    }
    let left_out: BTreeSet<_> = of_calls().flat_map(Population::left_out).map(Pattern::name).collect();
    if !left_out.is_empty() {
        let patterns = left_out.into_iter().collect::<Vec<_>>().join(", ");
        let left_out = "left out where steps are calls of their own, because they need a stream";
        notes.push(format!("{left_out}: {patterns}").into());
    }
    notes
}

/// What is said where the sequences of an ID do not go out as asked for.
fn sends_after_answers(scenario: &Scenario, model: &Model) -> Option<Note> {
    let why = model.mixes_pipelined.as_ref().filter(|_| !model.arithmetic.answers.are_iterative())?;
    scenario.populations.iter().any(|population| population.sending.reuse == Reuse::Pipelined).then(|| {
        let start = "a START sent before the END's response could lawfully";
        let note = if [OF_SEVERAL, CALLS_ANOTHER].contains(&&**why) {
            format!("reuse is after-response: {why}, and {start} reach the second model first")
        } else {
            format!(
                "reuse is after-response: {why}, so it may keep state by correlation ID, and {start} be mixed with its \
                 predecessor"
            )
        };
        note.into()
    })
}

#[cfg(test)]
pub(crate) mod tests;
