//! What asks the process to end: Ctrl-C, and on Unix SIGTERM and a closed terminal; and what asks how the run is: on Unix SIGUSR1.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask the process to end. Needs a runtime.
#[cfg(unix)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where the process is to outlive its terminal.
    hangup: Option<Signal>,
}

#[cfg(unix)]
impl Signals {
    /// Takes the signals from now on.
    ///
    /// # Errors
    /// When the system does not allow that.
    pub(super) fn new() -> std::io::Result<Self> {
        let hangup = if outlives_its_terminal() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())?, hangup })
    }

    /// Waits for the next signal.
    pub(super) async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = next(self.hangup.as_mut()) => {}
        }
    }
}

#[cfg(unix)]
async fn next(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether the process ignores SIGHUP, as `nohup` has it.
#[cfg(target_os = "linux")]
fn outlives_its_terminal() -> bool {
    let status = procfs::process::Process::myself().and_then(|its| its.status());
    status.is_ok_and(|status| status.sigign & 1 != 0)
}

/// Nothing tells it here, and the system's own way stays.
#[cfg(all(unix, not(target_os = "linux")))]
fn outlives_its_terminal() -> bool {
    true
}

/// Ctrl-C. Needs a runtime.
#[cfg(not(unix))]
pub(super) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Takes Ctrl-C from now on.
    ///
    /// # Errors
    /// None here.
    #[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Waits for the next Ctrl-C.
    pub(super) async fn recv(&mut self) {
        // A process that cannot listen for Ctrl-C is ended by it.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}

/// Has SIGUSR1 not end the process, whatever it does: where nobody waits for it, it does nothing.
#[cfg(unix)]
pub(super) fn keep_from_ending() {
    // Once the runtime has taken it, the system's own handler is gone for ever.
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() {
        let _inside = runtime.enter();
        drop(Questions::new());
    }
}

/// Other systems have no such signal.
#[cfg(not(unix))]
pub(super) fn keep_from_ending() {}

/// SIGUSR1. Needs a runtime.
#[cfg(unix)]
pub(super) struct Questions(Signal);

#[cfg(unix)]
impl Questions {
    /// Takes the signal from now on: without this it ends the process.
    ///
    /// # Errors
    /// When the system does not allow that.
    pub(super) fn new() -> std::io::Result<Self> {
        signal(SignalKind::user_defined1()).map(Self)
    }

    /// Waits for the next one.
    pub(super) async fn recv(&mut self) {
        // There is no end to them.
        let _ = self.0.recv().await;
    }
}

/// Nothing: other systems have no such signal.
#[cfg(not(unix))]
pub(super) struct Questions;

#[cfg(not(unix))]
impl Questions {
    #[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(super) async fn recv(&mut self) {
        std::future::pending().await
    }
}
