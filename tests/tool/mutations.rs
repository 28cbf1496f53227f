//! What a run says of each mutation that the proxy makes on the way between it and a correct server.

use std::{
    fs,
    future::pending,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};

use oracle::ViolationKind::{
    self, Duplicate, Lost, Misaddressed, MissingStartError, NotReady, Reordered, SpuriousStartError, Statistics,
    StreamBroken, StreamNotClosed, UnexpectedError, WrongControl, WrongModel, WrongOutputName, WrongOutputShape,
    WrongOutputSize, WrongOutputType, WrongSum, WrongVersion,
};
use reference::ModelOptions;
use sequence_stress::run::{RunResult, Setup};
use serde_json::json;
use wire::{
    mutation::{self, Happened, Mutation, Mutations, Of, Planted},
    net::Socket,
};
use workload::{
    chance::When,
    conversation::Transport,
    endpoint::Protocol,
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
};

use crate::support::{
    runs::{reference_server, run_alone},
    tool::told,
};

/// For how long a delayed message is held back: longer than it is waited for.
const HOLD: Duration = Duration::from_secs(6);
const SCENARIO: &str = "load = { workers = 4, iterations = 15 }\nlimits = { lost_after_ms = 3000, quiet_ms = 20 }\n";
/// Workers that send calls, beside those that open streams.
const WITH_CALLS: &str = "population = [
    { name = 'streams', load = { workers = 2, iterations = 60 } },
    { name = 'calls', load = { workers = 2, iterations = 15 }, sending.transport = 'grpc-unary' },
]
";
const DIRECT: &str = "custom_sequence_int32";
const OLDEST: &str = "oldest_sequence_int32";
const DECOUPLED: &str = "decoupled_sequence_int32";

/// At a chance that every run has.
const ONCE: When = When::Once(30);
/// Where a single chance may be one at which nobody can see it: a step that is rejected, or the last one of a stream.
const OFTEN: When = When::ALWAYS;

/// What each mutation shows as: the model, when it happens, and the kinds, one of which there has to be. None where a client cannot
/// know.
fn shows(mutation: Mutation) -> (&'static str, When, &'static [ViolationKind]) {
    match mutation {
        Mutation::LoseStart => (DIRECT, ONCE, &[WrongControl, SpuriousStartError]),
        Mutation::AddStart => (DIRECT, OFTEN, &[WrongControl]),
        // A model that is not told END ends nothing by it.
        Mutation::LoseEnd => (OLDEST, OFTEN, &[WrongControl]),
        Mutation::AddEnd => (DIRECT, OFTEN, &[SpuriousStartError]),
        // Where each request has another ID nobody can see it.
        Mutation::OtherId => {
            (DIRECT, When::Probability(0.2), &[UnexpectedError, SpuriousStartError, WrongSum, WrongControl])
        }
        Mutation::ChangeInput | Mutation::ChangeOutput => (DIRECT, OFTEN, &[WrongSum]),
        Mutation::SwapRequests => (DIRECT, OFTEN, &[WrongSum, SpuriousStartError]),
        Mutation::LoseRequest => (DIRECT, ONCE, &[WrongSum, Lost]),
        Mutation::RepeatRequest => (DIRECT, ONCE, &[Duplicate, WrongSum]),
        Mutation::LoseCalls | Mutation::DelayRequest | Mutation::LoseResponse | Mutation::DelayResponse => {
            (DIRECT, ONCE, &[Lost])
        }
        Mutation::RepeatResponse => (DIRECT, ONCE, &[Duplicate]),
        Mutation::SwapResponses => (DIRECT, OFTEN, &[Reordered]),
        // The other stream may be gone by then.
        Mutation::CrossResponses => (DIRECT, ONCE, &[Misaddressed, Lost]),
        Mutation::OtherRequestId => (DIRECT, ONCE, &[Misaddressed]),
        Mutation::OtherModelName => (DIRECT, ONCE, &[WrongModel]),
        Mutation::OtherModelVersion => (DIRECT, ONCE, &[WrongVersion]),
        Mutation::OtherOutputName | Mutation::NoOutput => (DIRECT, ONCE, &[WrongOutputName]),
        Mutation::OtherOutputType => (DIRECT, ONCE, &[WrongOutputType]),
        Mutation::OtherOutputShape => (DIRECT, ONCE, &[WrongOutputShape]),
        Mutation::CutOutput => (DIRECT, ONCE, &[WrongOutputSize]),
        // Of one response it is known without a mark that it is the last one.
        Mutation::LoseFinalMark => (DECOUPLED, ONCE, &[Lost]),
        Mutation::ErrorForResponse => (DIRECT, ONCE, &[UnexpectedError]),
        Mutation::ResponseForError => (DIRECT, When::Once(1), &[MissingStartError]),
        Mutation::OtherError => (DIRECT, When::Once(1), &[UnexpectedError]),
        Mutation::LoseHalfClose | Mutation::KeepOpen => (DIRECT, When::Once(3), &[StreamNotClosed]),
        Mutation::EndStream | Mutation::BreakStream => (DIRECT, OFTEN, &[StreamBroken]),
        Mutation::CountMore | Mutation::CountLess => (DIRECT, When::Once(6), &[Statistics]),
        // How many requests share an execution is the server's affair.
        Mutation::CountExecution => (DIRECT, When::Once(6), &[]),
        Mutation::SayNotReady => (DIRECT, When::Once(1), &[NotReady]),
    }
}

