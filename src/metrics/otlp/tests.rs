use std::{num::NonZeroU64, sync::Mutex};

use super::*;
use crate::run::Progress;
use oracle::{Evidence, Place, Sent, Violation, ViolationKind};
use workload::{
    event::ContextId,
    sequence::{CorrelationId, RequestId},
};

/// Keeps the names of the spans that it is to send.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<String>>>);

impl ExportSpans for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().expect("nobody panics").extend(batch.into_iter().map(|span| span.name.into_owned()));
        Ok(())
    }
}

/// A violation of the worker's n-th sequence.
fn told(sequence: u32) -> Told {
    let context = ContextId { worker: 0, context: 0 };
    let place = Place::new(context, CorrelationId(NonZeroU64::MIN), None);
    let place = place.of_request(RequestId { worker: 0, context: 0, sequence, step: 0 });
    let evidence = Evidence::Silence { sent: Sent { requests: 1, answered: 0 }, seconds: 1 };
    let violation = Violation::at(place, ViolationKind::Hang, 1, evidence);
    Told { scenario: "test".to_owned(), violation, entries: Vec::new() }
}

#[test]
fn a_full_queue_is_sent_and_then_the_thread_ends() {
    let metrics = Metrics::default();
    metrics.begin("test", "model", "1");
    metrics.of("test", |run| run.progress(&Progress { elapsed: LOOK, ..Progress::default() }));
    let kept = Kept::default();
    let tracers = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
    let sender = Sender {
        metrics: metrics.clone(),
        histograms: HashMap::new(),
        sent: HashMap::new(),
        traces: Traces::new(tracers.tracer(PREFIX)),
    };
    let (sequences, waiting) = queue(&metrics);
    let more = u32::try_from(SEQUENCES_MAX).expect("few") + 1;
    let fitted = (0..more).filter(|sequence| sequences.try_send(told(*sequence)).is_ok()).count();
    assert_eq!(fitted, SEQUENCES_MAX);
    let (done, ended) = channel();
    let otlp = Otlp { metrics: metrics.clone(), sequences, ended };
    // The thread takes nothing from the full queue until the end was told.
    let is_over = Arc::downgrade(&otlp.sequences);
    let thread = thread::spawn(move || {
        while is_over.strong_count() > 0 {
            thread::yield_now();
        }
        sender.send_until_over(&waiting);
        done.send(()).expect("somebody waits");
    });
    otlp.finish();
    thread.join().expect("it ends");
    assert_eq!(metrics.take_note(), None);
    assert_eq!(*kept.0.lock().expect("nobody panics"), vec!["sequence"; SEQUENCES_MAX]);
}
