//! What ranks say to each other: frames over a connection between rank 0 and each of the others.

use std::{io, path::PathBuf, time::Duration};

use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use socket2::SockRef;
use tokio::{
    io::AsyncWriteExt as _,
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::{
    bytes::{Bytes, BytesMut},
    codec::{Encoder as _, FramedRead, LengthDelimitedCodec},
    task::AbortOnDropHandle,
};

use super::Moment;
use crate::{
    preflight::{Hints, Preflight},
    recorder::{Batch, Second, Tally},
    run::{Part, Progress},
};
use workload::{model::Turn, scenario::Scenario, seed::Seed, share::Share};

/// The version of what is said. Only ranks of the same version understand each other.
pub(super) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");
/// The longest frame of rank 0: golden outputs can be long.
const OF_LEADER_MAX: usize = 256 << 20;
/// The longest frame of another rank.
const OF_MEMBER_MAX: usize = 64 << 20;
/// The longest frame of somebody who has not said who it is.
const OF_STRANGER_MAX: usize = 64 << 10;
/// Who says nothing for so long is lost.
pub(crate) const SILENCE: Duration = Duration::from_secs(8);
/// How long it takes to read what came already.
const ALREADY_THERE: Duration = Duration::from_millis(500);
/// How much of a frame has to be taken within [`SILENCE`], and how much of what is sent the system keeps: a slow link is no silent one.
const PIECE: usize = 16 << 10;
const KEPT_BY_SYSTEM: usize = 256 << 10;
/// How many frames may wait to be sent. Whoever has more waits.
const FRAMES: usize = 64;
/// What a frame begins with.
const IN_JSON: u8 = b'{';
const A_BATCH: u8 = b'B';

/// Who a process is that comes to rank 0.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(super) version: String,
    /// What rank 0 told of itself where only its own ranks see it.
    pub(super) token: String,
    pub(super) share: Share,
    pub(super) host: Option<String>,
    /// Which clock it goes by.
    pub(super) clock: Option<String>,
}

/// What a run is called, and how to have it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    /// The run's own name: no other run has it.
    pub run_id: String,
    /// How often these ranks were started before.
    pub attempt: u32,
    /// When the ranks met, in ms since 1970 by the clock of rank 0, and how many runs they had held before this one.
    pub order: (u64, u32),
    /// The scenario's name.
    pub scenario_name: String,
    /// The command line that sends the same again.
    pub replay: String,
}

/// A run that ranks are to carry out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub(crate) about: About,
    pub(crate) scenario: Scenario,
    pub(crate) seed: Seed,
    pub(crate) hints: Hints,
    pub(crate) fail_fast: bool,
    pub(crate) pace: Option<f64>,
    /// What rank 0 found out before.
    pub(crate) preflight: Preflight,
    /// What of its model is in no file: how long a step may wait for its turn.
    pub(crate) turn: Turn,
    /// The golden file, where the model has no formula.
    pub(crate) golden: Option<String>,
    /// Where each rank writes what it measured.
    pub(crate) results: PathBuf,
}

/// What rank 0 says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(crate) enum FromLeader {
    /// The process cannot take part.
    Refused { why: String },
    /// It takes part.
    Welcome,
    /// What time is it?
    Ping,
    /// Make everything ready for this run.
    Run(Box<Order>),
    /// Begin; the run's time counts from this moment of the rank's clock.
    Start { zero: Moment },
    /// Begin no more iterations.
    Stop,
    /// Wait for no more responses.
    Abort,
    /// There are no more runs. Whether the last one was whole.
    Done { is_whole: bool },
}

/// What another rank says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(crate) enum FromMember {
    Hello(Hello),
    /// It is this time.
    Pong {
        now: Moment,
    },
    /// All connections of the run stand.
    Ready,
    /// The first request could go out at this moment of the run.
    Began {
        at_ns: u64,
    },
    /// How far it is.
    Progress(Box<Progress>),
    /// What was counted so far.
    Counted(Box<Tally>),
    Seconds {
        seconds: Vec<Second>,
    },
    /// The server answers this rank no more.
    ServerGone {
        why: String,
    },
    Interrupted,
    /// The run is over for this rank.
    Ended(Box<Part>),
    /// The rank cannot carry out the run.
    Failed {
        why: String,
    },
}

/// A message, or what threads saw.
#[derive(Debug)]
pub(crate) enum Envelope {
    Said(FromMember),
    Batch(Batch),
}

/// Whoever puts something here has it sent.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(mpsc::Sender<Bytes>);

impl Outbox {
    /// Sends a message. If nobody is there any more, the reader of the connection says so.
    pub(crate) async fn say(&self, message: &impl Serialize) {
        self.send(encoded(message)).await;
    }

    /// Sends a message that is encoded already.
    pub(super) async fn send(&self, message: Bytes) {
        let _ = self.0.send(message).await;
    }

    /// Sends a message without waiting. Whether there was room for it.
    pub(crate) fn try_say(&self, message: &impl Serialize) -> bool {
        self.0.try_send(encoded(message)).is_ok()
    }

    /// Whether nobody sends what is put here any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Sends a batch from a thread without a runtime, and waits for room. False where nobody is there any more.
    pub(crate) fn send_batch(&self, batch: &Batch) -> bool {
        let mut bytes = vec![A_BATCH];
        bytes.append(&mut batch.write());
        self.0.blocking_send(bytes.into()).is_ok()
    }
}

pub(super) fn encoded(message: &impl Serialize) -> Bytes {
    serde_json::to_vec(message).expect("its keys are texts").into()
}

fn codec(longest: usize) -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(longest).new_codec()
}

