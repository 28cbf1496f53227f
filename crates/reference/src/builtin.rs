//! The models that the server has from the start: those that this project tests itself with, of every data type.

mod without_formula;

use std::sync::LazyLock;

use models::{Backend, Dtype, Family, Form, InitialState, Model, ModelOptions, Options};
use wire::proto::ModelConfig;
use without_formula::WithoutFormula;
use workload::model::Strategy;

/// The forms that there are of each data type: of those that a client can tell from others.
static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let is_served = |form: &Form| {
        let is_told_apart = ![Family::Ragged, Family::Echo, Family::DynaEcho].contains(&form.family);
        // State that begins with a file's data would need the file. What has no formula is in another table.
        is_told_apart
            && form.family.has_formula()
            && !form.single_buffer
            && form.initial != InitialState::File { data: None }
    };
    let calling = [Family::Bls, Family::BlsOldest].map(Form::of);
    Form::of_tester().into_iter().filter(is_served).chain(calling).collect()
});

/// The names of those that add up.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| models(&Options::default()).map(|model| model.name()).collect());

fn models(options: &Options) -> impl Iterator<Item = Model<'_>> {
    let of_dtype = move |dtype: &Dtype| {
        let dtype = *dtype;
        FORMS.iter().filter_map(move |form| Model::new(Backend::Native, dtype, form, options).ok())
    };
    Dtype::ALL.iter().flat_map(of_dtype)
}

fn options(models: ModelOptions) -> Options {
    Options { models, ..Options::default() }
}

/// The names of the built-in models that have a formula.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(String::as_str)
}

/// The names of the built-in models without a formula, whose outputs no client can predict.
pub fn models_without_formula() -> &'static [&'static str] {
    WithoutFormula::NAMES
}

/// The names of the built-in models in short: families, and types that go behind each.
pub fn models_in_short() -> String {
    let families: Vec<_> = model_names().filter_map(|name| name.strip_suffix("_int32")).collect();
    let types: Vec<_> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
    let others = WithoutFormula::NAMES.join(", ");
    format!("{}, each with _{}; without a formula: {others}", families.join(", "), types.join(", _"))
}

/// The strategy of a built-in model, where those that may have either have this one; none where there is no such model.
pub fn strategy_of(name: &str, otherwise: Strategy) -> Option<Strategy> {
    let options = options(ModelOptions { strategy: otherwise, ..ModelOptions::default() });
    match WithoutFormula::named(name) {
        Some(model) => model.strategy(&options),
        None => models(&options).find(|model| model.name() == name).map(|model| model.strategy),
    }
}

/// The strategies of the built-in models, where those that may have either have this one.
pub fn strategies(otherwise: Strategy) -> Vec<Strategy> {
    let options = options(ModelOptions { strategy: otherwise, ..ModelOptions::default() });
    models(&options).map(|model| model.strategy).collect()
}

pub(super) fn configs(models_are: &ModelOptions) -> Vec<ModelConfig> {
    let options = options(models_are.clone());
    let without_formula = WithoutFormula::ALL.into_iter().flat_map(|model| model.configs(&options));
    // Of an ensemble its steps, too; all of these can be made.
    models(&options).flat_map(|model| model.configs().unwrap_or_default()).chain(without_formula).collect()
}
