//! What two results are compared by.

use super::read::Second;

/// In which direction a measure gets worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worse {
    /// More is worse, as of latencies.
    More,
    /// Less is worse, as of goodput.
    Less,
}

/// What a measure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// µs.
    Time,
    /// Responses in a second.
    Rate,
    /// Inferences of an execution.
    Batch,
    /// Percent of a core.
    Cpu,
    /// Bytes.
    Memory,
}

/// What is known of a measure.
struct Row {
    quantity: Quantity,
    /// None where neither direction is worse by itself.
    worse: Option<Worse>,
    /// Whether a user of the server feels it. Only such a measure makes a regression.
    is_felt: bool,
    /// The value of an interval; none where nothing was measured in it.
    of: fn(&Second) -> Option<f64>,
}

/// A latency, which a user of the server feels.
const fn latency(of: fn(&Second) -> Option<f64>) -> Row {
    Row { quantity: Quantity::Time, worse: Some(Worse::More), is_felt: true, of }
}

/// A figure of server or client that explains what a user feels.
const fn inside(quantity: Quantity, worse: Option<Worse>, of: fn(&Second) -> Option<f64>) -> Row {
    Row { quantity, worse, is_felt: false, of }
}

workload::table! {
    /// What two results are compared by.
    pub enum Measure: Row {
        /// Mean latency of steps
        StepMean = "step.mean", latency(|its| its.step_mean_us);
        /// Median latency of steps
        StepP50 = "step.p50", latency(|its| its.step_p50_us);
        /// 99th percentile of the latency of steps
        StepP99 = "step.p99", latency(|its| its.step_p99_us);
        /// Mean latency of sequences
        SequenceMean = "sequence.mean", latency(|its| its.sequence_mean_us);
        /// Median latency of sequences
        SequenceP50 = "sequence.p50", latency(|its| its.sequence_p50_us);
        /// 99th percentile of the latency of sequences
        SequenceP99 = "sequence.p99", latency(|its| its.sequence_p99_us);
        /// Mean wait for a slot
        WaitMean = "wait_for_slot.mean", latency(|its| its.wait_for_slot_mean_us);
        /// Median wait for a slot
        WaitP50 = "wait_for_slot.p50", latency(|its| its.wait_for_slot_p50_us);
        /// 99th percentile of the wait for a slot
        WaitP99 = "wait_for_slot.p99", latency(|its| its.wait_for_slot_p99_us);
        /// Good responses in a second
        Goodput = "goodput", Row { quantity: Quantity::Rate, worse: Some(Worse::Less), is_felt: true, of: |its| Some(its.good / its.lasts_s) };
        /// Responses in a second
        Throughput = "throughput", inside(Quantity::Rate, Some(Worse::Less), |its| Some(its.responses / its.lasts_s));
        /// How long a request waited in the server
        ServerQueue = "server_queue", inside(Quantity::Time, Some(Worse::More), |its| its.server_queue_us);
        /// How long the model computed for a request
        ServerCompute = "server_compute", inside(Quantity::Time, Some(Worse::More), |its| its.server_compute_us);
        /// Inferences of an execution
        MeanBatch = "mean_batch", inside(Quantity::Batch, None, |its| its.mean_batch);
        /// CPU time of the server
        ServerCpu = "server_cpu", inside(Quantity::Cpu, Some(Worse::More), |its| its.server_cpu_percent);
        /// Memory of the server
        ServerMemory = "server_memory", inside(Quantity::Memory, Some(Worse::More), |its| its.server_memory_bytes);
        /// CPU time of the client
        ClientCpu = "client_cpu", inside(Quantity::Cpu, Some(Worse::More), |its| its.client_cpu_percent);
        /// Memory of the client
        ClientMemory = "client_memory", inside(Quantity::Memory, Some(Worse::More), |its| its.client_memory_bytes);
    }
}

impl Measure {
    pub(crate) fn quantity(self) -> Quantity {
        self.row().quantity
    }

    /// In which direction it gets worse; none where neither is worse by itself.
    pub(super) fn worse(self) -> Option<Worse> {
        self.row().worse
    }

    /// Whether a user of the server feels it. Only such a measure makes a regression.
    pub(crate) fn is_felt(self) -> bool {
        self.row().is_felt
    }

    /// Whether its value in an interval depends on how long that is.
    pub(super) fn is_a_percentile(self) -> bool {
        self.name().contains(".p")
    }

    /// Whether a load that sends at a rate fixes it, whatever the server does.
    pub(super) fn is_fixed_by_a_rate(self) -> bool {
        self == Self::Throughput
    }

    /// The value of an interval; none where nothing was measured in it.
    pub(super) fn of(self, second: &Second) -> Option<f64> {
        (self.row().of)(second)
    }
}
