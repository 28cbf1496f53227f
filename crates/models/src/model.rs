//! A model: its name, its configuration and its files.

use std::iter;

use formats::{
    format::File,
    formulas::{self, Names},
    graph::Graph,
    networks,
};

use super::{
    backend::Backend,
    config::NO_FORMULA,
    dtype::Dtype,
    family::{self, Form, StateTensor, Traits},
    options::{ControlType, CorridType, Extra, InitialState, NETWORK_WIDTH, Options},
    tensorrt, text,
};
use wire::proto::ModelConfig;
use workload::{arithmetic::Formula, model::Strategy, number::Number};

/// What runs on Triton's Python backend.
const PROGRAM: &[u8] = include_bytes!("../../../models/accumulator.py");
const CALLING_PROGRAM: &[u8] = include_bytes!("../../../models/bls.py");
/// What the files of initial states are called.
pub(super) const INITIAL_FILE: &str = "thousand";
/// What the file of the state at a place of the configuration is called.
pub(super) fn initial_file(place: usize) -> String {
    if place == 0 { INITIAL_FILE.to_owned() } else { format!("{INITIAL_FILE}_{}", place + 1) }
}

/// The first release whose server knows iterative models, and one buffer for both states.
const SINCE_24_01: &str = "24.01";

/// What a model is to be, made up of one of each.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    pub(super) backend: Backend,
    pub(super) dtype: Dtype,
    pub(super) form: &'a Form,
    pub(super) options: &'a Options,
    /// How sequences are put into batches.
    pub strategy: Strategy,
    /// What it computes; none where that is no formula.
    pub(super) formula: Option<Formula>,
}

impl<'a> Model<'a> {
    /// A model of a form.
    ///
    /// # Errors
    /// Why there is none, without its name.
    pub fn new(backend: Backend, dtype: Dtype, form: &'a Form, options: &'a Options) -> Result<Self, String> {
        let traits = form.family.traits();
        let strategy = options.strategy.or(traits.strategy).unwrap_or(options.models.strategy);
        let formula = family::formula(form.family, backend, strategy)?;
        let model = Self { backend, dtype, form, options, strategy, formula };
        model.check().map(|()| model)
    }

    fn check(&self) -> Result<(), String> {
        let (form, traits) = (self.form, self.form.family.traits());
        let release = self.options.release.as_deref();
        if self.network().is_some() {
            self.check_network()?;
        }
        if self.options.extras.contains(&Extra::PreserveOrdering) && self.strategy != Strategy::Oldest {
            return Err("preserve-ordering is a part of Oldest".to_owned());
        }
        if form.variable && self.backend.is_program() && !traits.is_implicit {
            return Err("they take any number of elements without --variable".to_owned());
        }
        if form.family.has_steps() && form.initial != InitialState::None {
            return Err("they keep no state: the models do that they hand their requests to".to_owned());
        }
        if self.backend == Backend::Openvino && matches!(self.dtype, Dtype::Int64 | Dtype::Uint64 | Dtype::Float64) {
            return Err(
                "OpenVINO's CPU plugin computes in 32 bits, whatever a file says: sums would be wrong".to_owned()
            );
        }
        if form.single_buffer && !traits.is_implicit {
            return Err("a single buffer is for state that the server keeps".to_owned());
        }
        if self.dtype == Dtype::Bool && self.options.control.is_some_and(|control| control != ControlType::Bool) {
            return Err("dtype bool is INT32 with controls of BOOL".to_owned());
        }
        if let (Some(release), Some(last)) = (release, self.backend.traits().last_release)
            && release > last
        {
            return Err(format!("servers after {last} have no such backend"));
        }
        let is_new = form.single_buffer || traits.answers.are_iterative();
        if is_new && release.is_some_and(|release| release < SINCE_24_01) {
            return Err(format!("servers before {SINCE_24_01} have no such models"));
        }
        if form.initial != InitialState::None {
            self.check_initial(traits.is_implicit)?;
        }
        Ok(())
    }

    fn check_network(&self) -> Result<(), String> {
        let form = self.form;
        if self.dtype != Dtype::Float32 {
            return Err("networks, which have no formula, are of float32 alone".to_owned());
        }
        if form.variable || form.single_buffer {
            return Err("networks have a fixed width, and a buffer for each state that comes out".to_owned());
        }
        if form.initial != InitialState::None {
            return Err("states of networks begin with 0 without --initial-state".to_owned());
        }
        Ok(())
    }

