//! How a conversation's model is configured: the JSON that `RepositoryModelLoad` takes, and the words for it.

use std::fmt;

use serde_json::{Value, json};

/// State by slot, START and READY controls.
pub(crate) const BY_SLOT: &str = "custom_sequence_int32";
/// State by correlation ID, all four controls.
pub(crate) const BY_ID: &str = "oldest_sequence_int32";
/// State that the server keeps, under Direct; START and READY controls.
pub(crate) const IMPLICIT: &str = "implicit_sequence_int32";
/// As `IMPLICIT`, under Oldest.
pub(crate) const IMPLICIT_OLDEST: &str = "implicit_dyna_sequence_int32";
/// As `BY_ID`, and the correlation ID is added to the answer to END.
pub(crate) const DYNA: &str = "custom_dyna_sequence_int32";

/// What a server's models run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// The one of `backend/`; the reference server's models are such.
    Native,
    /// Triton's Python backend, with `models/accumulator.py`.
    Python,
}

/// What a model's configuration needs besides its [`Setup`].
#[derive(Clone, Debug)]
pub(crate) struct Loading {
    pub(crate) backend: Backend,
    /// A model whose configuration does not change is not loaded anew, so this makes those of different conversations differ.
    pub(crate) note: String,
}

/// The scheduling strategy of a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Strategy {
    /// None is named, so the server takes its default.
    Default,
    /// A slot of a batch for each sequence.
    Direct { delay_ms: u64, utilization: f32 },
    /// Batches of whatever sequences have waited longest.
    Oldest { candidates: i32, preferred: Vec<i32>, delay_ms: u64, preserve_ordering: bool },
}

/// State that the server keeps for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// What a new sequence finds is not defined.
    Undefined,
    /// A new sequence finds zero.
    Zero,
    /// As `Undefined`; what the model reads and what it writes is in one buffer.
    OneBuffer,
}

/// Which of a model's versions are served.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Policy {
    All,
    Latest(u32),
    Specific(&'static [i64]),
}

impl Policy {
    fn json(self) -> Value {
        match self {
            Self::All => json!({ "all": {} }),
            Self::Latest(count) => json!({ "latest": { "num_versions": count } }),
            Self::Specific(versions) => json!({ "specific": { "versions": versions } }),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(out, "all versions"),
            Self::Latest(count) => write!(out, "the latest {count} versions"),
            Self::Specific(versions) => write!(out, "versions {versions:?}"),
        }
    }
}

/// A model's configuration.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) model: &'static str,
    pub(crate) batch: i32,
    /// Of the tensors, as requests name it.
    datatype: &'static str,
    instances: u32,
    idle_ms: u64,
    strategy: Strategy,
    /// The data type of the CORRID control, where there is one.
    corrid: Option<&'static str>,
    has_end: bool,
    state: Option<State>,
    /// The model does not compare the controls with the request.
    unchecked: bool,
    execute_ms: u64,
    error_on_value: Option<i32>,
    ragged: bool,
    policy: Option<Policy>,
}

impl Setup {
    /// The parameter that makes a configuration differ from an earlier one; see [`Loading::note`].
    pub(crate) const NOTE: &str = "note";

    /// Direct by default: four slots, state by slot, an idle limit that no conversation meets by accident.
    pub(crate) fn direct() -> Self {
        Self {
            model: BY_SLOT,
            batch: 4,
            datatype: "INT32",
            instances: 1,
            idle_ms: 10_000,
            strategy: Strategy::Default,
            corrid: None,
            has_end: false,
            state: None,
            unchecked: false,
            execute_ms: 0,
            error_on_value: None,
            ragged: false,
            policy: None,
        }
    }

    /// Oldest with four candidates and state by correlation ID.
    pub(crate) fn oldest() -> Self {
        Self {
            model: BY_ID,
            strategy: Strategy::Oldest { candidates: 4, preferred: Vec::new(), delay_ms: 0, preserve_ordering: false },
            corrid: Some("TYPE_UINT64"),
            has_end: true,
            ..Self::direct()
        }
    }

    /// As [`Setup::oldest`], with the formula that shows the correlation ID at END.
    pub(crate) fn dyna() -> Self {
        Self { model: DYNA, ..Self::oldest() }
    }

