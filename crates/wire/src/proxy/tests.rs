use std::io::ErrorKind;

use super::*;
use crate::net::Place;
use workload::scenario::{Overrides, Scenario, Source};

fn network(text: &str) -> Network {
    let source = Source::from_text("test", text);
    let scenario = Scenario::resolve(&source, Overrides::default()).expect("a scenario");
    scenario.populations[0].network.clone()
}

fn path(text: &str) -> Path {
    Path::new(network(text), Some(Duration::from_millis(50)), Seed(1), 0)
}

/// Both ends of a connection through a network, and what was done to it.
async fn through(text: &str) -> (Socket, Socket, Marks) {
    let (place, address) = Place::listen(([127, 0, 0, 1], 0).into()).expect("a free port");
    let (listener, address) = (place.into_listener().expect("a runtime"), address.to_string());
    let marks = Marks::default();
    let (client, server) = tokio::join!(path(text).connect_owned(&address, &marks), listener.accept());
    (client, server.expect("a connection"), marks)
}

impl Path {
    async fn connect_owned(self, address: &str, marks: &Marks) -> Socket {
        self.connect(address, marks).await.expect("a connection")
    }
}

/// What one end reads until it ends, and how it ends.
async fn read(end: &mut Socket) -> (Vec<u8>, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let error = end.read_to_end(&mut bytes).await.err().map(|error| error.kind());
    (bytes, error)
}

fn message() -> Vec<u8> {
    (0..=255).cycle().take(20_000).collect()
}

#[tokio::test]
async fn all_comes_through_in_order_and_so_does_the_end() {
    for text in [
        "",
        "network.latency_ms.uniform = { min = 0, max = 5 }",
        "network.bandwidth_kib_s = 200",
        "network.slice_bytes = 3",
        "network = { latency_ms.constant = 1, slice_bytes = 100, black_hole = { after_bytes.constant = 7, for_ms.constant = 5 } }",
    ] {
        let (mut client, mut server, marks) = through(text).await;
        let sent = message();
        let sends = async {
            client.write_all(&sent).await.expect("a connection");
            client.shutdown().await.expect("a connection");
            read(&mut client).await
        };
        let answers = async {
            let (read, error) = read(&mut server).await;
            assert!(error.is_none() && read == message(), "{text}: {} bytes, {error:?}", read.len());
            server.write_all(&read).await.expect("a connection");
            drop(server);
        };
        let ((back, error), ()) = tokio::join!(sends, answers);
        assert!(error.is_none() && back == sent, "{text}: {} bytes, {error:?}", back.len());
        assert!(!marks.since(0), "{text}");
    }
}

#[tokio::test]
async fn a_connection_is_cut_behind_exactly_so_many_bytes() {
    for (by, ending) in [("rst", Some(ErrorKind::ConnectionReset)), ("fin", None)] {
        let (mut client, mut server, marks) =
            through(&format!("network.cut = {{ after_bytes.constant = 5000, by = '{by}' }}")).await;
        assert!(!marks.since(0));
        let sends = tokio::spawn(async move {
            // More than passes; the rest may fail.
            let _ = client.write_all(&message()).await;
            read(&mut client).await.0
        });
        let (read, error) = read(&mut server).await;
        // What a reset finds unread is lost.
        assert!(read.len() == 5000 || error.is_some() && read.len() < 5000, "{by}: {} bytes", read.len());
        assert_eq!((error, marks.since(1)), (ending, true), "{by}");
        assert!(sends.await.expect("it does not panic").is_empty(), "{by}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_cut_after_its_time() {
    // The paused clock may go on before both ends are there, so `began` comes first.
    let began = tokio::time::Instant::now();
    let (mut client, _server, marks) = through("network.cut.after_ms.constant = 60000").await;
    let (_, error) = read(&mut client).await;
    assert_eq!((error, marks.since(1)), (Some(ErrorKind::ConnectionReset), true));
    assert!(began.elapsed() >= Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_black_hole_without_an_end_lasts_until_the_connection_is_given_up() {
    let (mut client, mut server, marks) = through("network.black_hole.after_bytes.constant = 4").await;
    client.write_all(b"abcdefgh").await.expect("a connection");
    let (read, error) = read(&mut server).await;
    assert!(read.len() <= 4 && error == Some(ErrorKind::ConnectionReset) && marks.since(1), "{read:?} {error:?}");
}

#[tokio::test]
async fn a_reset_goes_on_to_the_server() {
    let (mut client, mut server, marks) = through("network.latency_ms.constant = 1").await;
    client.set_zero_linger().expect("a connection");
    drop(client);
    assert_eq!((read(&mut server).await.1, marks.since(0)), (Some(ErrorKind::ConnectionReset), false));
}

#[test]
fn what_is_drawn_follows_from_the_seed() {
    let text = "network.cut = { after_ms.uniform = { min = 1, max = 100000 }, after_bytes.geometric.mean = 500 }";
    let draw = |seed| {
        let path = Path::new(network(text), None, Seed(seed), 3);
        (0..4).map(|_| format!("{:?}", path.course().cut)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert!(draw(1) != draw(2) && draw(1)[0] != draw(1)[1], "{:?}", draw(1));
}

#[tokio::test]
async fn it_serves_until_it_is_told_to_stop() {
    let server = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let to = server.local_addr().expect("an address").to_string();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let connect = move || {
        let to = to.clone();
        async move { Socket::connect(&to).await }
    };
    let serving = tokio::spawn(serve(listener, connect, path(""), async { _ = stopped.await }));
    let mut client = Socket::connect(&address.to_string()).await.expect("a connection");
    let (mut accepted, _) = server.accept().await.expect("a connection");
    client.write_all(b"x").await.expect("a connection");
    let mut byte = [0; 1];
    accepted.read_exact(&mut byte).await.expect("a byte");
    stop.send(()).expect("it serves");
    serving.await.expect("it does not panic").expect("it ends in good order");
}
