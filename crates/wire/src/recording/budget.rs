//! A bound on the bytes that are kept.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use super::{Loss, REQUEST_MAX};

/// What a request takes besides its bytes.
const EACH: usize = 256;

/// How many bytes may be kept yet.
#[derive(Debug)]
pub(super) struct Budget(AtomicUsize);

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    fn take(&self, bytes: usize) -> Result<(), Loss> {
        let taken = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes));
        taken.map(drop).map_err(|_| Loss::NoRoom)
    }
}

/// Bytes of one request, as far as they came. Dropped, they make room for others.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Vec<u8>,
    budget: Arc<Budget>,
}

impl Held {
    pub(super) fn new(budget: &Arc<Budget>) -> Result<Self, Loss> {
        budget.take(EACH)?;
        Ok(Self { bytes: Vec::new(), budget: Arc::clone(budget) })
    }

    /// Adds bytes, if there is room.
    fn push(&mut self, bytes: &[u8]) -> Result<(), Loss> {
        if self.bytes.len() + bytes.len() > REQUEST_MAX {
            return Err(Loss::TooLarge);
        }
        self.budget.take(bytes.len())?;
        self.bytes.extend(bytes);
        Ok(())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Adds bytes to what is kept of a request. Where there is no room nothing of it is kept any more.
pub(super) fn keep(held: &mut Result<Held, Loss>, bytes: &[u8]) {
    if let Err(loss) = held.as_mut().map_or(Ok(()), |kept| kept.push(bytes)) {
        *held = Err(loss);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.0.fetch_add(EACH + self.bytes.len(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_makes_room() {
        let budget = Arc::new(Budget::new(2 * EACH + 10));
        let mut held = Held::new(&budget).expect("room");
        assert_eq!(held.push(&[0; 10]), Ok(()));
        let mut other = Held::new(&budget).expect("room");
        assert_eq!(other.push(&[0]), Err(Loss::NoRoom));
        assert_eq!(Held::new(&budget).err(), Some(Loss::NoRoom));
        drop(held);
        assert_eq!(other.push(&[0; 10]), Ok(()));
        drop(other);
        assert_eq!(budget.0.load(Relaxed), 2 * EACH + 10);
    }

    #[test]
    fn a_request_has_a_bound_of_its_own() {
        let budget = Arc::new(Budget::new(usize::MAX));
        let mut held = Held::new(&budget).expect("room");
        assert_eq!(held.push(&vec![0; REQUEST_MAX]), Ok(()));
        assert_eq!(held.push(&[0]), Err(Loss::TooLarge));
    }
}
