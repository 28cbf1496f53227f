//! `sequence-stress serve`.

use std::{env, io::Write as _, time::Duration};

use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use super::{COULD_NOT_TEST, Failure, output::print};
use crate::{
    cli::ServeArgs,
    reference::{Ended, Server, model_names, scheduler::HoldUntil},
};

/// How soon it is seen that the server is gone by itself.
const LOOK: Duration = Duration::from_millis(20);

/// Serves until it is told to stop.
pub(super) fn serve(args: &ServeArgs) -> Result<u8, Failure> {
    let mut options = args.options();
    options.hold_until = hold_until()?;
    let server = Server::start(options).map_err(Failure::could_not_test)?;
    print(|out| {
        writeln!(out, "serving gRPC at {}", server.address)?;
        writeln!(out, "models: {}", model_names().collect::<Vec<_>>().join(", "))?;
        out.flush()
    });
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::could_not_test)?;
    runtime.block_on(until_told_or_gone(&server)).map_err(Failure::could_not_test)?;
    match server.stop() {
        Ended::Stopped => Ok(0),
        Ended::Crashed => {
            let problem = "the server crashed, as a planted fault wanted it".to_owned();
            Err(Failure { exit_code: COULD_NOT_TEST, problem })
        }
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

async fn until_told_or_gone(server: &Server) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let gone = async {
        while !server.is_gone() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = gone => {}
    }
    Ok(())
}