    fn check_initial(&self, is_implicit: bool) -> Result<(), String> {
        if self.is_stateless() {
            return Err("they keep nothing, which could not begin with anything".to_owned());
        }
        if self.form.initial == InitialState::Zero && !is_implicit {
            return Err("state that models keep themselves begins with 0 without --initial-state".to_owned());
        }
        let Traits { states, copies, .. } = self.form.family.traits();
        if self.form.has_file() && states.is_some() && !copies {
            return Err("a file is for states that hold the sum, and one holds the number of steps".to_owned());
        }
        if self.form.has_file() && self.dtype == Dtype::Object {
            return Err("the server sets texts that come of a file to zeros".to_owned());
        }
        self.initial().map(drop)
    }

    /// Its name.
    pub fn name(&self) -> String {
        let prefix = self.options.prefix.as_deref().unwrap_or(self.backend.traits().token);
        self.form.name(prefix, self.dtype.name(), self.options.plain_names)
    }

    /// What a new sequence's state begins with.
    ///
    /// # Errors
    /// When the bytes that are given are no number of the type.
    pub(super) fn initial(&self) -> Result<Number, String> {
        match &self.form.initial {
            InitialState::None | InitialState::Zero => Ok(self.dtype.number(0)),
            InitialState::File { data: None } => Ok(self.dtype.number(self.dtype.remarkable())),
            InitialState::File { data: Some(bytes) } => self.dtype.read(bytes),
        }
    }

    /// The elements that each state begins with.
    fn initial_states(&self) -> Result<Vec<Vec<u8>>, String> {
        let initial = self.initial()?;
        let Some(states) = self.form.family.traits().states else { return Ok(vec![initial.to_bytes()]) };
        let each = |(factor, state): (u32, &StateTensor)| {
            let number = state.dtype.map_or(initial, |dtype| dtype.number(initial.value())).wrapping_mul(factor);
            number.to_bytes().repeat(usize::try_from(state.initial_size()).unwrap_or(1))
        };
        Ok((1..).step_by(2).zip(states).map(each).collect())
    }

    /// The type of START, END and READY.
    pub(super) fn control(&self) -> ControlType {
        let of_dtype = if self.dtype == Dtype::Bool { ControlType::Bool } else { ControlType::Int32 };
        self.options.control.unwrap_or(of_dtype)
    }

    /// The type of CORRID; none where the model is not told it.
    pub(super) fn corrid(&self) -> Option<CorridType> {
        let traits = self.form.family.traits();
        let is_told = traits.is_dyna && self.network().is_none()
            || traits.echoes
            || self.strategy == Strategy::Oldest && self.keeps_itself();
        is_told.then(|| self.options.corrid.unwrap_or(self.backend.traits().corrid))
    }

    fn keeps_itself(&self) -> bool {
        !self.form.family.traits().is_implicit && !self.is_stateless()
    }

    fn is_stateless(&self) -> bool {
        self.formula.is_some_and(Formula::is_stateless)
    }

    /// What it computes where that is no formula.
    pub(super) fn network(&self) -> Option<networks::Network> {
        self.form.family.network(self.backend)
    }

