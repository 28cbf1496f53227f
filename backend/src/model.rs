//! A model: what its instances share.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    boundary::{Level, log},
    fault::Faults,
    spec::Spec,
};

/// The most that the fault of growing memory keeps, in MiB: enough to be seen, and not to take the machine down.
const LEAKED_MAX: usize = if cfg!(test) { 3 } else { 1024 };

/// A model that is loaded.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) spec: Spec,
    pub(crate) faults: Faults,
    /// The numbers of the instances that there are.
    instances: Mutex<BTreeSet<i32>>,
    /// What the fault of growing memory keeps, 1 MiB each.
    pub(crate) leaked: Mutex<Vec<Vec<u8>>>,
}

impl Model {
    pub(crate) fn new(spec: Spec) -> Self {
        let faults = Faults::new(&spec.parameters.planted, spec.parameters.fault_seed);
        Self { spec, faults, instances: Mutex::default(), leaked: Mutex::default() }
    }

    /// The number of an instance that is made now: the first that is free, so that they stay below the number of instances
    /// also where some come and go while the model is loaded.
    pub(crate) fn begin_instance(&self) -> i32 {
        let mut instances = self.instances();
        let number = (0..i32::MAX).find(|number| !instances.contains(number)).expect("instances are few");
        instances.insert(number);
        number
    }

    /// The instance with this number is gone.
    pub(crate) fn end_instance(&self, number: i32) {
        self.instances().remove(&number);
    }

    fn instances(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps 1 MiB.
    pub(crate) fn leak(&self) {
        let mut leaked = self.leaked.lock().unwrap_or_else(PoisonError::into_inner);
        if leaked.len() < LEAKED_MAX {
            leaked.push(vec![1; 1 << 20]);
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        for line in self.faults.account() {
            log(Level::Info, &format!("model '{}': {line}", self.spec.name));
        }
    }
}
