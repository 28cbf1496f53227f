//! Many models at once: everything of some lists with everything of the others.

use std::{collections::BTreeMap, iter};

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
const OWN: [&str; 9] = [
    "execute_delay_ms",
    "sequence_stress_calls",
    "sequence_stress_controls",
    Formula::PARAMETER,
    Arithmetic::INITIAL_STATE,
    "sequence_stress_iterations",
    "sequence_stress_responses",
    "sequence_stress_states",
    "state_key",
];
/// The longest name that a folder can have.
const NAME_MAX: usize = 255;

/// Models of these backends, data types and forms.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The backends.
    pub backends: Vec<Backend>,
    /// The data types; none are those of the families themselves: FP32 of networks, else INT32.
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
            match model.and_then(|model| Ok((Written::new(&model, model.files()?), Written::steps(&model)?))) {
                Ok((model, steps)) => {
                    for written in iter::once(model).chain(steps) {
                        let (name, about) = (written.name.clone(), written.about());
                        check_name(&name)?;
                        if let Some(other) = named.insert(name.clone(), written) {
                            return Err(format!(
                                "two models would be called '{name}', one of {} and one of {about}: choose fewer, or leave --prefix and --plain-names out",
                                other.about()
                            ));
                        }
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
            let own = move |form: &Form| vec![form.family.own_dtype(backend)];
            let of_form = move |form| if self.dtypes.is_empty() { own(form) } else { self.dtypes.clone() };
            self.forms.iter().flat_map(move |form| of_form(form).into_iter().map(move |dtype| (backend, dtype, form)))
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
        let has_network =
            self.backends.iter().any(|its| self.forms.iter().any(|form| form.family.network(*its).is_some()));
        if self.options.network_width.is_some() && !has_network {
            return Err("--width is for networks: the families gru, lstm, conv and two_state of onnxruntime".to_owned());
        }
        for form in &self.forms {
            if let InitialState::File { data: Some(bytes) } = &form.initial {
                let own: Vec<_> = self.backends.iter().map(|backend| form.family.own_dtype(*backend)).collect();
                let dtypes = if self.dtypes.is_empty() { &own } else { &self.dtypes };
                dtypes.iter().try_for_each(|dtype| dtype.read(bytes).map(drop))?;
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

#[cfg(test)]
mod tests {
    use super::Matrix;
    use crate::{Backend, Dtype, Extra, Family, Form, InitialState, ModelOptions, Options, Written};

    fn matrix(families: &[Family]) -> Matrix {
        let forms = families.iter().copied().map(Form::of).collect();
        Matrix { backends: vec![Backend::Onnxruntime], dtypes: Vec::new(), forms, options: Options::default() }
    }

    fn config(model: &Written) -> &str {
        str::from_utf8(&model.files[0].bytes).expect("it is a text")
    }

    #[test]
    fn each_family_has_a_data_type_of_its_own() {
        let made = matrix(&[Family::Gru, Family::DynaTwoState, Family::Implicit]).make().expect("there are some");
        let names: Vec<_> = made.models.iter().map(|model| model.name.as_str()).collect();
        let expected =
            ["onnx_gru_sequence_float32", "onnx_implicit_sequence_int32", "onnx_two_state_dyna_sequence_float32"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_network_says_that_it_has_no_formula_and_all_of_its_states() {
        let mut of_two_states = matrix(&[Family::DynaTwoState]);
        of_two_states.options.network_width = Some(4);
        let made = of_two_states.make().expect("there is one");
        assert_eq!((made.models[0].formula, made.models[0].formula_name()), (None, "none"));
        assert_eq!(
            config(&made.models[0]),
            r#"name: "onnx_two_state_dyna_sequence_float32"
backend: "onnxruntime"
max_batch_size: 8
input { name: "INPUT" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "OUTPUT" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "COUNT" data_type: TYPE_INT64 dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
sequence_batching {
  max_sequence_idle_microseconds: 1000000
  oldest { max_candidate_sequences: 8 }
  state {
    input_name: "ZETA_STATE"
    output_name: "ZETA_STATE_OUT"
    data_type: TYPE_FP32
    dims: [ 2 ]
    initial_state { data_type: TYPE_FP32 dims: [ 2 ] zero_data: true name: "zero" }
  }
  state {
    input_name: "ALPHA_STATE"
    output_name: "ALPHA_STATE_OUT"
    data_type: TYPE_FP32
    dims: [ 5 ]
    initial_state { data_type: TYPE_FP32 dims: [ 5 ] zero_data: true name: "zero" }
  }
}
parameters { key: "sequence_stress_formula" value { string_value: "none" } }
"#
        );
    }

    #[test]
    fn further_parts_are_in_the_configuration() {
        let options = Options { extras: Extra::ALL.to_vec(), ..Options::default() };
        let native = |family, options: &Options| Matrix {
            backends: vec![Backend::Native],
            options: options.clone(),
            ..matrix(&[family])
        };
        let made = native(Family::DynaImplicit, &options).make().expect("there is one");
        let text = config(&made.models[0]);
        for expected in [
            "optimization { priority: PRIORITY_MAX }",
            "rate_limiter { resources { name: \"execution\" count: 1 } priority: 1 }",
            "preserve_ordering: true",
            "inputs { key: \"INPUT\" value { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true } }",
            "inputs { key: \"START\" value { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true } }",
            "inputs { key: \"CORRID\" value { data_type: TYPE_UINT64 dims: [ 1 ] zero_data: true } }",
            "inputs { key: \"INPUT_STATE\" value { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true } }",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        let rejection = native(Family::Sequence, &options).make().expect_err("it is Direct");
        assert_eq!(rejection, "there is no such model: native: preserve-ordering is a part of Oldest");
    }

    #[test]
    fn a_model_that_calls_another_has_the_program_and_its_own_faults() {
        let made = |fault: &str| {
            let parameters = vec![("fault".to_owned(), fault.to_owned()), ("other".to_owned(), "one".to_owned())];
            let options = Options { parameters, ..Options::default() };
            let matrix = Matrix { backends: vec![Backend::Native], options, ..matrix(&[Family::BlsOldest]) };
            matrix.make().expect("there is one").models
        };
        let [calling, called] = &made("bls-loses-end:once@5")[..] else { panic!("two models") };
        assert_eq!((&*calling.name, calling.backend), ("bls_oldest_sequence_int32", Backend::Python));
        assert_eq!((&*called.name, called.backend), ("bls_oldest_sequence_int32_called", Backend::Native));
        let names: Vec<_> = calling.files.iter().map(|file| &*file.name).collect();
        assert_eq!(names, ["config.pbtxt", "1/model.py"]);
        let parameter = |name: &str, value: &str| format!("key: \"{name}\" value {{ string_value: \"{value}\" }}");
        let of_calling = [parameter("sequence_stress_calls", &called.name), parameter("fault", "bls-loses-end:once@5")];
        for text in &of_calling {
            assert!(config(calling).contains(text) && !config(called).contains(text), "{text}");
        }
        let of_called = [parameter("execute_delay_ms", "3"), parameter("other", "one")];
        assert!(of_called.iter().all(|text| config(called).contains(text) && !config(calling).contains(text)));
        // A fault of the called model is not one of the calling model.
        let [calling, called] = &made("reset-state")[..] else { panic!("two models") };
        let fault = parameter("fault", "reset-state");
        assert!(config(called).contains(&fault) && !config(calling).contains(&fault));
    }

    #[test]
    fn what_no_network_has_is_rejected() {
        let rejected = |change: &dyn Fn(&mut Matrix)| {
            let mut matrix = matrix(&[Family::Conv]);
            change(&mut matrix);
            matrix.make().expect_err("it is rejected")
        };
        let form = |change: fn(&mut Form)| rejected(&move |matrix| change(&mut matrix.forms[0]));
        let of_onnx = |why: &str| format!("there is no such model: onnxruntime: {why}");
        assert_eq!(
            rejected(&|matrix| matrix.dtypes = vec![Dtype::Float64]),
            of_onnx("networks, which have no formula, are of float32 alone")
        );
        assert_eq!(
            rejected(&|matrix| matrix.backends = vec![Backend::Native]),
            "there is no such model: native: networks, which have no formula, are of the backend onnxruntime alone"
        );
        let fixed = of_onnx("networks have a fixed width, and a buffer for each state that comes out");
        assert_eq!(form(|form| form.variable = true), fixed);
        assert_eq!(form(|form| form.single_buffer = true), fixed);
        assert_eq!(
            form(|form| form.initial = InitialState::Zero),
            of_onnx("states of networks begin with 0 without --initial-state")
        );
        assert_eq!(
            rejected(&|matrix| matrix.options.network_width = Some(1025)),
            of_onnx("a network of 1025 elements: INPUT has 1 to 1024")
        );
        let other = Matrix {
            options: Options { network_width: Some(4), models: ModelOptions::default(), ..Options::default() },
            ..matrix(&[Family::Implicit])
        };
        let native = Matrix { backends: vec![Backend::Native], ..matrix(&[Family::TwoState]) };
        let native = Matrix { options: other.options.clone(), ..native };
        for matrix in [other, native] {
            let rejection = matrix.make().expect_err("it is rejected");
            assert_eq!(rejection, "--width is for networks: the families gru, lstm, conv and two_state of onnxruntime");
        }
    }
}
