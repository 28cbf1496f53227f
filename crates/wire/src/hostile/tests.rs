use std::collections::BTreeSet;

use tokio::{io::AsyncReadExt as _, net::TcpListener};

use super::*;

fn aim(datatype: Datatype, id: WireId) -> Aim {
    Aim {
        address: "127.0.0.1:8000".to_owned(),
        model: "a_model".to_owned(),
        input: "INPUT".to_owned(),
        datatype,
        shape: vec![1, 1],
        output: "OUTPUT".to_owned(),
        id,
    }
}

#[test]
fn each_request_is_one_of_http_and_the_same_whenever_a_seed_draws_it() {
    for (datatype, id) in [(Datatype::Int32, WireId::Number(7)), (Datatype::Bytes, WireId::Text("seven".to_owned()))] {
        let aim = aim(datatype, id);
        for kind in Hostile::ALL {
            let mut seen = BTreeSet::new();
            for number in 0..20 {
                let pieces = kind.pieces(&aim, Seed(3), number);
                assert_eq!(pieces, kind.pieces(&aim, Seed(3), number));
                // The published one is the same for each seed.
                assert!(number > 0 || pieces == kind.pieces(&aim, Seed(4), number), "{kind}");
                let whole = pieces.concat();
                let mut headers = [httparse::EMPTY_HEADER; 16];
                let mut request = httparse::Request::new(&mut headers);
                let parsed = request.parse(&whole).expect("a request");
                assert!(parsed.is_complete() && request.path == Some("/v2/models/a_model/infer"), "{kind} {number}");
                seen.insert(pieces);
            }
            assert!(seen.len() > 10, "{kind}: {}", seen.len());
        }
    }
}

#[tokio::test]
async fn what_comes_of_a_request_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let server = tokio::spawn(async move {
        for answer in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"HTTP/1.1 4", b""] {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut pieces = [0; 4];
            stream.read_exact(&mut pieces).await.expect("both pieces");
            assert_eq!(&pieces, b"ab\r\n");
            stream.write_all(answer).await.expect("it is there");
        }
        // One that is never answered.
        let _kept = listener.accept().await.expect("a connection");
        std::future::pending::<()>().await;
    });
    let pieces = [b"ab".to_vec(), b"\r\n".to_vec()];
    let second = Duration::from_secs(10);
    for expected in [Came::Status(400), Came::Ended, Came::Ended] {
        assert_eq!(send(&address, &pieces, second).await.expect("a connection"), expected);
    }
    let soon = Duration::from_millis(60);
    assert_eq!(send(&address, &pieces, soon).await.expect("a connection"), Came::Nothing);
    server.abort();
}
