//! `sequence-stress proxy`.

use std::{
    future::pending,
    io::{self, Read as _, Write as _},
};

use tokio::{net::TcpListener, sync::oneshot};

use super::{Failure, output::print, runtime, seed_from_the_clock, signals::Signals};
use crate::cli::ProxyArgs;
use wire::proxy::{Path, serve};
use workload::seed::Seed;

/// Carries connections until it is told to stop.
pub(super) fn proxy(args: &ProxyArgs) -> Result<u8, Failure> {
    let network = args.network().map_err(Failure::wrong_input)?;
    let seed = Seed(args.random_seed.unwrap_or_else(seed_from_the_clock));
    let is_clear = network.is_clear();
    let path = Path::new(network, None, seed, 0);
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let cannot = |error: io::Error| format!("cannot listen on {}: {error}", args.listen());
        let listener = TcpListener::bind(args.listen()).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let mut signals = Signals::new().map_err(cannot)?;
        print(|out| {
            if !is_clear {
                writeln!(out, "seed {seed}")?;
            }
            writeln!(out, "the server is {}; clients connect to {address}", args.to)?;
            out.flush()
        });
        let input = end_of_input(args.while_stdin_is_open);
        let told = async {
            tokio::select! {
                () = signals.recv() => {}
                () = input => {}
            }
        };
        serve(listener, args.to.address(), path, told).await.map_err(cannot)
    });
    // What is still under way ends with it.
    runtime.shutdown_background();
    served.map(|()| 0).map_err(Failure::could_not_test)
}

/// Waits for the end of the standard input, where that is asked for.
async fn end_of_input(is_asked_for: bool) {
    if !is_asked_for {
        return pending().await;
    }
    let (tell, told) = oneshot::channel();
    // Nobody waits for the thread: a read from the input cannot be taken back.
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while input.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
        // Where nobody waits for it the program is ending anyway.
        let _ = tell.send(());
    });
    let _ = told.await;
}
