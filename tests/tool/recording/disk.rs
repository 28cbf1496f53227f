//! Files that are slow or full.

use std::{
    io::{self, Write},
    sync::mpsc,
};

use super::{LIMIT, Memory, Proxied, send, tracks};
use crate::support::runs::server_with;
use wire::recording::{MEMORY_MAX, Recorder};
use workload::inputs::recording::read;

/// A file that takes nothing until it is told to, and then everything.
struct Stuck(mpsc::Receiver<()>, Memory);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.1.text().contains('\n') {
            // Told so once, it gets an error from then on.
            let _ = self.0.recv();
        }
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_disk_does_not_stop_the_traffic_and_what_is_lost_is_counted() {
    const STEPS: i32 = 60;
    let server = server_with(None);
    let (go, wait) = mpsc::channel();
    let memory = Memory::default();
    let slow = Recorder::start(Stuck(wait, memory.clone()), Vec::new(), 8 << 10, |_| ()).expect("memory");
    let proxied = Proxied::start([server.address, server.http], slow);
    for element in 1..=STEPS {
        send(proxied.http, element, element == 1, false);
    }
    drop(go);
    let summary = proxied.finish();
    let lost = summary.left_out.get("the file was written too slowly").copied().expect("some are lost");
    assert!(summary.requests > 5 && lost > 5, "{summary:?}");
    assert_eq!(summary.requests + lost, u64::from(STEPS.unsigned_abs()));
    let recording = read(&memory.text()).expect("a recording");
    assert_eq!(recording.lost, lost);
    // What came before the gap is a track without END.
    let recorded = recording.into_model(None).expect("one model");
    let kept = tracks(&recorded).concat();
    assert_eq!(kept, (1..=STEPS).take(kept.len()).collect::<Vec<_>>());
    assert_eq!(recorded.without_end, 1);
    assert_eq!(kept.len() as u64 + recorded.without_start, summary.requests);
}

/// A file that is full after its first line.
struct FullFile(bool);

impl Write for FullFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 = bytes.contains(&b'\n');
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_at_once_and_calls_still_pass() {
    let server = server_with(None);
    let (tell, told) = mpsc::channel();
    let failed = move |error: &io::Error| tell.send(error.kind()).expect("a test that waits");
    let recorder = Recorder::start(FullFile(false), Vec::new(), MEMORY_MAX, failed).expect("the first line");
    let proxied = Proxied::start([server.address, server.http], recorder);
    send(proxied.http, 1, true, false);
    assert_eq!(told.recv_timeout(LIMIT), Ok(io::ErrorKind::StorageFull));
    send(proxied.http, 2, false, false);
    send(proxied.http, 3, false, true);
    let (summary, error) = proxied.recorder.finish().expect_err("it is full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(summary.left_out.get("the file was written too slowly"), Some(&2), "{summary:?}");
}
