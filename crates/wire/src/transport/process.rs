//! A client that can be killed: a connection that goes through a process of its own, which only passes bytes on.

use std::{io, mem, path::Path, process::Stdio, sync::Mutex};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use super::lock;
use workload::endpoint::Endpoint;

/// The process of one connection. It ends with this value, and when this process ends.
#[derive(Debug, Default)]
pub(super) struct ClientProcess(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    NotStarted,
    /// It is killed when it is dropped.
    Running(Child),
    Killed,
}

impl ClientProcess {
    /// Starts it, and waits for the address that leads through it.
    pub(super) async fn start(&self, program: &Path, to: &Endpoint) -> io::Result<String> {
        let mut child = Command::new(program)
            .args(["proxy", "--while-stdin-is-open", "--to", &to.address()])
            // It ends at the end of its input, which comes however this process ends.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // An interrupt from the terminal is not for it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| io::Error::other(format!("cannot start {}: {error}", program.display())))?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        {
            let mut state = lock(&self.0);
            if matches!(*state, State::Killed) {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            *state = State::Running(child);
        }
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await?;
        match line.trim().rsplit_once(' ') {
            Some((_, address)) => Ok(address.to_owned()),
            None => Err(io::Error::other(format!("{} tells no address", program.display()))),
        }
    }

    /// Kills it: the system ends its connections.
    pub(super) fn kill(&self) {
        drop(mem::replace(&mut *lock(&self.0), State::Killed));
    }

    /// Whether it ended although nobody here ended it.
    pub(super) fn is_gone(&self) -> bool {
        match &mut *lock(&self.0) {
            State::Running(child) => !matches!(child.try_wait(), Ok(None)),
            State::NotStarted | State::Killed => false,
        }
    }
}
