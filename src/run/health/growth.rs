//! The server's memory over the sequences of a run, and whether it grows with them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use oracle::{
    Evidence, Violation, ViolationKind,
    diagnosis::{Cause, Clue, Explanation},
};
use workload::event::Nanos;

/// The server's memory during a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerMemory {
    /// Bytes at the first look.
    pub first: u64,
    /// Bytes at the last look.
    pub last: u64,
    /// How it grew with the sequences; none where the run was too short to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
}

/// How memory grew over the last three quarters of the sequences of a run, or over the last half where it grows steadily only there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// By how many bytes.
    pub bytes: i64,
    /// Over how many sequences.
    pub sequences: u64,
    /// Bytes for each sequence.
    #[serde(default)]
    pub per_sequence: Slope,
    /// Bytes in an hour.
    #[serde(default)]
    pub per_hour: Slope,
    /// Whether it grew in each of their parts, no slower in the end than at the beginning, and by enough to be a leak.
    pub is_steady: bool,
}

/// How fast something grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slope {
    /// By so much: the straight line through the least values of all parts.
    pub mean: f64,
    /// With 95 % confidence no more than this above or below that, if the values are scattered about a straight line.
    pub margin: f64,
}

impl Slope {
    /// That of the line through so many points.
    #[expect(clippy::cast_precision_loss, reason = "few points")]
    fn through(points: [(f64, f64); Grown::PARTS]) -> Self {
        /// Student's t for 95 % on both sides, with the points less two as degrees of freedom.
        const T: f64 = 2.447;
        const { assert!(Grown::PARTS == 8) };
        let count = Grown::PARTS as f64;
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
        let spread = mean(&|point| (point.0 - x).powi(2)) * count;
        if spread <= 0.0 {
            return Self::default();
        }
        let slope = mean(&|point| (point.0 - x) * (point.1 - y)) * count / spread;
        let off = mean(&|point| (point.1 - y - slope * (point.0 - x)).powi(2)) * count;
        Self { mean: slope, margin: T * (off / (count - 2.0) / spread).sqrt() }
    }
}

/// A look at the memory.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Nanos,
    sequences: u64,
    bytes: u64,
    /// Requests without a response.
    unanswered: u64,
}

/// The looks at the memory. Of a long run each has the least of two looks, of four, and so on.
#[derive(Clone, Debug, Default)]
pub(super) struct Grown {
    points: Vec<Point>,
    /// How many looks a point has is this power of two.
    thinned: u32,
    looks: u64,
    first: Option<Point>,
    last: Option<Point>,
}

impl Grown {
    const POINTS_MAX: usize = 512;
    /// Parts of the sequences. In a part the least counts: what is there when the fewest requests are unanswered.
    const PARTS: usize = 8;
    /// Looks that a part needs at least.
    const LOOKS: usize = 5;
    /// The shortest time that says something: allocators and caches need a while.
    const LEAST: Nanos = 60_000_000_000;
    /// Growth that is a leak, in bytes in all and for each sequence.
    const LEAK: i64 = 16 << 20;
    const LEAK_PER_SEQUENCE: u64 = 48;

    pub(super) fn add(&mut self, at: Nanos, (sequences, unanswered): (u64, u64), bytes: u64) {
        let point = Point { at, sequences, bytes, unanswered };
        (self.first, self.last) = (self.first.or(Some(point)), Some(point));
        if self.looks.is_multiple_of(1 << self.thinned) {
            if self.points.len() == Self::POINTS_MAX {
                let least = |two: &[Point]| two.iter().copied().min_by_key(|point| point.bytes).expect("one at least");
                self.points = self.points.chunks(2).map(least).collect();
                self.thinned += 1;
            }
            self.points.push(point);
        } else if let Some(latest) = self.points.last_mut().filter(|latest| bytes <= latest.bytes) {
            // The least of what comes and goes is found whenever it is looked for.
            *latest = point;
        }
        self.looks += 1;
    }

    /// What the looks say; none without any.
    pub(super) fn judged(&self) -> Option<ServerMemory> {
        Some(ServerMemory { first: self.first?.bytes, last: self.last?.bytes, growth: self.growth() })
    }

    /// That of the last three quarters of the sequences; where it is steady only in the last half, that of the half: a leak may begin late.
    fn growth(&self) -> Option<Growth> {
        let (first, last) = (self.first?.sequences, self.last?.sequences);
        let from = |eighths: u64| first + (last - first) * eighths / 8;
        let three_quarters = Parts::of(&self.points, from(2), last)?;
        let whole = three_quarters.growth();
        if whole.is_steady {
            return Some(whole);
        }
        let late = Parts::of(&self.points, from(4), last).map(|half| (half.growth(), half.first_low()));
        let begins_late = |(late, its_first): &(Growth, i64)| {
            // In sixty-fourths of all sequences, the middles of the first parts are 15 apart, and those of the half's first and last part 28.
            let before = its_first - three_quarters.first_low();
            let is_faster = i128::from(before) * 28 <= i128::from(late.bytes) * 15;
            // A cache that is emptied now and then looks like a leak while it fills.
            late.is_steady && is_faster && self.fell_before(from(4)) < late.bytes / 2
        };
        Some(late.filter(begins_late).map_or(whole, |(late, _)| late))
    }

