//! The families of models: what sets some apart from others, whatever their backend and data type.

use formats::networks::Network;

use super::{backend::Backend, dtype::Dtype, options::InitialState};
use workload::{answers::Answers, arithmetic::Formula, model::Strategy};

/// The answers to each request of the decoupled models, and the executions of each request of the iterative ones.
const TIMES: u32 = 3;

/// What a family is like.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a family has them side by side")]
pub(super) struct Traits {
    /// What the names of its models have of it, before what else they have.
    pub(super) word: &'static str,
    /// Whether names say that it is the one by correlation ID.
    pub(super) is_dyna: bool,
    /// None: as the options say.
    pub(super) strategy: Option<Strategy>,
    /// The server keeps the state.
    pub(super) is_implicit: bool,
    /// Nothing is kept.
    pub(super) is_stateless: bool,
    pub(super) ragged: bool,
    pub(super) echoes: bool,
    pub(super) answers: Answers,
    /// The states of a model that has several, as the configuration declares them: the sum, and what the next field says.
    pub(super) states: Option<&'static [StateTensor]>,
    /// Each further state holds a multiple of the sum, and not the number of steps.
    pub(super) copies: bool,
    /// What is computed where that is no formula; the server keeps the state then.
    pub(super) network: Option<Network>,
    /// Of an ensemble, the families of its steps, each of which takes what the one before it gives; of a program that calls another
    /// model, that model's.
    pub(super) steps: &'static [Family],
    /// Whether it is a program that calls another model.
    pub(super) calls: bool,
}

/// One of several states: what the server gives, what it gets back, and the size and type of both.
#[derive(Debug)]
pub(super) struct StateTensor {
    pub(super) input: &'static str,
    pub(super) output: &'static str,
    /// How many elements it has; -1 is any number.
    pub(super) size: i64,
    /// None: that of the model.
    pub(super) dtype: Option<Dtype>,
}

impl StateTensor {
    const fn new(input: &'static str, output: &'static str, size: i64) -> Self {
        Self { input, output, size, dtype: None }
    }

    const fn of(self, dtype: Dtype) -> Self {
        Self { dtype: Some(dtype), ..self }
    }

    /// How many elements an initial state has.
    pub(super) fn initial_size(&self) -> i64 {
        // The server gives a state of open shape one element at START, whatever its initial state has.
        self.size.max(1)
    }
}

/// States whose inputs have the same order by name as their outputs, though not that of the configuration.
const ALIKE: [StateTensor; 2] = [ZETA, StateTensor::new("ALPHA_STATE", "ALPHA_STATE_OUT", 5)];
const ZETA: StateTensor = StateTensor::new("ZETA_STATE", "ZETA_STATE_OUT", 2);
/// States whose inputs have another order by name than their outputs, as it happens where the name of one begins with the other's.
const CROSSED: [StateTensor; 2] =
    [StateTensor::new("CACHE", "CACHE_NEXT", 1), StateTensor::new("CACHE_LEN", "CACHE_LEN_NEXT", 1)];
/// As [`ALIKE`], of different types.
const TWINS: [StateTensor; 2] = [ZETA, StateTensor::new("ALPHA_STATE", "ALPHA_STATE_OUT", 5).of(Dtype::Int64)];
/// As [`CROSSED`], of different sizes and types.
const TWINS_CROSSED: [StateTensor; 2] =
    [StateTensor::new("CACHE", "CACHE_NEXT", 2), StateTensor::new("CACHE_LEN", "CACHE_LEN_NEXT", 5).of(Dtype::Int64)];
/// As [`TWINS`], and a state of open shape.
const TRIPLETS: [StateTensor; 3] = [
    ZETA,
    StateTensor::new("ALPHA_STATE", "ALPHA_STATE_OUT", 5).of(Dtype::Int64),
    StateTensor::new("MIDDLE_STATE", "MIDDLE_STATE_OUT", -1).of(Dtype::Uint32),
];
/// States of one type and of open shapes, of which each one's output has the place by name of the next one's input.
const TRIPLETS_CROSSED: [StateTensor; 3] = [
    StateTensor::new("CACHE", "CACHE_NEXT", -1),
    StateTensor::new("CACHE_LEN", "CACHE_LEN_NEXT", -1),
    StateTensor::new("CACHE_MASK", "CACHE_MASK_NEXT", -1),
];

