//! Many models at once: everything of some lists with everything of the others.

use std::collections::BTreeMap;

use super::{backend::Backend, dtype::Dtype, family::Form, model::Model, options::Options, write::Written};

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
    pub refused: BTreeMap<(&'static str, String), usize>,
}

impl Matrix {
    /// All of its models.
    ///
    /// # Errors
    /// In one line: what the server would refuse, two models of one name, or that there are none at all.
    pub fn make(&self) -> Result<Made, String> {
        self.check()?;
        let mut made = Made::default();
        let mut named = BTreeMap::new();
        for (backend, dtype, form) in self.combinations() {
            let model = Model::new(backend, dtype, form, &self.options);
            match model.and_then(|model| Ok((model, model.files()?))) {
                Ok((model, files)) => {
                    let name = model.name();
                    check_name(&name)?;
                    let written = Written::new(&model, files);
                    if let Some(other) = named.insert(name.clone(), written) {
                        return Err(format!(
                            "two models would be called '{name}', one of {} and one of {}: choose fewer, or leave --prefix and --plain-names out",
                            other.about(),
                            Written::new(&model, Vec::new()).about()
                        ));
                    }
                }
                Err(reason) => *made.refused.entry((backend.name(), reason)).or_default() += 1,
            }
        }
        made.models = named.into_values().collect();
        match made.refused.first_key_value() {
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

    /// Looks for settings that the server refuses, whatever the model.
    fn check(&self) -> Result<(), String> {
        let models = &self.options.models;
        if let Some(size) = models.preferred_batch_sizes.iter().find(|size| **size > models.max_batch_size) {
            return Err(format!(
                "--preferred-batch-size {size}: the server takes none above --max-batch-size, which is {}",
                models.max_batch_size
            ));
        }
        Ok(())
    }
}

/// Refuses a name that the server, or a file system, does not take.
fn check_name(name: &str) -> Result<(), String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if let Some(wrong) = name.chars().find(|c| !is_of_name(*c)) {
        return Err(format!(
            "the server does not take a model called '{name}': '{}' stands in it; letters, digits, '_', '-' and '.' may",
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
