//! The other ranks, as rank 0 sees them.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    path::PathBuf,
    sync::{
        Arc, Mutex as Locked,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Mutex, Semaphore, mpsc},
    time::{Instant, interval, sleep_until, timeout},
};

use super::{
    Envelope, FromLeader, FromMember, Moment, Offset, Outbox, Place, RankError, RankFile, SILENCE, clock,
    link::{About, Hello, Inbox, VERSION, encoded, opened},
};

/// How long a process has to say who it is.
const GREETING: Duration = Duration::from_secs(5);
/// How long those are waited for that are told to leave.
const LEAVING: Duration = Duration::from_secs(1);
/// How many processes may say so at a time.
const GREETINGS: usize = 256;
/// How often each rank is asked for the time before the first run: the quickest answer counts.
const QUESTIONS: usize = 16;
/// How often a rank hears something, so that it knows that rank 0 is there.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How many messages of all ranks wait. Whoever has more waits, and then loses entries.
const MESSAGES: usize = 256;
/// How many missing ranks are named.
const NAMED: usize = 5;

/// Another rank.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) rank: u32,
    pub(crate) host: Option<String>,
    pub(crate) offset: Offset,
    outbox: Outbox,
}

/// What comes of another rank.
#[derive(Debug)]
pub(crate) enum Said {
    Message(FromMember),
    Batch(crate::recorder::Batch),
    /// It is gone, for this reason; nothing more comes.
    Lost(String),
}

/// The other ranks, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct Members(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    members: Vec<Member>,
    said: Mutex<mpsc::Receiver<(usize, Said)>>,
    /// Has the place of one of them for each time that it was interrupted.
    interrupts: Mutex<mpsc::Receiver<usize>>,
    /// Those that are gone, with the reason.
    lost: Locked<BTreeMap<usize, String>>,
}

/// The other ranks, and what all of them are told of each run.
#[derive(Clone, Debug)]
pub struct Lead {
    /// The other ranks.
    pub members: Members,
    /// What the run is called.
    pub about: About,
    /// The folder in which each rank writes what it measured.
    pub results: PathBuf,
    /// How many runs these ranks have begun.
    pub begun: Arc<AtomicU32>,
}

impl Lead {
    /// The ranks begin a run. Their first one takes the place of what earlier ranks left in the folder.
    ///
    /// # Errors
    /// When that cannot be removed, in one line.
    pub(crate) fn begin(&self) -> Result<(), String> {
        if self.begun.fetch_add(1, Relaxed) > 0 {
            return Ok(());
        }
        RankFile::remove_all(&self.results)
            .map_err(|error| format!("cannot remove earlier files of ranks in {}: {error}", self.results.display()))
    }
}

/// A process that was taken in.
struct Taken {
    member: Member,
    inbox: Inbox,
}

impl Members {
    /// Waits for all other ranks.
    pub(super) async fn gather(
        place: &Place,
        listener: TcpListener,
        token: String,
        deadline: Instant,
        limit: Duration,
    ) -> Result<Self, RankError> {
        let of = place.share.of;
        let token: Arc<str> = token.into();
        let (sender, mut arriving) = mpsc::channel(16);
        let door = tokio::spawn(open_door(listener, Arc::clone(&token), of, sender));
        let (said, mut received) = mpsc::channel(MESSAGES);
        let (interrupted, mut interrupts) = mpsc::channel(MESSAGES);
        let mut all: BTreeMap<u32, Member> = BTreeMap::new();
        while all.len() + 1 < of.get() as usize {
            tokio::select! {
                Some(Taken { member, inbox }) = arriving.recv() => {
                    let rank = member.rank;
                    if all.contains_key(&rank) {
                        let why = format!("there is a rank {rank} already: number the ranks from 0 on, each once");
                        member.say(&FromLeader::Refused { why }).await;
                        continue;
                    }
                    tokio::spawn(listen(place_of(rank), inbox, said.clone(), interrupted.clone()));
                    all.insert(rank, member);
                }
                // One that is started again takes the place of its predecessor.
                Some((index, Said::Lost(_))) = received.recv() => all.retain(|rank, _| place_of(*rank) != index),
                () = sleep_until(deadline) => {
                    door.abort();
                    let why = missing(of, &all, limit);
                    send_away(all, &mut received, &why).await;
                    return Err(RankError::CouldNotMeet(why));
                }
                Some(index) = interrupts.recv() => {
                    door.abort();
                    let why = format!("rank {} was interrupted before all ranks had come; nothing was sent", index + 1);
                    send_away(all, &mut received, &why).await;
                    return Err(RankError::Refused(why));
                }
            }
        }
        // Whoever comes from now on is told that it is too late.
        drop(arriving);
        let members = all.into_values().collect();
        let (said, interrupts) = (Mutex::new(received), Mutex::new(interrupts));
        Ok(Self(Arc::new(Inner { members, said, interrupts, lost: Locked::default() })))
    }

