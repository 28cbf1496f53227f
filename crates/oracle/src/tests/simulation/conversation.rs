//! Random conversations, as clients may hold them.

use std::num::NonZeroU16;

use rand::{Rng, RngExt as _};

use workload::{
    conversation::{Act, Connection, Lane},
    sequence::{Flaw, Special},
};

/// How long a sequence may be idle in the simulated server, in µs.
pub(super) const IDLE_US: u64 = 100_000;
/// How long what was sent on a stream that was cut may be under way, in µs.
pub(super) const STRAGGLING_US: u64 = 3_000_000;

/// A conversation, being made up.
pub(super) struct Script<'r, R> {
    random: &'r mut R,
    small_values: bool,
    acts: Vec<Act>,
    sequence: u32,
    is_open: [bool; Lane::MAX as usize],
}

impl<'r, R: Rng> Script<'r, R> {
    pub(super) fn conversation(random: &'r mut R, small_values: bool) -> Vec<Act> {
        let mut script = Self { random, small_values, acts: Vec::new(), sequence: 0, is_open: [false; 8] };
        script.write();
        script.acts
    }

    fn write(&mut self) {
        match self.random.random_range(0..16) {
            0..=2 => self.sequence(0, true, true),
            3 => {
                self.sequence(0, true, true);
                self.sequence(0, true, true);
            }
            4 => self.sequence(0, true, false),
            5 => self.sequence(0, false, false),
            6 => {
                self.sequence(0, true, false);
                self.settle(0);
                self.pause();
                self.sequence(0, false, true);
            }
            7 => {
                self.sequence(0, true, true);
                self.partly(0);
                self.cancel(0);
            }
            8 => {
                self.sequence(0, true, false);
                self.settle(0);
                self.sequence(0, false, false);
                self.cancel(0);
            }
            9 => {
                self.sequence(0, true, true);
                self.partly(0);
                self.cancel(0);
                self.sequence(1, true, true);
            }
            10 => {
                self.sequence(0, true, false);
                self.settle(0);
                self.sequence(1, false, true);
            }
            11 => {
                self.sequence(0, true, true);
                self.sequence(1, true, true);
            }
            12 | 13 => self.at_once(),
            _ => self.anything(),
        }
        for lane in 0..Lane::MAX {
            if self.is_open[usize::from(lane)] && (lane > 0 || self.random.random_bool(0.5)) {
                self.settle(lane);
                self.acts.push(Act::Close { lane: Lane(lane) });
            } else if self.is_open[usize::from(lane)] {
                self.settle(lane);
            }
        }
    }

    fn at_once(&mut self) {
        let lanes = self.random.random_range(2..=4);
        self.step(0, true, false);
        self.settle(0);
        for _ in 0..self.random.random_range(2..10) {
            let lane = self.random.random_range(0..lanes);
            self.step(lane, false, false);
        }
        if self.random.random_bool(0.8) {
            (0..lanes).for_each(|lane| self.settle(lane));
        }
        self.step(0, false, true);
    }

    fn anything(&mut self) {
        for _ in 0..self.random.random_range(1..12) {
            let lane = self.random.random_range(0..3);
            match self.random.random_range(0..12) {
                0 => self.settle(lane),
                1 => self.partly(lane),
                2 => self.pause(),
                3 => self.cancel(lane),
                4 => self.sequence(lane, true, true),
                _ => {
                    let (start, end) = (self.random.random_bool(0.25), self.random.random_bool(0.2));
                    self.step(lane, start, end);
                }
            }
        }
    }

    fn sequence(&mut self, lane: u8, start: bool, end: bool) {
        let length = self.random.random_range(1..5);
        for step in 0..length {
            self.step(lane, start && step == 0, end && step + 1 == length);
        }
    }

    fn step(&mut self, lane: u8, start: bool, end: bool) {
        if !std::mem::replace(&mut self.is_open[usize::from(lane)], true) && lane > 0 {
            self.acts.push(Act::Open { lane: Lane(lane), over: Connection::Fresh, by: None, within_us: None });
        }
        let value =
            if self.small_values { self.random.random_range(-2..3) } else { self.random.random::<i32>().into() };
        let special = match self.random.random_range(0..16) {
            0 => Some(Special::Flaw(Flaw::BatchOfTwo)),
            1 => Some(Special::TimeoutUs(self.random.random_range(1..IDLE_US))),
            _ => None,
        };
        let elements = NonZeroU16::MIN.saturating_add(self.random.random_range(0..3));
        let sequence = self.sequence;
        self.sequence += 1;
        self.acts.push(Act::Send {
            lane: Lane(lane),
            id: 0,
            sequence,
            step: 0,
            of: 1,
            start,
            end,
            value,
            elements,
            special,
        });
    }

    fn settle(&mut self, lane: u8) {
        self.acts.push(Act::Await { lane: Lane(lane), unanswered: 0 });
    }

    fn partly(&mut self, lane: u8) {
        let unanswered = self.random.random_range(0..4);
        self.acts.push(Act::Await { lane: Lane(lane), unanswered });
    }

    fn cancel(&mut self, lane: u8) {
        if std::mem::take(&mut self.is_open[usize::from(lane)]) {
            let lane = Lane(lane);
            let resets = self.random.random_bool(0.3);
            self.acts.push(if resets { Act::Reset { lane } } else { Act::Cancel { lane } });
        }
    }

    fn pause(&mut self) {
        let us = match self.random.random_range(0..10) {
            0 => STRAGGLING_US + self.random.random_range(0..IDLE_US),
            1..=4 => self.random.random_range(IDLE_US / 2..IDLE_US * 3 / 2),
            _ => self.random.random_range(0..IDLE_US / 4),
        };
        self.acts.push(Act::Pause { us });
    }
}
