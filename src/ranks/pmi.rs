//! PMI-1, which Slurm and MPICH speak to the processes that they start: a store of names and values, and a barrier.
//!
//! Lines of text over a socket that the process inherits; `PMI_FD` has its number.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::Duration,
};

/// Slurm and hydra take values of up to 1,024 bytes, but Slurm mistakes long ones.
const VALUE_MAX: usize = 512;
/// The longest line that is read.
const LINE_MAX: u64 = 4096;

/// A process's connection to what started it.
pub(super) struct Pmi {
    lines: BufReader<UnixStream>,
    store: String,
}

impl Pmi {
    /// Greets whatever started this process. It answers, or fails, within the limit.
    ///
    /// # Errors
    /// When it does not speak PMI-1, in one line.
    pub(super) fn over(socket: OwnedFd, limit: Duration) -> Result<Self, String> {
        let socket = UnixStream::from(socket);
        let prepared = socket.set_read_timeout(Some(limit)).and_then(|()| socket.set_write_timeout(Some(limit)));
        prepared.map_err(|error| format!("PMI_FD is no socket: {error}"))?;
        let mut pmi = Self { lines: BufReader::new(socket), store: String::new() };
        let answer = pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        if value(&answer, "rc") != Some("0") {
            return Err(format!("it rejects PMI-1: {answer}"));
        }
        let answer = pmi.ask("cmd=get_my_kvsname", "my_kvsname")?;
        value(&answer, "kvsname").ok_or("it names no store")?.clone_into(&mut pmi.store);
        Ok(pmi)
    }

    pub(super) fn put(&mut self, key: &str, value: &str) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_graphic() && c != '=';
        assert!(value.len() <= VALUE_MAX && value.chars().all(is_plain), "a value that PMI-1 takes");
        let request = format!("cmd=put kvsname={} key={key} value={value}", self.store);
        let answer = self.ask(&request, "put_result")?;
        succeeded(&answer).then_some(()).ok_or_else(|| format!("it does not keep {key}: {answer}"))
    }

    pub(super) fn get(&mut self, key: &str) -> Result<String, String> {
        let request = format!("cmd=get kvsname={} key={key}", self.store);
        let answer = self.ask(&request, "get_result")?;
        // MPICH names a value even where there is none.
        let told = value(&answer, "value").filter(|_| succeeded(&answer));
        told.map(str::to_owned).ok_or_else(|| format!("it has no {key}: {answer}"))
    }

    /// Waits until all ranks are here.
    pub(super) fn barrier(&mut self) -> Result<(), String> {
        self.ask("cmd=barrier_in", "barrier_out").map(drop)
    }

    /// Takes leave, without which the launcher takes the process for one that failed.
    pub(super) fn finalize(mut self) -> Result<(), String> {
        self.ask("cmd=finalize", "finalize_ack").map(drop)
    }

    fn ask(&mut self, request: &str, answer: &str) -> Result<String, String> {
        let failed = |error: std::io::Error| format!("no answer to '{request}': {error}");
        self.lines.get_mut().write_all(format!("{request}\n").as_bytes()).map_err(failed)?;
        let mut line = String::new();
        std::io::Read::take(&mut self.lines, LINE_MAX).read_line(&mut line).map_err(failed)?;
        let line = line.trim_end().to_owned();
        if value(&line, "cmd") == Some(answer) {
            Ok(line)
        } else {
            Err(format!("'{request}' was answered by '{line}'"))
        }
    }
}

/// Whether an answer says so, or nothing else.
fn succeeded(answer: &str) -> bool {
    value(answer, "rc").is_none_or(|code| code == "0")
}

/// The value of a key in a line.
fn value<'l>(line: &'l str, key: &str) -> Option<&'l str> {
    line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers these lines in turn, and says what it was asked.
    fn launcher(answers: &'static [&'static str]) -> (OwnedFd, std::thread::JoinHandle<Vec<String>>) {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let thread = std::thread::spawn(move || {
            let mut asked = Vec::new();
            let mut lines = BufReader::new(theirs);
            for answer in answers {
                let mut line = String::new();
                if lines.read_line(&mut line).expect("a line") == 0 {
                    break;
                }
                asked.push(line);
                lines.get_mut().write_all(format!("{answer}\n").as_bytes()).expect("it is read");
            }
            asked
        });
        (ours.into(), thread)
    }

    const INIT: &str = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn values_pass_through_the_store_of_the_launcher() {
        let (socket, thread) = launcher(&[
            INIT,
            "cmd=my_kvsname kvsname=77.0",
            "cmd=put_result rc=0 msg=success",
            "cmd=barrier_out",
            "cmd=get_result rc=0 msg=success value=127.0.0.1:4000",
            "cmd=finalize_ack",
        ]);
        let mut pmi = Pmi::over(socket, LIMIT).expect("PMI-1");
        pmi.put("where", "127.0.0.1:4000").expect("it takes it");
        pmi.barrier().expect("all are here");
        assert_eq!(pmi.get("where").as_deref(), Ok("127.0.0.1:4000"));
        pmi.finalize().expect("it lets go");
        let asked = thread.join().expect("it does not fail");
        assert_eq!(asked[0], "cmd=init pmi_version=1 pmi_subversion=1\n");
        assert_eq!(asked[2], "cmd=put kvsname=77.0 key=where value=127.0.0.1:4000\n");
        assert_eq!(asked[4], "cmd=get kvsname=77.0 key=where\n");
    }

    #[test]
    fn what_does_not_speak_pmi_1_is_told() {
        for (answers, expected) in [
            (&["cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1"][..], "rejects PMI-1"),
            (&["hello"], "answered by 'hello'"),
            (&[INIT, "cmd=my_kvsname"], "no store"),
        ] {
            let (socket, _thread) = launcher(answers);
            let error = Pmi::over(socket, LIMIT).err().expect(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_the_store_does_not_have_is_told() {
        for answer in ["cmd=get_result rc=1", "cmd=get_result rc=-1 msg=key_where_not_found value=unknown"] {
            let answers: &'static [&str] =
                Box::leak(vec![INIT, "cmd=my_kvsname kvsname=1.0", answer].into_boxed_slice());
            let (socket, _thread) = launcher(answers);
            let error = Pmi::over(socket, LIMIT).expect("PMI-1").get("where").expect_err("there is none");
            assert!(error.contains("it has no where"), "{error}");
        }
        let (socket, _thread) = launcher(&[INIT, "cmd=my_kvsname kvsname=1.0", "cmd=put_result rc=1"]);
        let error = Pmi::over(socket, LIMIT).expect("PMI-1").put("where", "x").expect_err("there is no room");
        assert!(error.contains("does not keep where"), "{error}");
    }

    #[test]
    fn a_launcher_that_does_not_answer_is_waited_for_no_longer_than_the_limit() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair of sockets");
        let error = Pmi::over(ours.into(), Duration::from_millis(20)).err().expect("nobody answers");
        assert!(error.contains("no answer to 'cmd=init"), "{error}");
    }
}