/// The same over HTTP, where each request is a call; none where there is no chance. The model is the one with Direct, but where the
/// mutation needs another.
fn shows_over_http(mutation: Mutation) -> Option<(&'static str, When, &'static [ViolationKind])> {
    Some(match mutation {
        // Only streams have that.
        Mutation::SwapRequests
        | Mutation::RepeatResponse
        | Mutation::SwapResponses
        | Mutation::CrossResponses
        | Mutation::LoseFinalMark
        | Mutation::LoseHalfClose
        | Mutation::KeepOpen
        | Mutation::EndStream
        | Mutation::BreakStream => return None,
        // The second answer to it goes to nobody.
        Mutation::RepeatRequest => (DIRECT, OFTEN, &[WrongSum, SpuriousStartError, WrongControl]),
        Mutation::LoseRequest => (DIRECT, ONCE, &[Lost]),
        // The first error is the answer to what is asked before the run.
        Mutation::OtherError => (DIRECT, When::Once(4), &[UnexpectedError]),
        _ => shows(mutation),
    })
}

/// Where clients find the server with these mutations on the way.
fn proxy(server: SocketAddr, protocol: Protocol, mutations: &Arc<Mutations>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it can be asked");
    let address = listener.local_addr().expect("an address");
    let mutations = Arc::clone(mutations);
    // It ends with the test.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let connect = move || async move { Socket::connect(&server.to_string()).await };
            mutation::serve(listener, connect, protocol, mutations, pending()).await
        })
    });
    address
}

/// A run through a proxy with these mutations, and how often each happened.
fn run(model: &str, planted: &[Planted], transport: Transport) -> (RunResult, Vec<Happened>) {
    let models = ModelOptions { idle_limit: Duration::from_millis(300), ..ModelOptions::default() };
    let server = reference_server(models, &[]);
    let mutations = Arc::new(Mutations::new(planted, Seed(1), HOLD));
    let protocol = transport.protocol();
    let to = if protocol == Protocol::Http { server.http } else { server.address };
    let address = proxy(to, protocol, &mutations);
    // Steps without START are needed for what is done to errors.
    let patterns = "patterns.common = { valid = 6, valid-valid = 2, no-end = 1, after-end = 1 }\n";
    // A decoupled model answers over streams alone.
    let has_calls =
        transport.is_stream() && model == DIRECT && planted.iter().any(|its| its.mutation == Mutation::LoseCalls);
    let calls = if has_calls { WITH_CALLS } else { "" };
    let sending = format!("sending.transport = '{transport}'\n");
    let text = format!("{SCENARIO}{patterns}{sending}{calls}[target]\nmodel = '{model}'");
    let endpoint = format!("{}{address}", if protocol == Protocol::Http { "http://" } else { "" });
    let overrides = Overrides { endpoint: Some(endpoint.parse().expect("an endpoint")), ..Overrides::default() };
    let scenario = Scenario::resolve(&Source::from_text("test", &text), overrides).expect("a scenario");
    // What comes before the run is no part of what is looked at here.
    let result = run_alone(Setup { embedded: true, ..Setup::new(scenario, Seed(1)) }).expect("a run");
    (result, mutations.happened())
}

/// Runs with a mutation, and makes sure that it happens and is found.
fn find(mutation: Mutation, (model, when, expected): (&str, When, &[ViolationKind]), transport: Transport) {
    let (result, happened) = run(model, &[Planted { mutation, when }], transport);
    assert!(happened[0].times > 0, "{mutation}: {happened:?}");
    let kinds: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
    let is_as_expected =
        if expected.is_empty() { kinds.is_empty() } else { kinds.iter().any(|kind| expected.contains(kind)) };
    assert!(is_as_expected, "{mutation} over {transport}: {kinds:?}, and not {expected:?}");
}

fn check(of: Of) {
    for mutation in Mutation::ALL.into_iter().filter(|mutation| mutation.of() == of) {
        find(mutation, shows(mutation), Transport::GrpcStream);
    }
}

