//! Requests that are publicly known to have ended real servers, and requests like them that a seed draws.
//!
//! Each is sent over HTTP, as bytes. A correct server rejects it, or executes it as a sequence of one step that harms no other.

mod bytes;

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout_at},
};

use workload::{number::Datatype, seed::Seed, sequence::WireId};

/// How long lies between two pieces of a request.
const BETWEEN_PIECES: Duration = Duration::from_millis(20);
/// How much of an answer is read.
const ANSWER_BYTES_MAX: usize = 4096;

workload::table! {
    /// A kind of request that a server has to survive.
    pub enum Hostile: Row {
        /// The JSON claims more elements than any memory holds.
        JsonShape = "json-shape", Row("CWE-789", "server#8676", bytes::json_shape);
        /// The length of the JSON is no number that fits.
        HeaderLength = "header-length", Row("CWE-248", "server#8925", bytes::header_length);
        /// A parameter has a name that the server keeps for itself, or a value of another type.
        ReservedParameter = "reserved-parameter", Row("CWE-20", "server#8763", bytes::reserved_parameter);
        /// The body comes in very many chunks.
        ManyChunks = "many-chunks", Row("CWE-770", "server#8770", bytes::many_chunks);
        /// An output is asked for several times.
        OutputTwice = "output-twice", Row("CWE-694", "core#493", bytes::output_twice);
        /// The path comes in several pieces.
        PathInPieces = "path-in-pieces", Row("CWE-125", "docs/FINDINGS.md", bytes::path_in_pieces);
        /// The input has no element.
        NoElements = "no-elements", Row("CWE-476", "docs/FINDINGS.md", bytes::no_elements);
        /// The correlation ID has another type than the model's.
        IdOfOtherType = "id-of-other-type", Row("CWE-843", "core#425", bytes::id_of_other_type);
        /// The input has other bytes than its shape needs.
        OtherSize = "other-size", Row("CWE-130", "core#350", bytes::other_size);
    }
}

/// Its class, where it was published, and what makes one.
struct Row(&'static str, &'static str, fn(&Aim, &mut Draw) -> Pieces);

/// What is written to a connection, with a pause between each two.
type Pieces = Vec<Vec<u8>>;

/// What a request is about. Each request is a sequence of its own of one step, so that it leaves no slot taken.
#[derive(Clone, Debug)]
pub struct Aim {
    /// `HOST:PORT`, where HTTP is spoken.
    pub address: String,
    /// The model as paths have it, with its version where one is meant.
    pub model: String,
    /// Its input.
    pub input: String,
    /// The input's type.
    pub datatype: Datatype,
    /// A shape that the input may have.
    pub shape: Vec<i64>,
    /// Its output.
    pub output: String,
    /// A correlation ID that nobody else uses, as the model takes it.
    pub id: WireId,
}

/// What decides which request of its kind it is.
struct Draw {
    /// Whether it is the one that was published.
    is_known: bool,
    generator: ChaCha8Rng,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// An answer with this status of HTTP.
    Status(u16),
    /// The connection ended without an answer.
    Ended,
    /// Nothing within the time limit.
    Nothing,
}

impl Hostile {
    /// The class of the weakness that such a request is about.
    pub fn class(self) -> &'static str {
        self.row().0
    }

    /// The issue or the page in which such a request was published.
    pub fn published(self) -> &'static str {
        self.row().1
    }

    /// The bytes of a request: number 0 is like the published one, and a seed draws those with other numbers.
    pub fn pieces(self, aim: &Aim, seed: Seed, number: u32) -> Vec<Vec<u8>> {
        let generator = seed.of_hostile(self as u32, number);
        self.row().2(aim, &mut Draw { is_known: number == 0, generator })
    }
}

/// Sends a request over a connection of its own, and waits for the beginning of its answer until the time limit has passed.
///
/// # Errors
/// When no connection can be made.
pub async fn send(address: &str, pieces: &[Vec<u8>], limit: Duration) -> Result<Came, std::io::Error> {
    let deadline = Instant::now() + limit;
    let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
    let mut stream = timeout_at(deadline, TcpStream::connect(address)).await.map_err(late)??;
    // Else pieces are put together on their way.
    stream.set_nodelay(true)?;
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            tokio::time::sleep(BETWEEN_PIECES).await;
        }
        match timeout_at(deadline, stream.write_all(piece)).await {
            Ok(Ok(())) => {}
            // What was answered before may be there.
            Ok(Err(_)) => break,
            Err(_) => return Ok(Came::Nothing),
        }
    }
    let mut answer = Vec::new();
    let mut buffer = [0; 512];
    loop {
        match timeout_at(deadline, stream.read(&mut buffer)).await {
            Ok(Ok(0) | Err(_)) => return Ok(status(&answer).map_or(Came::Ended, Came::Status)),
            Ok(Ok(read)) => answer.extend_from_slice(&buffer[..read]),
            Err(_) => return Ok(status(&answer).map_or(Came::Nothing, Came::Status)),
        }
        if let Some(status) = status(&answer) {
            return Ok(Came::Status(status));
        }
        if answer.len() > ANSWER_BYTES_MAX {
            return Ok(Came::Ended);
        }
    }
}

/// The status in the first line of an answer, when that is there.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next().filter(|line| line.len() < answer.len())?;
    let line = std::str::from_utf8(line).ok()?;
    line.strip_prefix("HTTP/1.")?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests;