const PLAIN: Traits = Traits {
    word: "",
    is_dyna: false,
    strategy: None,
    is_implicit: false,
    is_stateless: false,
    ragged: false,
    echoes: false,
    answers: Answers::One,
    states: None,
    copies: false,
    network: None,
    steps: &[],
    calls: false,
};
const OLDEST: Traits = Traits { strategy: Some(Strategy::Oldest), ..PLAIN };
const DYNA: Traits = Traits { is_dyna: true, ..OLDEST };
const GRU: Traits = Traits { word: "gru", network: Some(Network::Gru), ..NETWORK };
const LSTM: Traits = Traits { word: "lstm", network: Some(Network::Lstm), ..NETWORK };
const CONV: Traits = Traits { word: "conv", network: Some(Network::Conv), ..NETWORK };
const TWO_STATE: Traits =
    Traits { word: "two_state", network: Some(Network::TwoState), states: Some(&ALIKE), ..NETWORK };
const TWO_STATE_CROSSED: Traits = Traits { word: "two_state_crossed", states: Some(&CROSSED), ..NETWORK };
const TWIN: Traits = Traits { word: "twin_state", states: Some(&TWINS), ..COPIES };
const TWIN_CROSSED: Traits = Traits { word: "twin_state_crossed", states: Some(&TWINS_CROSSED), ..COPIES };
const TRIPLE: Traits = Traits { word: "triple_state", states: Some(&TRIPLETS), ..COPIES };
const TRIPLE_CROSSED: Traits = Traits { word: "triple_state_crossed", states: Some(&TRIPLETS_CROSSED), ..COPIES };
const COPIES: Traits = Traits { is_implicit: true, copies: true, ..PLAIN };
const NETWORK: Traits = Traits { is_implicit: true, ..PLAIN };

/// The same under Oldest.
const fn dyna(of: Traits) -> Traits {
    Traits { is_dyna: true, strategy: Some(Strategy::Oldest), ..of }
}

workload::table! {
    /// A family of models.
    pub enum Family: Traits {
        /// The running sum, kept by the model by slot.
        Sequence = "sequence", PLAIN;
        /// The running sum, and CORRID at END, kept by the model by CORRID.
        DynaSequence = "dyna_sequence", DYNA;
        /// The running sum, kept by the server.
        Implicit = "implicit", Traits { word: "implicit", is_implicit: true, ..PLAIN };
        /// The same under Oldest.
        DynaImplicit = "dyna_implicit", Traits { word: "implicit", is_implicit: true, ..DYNA };
        /// READY * (INPUT + START).
        Stateless = "stateless", Traits { word: "stateless", is_stateless: true, ..PLAIN };
        /// The same, and CORRID at END.
        DynaStateless = "dyna_stateless", Traits { word: "stateless", is_stateless: true, ..DYNA };
        /// The running sum, kept by the model by CORRID.
        Oldest = "oldest", Traits { word: "oldest", ..OLDEST };
        /// The same, of batches whose rows have different sizes.
        Ragged = "ragged", Traits { word: "ragged", ragged: true, ..OLDEST };
        /// The running sum by slot, and what the model saw.
        Echo = "echo", Traits { word: "echo", echoes: true, ..PLAIN };
        /// The same by CORRID.
        DynaEcho = "dyna_echo", Traits { word: "echo", echoes: true, ..DYNA };
        /// Each request has three answers.
        Decoupled = "decoupled", Traits { word: "decoupled", answers: Answers::Several(TIMES), ..PLAIN };
        /// The same by CORRID.
        DecoupledOldest = "decoupled_oldest",
            Traits { word: "decoupled_oldest", answers: Answers::Several(TIMES), ..OLDEST };
        /// Each request is executed three times.
        Iterative = "iterative", Traits { word: "iterative", answers: Answers::EachOf(TIMES), ..PLAIN };
        /// Gated recurrent units, with one state.
        Gru = "gru", GRU;
        /// The same under Oldest.
        DynaGru = "dyna_gru", dyna(GRU);
        /// Long short-term memory, with two states of one size.
        Lstm = "lstm", LSTM;
        /// The same under Oldest.
        DynaLstm = "dyna_lstm", dyna(LSTM);
        /// A causal convolution, whose state is the frames that it saw.
        Conv = "conv", CONV;
        /// The same under Oldest.
        DynaConv = "dyna_conv", dyna(CONV);
        /// Two states of different sizes, whose names have another order than their declarations, and two outputs: a network, and on the
        /// native backend the running sum and the number of steps.
        TwoState = "two_state", TWO_STATE;
        /// The same under Oldest.
        DynaTwoState = "dyna_two_state", dyna(TWO_STATE);
        /// The running sum and the number of steps in states of one size, whose inputs have another order by name than their outputs.
        TwoStateCrossed = "two_state_crossed", TWO_STATE_CROSSED;
        /// The same under Oldest.
        DynaTwoStateCrossed = "dyna_two_state_crossed", dyna(TWO_STATE_CROSSED);
        /// The running sum in two states of different sizes and types, which the model compares with each other.
        TwinState = "twin_state", TWIN;
        /// The same under Oldest.
        DynaTwinState = "dyna_twin_state", dyna(TWIN);
        /// The same, with inputs that have another order by name than their outputs.
        TwinStateCrossed = "twin_state_crossed", TWIN_CROSSED;
        /// The same under Oldest.
        DynaTwinStateCrossed = "dyna_twin_state_crossed", dyna(TWIN_CROSSED);
        /// The running sum in three states of different sizes and types, one of them of open shape.
        TripleState = "triple_state", TRIPLE;
        /// The same under Oldest.
        DynaTripleState = "dyna_triple_state", dyna(TRIPLE);
        /// The running sum in three states of one type and of open shapes, with inputs that have another order by name than their outputs.
        TripleStateCrossed = "triple_state_crossed", TRIPLE_CROSSED;
        /// The same under Oldest.
        DynaTripleStateCrossed = "dyna_triple_state_crossed", dyna(TRIPLE_CROSSED);
        /// An ensemble of one model, which has the running sum by slot.
        Ensemble = "ensemble", Traits { word: "ensemble", steps: &[Family::Sequence], ..PLAIN };
        /// An ensemble of one model, which has the running sum by CORRID.
        EnsembleOldest = "ensemble_oldest", Traits { word: "ensemble_oldest", steps: &[Family::Oldest], ..OLDEST };
        /// An ensemble of two models: the first gives INPUT + START, and the second has the running sum of that by CORRID.
        EnsembleTwo = "ensemble_two",
            Traits { word: "ensemble_two", steps: &[Family::Stateless, Family::Oldest], ..OLDEST };
        /// An ensemble of two models, each of which has a sum by slot: the second adds up the sums that the first gives.
        EnsembleSums = "ensemble_sums",
            Traits { word: "ensemble_sums", steps: &[Family::Sequence, Family::Sequence], ..PLAIN };
        /// A model that calls another for each request, which has the running sum by slot.
        Bls = "bls", Traits { word: "bls", steps: &[Family::Sequence], calls: true, ..PLAIN };
        /// The same; the other one has the running sum by CORRID.
        BlsOldest = "bls_oldest", Traits { word: "bls_oldest", steps: &[Family::Oldest], calls: true, ..OLDEST };
    }
}

