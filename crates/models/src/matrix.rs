//! Many models at once: everything of some lists with everything of the others.

use std::collections::BTreeMap;

use super::{
    backend::Backend,
    dtype::Dtype,
    family::Form,
    model::Model,
    options::{InitialState, Options},
    write::Written,
};
use workload::arithmetic::{Arithmetic, Formula};

/// The most slots that a model may have, as the reference server has it.
const SLOTS_MAX: u64 = 1 << 16;
/// What configurations say of models, so that nobody else may.
const OWN: [&str; 7] = [
    "execute_delay_ms",
    "sequence_stress_controls",
    Formula::PARAMETER,
    Arithmetic::INITIAL_STATE,
    "sequence_stress_iterations",
    "sequence_stress_responses",
    "state_key",
];
/// The longest name that a folder can have.
const NAME_MAX: usize = 255;

/// Models of these backends, data types and forms.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The backends.
    pub backends: Vec<Backend>,
    /// The data types.
    pub dtypes: Vec<Dtype>,
    /// The forms.
    pub forms: Vec<Form>,
    /// What they have in common.
    pub options: Options,
}

/// What a matrix comes to.
#[derive(Debug, Default)]
pub struct Made {
    /// What is written, in the order of its names.
    pub models: Vec<Written>,
    /// What there is none of, and why: a backend, the reason and how many models it is.
    pub rejected: BTreeMap<(&'static str, String), usize>,
}

impl Matrix {
    /// All of its models.
    ///
    /// # Errors
    /// In one line: what the server would reject, two models of one name, or that there are none at all.
    pub fn make(&self) -> Result<Made, String> {
        self.check()?;
        let mut made = Made::default();
        let mut named = BTreeMap::new();
        for (backend, dtype, form) in self.combinations() {
            let model = Model::new(backend, dtype, form, &self.options);
            match model.and_then(|model| Ok((model, model.files()?))) {
                Ok((model, files)) => {
                    let written = Written::new(&model, files);
                    let (name, about) = (written.name.clone(), written.about());
                    check_name(&name)?;
                    if let Some(other) = named.insert(name.clone(), written) {
                        return Err(format!(
                            "two models would be called '{name}', one of {} and one of {about}: choose fewer, or leave --prefix and --plain-names out",
                            other.about()
                        ));
                    }
                }
                Err(reason) => *made.rejected.entry((backend.name(), reason)).or_default() += 1,
            }
        }
        made.models = named.into_values().collect();
        match made.rejected.first_key_value() {
            Some(((backend, reason), _)) if made.models.is_empty() => {
                Err(format!("there is no such model: {backend}: {reason}"))
            }
            _ => Ok(made),
        }
    }

    fn combinations(&self) -> impl Iterator<Item = (Backend, Dtype, &Form)> {
        let of_backend = move |backend: &Backend| {
            let backend = *backend;
            self.dtypes.iter().flat_map(move |dtype| self.forms.iter().map(move |form| (backend, *dtype, form)))
        };
        self.backends.iter().flat_map(of_backend)
    }

    /// Looks for settings that the server rejects, whatever the model.
    fn check(&self) -> Result<(), String> {
        let models = &self.options.models;
        let slots = u64::from(models.instances) * u64::from(models.max_batch_size.max(models.candidates));
        if slots > SLOTS_MAX {
            return Err(format!(
                "--instances, --max-batch-size and --candidates come to {slots} slots: a model may have {SLOTS_MAX}"
            ));
        }
        for (place, (name, _)) in self.options.parameters.iter().enumerate() {
            if OWN.contains(&name.as_str()) {
                return Err(format!(
                    "--parameter {name}: configurations say that themselves; choose by the other flags"
                ));
            }
            if self.options.parameters[..place].iter().any(|(other, _)| other == name) {
                return Err(format!("--parameter {name} is given twice"));
            }
        }
        for form in &self.forms {
            if let InitialState::File { data: Some(bytes) } = &form.initial {
                self.dtypes.iter().try_for_each(|dtype| dtype.read(bytes).map(drop))?;
            }
        }
        if let Some(size) = models.preferred_batch_sizes.iter().find(|size| **size > models.max_batch_size) {
            return Err(format!(
                "--preferred-batch-size {size}: the server takes none above --max-batch-size, which is {}",
                models.max_batch_size
            ));
        }
        Ok(())
    }
}

/// Rejects a name that the server, or a file system, does not take.
fn check_name(name: &str) -> Result<(), String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if let Some(wrong) = name.chars().find(|c| !is_of_name(*c)) {
        return Err(format!(
            "the server does not take a model called '{}': '{}' stands in it; letters, digits, '_', '-' and '.' may",
            name.escape_default(),
            wrong.escape_default()
        ));
    }
    if name.starts_with('.') || name.len() > NAME_MAX {
        return Err(format!(
            "the server does not take a model called '{name}': names have at most {NAME_MAX} characters and begin with no '.'"
        ));
    }
    Ok(())
}