/// The incoming half of a connection.
pub(super) struct Inbox {
    frames: FramedRead<OwnedReadHalf, LengthDelimitedCodec>,
    /// When the last frame came. Whoever waits may be interrupted, and wait again.
    heard_at: Instant,
}

impl Inbox {
    async fn frame(&mut self, limit: Duration) -> Result<BytesMut, String> {
        let read = match timeout_at(self.heard_at + limit, self.frames.next()).await {
            // If it was this process that stood still, what the other one said meanwhile is there.
            Err(_) => timeout(ALREADY_THERE, self.frames.next()).await,
            read => read,
        };
        match read {
            Ok(Some(Ok(frame))) => {
                self.heard_at = Instant::now();
                Ok(frame)
            }
            Ok(Some(Err(error))) => Err(format!("its connection broke: {error}")),
            Ok(None) => Err("its connection ended".to_owned()),
            Err(_) => Err(format!("it said nothing for {} s", limit.as_secs())),
        }
    }

    /// The other end is a rank of this run.
    pub(super) fn trust(&mut self) {
        self.frames.decoder_mut().set_max_frame_length(OF_MEMBER_MAX);
    }

    /// The next message.
    pub(super) async fn message<M: DeserializeOwned>(&mut self, limit: Duration) -> Result<M, String> {
        let frame = self.frame(limit).await?;
        serde_json::from_slice(&frame).map_err(|error| format!("it said what nobody understands: {error}"))
    }

    /// The next message of a rank, or what its threads saw.
    pub(super) async fn envelope(&mut self, limit: Duration) -> Result<Envelope, String> {
        let frame = self.frame(limit).await?;
        let unreadable = |error: String| format!("it said what nobody understands: {error}");
        match frame.split_first() {
            Some((&A_BATCH, batch)) => Batch::read(batch).map(Envelope::Batch).map_err(unreadable),
            Some((&IN_JSON, _)) => {
                serde_json::from_slice(&frame).map(Envelope::Said).map_err(|error| unreadable(error.to_string()))
            }
            _ => Err(unreadable("an unknown frame".to_owned())),
        }
    }
}

/// The two halves of a connection to a stranger, and the task that sends. It ends when all outboxes are gone and everything is sent.
pub(super) fn opened(connection: TcpStream) -> io::Result<(Inbox, Outbox, JoinHandle<()>)> {
    halves(connection, OF_STRANGER_MAX)
}

fn halves(connection: TcpStream, longest: usize) -> io::Result<(Inbox, Outbox, JoinHandle<()>)> {
    connection.set_nodelay(true)?;
    SockRef::from(&connection).set_send_buffer_size(KEPT_BY_SYSTEM)?;
    let (read, write) = connection.into_split();
    let (sender, receiver) = mpsc::channel(FRAMES);
    let sending = tokio::spawn(send_all(write, receiver));
    Ok((Inbox { frames: FramedRead::new(read, codec(longest)), heard_at: Instant::now() }, Outbox(sender), sending))
}

async fn send_all(mut writer: OwnedWriteHalf, mut frames: mpsc::Receiver<Bytes>) {
    let mut codec = codec(OF_LEADER_MAX);
    while let Some(frame) = frames.recv().await {
        // Few frames are long, and none of them leaves its room to the next ones.
        let mut bytes = BytesMut::new();
        if codec.encode(frame, &mut bytes).is_err() {
            return;
        }
        for piece in bytes.chunks(PIECE) {
            // Who takes nothing for so long is lost, which the reader says.
            if !matches!(timeout(SILENCE, writer.write_all(piece)).await, Ok(Ok(()))) {
                return;
            }
        }
    }
}

/// How many messages of rank 0 may wait for the rank.
const MESSAGES: usize = 16;

/// The connection of a rank to rank 0.
pub struct Leader {
    /// What rank 0 says, but for questions for the time: these are answered whatever else the rank does.
    said: mpsc::Receiver<Result<FromLeader, String>>,
    outbox: Outbox,
    reading: AbortOnDropHandle<()>,
    sending: JoinHandle<()>,
    /// Which part of each run is this rank's.
    pub(crate) share: Share,
}

impl std::fmt::Debug for Leader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leader").field("share", &self.share).finish_non_exhaustive()
    }
}

impl Leader {
    pub(super) fn over(connection: TcpStream, share: Share) -> io::Result<Self> {
        let (mut inbox, outbox, sending) = halves(connection, OF_LEADER_MAX)?;
        let (sender, said) = mpsc::channel(MESSAGES);
        let answers = outbox.clone();
        let reading = tokio::spawn(async move {
            loop {
                let message = inbox.message(SILENCE).await;
                if let Ok(FromLeader::Ping) = message {
                    answers.say(&FromMember::Pong { now: Moment::now() }).await;
                    continue;
                }
                let is_gone = message.is_err();
                if sender.send(message).await.is_err() || is_gone {
                    return;
                }
            }
        });
        Ok(Self { said, outbox, reading: AbortOnDropHandle::new(reading), sending, share })
    }

    pub(crate) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// What rank 0 says next.
    ///
    /// # Errors
    /// When rank 0 is gone.
    pub(crate) async fn next(&mut self) -> Result<FromLeader, String> {
        self.said.recv().await.unwrap_or_else(|| Err("its connection ended".to_owned()))
    }

    /// Sends what is still to be sent.
    pub(crate) async fn finish(self) {
        let Self { outbox, reading, sending, .. } = self;
        // What reads answers questions for the time, and so would have the other task wait for more.
        drop((reading, outbox));
        let _ = timeout(SILENCE, sending).await;
    }
}
