//! Recording what clients send to a server, from copies of their connections' bytes.
//!
//! The bytes themselves go their way unchanged and do not wait: a [`Tap`] only looks for the bounds of messages and bodies. Complete ones
//! go to a thread that reads them, and writes requests of sequences as [`workload::inputs::recording`] has them. Whatever is under way has a
//! bound in bytes. Beyond that bound requests are counted and not recorded.
//!
//! The frames with gRPC's headers are skipped unread, and so are all headers of HTTP/1.1 that do not say how a body is read. So no
//! header can get into a recording.

mod budget;
mod frames;
mod http1;
mod inference;
mod json;
mod message;
mod numbers;
mod tap;
mod writer;

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use self::{
    budget::{Budget, Held},
    writer::Writer,
};
pub use self::{tap::Tap, writer::Summary};
use workload::inputs::recording::Header;

/// The most bytes that requests have together while they come and wait to be written.
pub const MEMORY_MAX: usize = 256 << 20;
/// The most bytes of a request, compressed or not.
const REQUEST_MAX: usize = 64 << 20;

/// Records what clients send.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<Summary, (Summary, io::Error)>>,
}

/// What taps have in common.
#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    budget: Arc<Budget>,
    connections: AtomicU64,
    /// Connections that could not be read to their end.
    unreadable: AtomicU64,
}

#[derive(Debug)]
struct Queue {
    sender: mpsc::Sender<Item>,
    /// Requests that were not recorded since the last one that was queued.
    lost: Losses,
    /// Since when nothing is written any more.
    is_over: bool,
}

/// How many requests were not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Losses {
    /// Because there was no room.
    no_room: u64,
    /// Because they are too large.
    too_large: u64,
}

/// Why a request is not recorded although nothing is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    NoRoom,
    TooLarge,
}

#[derive(Debug)]
enum Item {
    Came(Came),
    End(Losses),
}

/// A request as it came.
#[derive(Debug)]
struct Came {
    at: Instant,
    connection: u64,
    stream: u32,
    form: Form,
    bytes: Held,
    /// What was not recorded just before it.
    lost: Losses,
}

/// What a request's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// A message of gRPC.
    Message { is_compressed: bool },
    /// A body of HTTP for this model, with so many bytes of JSON at its beginning where others follow.
    Body { model: String, json: Option<usize>, is_compressed: bool },
}

impl Recorder {
    /// Begins a recording: writes its header, and then whatever the taps hear of, of these models or of all where none is named. At most
    /// `memory` bytes wait to be written. `failed` is called where nothing can be written any more; the taps go on and count.
    ///
    /// # Errors
    /// When the header cannot be written, or there is no thread to be had.
    pub fn start(
        mut out: impl Write + Send + 'static,
        models: Vec<String>,
        memory: usize,
        failed: impl FnOnce(&io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        let only = (models.len() == 1).then(|| models[0].clone());
        serde_json::to_writer(&mut out, &Header::new(only)).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()?;
        let (sender, receiver) = mpsc::channel();
        let queue = Queue { sender, lost: Losses::default(), is_over: false };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            budget: Arc::new(Budget::new(memory)),
            connections: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
        });
        let writer = Writer::new(out, models, Instant::now());
        let thread =
            thread::Builder::new().name("recorder".to_owned()).spawn(move || writer.write_all(&receiver, failed))?;
        Ok(Self { shared, thread })
    }

    /// What reads a copy of one connection.
    pub fn tap(&self) -> Tap {
        Tap::new(Arc::clone(&self.shared))
    }

    /// What makes taps, also when the recorder is elsewhere.
    pub fn taps(&self) -> impl Fn() -> Tap + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || Tap::new(Arc::clone(&shared))
    }

    /// Ends the recording when all that came so far is written.
    ///
    /// # Errors
    /// When not all could be written. The summary counts what the file lacks, too.
    pub fn finish(self) -> Result<Summary, (Summary, io::Error)> {
        {
            let mut queue = lock(&self.shared.queue);
            queue.is_over = true;
            let lost = std::mem::take(&mut queue.lost);
            let _ = queue.sender.send(Item::End(lost));
        }
        let unreadable_connections = self.shared.unreadable.load(Relaxed);
        let told = |summary: Summary| Summary { unreadable_connections, ..summary };
        match self.thread.join() {
            Ok(Ok(summary)) => Ok(told(summary)),
            Ok(Err((summary, error))) => Err((told(summary), error)),
            Err(_) => Err((told(Summary::default()), io::Error::other("the thread that writes the recording ended"))),
        }
    }
}

impl Shared {
    /// Queues a request, unless the recording is over.
    fn came(&self, connection: u64, stream: u32, form: Form, bytes: Held) {
        let mut queue = lock(&self.queue);
        if queue.is_over {
            return;
        }
        let lost = std::mem::take(&mut queue.lost);
        let came = Came { at: Instant::now(), connection, stream, form, bytes, lost };
        // The thread takes all that comes, unless it panicked, which `finish` reports.
        let _ = queue.sender.send(Item::Came(came));
    }

    fn lose(&self, loss: Loss) {
        let mut queue = lock(&self.queue);
        if !queue.is_over {
            match loss {
                Loss::NoRoom => queue.lost.no_room += 1,
                Loss::TooLarge => queue.lost.too_large += 1,
            }
        }
    }
}

impl Losses {
    fn sum(self) -> u64 {
        self.no_room + self.too_large
    }
}

/// Locks what stays whole wherever a thread panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
