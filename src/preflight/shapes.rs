//! Whether the model takes as many elements as the scenario has.

use std::num::NonZeroU16;

use workload::{
    scenario::{Elements, Scenario},
    tensor::{ELEMENTS_MAX, Shape, TensorSpec},
    wording::counted,
};

/// A model whose shape is fixed takes one number of elements, and one whose shape is open not more than are sent.
pub(super) fn check_elements(name: &str, input: &TensorSpec, shape: &Shape, scenario: &Scenario) -> Result<(), String> {
    for Elements { min, max } in scenario.populations.iter().filter_map(|population| population.values.elements) {
        let fixed = shape.elements(NonZeroU16::MIN);
        if !shape.is_open() && [min, max].into_iter().any(|count| usize::from(count.get()) != fixed) {
            return Err(format!(
                "model '{name}' takes {input}, always of {}, and values.elements asks for {min} to {max}: leave it \
                 out, or take a model with an open dimension (-m)",
                counted(fixed as u64, "element")
            ));
        }
        if shape.elements(max) > ELEMENTS_MAX {
            return Err(format!(
                "model '{name}' takes {input}, of {} elements where the open dimension has the size {max} of \
                 values.elements: at most {ELEMENTS_MAX} are sent, so set a smaller values.elements.max",
                shape.elements(max)
            ));
        }
    }
    Ok(())
}
