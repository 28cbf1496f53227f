//! Carries a conversation out against a server and writes its transcript.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout_at};
use wire::proto::{ModelStatisticsRequest, ServerLiveRequest};

use crate::{
    client::{Connection, Service, service},
    conversation::{Action, By, Conversation, Link, OnPython, Opening, Query},
    endpoint::{Addresses, Endpoint},
    query,
    setup::{Backend, Loading, Setup},
    step::Step,
    transcript,
};

/// Between what happens on different links, so that it happens in the order in which it is written down.
const GAP: Duration = Duration::from_millis(80);
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
const STATE_LIMIT: Duration = Duration::from_secs(30);
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// Counts that do not change in so many looks stand still.
const STILL_LOOKS: u32 = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(60);
const STILL_LIMIT: Duration = Duration::from_secs(5);
/// Less than any time that conversations leave between two things whose order matters.
const HELD_UP_MS: u64 = 60;
/// And what many small delays may add up to: less than what conversations leave until an idle limit.
const HELD_UP_IN_ALL_MS: u64 = 150;
/// A delay that timers have on every machine.
const USUAL_MS: u64 = 5;
/// What a transcript says where the server is not there any more.
pub(crate) const GONE: &str = "the model does not load: Unavailable";
const ATTEMPTS_MAX: u32 = 12;
const POLL: Duration = Duration::from_millis(20);

struct Runner<'a> {
    addresses: Addresses,
    service: Service,
    setup: &'a Setup,
    loading: Loading,
    links: HashMap<Link, Connection>,
    last_on: Option<Link>,
    number: u32,
    lines: Vec<String>,
}

/// Carries `conversation` out against the server and returns the transcript. Where this process or the
/// server was held up meanwhile, things may have happened in another order, or too late. Then it is all done again, unless the
/// transcript is as it has to be.
pub(crate) async fn run(endpoint: &Endpoint, conversation: &Conversation, kept: Option<&str>) -> String {
    let mut attempt = 1;
    loop {
        let held_up = Arc::<HeldUp>::default();
        let watch = tokio::spawn(watch(Arc::clone(&held_up), service(endpoint.addresses.grpc)));
        let note = format!("{} {attempt}", conversation.name);
        let loading = Loading { backend: endpoint.backend, note };
        let transcript = run_once(endpoint.addresses, conversation, loading).await;
        watch.abort();
        let is_as_kept = kept.is_some_and(|kept| kept == transcript);
        let is_undisturbed =
            held_up.longest_ms.load(Relaxed) < HELD_UP_MS && held_up.all_ms.load(Relaxed) < HELD_UP_IN_ALL_MS;
        if is_as_kept || attempt == ATTEMPTS_MAX || is_undisturbed || transcript.contains(GONE) {
            return transcript;
        }
        attempt += 1;
    }
}

/// By how much short sleeps, and the server's answers to what it can answer at once, were too long.
#[derive(Debug, Default)]
struct HeldUp {
    longest_ms: AtomicU64,
    all_ms: AtomicU64,
}

async fn watch(held_up: Arc<HeldUp>, mut service: Service) {
    loop {
        let began = Instant::now();
        sleep(POLL).await;
        // A server that has to wait for a core takes requests of different links in another order, too. What it answers does not matter.
        let _ = service.server_live(ServerLiveRequest {}).await;
        let late = u64::try_from(began.elapsed().saturating_sub(POLL).as_millis()).unwrap_or(u64::MAX);
        held_up.longest_ms.fetch_max(late, Relaxed);
        held_up.all_ms.fetch_add(late.saturating_sub(USUAL_MS), Relaxed);
    }
}