    /// As [`Setup::direct`], with state that the server keeps.
    pub(crate) fn implicit() -> Self {
        Self { model: IMPLICIT, state: Some(State::Undefined), ..Self::direct() }
    }

    /// As [`Setup::oldest`], with state that the server keeps, so that the model is told no correlation ID.
    pub(crate) fn implicit_oldest() -> Self {
        Self { strategy: Self::oldest().strategy, model: IMPLICIT_OLDEST, ..Self::implicit() }
    }

    pub(crate) fn state(self, state: State) -> Self {
        Self { state: Some(state), ..self }
    }

    pub(crate) fn unchecked(self) -> Self {
        Self { unchecked: true, ..self }
    }

    pub(crate) fn model(self, model: &'static str) -> Self {
        Self { model, ..self }
    }

    /// The type of the model's tensors, as requests name it; INT32 where none is named.
    pub(crate) fn of_type(self, datatype: &'static str) -> Self {
        Self { datatype, ..self }
    }

    pub(crate) fn datatype(&self) -> &'static str {
        self.datatype
    }

    /// The same type, as configurations name it.
    fn data_type(&self) -> String {
        let name = if self.datatype == "BYTES" { "STRING" } else { self.datatype };
        format!("TYPE_{name}")
    }

    pub(crate) fn batch(self, batch: i32) -> Self {
        Self { batch, ..self }
    }

    pub(crate) fn instances(self, instances: u32) -> Self {
        Self { instances, ..self }
    }

    pub(crate) fn idle_ms(self, idle_ms: u64) -> Self {
        Self { idle_ms, ..self }
    }

    /// How long one execution takes.
    pub(crate) fn execute_ms(self, execute_ms: u64) -> Self {
        Self { execute_ms, ..self }
    }

    /// The sum of a step that the model answers with an error.
    pub(crate) fn error_on_value(self, value: i32) -> Self {
        Self { error_on_value: Some(value), ..self }
    }

    /// Direct, with a queue delay until so much of the slots is used.
    pub(crate) fn utilization(self, delay_ms: u64, utilization: f32) -> Self {
        Self { strategy: Strategy::Direct { delay_ms, utilization }, ..self }
    }

    pub(crate) fn candidates(mut self, count: i32) -> Self {
        if let Strategy::Oldest { candidates, .. } = &mut self.strategy {
            *candidates = count;
        }
        self
    }

    /// Oldest, with batches of these sizes, or of any after the delay.
    pub(crate) fn preferred(mut self, sizes: &[i32], after_ms: u64) -> Self {
        if let Strategy::Oldest { preferred, delay_ms, .. } = &mut self.strategy {
            *preferred = sizes.into();
            *delay_ms = after_ms;
        }
        self
    }

    pub(crate) fn preserve_ordering(mut self) -> Self {
        if let Strategy::Oldest { preserve_ordering, .. } = &mut self.strategy {
            *preserve_ordering = true;
        }
        self
    }

    pub(crate) fn corrid(self, data_type: &'static str) -> Self {
        Self { corrid: Some(data_type), ..self }
    }

    /// The model is told END and the correlation ID.
    pub(crate) fn with_id(self, data_type: &'static str) -> Self {
        Self { has_end: true, ..self.corrid(data_type) }
    }

    /// Steps of different shapes may share a batch.
    pub(crate) fn ragged(self) -> Self {
        Self { ragged: true, ..self }
    }

    pub(crate) fn policy(self, policy: Policy) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// The configuration as JSON, as `RepositoryModelLoad` takes it.
    pub(crate) fn json(&self, loading: &Loading) -> String {
        let backend = match loading.backend {
            Backend::Native => "sequence_stress",
            Backend::Python => "python",
        };
        // A state tensor has a fixed shape, and so has what is added to it.
        let dims = [if self.state.is_some() { 1 } else { -1 }];
        let mut config = json!({
            "name": self.model,
            "backend": backend,
            "max_batch_size": self.batch,
            "input": [{ "name": "INPUT", "data_type": self.data_type(), "dims": dims, "allow_ragged_batch": self.ragged }],
            "output": [{ "name": "OUTPUT", "data_type": self.data_type(), "dims": dims }],
            "instance_group": [{ "kind": "KIND_CPU", "count": self.instances }],
            "parameters": self.parameters(&loading.note),
            "sequence_batching": self.sequence_batching(),
        });
        if let Some(policy) = self.policy {
            config["version_policy"] = policy.json();
        }
        config.to_string()
    }

    fn parameters(&self, note: &str) -> Value {
        let formula = if self.model == DYNA { "running-sum-plus-corrid-at-end" } else { "running-sum" };
        let mut parameters = json!({
            "execute_delay_ms": { "string_value": self.execute_ms.to_string() },
            Self::NOTE: { "string_value": note },
            "sequence_stress_formula": { "string_value": formula },
        });
        if let Some(value) = self.error_on_value {
            parameters["error_on_value"] = json!({ "string_value": value.to_string() });
        }
        if self.unchecked {
            parameters["check_controls"] = json!({ "string_value": "false" });
        }
        parameters
    }

    fn sequence_batching(&self) -> Value {
        let flag = |name: &str| {
            let kind = format!("CONTROL_SEQUENCE_{name}");
            json!({ "name": name, "control": [{ "kind": kind, "int32_false_true": [0, 1] }] })
        };
        let mut controls = vec![flag("START"), flag("READY")];
        if self.has_end {
            controls.push(flag("END"));
        }
        if let Some(data_type) = self.corrid {
            let control = json!({ "kind": "CONTROL_SEQUENCE_CORRID", "data_type": data_type });
            controls.push(json!({ "name": "CORRID", "control": [control] }));
        }
        let mut batching = json!({ "max_sequence_idle_microseconds": self.idle_ms * 1000, "control_input": controls });
        if let Some(kind) = self.state {
            let mut state = json!({
                "input_name": "INPUT_STATE",
                "output_name": "OUTPUT_STATE",
                "data_type": self.data_type(),
                "dims": [1],
            });
            if kind == State::Zero {
                state["initial_state"] =
                    json!([{ "name": "zero", "data_type": self.data_type(), "dims": [1], "zero_data": true }]);
            }
            if kind == State::OneBuffer {
                state["use_same_buffer_for_input_output"] = json!(true);
            }
            batching["state"] = json!([state]);
        }
        match &self.strategy {
            Strategy::Default => {}
            Strategy::Direct { delay_ms, utilization } => {
                batching["direct"] = json!({
                    "max_queue_delay_microseconds": delay_ms * 1000,
                    "minimum_slot_utilization": utilization,
                });
            }
            Strategy::Oldest { candidates, preferred, delay_ms, preserve_ordering } => {
                batching["oldest"] = json!({
                    "max_candidate_sequences": candidates,
                    "preferred_batch_size": preferred,
                    "max_queue_delay_microseconds": delay_ms * 1000,
                    "preserve_ordering": preserve_ordering,
                });
            }
        }
        batching
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, batch, instances, idle_ms, execute_ms, .. } = self;
        write!(out, "{model}: batch {batch}, instances {instances}, idle limit {idle_ms} ms")?;
        if self.datatype != "INT32" {
            write!(out, ", {}", self.datatype)?;
        }
        match &self.strategy {
            Strategy::Default => {}
            Strategy::Direct { delay_ms, utilization } => {
                write!(out, ", Direct with delay {delay_ms} ms, slot utilization {utilization}")?;
            }
            Strategy::Oldest { candidates, preferred, delay_ms, preserve_ordering } => {
                write!(out, ", Oldest with {candidates} candidates")?;
                if !preferred.is_empty() || *delay_ms > 0 {
                    write!(out, ", batches of {preferred:?} or after {delay_ms} ms")?;
                }
                if *preserve_ordering {
                    write!(out, ", order preserved")?;
                }
            }
        }
        if let Some(data_type) = self.corrid {
            write!(out, ", CORRID {data_type}")?;
        }
        match self.state {
            None => {}
            Some(State::Undefined) => write!(out, ", implicit state")?,
            Some(State::Zero) => write!(out, ", implicit state that begins as zero")?,
            Some(State::OneBuffer) => write!(out, ", implicit state in one buffer")?,
        }
        if self.unchecked {
            write!(out, ", controls not compared")?;
        }
        if self.ragged {
            write!(out, ", ragged")?;
        }
        if let Some(policy) = self.policy {
            write!(out, ", {policy}")?;
        }
        if let Some(value) = self.error_on_value {
            write!(out, ", error on {value}")?;
        }
        if *execute_ms > 0 { write!(out, ", executes in {execute_ms} ms") } else { Ok(()) }
    }
}