impl Family {
    pub(super) fn traits(self) -> Traits {
        *self.row()
    }

    /// What its models compute on a backend where that is no formula.
    pub(super) fn network(self, backend: Backend) -> Option<Network> {
        let is_native = backend == Backend::Native && self.row().states.is_some();
        self.row().network.filter(|_| !is_native)
    }

    /// Whether what its models compute on each backend is a formula, from which each answer follows.
    pub fn has_formula(self) -> bool {
        self.row().network.is_none() && !self.adds_up_sums()
    }

    /// Whether its models are ensembles.
    pub(super) fn is_ensemble(self) -> bool {
        self.has_steps() && !self.row().calls
    }

    /// Whether its models hand their requests to other ones, which keep the state.
    pub(super) fn has_steps(self) -> bool {
        !self.row().steps.is_empty()
    }

    /// Whether each of two steps keeps a sum, so that an answer is none of the inputs alone.
    pub(super) fn adds_up_sums(self) -> bool {
        let keeps = |family: &&Self| !family.row().is_stateless;
        self.row().steps.iter().filter(keeps).count() > 1
    }

    /// The data type on a backend where nobody asks for one.
    pub(super) fn own_dtype(self, backend: Backend) -> Dtype {
        if self.network(backend).is_some() { Dtype::Float32 } else { Dtype::Int32 }
    }

    /// Those that Triton's own repositories have.
    pub const OF_TRITON: &[Self] = &[Self::Sequence, Self::DynaSequence, Self::Implicit, Self::DynaImplicit];
}

/// One form of a family: what names say besides backend and data type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The family.
    pub family: Family,
    /// Whether requests have a batch dimension.
    pub batches: bool,
    /// Whether a request has any number of elements.
    pub variable: bool,
    /// What a new sequence's state is.
    pub initial: InitialState,
    /// Whether the server may give the model one buffer for the state that goes in and the one that comes out.
    pub single_buffer: bool,
}

impl Form {
    /// The plain form of a family.
    pub fn of(family: Family) -> Self {
        Self { family, batches: true, variable: false, initial: InitialState::None, single_buffer: false }
    }

    fn without_batches(family: Family) -> Self {
        Self { batches: false, ..Self::of(family) }
    }

    fn beginning_with(family: Family, initial: InitialState) -> Self {
        Self { initial, ..Self::of(family) }
    }