    pub(crate) fn all(&self) -> &[Member] {
        &self.0.members
    }

    /// How far their clocks may be apart from this rank's beyond what was measured, in µs.
    pub(crate) fn uncertainty_us(&self) -> u64 {
        self.all().iter().map(|its| its.offset.uncertainty_ns.div_ceil(1000)).max().unwrap_or(0)
    }

    /// What one of them says next, and its place.
    pub(crate) async fn next(&self) -> (usize, Said) {
        let next = self.0.said.lock().await.recv().await;
        let Some((index, said)) = next else { return std::future::pending().await };
        if let Said::Lost(why) = &said {
            self.lost().insert(index, why.clone());
        }
        (index, said)
    }

    /// The place of the next one that is interrupted.
    pub(crate) async fn interrupted(&self) -> usize {
        match self.0.interrupts.lock().await.recv().await {
            Some(index) => index,
            None => std::future::pending().await,
        }
    }

    fn lost(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, String>> {
        self.0.lost.lock().expect("no thread fails while it has it")
    }

    /// Why a rank is gone, if it is.
    pub(crate) fn why_lost(&self, index: usize) -> Option<String> {
        self.lost().get(&index).cloned()
    }

    /// Says the same to all.
    pub(crate) async fn say(&self, message: &FromLeader) {
        let encoded = encoded(message);
        for member in self.all() {
            let _ = timeout(SILENCE, member.outbox.send(encoded.clone())).await;
        }
    }

    /// Tells all that there are no more runs, and waits until they have left, for a little while.
    pub async fn dismiss(&self, is_whole: bool) {
        self.say(&FromLeader::Done { is_whole }).await;
        let left = async {
            while self.lost().len() < self.all().len() {
                self.next().await;
            }
        };
        let _ = timeout(SILENCE, left).await;
    }
}

impl Member {
    /// Tells a rank that it is given up, if it takes that at once.
    pub(crate) fn give_up(&self, why: &str) {
        self.outbox.try_say(&FromLeader::Refused { why: format!("rank 0 gave this rank up: {why}") });
    }

