//! `sequence-stress serve`.

use std::{
    env,
    io::{self, Write as _},
    time::Duration,
};

use super::{
    Failure,
    output::{print, say_error},
    runtime,
    signals::Signals,
};
use crate::{cli::ServeArgs, report::counted};
use reference::{Ended, HoldUntil, Models, Planted, Server, models_in_short};

/// What a second signal exits with.
const ENDED_AT_ONCE: i32 = 3;
/// How soon it is seen that the server is gone by itself.
const LOOK: Duration = Duration::from_millis(20);

/// Serves until it is told to stop.
pub(super) fn serve(args: &ServeArgs) -> Result<u8, Failure> {
    for note in args.check().map_err(Failure::wrong_input)? {
        say_error(&note);
    }
    let mut options = args.options().map_err(Failure::wrong_input)?;
    options.hold_until = hold_until()?;
    if args.model_repository.is_empty() {
        options.check().map_err(Failure::wrong_input)?;
    } else {
        let models = Models::read(&args.model_repository).map_err(Failure::wrong_input)?;
        models.notes.iter().for_each(|note| say_error(note));
        options.repository = Some(models);
    }
    let lines = match &options.repository {
        Some(models) => models.served.iter().map(|line| format!("model {line}")).collect(),
        None => vec![format!("models: {}", models_in_short())],
    };
    let server = Server::start(options).map_err(|problem| {
        if problem.starts_with("cannot listen") {
            let next = "name other ports (--grpc-port, --http-port, --metrics-port), or 0 for any free port";
            return Failure::could_not_test(format!("{problem}; {next}"));
        }
        Failure::could_not_test(problem)
    })?;
    let serving = serve_until_told(server, &lines, &args.server.scheduler.fault);
    match runtime()?.block_on(serving).map_err(Failure::could_not_test)? {
        Ended::Stopped => Ok(0),
        Ended::Crashed => Err(Failure::could_not_test("the server crashed, as a planted fault wanted it")),
    }
}

/// The two settings by which a real server's tests make its batches exact.
fn hold_until() -> Result<HoldUntil, Failure> {
    let read = |name: &str| match env::var(name) {
        Err(_) => Ok(0),
        Ok(text) => text.parse().map_err(|_| {
            Failure::wrong_input(format!("the environment variable {name} is '{text}': give a number of requests"))
        }),
    };
    Ok(HoldUntil {
        queued: read("TRITONSERVER_DELAY_SCHEDULER")?,
        backlog: read("TRITONSERVER_BACKLOG_DELAY_SCHEDULER")?,
    })
}

/// Serves until the first signal, and then until the last sequence is over or the second signal.
async fn serve_until_told(server: Server, models: &[String], planted: &[Planted]) -> io::Result<Ended> {
    let mut signals = Signals::new()?;
    // Whoever reads the address may signal at once.
    print(|out| {
        writeln!(out, "serving gRPC at {}", server.address)?;
        writeln!(out, "serving HTTP at {}", server.http)?;
        writeln!(out, "metrics at http://{}/metrics", server.metrics)?;
        models.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        out.flush()
    });
    let gone = async {
        while !server.is_gone() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = signals.recv() => {}
        () = gone => {}
    }
    for planted in planted {
        let times = server.committed(planted.fault);
        print(|out| writeln!(out, "planted: {}, which happened {}", planted.fault, counted(times, "time")));
    }
    let stopping = tokio::task::spawn_blocking(|| server.stop());
    tokio::select! {
        ended = stopping => Ok(ended.unwrap_or(Ended::Crashed)),
        () = signals.recv() => {
            say_error("told twice to stop: ended at once, with sequences under way");
            std::process::exit(ENDED_AT_ONCE)
        }
    }
}