fn check_over_http(transport: Transport, mutations: impl Iterator<Item = Mutation>) {
    for mutation in mutations {
        if let Some(shows) = shows_over_http(mutation) {
            find(mutation, shows, transport);
        }
    }
}

/// Whether it is done to a whole message, whatever is in it.
fn is_of_whole_messages(mutation: Mutation) -> bool {
    matches!(
        mutation,
        Mutation::LoseRequest
            | Mutation::LoseCalls
            | Mutation::RepeatRequest
            | Mutation::DelayRequest
            | Mutation::LoseResponse
            | Mutation::DelayResponse
    )
}

#[test]
fn what_is_not_changed_passes_as_it_is() {
    for (model, transport) in [
        (DIRECT, Transport::GrpcStream),
        (OLDEST, Transport::GrpcStream),
        (DECOUPLED, Transport::GrpcStream),
        (DIRECT, Transport::Http),
        (DIRECT, Transport::HttpBinary),
    ] {
        // Planted, so that each message is looked at.
        let planted = Mutation::ALL.map(|mutation| Planted { mutation, when: When::Probability(0.0) });
        let (result, happened) = run(model, &planted, transport);
        assert_eq!(result.violations, [], "{model} over {transport}");
        assert!(happened.iter().all(|its| its.times == 0), "{model}: {happened:?}");
        let without_chances: Vec<_> = happened.iter().filter(|its| its.chances == 0).map(|its| its.mutation).collect();
        let expected = Mutation::ALL.into_iter().filter(|its| transport.is_http() && shows_over_http(*its).is_none());
        // Of the other models some mutations have none: this one's streams have a response before an error.
        assert!(
            model != DIRECT || without_chances == expected.collect::<Vec<_>>(),
            "{model} over {transport}: {without_chances:?}"
        );
    }
}

#[test]
fn what_cannot_be_changed_is_told_before_anything_is_carried() {
    for (words, says) in [
        (&["--mutate", "lose-strat"][..], "there is no mutation 'lose-strat'; did you mean 'lose-start'?"),
        (&["--mutate", "lose-start:2"], "'2' is neither a probability from 0 to 1 nor once@N"),
        (&["--json", "counts.json"], "--mutate"),
        (&["--mutate", "lose-start", "--json", "/no/folder/counts.json"], "cannot write the counts"),
        (&["--mutate", "lose-start", "--latency-ms", "5"], "start a second proxy in front of this one"),
        (&["--mutate", "lose-start", "-u", "https://127.0.0.1:2"], "--mutate needs a server without TLS"),
    ] {
        let (code, text) = told(&[&["proxy", "-u", "127.0.0.1:1"], words].concat());
        assert!(code == Some(2) && text.contains(says) && text.trim().lines().count() == 1, "{code:?} {text}");
    }
}

#[test]
fn the_proxy_writes_how_often_each_mutation_happened() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("counts.json");
    let name = file.to_str().expect("a plain name");
    // Its input has ended when it starts.
    let words = ["proxy", "-u", "127.0.0.1:1", "-r", "7", "--while-stdin-is-open", "--json", name];
    let planted = ["--mutate", "lose-start:once@3", "--mutate", "no-output"];
    let (code, text) = told(&[&words[..], &planted].concat());
    assert_eq!(code, Some(0), "{text}");
    let written: serde_json::Value = serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON");
    let never = |mutation| json!({ "mutation": mutation, "times": 0, "chances": 0 });
    assert_eq!(written, json!({ "seed": 7, "mutations": [never("lose-start"), never("no-output")] }));
}

#[test]
fn changed_requests_are_found() {
    check(Of::Request);
}

#[test]
fn calls_that_are_lost_while_streams_go_on_have_a_cause_of_their_own() {
    for (mutation, expected) in [(Mutation::LoseCalls, true), (Mutation::LoseRequest, false)] {
        let (result, _) = run(DIRECT, &[Planted { mutation, when: ONCE }], Transport::GrpcStream);
        let first = result.violations.first().unwrap_or_else(|| panic!("{mutation} was not found"));
        let is_named = first.explanations.first().is_some_and(|its| its.cause.name() == "calls-dead");
        assert_eq!(is_named, expected, "{mutation}: {first:?}");
    }
}

#[test]
fn changed_responses_are_found() {
    check(Of::Response);
}

#[test]
fn changed_ends_of_streams_are_found() {
    check(Of::Stream);
}

#[test]
fn what_the_server_says_of_itself_is_found() {
    check(Of::Server);
}

#[test]
fn what_is_changed_over_http_is_found_in_json() {
    check_over_http(Transport::Http, Mutation::ALL.into_iter().filter(|mutation| !is_of_whole_messages(*mutation)));
}

#[test]
fn what_is_changed_over_http_is_found_in_bytes_behind_json() {
    check_over_http(Transport::HttpBinary, Mutation::ALL.into_iter());
}