    /// The forms that this project tests itself with, of the native and the Python backend.
    pub fn of_tester() -> Vec<Self> {
        let file = || InitialState::File { data: None };
        vec![
            Self::of(Family::Sequence),
            Self::of(Family::Oldest),
            Self::of(Family::DynaSequence),
            Self::without_batches(Family::Sequence),
            Self::without_batches(Family::DynaSequence),
            Self::beginning_with(Family::Sequence, file()),
            Self::of(Family::Implicit),
            Self::without_batches(Family::Implicit),
            Self::beginning_with(Family::Implicit, InitialState::Zero),
            Self::beginning_with(Family::Implicit, file()),
            Self { single_buffer: true, ..Self::of(Family::Implicit) },
            Self::of(Family::DynaImplicit),
            Self::of(Family::TwinState),
            Self::of(Family::TripleState),
            Self::beginning_with(Family::TripleState, InitialState::Zero),
            Self::beginning_with(Family::TripleState, file()),
            Self::of(Family::DynaTripleState),
            Self::of(Family::Stateless),
            Self::of(Family::DynaStateless),
            Self::of(Family::Ragged),
            Self::of(Family::Echo),
            Self::of(Family::DynaEcho),
            Self::of(Family::Decoupled),
            Self::of(Family::DecoupledOldest),
            Self::of(Family::Iterative),
            Self::of(Family::Ensemble),
            Self::of(Family::EnsembleOldest),
            Self::of(Family::EnsembleTwo),
            Self::of(Family::EnsembleSums),
        ]
    }

    /// Whether there is a file of what state that the server keeps begins with.
    pub fn has_file(&self) -> bool {
        self.family.traits().is_implicit && matches!(self.initial, InitialState::File { .. })
    }

    /// The name of a model of this form: `prefix` is the backend's token, or what stands in its place; `is_plain` as
    /// [`Options::plain_names`](super::Options::plain_names) has it.
    pub(super) fn name(&self, prefix: &str, dtype: &str, is_plain: bool) -> String {
        let Traits { word, is_dyna, is_implicit, .. } = self.family.traits();
        if is_plain {
            let nobatch = if self.batches { "" } else { "_nobatch" };
            return format!("{prefix}{nobatch}{}_sequence_{dtype}", if is_dyna { "_dyna" } else { "" });
        }
        // A family that has a word of its own is in Triton's own repositories no 'custom' one.
        let token = if prefix == Backend::Native.traits().token && !word.is_empty() { "" } else { prefix };
        let initial = match self.initial {
            InitialState::None => "",
            InitialState::File { .. } if is_implicit => "initial_file",
            InitialState::Zero | InitialState::File { .. } => "initial",
        };
        let words = [
            token,
            word,
            initial,
            if self.single_buffer { "single_buffer" } else { "" },
            if self.variable { "variable" } else { "" },
            if self.batches { "" } else { "nobatch" },
            if is_dyna { "dyna" } else { "" },
            "sequence",
            dtype,
        ];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
    }
}

/// What a model of a family computes on a backend; none where that is no formula.
///
/// # Errors
/// Why there is no such model.
pub(super) fn formula(family: Family, backend: Backend, strategy: Strategy) -> Result<Option<Formula>, String> {
    if family.network(backend).is_some() {
        return if backend == Backend::Onnxruntime {
            Ok(None)
        } else {
            Err("networks, which have no formula, are of the backend onnxruntime alone".to_owned())
        };
    }
    let Traits { word, is_dyna, is_implicit, is_stateless, echoes, answers, ragged, states, steps, .. } =
        family.traits();
    let of_programs = word.starts_with("oldest") || ragged || !steps.is_empty();
    let of_native = echoes || answers != Answers::One || states.is_some();
    if is_implicit && backend == Backend::Python {
        return Err("Triton's Python backend lets no model have state that the server keeps".to_owned());
    }
    if of_native && backend != Backend::Native || of_programs && !backend.is_program() {
        return Err(format!(
            "family {} is of the native backend{} alone",
            family.name(),
            if of_programs { " and the Python one" } else { "" }
        ));
    }
    if family.adds_up_sums() {
        return Ok(None);
    }
    let by_row = backend.traits().keeps_by_row && strategy == Strategy::Direct && !is_dyna;
    let keeps = is_implicit || !is_stateless && (backend.is_program() || by_row);
    if !keeps && backend.traits().keeps_by_row && !is_dyna && !is_stateless {
        return Err("its state is kept by row, and under Oldest a sequence has no row of its own".to_owned());
    }
    Ok(Some(match (keeps, is_dyna && !is_implicit && !echoes) {
        (true, false) => Formula::RunningSum,
        (true, true) => Formula::RunningSumPlusCorrid,
        (false, false) => Formula::Stateless,
        (false, true) => Formula::StatelessPlusCorrid,
    }))
}