    /// What its configuration calls the formula.
    pub(super) fn formula_name(&self) -> &'static str {
        self.formula.map_or(NO_FORMULA, Formula::name)
    }

    /// How many elements INPUT and OUTPUT of a network have.
    pub(super) fn width(&self) -> u32 {
        self.options.network_width.unwrap_or(NETWORK_WIDTH)
    }

    /// What its tensors are called.
    pub(super) fn names(&self) -> Names {
        let mut names = Names::default();
        if self.backend == Backend::Pytorch {
            let is_told = self.corrid().is_some();
            let Names { input, input_state, start, end, ready, corrid, output, output_state } = &mut names;
            let inputs = [
                (input, true),
                (input_state, self.form.family.traits().is_implicit),
                (start, true),
                (end, is_told),
                (ready, true),
                (corrid, is_told),
            ];
            // Their place among the inputs, by which TorchScript knows them.
            for (place, (name, _)) in inputs.into_iter().filter(|(_, has)| *has).enumerate() {
                *name = format!("{name}__{place}");
            }
            *output = format!("{output}__0");
            *output_state = format!("{output_state}__1");
        }
        names
    }

    fn graph(&self) -> Result<Graph, String> {
        if let Some(network) = self.network() {
            return networks::graph(network, self.form.batches, self.width());
        }
        let initial = self.initial()?.to_string().parse().map_err(|_| "its initial state is no whole number")?;
        let formula = if self.is_stateless() {
            formulas::Formula::Stateless
        } else if self.keeps_itself() {
            formulas::Formula::Stateful { initial }
        } else if self.form.initial == InitialState::None {
            formulas::Formula::Implicit
        } else {
            formulas::Formula::ImplicitWithInitialState
        };
        let options = formulas::Options {
            element: self.dtype.element(),
            batch: self.form.batches.then_some(self.options.models.max_batch_size),
            width: (!self.form.variable).then_some(1),
            control: self.control().element(),
            corrid: self.corrid().map(|corrid| corrid.dtype().element()),
            adds_corrid: self.formula.is_some_and(Formula::adds_corrid),
            names: self.names(),
        };
        formulas::graph(formula, &options)
    }

    /// What is made of each model that an ensemble is of, or that a program calls, under the name that its configuration has for it; of
    /// other models nothing.
    ///
    /// # Errors
    /// Why there is no such model.
    pub fn each_step<R>(&self, make: impl Fn(&Model<'_>, String) -> Result<R, String>) -> Result<Vec<R>, String> {
        let steps = self.form.family.traits().steps.iter().zip(1..);
        let mut options = self.options.clone();
        options.parameters.retain(|parameter| !self.is_for_calling(parameter));
        let each = steps.map(|(family, place)| {
            let form = Form { family: *family, ..self.form.clone() };
            let step = Model::new(self.backend, self.dtype, &form, &options)?;
            make(&step, self.step_name(place))
        });
        each.collect()
    }

    /// What the model of its step at a place, counted from 1, is called.
    pub(super) fn step_name(&self, place: usize) -> String {
        let name = self.name();
        if self.form.family.traits().calls { format!("{name}_called") } else { format!("{name}_step{place}") }
    }

    /// Whether a parameter that is given for the configurations is for a program that calls another model, and not for that one.
    pub(super) fn is_for_calling(&self, (name, value): &(String, String)) -> bool {
        self.form.family.traits().calls && name == "fault" && value.starts_with(CALLING_FAULTS)
    }

    /// The backend that runs it.
    pub(super) fn run_by(&self) -> Backend {
        if self.form.family.traits().calls { Backend::Python } else { self.backend }
    }

    /// The configurations of all that it is made of, its own first.
    ///
    /// # Errors
    /// Why there is no such model.
    pub fn configs(&self) -> Result<Vec<ModelConfig>, String> {
        let steps = self.each_step(|step, name| Ok(ModelConfig { name, ..step.config() }))?;
        Ok(iter::once(self.config()).chain(steps).collect())
    }

    /// Its files, its configuration first; where it has none in a version's folder, that folder has to be made.
    ///
    /// # Errors
    /// Why the format does not take it.
    pub fn files(&self) -> Result<Vec<File>, String> {
        self.files_as(self.name())
    }

    /// Its versions, each with a folder of this name.
    pub(super) fn versions(&self) -> impl Iterator<Item = u32> + use<> {
        1..=self.options.models.versions
    }

    /// The same with another name in its configuration.
    pub(super) fn files_as(&self, model: String) -> Result<Vec<File>, String> {
        let config = |note: String| note + &text::print(&ModelConfig { name: model, ..self.config() });
        let configuration = |note| File { name: CONFIGURATION.to_owned(), bytes: config(note).into_bytes() };
        let mut files = Vec::new();
        if self.form.family.has_steps() {
            files.push(configuration(String::new()));
            if self.form.family.traits().calls {
                files.push(File { name: format!("{VERSION}/model.py"), bytes: CALLING_PROGRAM.to_vec() });
            }
            return Ok(files);
        }
        let mut add = |name: String, bytes| files.push(File { name, bytes });
        let mut note = String::new();
        if let Some(format) = self.backend.traits().format {
            let graph = self.graph()?;
            if self.backend == Backend::Tensorrt {
                note = format!("# {}\n", tensorrt::command(&graph, self.options.models.max_batch_size)?.join(" "));
            }
            for file in format.files(&graph)? {
                self.versions().for_each(|version| add(format!("{version}/{}", file.name), file.bytes.clone()));
            }
        } else if self.backend == Backend::Python {
            self.versions().for_each(|version| add(format!("{version}/model.py"), PROGRAM.to_vec()));
        }
        if self.form.has_file() {
            for (place, bytes) in self.initial_states()?.into_iter().enumerate() {
                add(format!("initial_state/{}", initial_file(place)), bytes);
            }
        }
        files.insert(0, configuration(note));
        Ok(files)
    }
}

/// What the names of the faults of a program that calls another model begin with.
const CALLING_FAULTS: &str = "bls-";
/// What a configuration's file is called.
pub(super) const CONFIGURATION: &str = "config.pbtxt";
/// The first version of each model, and the folder of its files.
pub(super) const VERSION: &str = "1";
