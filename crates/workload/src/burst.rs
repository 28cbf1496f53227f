//! Queues that are empty most of the time, of which a run has thousands.

use std::collections::VecDeque;

/// For how many elements an empty queue keeps room.
pub const KEPT: usize = 4;

/// Gives the memory of a burst back when the queue is empty again.
pub fn forget<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && queue.capacity() > KEPT {
        *queue = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_queue_keeps_little_room_and_another_one_all_it_has() {
        let mut queue: VecDeque<_> = (0..100).collect();
        forget(&mut queue);
        assert_eq!((queue.len(), queue.capacity() >= 100), (100, true));
        queue.clear();
        forget(&mut queue);
        assert!(queue.capacity() <= KEPT);
        let mut small = VecDeque::<u8>::with_capacity(KEPT);
        forget(&mut small);
        assert_eq!(small.capacity(), KEPT, "it needs no other room for the next element");
    }
}