    /// By how much it ever fell until so many sequences had begun.
    fn fell_before(&self, sequences: u64) -> i64 {
        let before: Vec<_> = self.points.iter().filter(|point| point.sequences < sequences).collect();
        // Of some looks together the least counts here, too.
        let lows = before.chunks(before.len().div_ceil(Self::PARTS).max(1));
        let lows = lows.filter_map(|looks| looks.iter().map(|point| point.bytes.cast_signed()).min());
        let (mut most, mut fell) = (i64::MIN, 0);
        for low in lows {
            most = most.max(low);
            fell = fell.max(most - low);
        }
        fell
    }
}

/// The sequences of some time, cut into parts with equally many.
struct Parts {
    /// The look of each part with the least memory.
    lows: [Point; Grown::PARTS],
    /// How many sequences there are from the first part to the last one.
    sequences: u64,
}

impl Parts {
    /// None where there are too few sequences, too few looks, or too little time.
    fn of(points: &[Point], begin: u64, end: u64) -> Option<Self> {
        let judged: Vec<_> = points.iter().filter(|point| point.sequences >= begin).copied().collect();
        let lasts = judged.last()?.at - judged.first()?.at;
        let (sequences, parts) = (end - begin, Grown::PARTS as u64);
        if lasts < Grown::LEAST || sequences < parts {
            return None;
        }
        let part = |point: &Point| (point.sequences - begin) * parts / (sequences + 1);
        let mut lows = Vec::new();
        for number in 0..parts {
            let looks = || judged.iter().filter(|point| part(point) == number);
            if looks().count() < Grown::LOOKS {
                return None;
            }
            lows.push(*looks().min_by_key(|point| point.bytes)?);
        }
        // The last part is as far behind the first as seven of the eight parts are long.
        Some(Self { lows: lows.try_into().ok()?, sequences: sequences * (parts - 1) / parts })
    }

    /// The least bytes of the first part.
    fn first_low(&self) -> i64 {
        self.lows[0].bytes.cast_signed()
    }

    /// Whether unanswered requests became more and more: each takes memory, and that of a server that cannot keep up grows with them.
    fn has_a_growing_backlog(&self) -> bool {
        const FEW: u64 = 100;
        let [first, .., last] = self.lows;
        last.unanswered > first.unanswered.saturating_mul(2).saturating_add(FEW)
    }

    #[expect(clippy::cast_precision_loss, reason = "a slope")]
    fn growth(&self) -> Growth {
        let Self { lows, sequences } = self;
        let bytes = lows.map(|low| low.bytes.cast_signed());
        let hours = |at: Nanos| at as f64 / 3.6e12;
        Growth {
            bytes: bytes[Grown::PARTS - 1] - bytes[0],
            sequences: *sequences,
            per_sequence: Slope::through(lows.map(|low| (low.sequences as f64, low.bytes as f64))),
            per_hour: Slope::through(lows.map(|low| (hours(low.at), low.bytes as f64))),
            is_steady: is_steady(bytes, *sequences) && !self.has_a_growing_backlog(),
        }
    }
}

/// Whether the least values of the parts are those of a leak. They rise from each part to the next by at least a third of what is usual, and
/// in the last three steps by at least four fifths of what they rose by in the first three: a cache that fills, and an allocator that
/// warms up, grow slower and slower.
fn is_steady(lows: [i64; Grown::PARTS], sequences: u64) -> bool {
    let [first, .., last] = lows;
    let bytes = last - first;
    let usual = bytes / (Grown::PARTS.cast_signed() as i64 - 1);
    let in_each = lows.windows(2).all(|two| two[1] - two[0] >= usual / 3);
    let (early, late) = (lows[3] - first, last - lows[Grown::PARTS - 4]);
    let per_sequence = sequences.saturating_mul(Grown::LEAK_PER_SEQUENCE).cast_signed();
    bytes >= Grown::LEAK.max(per_sequence) && in_each && late >= early / 5 * 4
}

impl ServerMemory {
    pub(super) fn violation(&self, at_ns: Nanos) -> Option<Violation> {
        let Growth { bytes, sequences, per_hour, .. } = self.growth.filter(|growth| growth.is_steady)?;
        #[expect(clippy::cast_possible_truncation, reason = "it is cut to the widest number")]
        let bytes_per_hour = per_hour.mean.round() as i64;
        let evidence = Evidence::Growth { bytes, sequences, bytes_per_hour };
        Some(Violation {
            explanations: vec![Explanation::new(Cause::MemoryLeak, [Clue::Seen, Clue::SteadyGrowth])],
            ..Violation::of_the_run(ViolationKind::MemoryGrowth, at_ns, evidence)
        })
    }
}