async fn run_once(addresses: Addresses, conversation: &Conversation, loading: Loading) -> String {
    let mut runner = Runner {
        addresses,
        service: service(addresses.grpc),
        setup: &conversation.setup,
        loading,
        links: HashMap::new(),
        last_on: None,
        number: 0,
        lines: vec![format!("# {}", conversation.about), conversation.setup.to_string()],
    };
    if let (Backend::Python, OnPython::Other(why)) = (runner.loading.backend, conversation.on_python) {
        runner.write(format!("# {why}"));
    }
    runner.prepare(conversation).await;
    for action in &conversation.actions {
        runner.act(action).await;
    }
    runner.finish().await;
    runner.lines.join("\n") + "\n"
}

impl Runner<'_> {
    fn write(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Loads this conversation's model anew; where it is to be alone, after what else is loaded is gone.
    async fn prepare(&mut self, conversation: &Conversation) {
        if conversation.is_alone {
            for model in query::index(&mut self.service, true).await.unwrap_or_default() {
                self.ask(&Query::Unload { model: model.name.clone().leak() }).await;
                self.await_state(&model.name, "UNAVAILABLE").await;
            }
        }
        let outcome = self.ask(&Query::Load(Box::new(self.setup.clone()))).await;
        if outcome != "done" {
            self.write(format!("the model does not load: {outcome}"));
        }
    }

    async fn ask(&mut self, query: &Query) -> String {
        query::outcome(&mut self.service, query, &self.loading).await
    }

    async fn act(&mut self, action: &Action) {
        match action {
            Action::Open(link, opening) => self.open(link, *opening),
            Action::Send(link, step) => {
                self.keep_order(Some(link)).await;
                self.send(link, step);
            }
            Action::SendAtOnce(link, step) => self.send(link, step),
            Action::Call(link, by, step) => {
                self.keep_order(Some(link)).await;
                self.call(link, *by, step);
            }
            Action::CallAtOnce(link, by, step) => self.call(link, *by, step),
            Action::Take(link, count) => self.take(link, *count).await,
            Action::TakeEnd(link) => self.take(link, usize::MAX).await,
            Action::Quiet(ms) => self.quiet(*ms).await,
            Action::Pause(ms) => {
                sleep(Duration::from_millis(*ms)).await;
                self.write(format!("{ms} ms pass"));
            }
            Action::Cancel(link) => {
                self.keep_order(None).await;
                self.connection(link).cancel();
                self.links.remove(link);
                self.write(format!("{link} is cancelled"));
            }
            Action::Disconnect(link) => {
                self.keep_order(None).await;
                self.connection(link).disconnect();
                self.links.remove(link);
                self.write(format!("{link} loses its connection"));
            }
            Action::HalfClose(link) => {
                self.connection(link).half_close();
                self.write(format!("{link} > no more"));
            }
            Action::Ask(query) => {
                self.keep_order(None).await;
                let outcome = self.ask(query).await;
                self.write(format!("{query}: {outcome}"));
            }
            Action::Statistics => self.statistics(true).await,
            Action::Counts => self.statistics(false).await,
            Action::AwaitState(model, state) => {
                let words = if self.await_state(model, state).await { "is" } else { "does not become" };
                self.write(format!("{model} {words} {state}"));
            }
        }
    }

    fn connection(&mut self, link: Link) -> &mut Connection {
        self.links.get_mut(link).unwrap_or_else(|| panic!("the conversation does not open '{link}' first"))
    }

    fn open(&mut self, link: Link, opening: Opening) {
        let connection = Connection::stream(self.addresses.grpc, opening);
        self.links.insert(link, connection);
        match opening {
            Opening::Plain => {}
            Opening::GrpcError => self.write(format!("{link} has triton_grpc_error")),
            Opening::Proxied => self.write(format!("{link} is a connection of its own")),
        }
    }

    /// Waits before something that is to happen after what happened before, unless both are on one link.
    async fn keep_order(&mut self, link: Option<Link>) {
        if link.is_none() || self.last_on != link {
            sleep(GAP).await;
        }
        self.last_on = link;
    }

    fn send(&mut self, link: Link, step: &Step) {
        if !self.links.contains_key(link) {
            self.open(link, Opening::Plain);
        }
        self.number += 1;
        let request = step.request(self.setup, self.number);
        self.write(format!("{link} > {}: {step}", request.id));
        self.connection(link).send(request);
    }

    fn call(&mut self, link: Link, by: By, step: &Step) {
        self.number += 1;
        let request = step.request(self.setup, self.number);
        let over = if by == By::Unary { String::new() } else { format!(" over {by}") };
        self.write(format!("{link} calls {}{over}: {step}", request.id));
        self.links.entry(link).or_insert_with(Connection::calls).call(self.addresses, by, request);
        // A later request on the same link is another call, and has to arrive later too.
        self.last_on = None;
    }

    /// Writes `count` answers of a link down, or all until its end.
    async fn take(&mut self, link: Link, count: usize) {
        let deadline = Instant::now() + ANSWER_LIMIT;
        for _ in 0..count {
            let received = timeout_at(deadline, self.connection(link).received.recv()).await;
            let (told, is_end) = match received {
                Ok(Some(received)) => (received.line, received.is_end),
                Ok(None) => ("nothing after its end".into(), true),
                Err(_) => ("no answer in time".into(), true),
            };
            // A response names its model where it is not the conversation's.
            let of_this_model = format!(" of {} 1", self.setup.model);
            self.write(format!("{link} < {}", told.replace(&of_this_model, "")));
            if is_end {
                break;
            }
        }
    }

    fn waiting(&self) -> String {
        let mut waiting: Vec<String> = self
            .links
            .iter()
            .filter(|(_, connection)| !connection.received.is_empty())
            .map(|(link, connection)| format!("{} of {link}", connection.received.len()))
            .collect();
        waiting.sort();
        if waiting.is_empty() { "nothing".into() } else { waiting.join(", ") }
    }

    async fn quiet(&mut self, ms: u64) {
        sleep(Duration::from_millis(ms)).await;
        let waiting = self.waiting();
        self.write(format!("{ms} ms later has come: {waiting}"));
    }

    async fn await_state(&mut self, model: &str, state: &str) -> bool {
        let deadline = Instant::now() + STATE_LIMIT;
        while Instant::now() < deadline {
            let index = query::index(&mut self.service, false).await.unwrap_or_default();
            if index.iter().any(|entry| entry.name == model && entry.state == state) {
                return true;
            }
            sleep(POLL).await;
        }
        false
    }

    async fn counts(&mut self, with_executions: bool) -> String {
        let request = ModelStatisticsRequest { name: self.setup.model.into(), version: String::new() };
        match self.service.model_statistics(request).await {
            Ok(response) => {
                let told = response.get_ref().model_stats.iter().map(|of| transcript::statistics(of, with_executions));
                told.collect::<Vec<_>>().join("; ")
            }
            Err(status) => transcript::status(&status),
        }
    }

    async fn statistics(&mut self, with_executions: bool) {
        let deadline = Instant::now() + STILL_LIMIT;
        let mut last = self.counts(with_executions).await;
        let mut looks = 1;
        while looks < STILL_LOOKS && Instant::now() < deadline {
            sleep(LOOK_AGAIN).await;
            let now = self.counts(with_executions).await;
            looks = if now == last { looks + 1 } else { 1 };
            last = now;
        }
        self.write(format!("statistics: {last}"));
    }

    /// Closes all streams; what comes then that the conversation did not wait for is written down too.
    async fn finish(&mut self) {
        let mut links: Vec<(Link, Connection)> = self.links.drain().collect();
        links.sort_by_key(|(link, _)| *link);
        for (_, connection) in &mut links {
            connection.half_close();
        }
        let deadline = Instant::now() + CLOSE_LIMIT;
        for (link, mut connection) in links {
            while let Ok(Some(received)) = timeout_at(deadline, connection.received.recv()).await {
                if received.line != "the end" {
                    self.write(format!("{link} < {}", received.line));
                }
            }
        }
    }
}