    /// Says something, if the rank takes it within the time after which it is lost anyway.
    pub(crate) async fn say(&self, message: &FromLeader) {
        let _ = timeout(SILENCE, self.outbox.say(message)).await;
    }
}

/// The place of a rank among the members, which are all ranks but 0.
fn place_of(rank: u32) -> usize {
    rank as usize - 1
}

/// Tells those who came why there is no run, and waits for a moment until they have left.
async fn send_away(there: BTreeMap<u32, Member>, said: &mut mpsc::Receiver<(usize, Said)>, why: &str) {
    for member in there.values() {
        member.say(&FromLeader::Refused { why: why.to_owned() }).await;
    }
    let mut left = there.len();
    let all_left = async {
        while left > 0
            && let Some((_, said)) = said.recv().await
        {
            left -= usize::from(matches!(said, Said::Lost(_)));
        }
    };
    let _ = timeout(LEAVING, all_left).await;
}

/// Which ranks did not come.
fn missing(of: NonZeroU32, there: &BTreeMap<u32, Member>, limit: Duration) -> String {
    let missing = of.get() as usize - 1 - there.len();
    let names = (1..of.get()).filter(|rank| !there.contains_key(rank)).take(NAMED).map(|rank| rank.to_string());
    let names: Vec<_> = names.collect();
    let more = if missing > NAMED { format!(" and {} more", missing - NAMED) } else { String::new() };
    let word = if missing == 1 { "rank" } else { "ranks" };
    format!(
        "{word} {}{more} of {of} did not come within {} s: start all ranks together, or wait longer (--rendezvous-limit); nothing was sent",
        names.join(", "),
        limit.as_secs_f64()
    )
}

/// Takes in whoever comes, as long as somebody wants them; then sends them away.
async fn open_door(listener: TcpListener, token: Arc<str>, of: NonZeroU32, arrived: mpsc::Sender<Taken>) {
    let greetings = Arc::new(Semaphore::new(GREETINGS));
    loop {
        // It is never closed.
        let room = Arc::clone(&greetings).acquire_owned().await;
        let Ok((connection, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (token, arrived) = (Arc::clone(&token), arrived.clone());
        tokio::spawn(async move {
            let _ = timeout(GREETING, receive(connection, &token, of, &arrived)).await;
            drop(room);
        });
    }
}

async fn receive(connection: TcpStream, token: &str, of: NonZeroU32, arrived: &mpsc::Sender<Taken>) {
    let Ok((mut inbox, outbox, sending)) = opened(connection) else { return };
    let Ok(FromMember::Hello(hello)) = inbox.message(GREETING).await else { return };
    let refusal = if arrived.is_closed() {
        Some(format!(
            "rank 0 is in the middle of a run: rank {} cannot join it; start all ranks again",
            hello.share.rank
        ))
    } else {
        refusal(&hello, token, of)
    };
    if let Some(why) = refusal {
        outbox.say(&FromLeader::Refused { why }).await;
        drop(outbox);
        let _ = sending.await;
        return;
    }
    inbox.trust();
    let Some(offset) = measured(&mut inbox, &outbox).await else { return };
    outbox.say(&FromLeader::Welcome).await;
    // Others may come much later.
    tokio::spawn(keep_awake(outbox.clone()));
    let is_same = hello.clock.is_some() && hello.clock == clock::identity();
    let offset = if is_same { offset.of_the_same_clock() } else { offset };
    let member = Member { rank: hello.share.rank, host: hello.host, offset, outbox };
    // Where nobody wants it any more its connection ends.
    let _ = arrived.send(Taken { member, inbox }).await;
}

fn refusal(hello: &Hello, token: &str, of: NonZeroU32) -> Option<String> {
    let Hello { version, share, .. } = hello;
    if version != VERSION {
        return Some(format!(
            "rank 0 is version {VERSION}, and rank {} is version {version}: use one version",
            share.rank
        ));
    }
    if hello.token != token {
        return Some("rank 0 belongs to another job".to_owned());
    }
    if share.of != of {
        return Some(format!(
            "rank 0 has {of} ranks, and rank {} has {}: give all the same number",
            share.rank, share.of
        ));
    }
    if share.rank >= of.get() {
        return Some(format!("there is no rank {} of {of}: number the ranks from 0 on", share.rank));
    }
    (share.rank == 0).then(|| "there is a rank 0 already: number the ranks from 0 on, each once".to_owned())
}

/// How far the clock of a rank is ahead, by the quickest of several answers.
async fn measured(inbox: &mut Inbox, outbox: &Outbox) -> Option<Offset> {
    let mut best = None;
    for _ in 0..QUESTIONS {
        let sent = Moment::now();
        outbox.say(&FromLeader::Ping).await;
        let Ok(FromMember::Pong { now }) = inbox.message(GREETING).await else { return None };
        best = Some(Offset::after(sent, Moment::now(), now).or(best));
    }
    best
}

/// Hands on what a rank says, until it is gone.
async fn listen(index: usize, mut inbox: Inbox, said: mpsc::Sender<(usize, Said)>, interrupted: mpsc::Sender<usize>) {
    loop {
        let what = match inbox.envelope(SILENCE).await {
            Ok(Envelope::Said(FromMember::Pong { .. })) => continue,
            Ok(Envelope::Said(FromMember::Interrupted)) => {
                // So many that nobody heeds are as good as one more.
                let _ = interrupted.try_send(index);
                continue;
            }
            Ok(Envelope::Said(message)) => Said::Message(message),
            Ok(Envelope::Batch(batch)) => Said::Batch(batch),
            Err(why) => Said::Lost(why),
        };
        let is_lost = matches!(what, Said::Lost(_));
        if said.send((index, what)).await.is_err() || is_lost {
            return;
        }
    }
}

/// Asks a rank again and again, so that each knows that the other one is there.
async fn keep_awake(outbox: Outbox) {
    let mut beats = interval(HEARTBEAT);
    loop {
        beats.tick().await;
        if !outbox.try_say(&FromLeader::Ping) && outbox.is_closed() {
            return;
        }
    }
}

#[cfg(test)]
pub(super) mod tests_only {
    use super::*;

    /// What a rank says first, but for the token.
    pub(in super::super) fn greeted(place: &Place) -> Hello {
        Hello {
            version: VERSION.to_owned(),
            token: String::new(),
            share: place.share,
            host: None,
            clock: clock::identity(),
        }
    }
}
