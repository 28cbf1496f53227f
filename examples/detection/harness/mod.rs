//! Runs in which a planted fault has to be found, and named, and runs in which nothing may be.

#![allow(dead_code, unreachable_pub, reason = "the short form, a test, uses its part")]

pub mod golden;
pub mod meant;
pub mod plain;
pub mod rows;
pub mod trial;

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Does the same with each item, so many at a time, and gives what came of it in the items' order: most of a run is waiting.
pub fn for_each<T: Sync, R: Send>(items: &[T], at_a_time: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done, work) = (AtomicUsize::new(0), Mutex::new(Vec::new()), &work);
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = work(item);
                    done.lock().expect("no thread panics with it").push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("all threads are done");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
