//! A model: what its instances share.

#![forbid(unsafe_code)]

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicI32, Ordering::Relaxed},
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
    /// The number of the next instance.
    instances: AtomicI32,
    leaked: Mutex<Vec<Vec<u8>>>,
}

impl Model {
    pub(crate) fn new(spec: Spec) -> Self {
        let faults = Faults::new(&spec.parameters.planted, spec.parameters.fault_seed);
        Self { spec, faults, instances: AtomicI32::new(0), leaked: Mutex::default() }
    }

    /// The number of an instance that is made now.
    pub(crate) fn next_instance(&self) -> i32 {
        self.instances.fetch_add(1, Relaxed)
    }

    /// Keeps 1 MiB.
    pub(crate) fn leak(&self) {
        let mut leaked = self.leaked.lock().unwrap_or_else(PoisonError::into_inner);
        if leaked.len() < LEAKED_MAX {
            leaked.push(vec![1; 1 << 20]);
        }
    }

    /// How many MiB are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.leaked.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Vec::len).sum::<usize>() >> 20
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        for line in self.faults.account() {
            log(Level::Info, &format!("model '{}': {line}", self.spec.name));
        }
    }
}
