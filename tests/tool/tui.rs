//! The view of a run on the whole terminal: on a pseudo-terminal, with keys, and where there is no terminal.

use std::{
    io::{Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{Child, ExitStatus},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pty_process::{
    Size,
    blocking::{Command, Pty, open},
};

use crate::support::tool::{run, text, told, with_hangup};

/// How long something may take that comes at once on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(120);
const CTRL_C: &str = "\u{3}";
/// What has a terminal show again what it showed before.
const RESTORED: &str = "\u{1b}[?1049l";

/// The tool on a terminal of its own.
struct OnTerminal {
    process: Child,
    terminal: Arc<Pty>,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// Everything that was written to the terminal.
    written: Vec<u8>,
}

impl OnTerminal {
    fn start(size: (u16, u16), arguments: &[&str]) -> Self {
        Self::start_by(size, Command::new(env!("CARGO_BIN_EXE_sequence-stress")).args(arguments))
    }

    fn start_by((lines, columns): (u16, u16), command: Command) -> Self {
        let (terminal, other_end) = open().expect("a pseudo-terminal");
        terminal.resize(Size::new(lines, columns)).expect("it has a size");
        let command = ["SEQUENCE_STRESS_URL", "SEQUENCE_STRESS_METRICS", "NO_COLOR"]
            .into_iter()
            .fold(command, Command::env_remove);
        let process = command.env("TERM", "xterm-256color").spawn(other_end).expect("it runs");
        let (sender, output) = channel();
        let terminal = Arc::new(terminal);
        let reader = Arc::clone(&terminal);
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            // When nobody has the other end any more there is an error.
            while let Ok(length @ 1..) = (&*reader).read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { process, terminal, output, screen: vt100::Parser::new(lines, columns, 0), written: Vec::new() }
    }

    fn take_in(&mut self, bytes: &[u8]) {
        self.screen.process(bytes);
        self.written.extend(bytes);
    }

    fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Waits until the screen is like that.
    #[track_caller]
    fn wait_for(&mut self, is_such: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !is_such(&self.text()) {
            let left = PATIENCE.saturating_sub(began.elapsed());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.take_in(&bytes),
                Err(why) => panic!("{why}; the screen:\n{}", self.text()),
            }
        }
    }

    #[track_caller]
    fn wait_for_words(&mut self, words: &str) {
        self.wait_for(|text| text.contains(words));
    }

    fn press(&mut self, keys: &str) {
        (&*self.terminal).write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    fn resize(&mut self, lines: u16, columns: u16) {
        self.screen.screen_mut().set_size(lines, columns);
        self.terminal.resize(Size::new(lines, columns)).expect("it has a size");
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().try_into().expect("an ID")), signal).expect("it runs");
    }

    /// Waits until it ends. Returns its exit code, and what it wrote when the screen was restored.
    #[track_caller]
    fn end(&mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        loop {
            match self.output.recv_timeout(PATIENCE.saturating_sub(began.elapsed())) {
                Ok(bytes) => self.take_in(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(why) => panic!("{why}; the screen:\n{}", self.text()),
            }
        }
        let status: ExitStatus = self.process.wait().expect("it has ended");
        assert_eq!(status.signal(), None);
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "the screen is as before:\n{}", self.text());
        let written = String::from_utf8_lossy(&self.written);
        let (_, after) = written.rsplit_once(RESTORED).expect("the screen is restored");
        (status.code(), after.to_owned())
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_violation_is_seen_and_unfolded_and_q_ends_the_run_with_its_report() {
    let fault = ["--embedded", "-r", "42", "-d", "10m", "--tui", "--fault", "off-by-one:once@200"];
    let mut tool = OnTerminal::start((24, 80), &fault);
    tool.wait_for_words("violations: 1");
    tool.wait_for(|text| text.contains("INVALID: 1 violation") && text.contains("j/k select"));
    assert!(tool.screen.screen().alternate_screen() && tool.screen.screen().hide_cursor());
    tool.press("j\r");
    tool.wait_for(|text| {
        ["A response is not the running sum", "expected", "replay"].iter().all(|it| text.contains(it))
    });
    tool.press("\r");
    tool.wait_for_words("patterns");
    tool.press("?");
    tool.wait_for_words("Draw the screen anew");
    tool.press("q");
    let (code, screen) = tool.end();
    assert_eq!(code, Some(1), "{screen}");
    for words in ["INVALID", "where ", "off by 1", "replay: ", "requests in"] {
        assert!(screen.contains(words), "'{words}' is not in\n{screen}");
    }
}

#[test]
fn a_run_that_ends_by_itself_shows_its_report() {
    let mut tool = OnTerminal::start((50, 120), &["--embedded", "-r", "1", "-t", "4", "-i", "20", "--tui"]);
    tool.wait_for_words("slots: ");
    let (code, screen) = tool.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("checked, no violations") && screen.contains("replay: "), "{screen}");
}

#[test]
fn ctrl_c_stops_the_run_and_the_second_one_ends_it_at_once() {
    // Nobody gets a response, so that the run waits for some.
    let silent = ["--embedded", "-r", "42", "-d", "10m", "--tui", "--fault", "hang-instance"];
    let mut tool = OnTerminal::start((24, 80), &silent);
    tool.wait_for_words("no response for");
    tool.press(CTRL_C);
    tool.wait_for_words("stopping");
    // The user wants the report all the same.
    tool.press("q");
    tool.press(CTRL_C);
    let (code, screen) = tool.end();
    assert_eq!(code, Some(3), "{screen}");
    assert!(screen.contains("interrupted twice: ended at once, without a summary"), "{screen}");
}

#[test]
fn another_size_is_drawn_anew_and_sigterm_ends_the_run_with_its_report() {
    let mut tool = OnTerminal::start((24, 80), &["--embedded", "-r", "42", "-d", "10m", "--tui"]);
    tool.wait_for_words(", good ");
    // What is too small says so, and what is large enough shows the same again.
    tool.resize(10, 60);
    tool.wait_for_words("terminal 60x10, needs 80x20");
    tool.resize(30, 100);
    tool.wait_for_words("patterns");
    tool.signal(Signal::SIGTERM);
    let (code, screen) = tool.end();
    assert_eq!(code, Some(3), "{screen}");
    assert!(screen.contains("replay: "), "{screen}");
}

#[test]
fn a_terminal_that_is_closed_ends_the_run() {
    let words = with_hangup("SIG_DFL");
    let endless = ["--embedded", "-r", "42", "-d", "10m", "--tui"];
    let command = Command::new(&words[0]).args(&words[1..]).args(endless);
    let mut tool = OnTerminal::start_by((24, 80), command);
    tool.wait_for_words(", good ");
    // The terminal sends this when it is closed.
    tool.signal(Signal::SIGHUP);
    let (code, _) = tool.end();
    assert_eq!(code, Some(3));
}

#[test]
fn without_a_terminal_lines_take_the_views_place() {
    let output = run(&["--embedded", "-r", "1", "-t", "2", "-i", "5", "--tui"]);
    let text = text(&output);
    let told = "sequence-stress: --tui: standard error is no terminal; the run prints lines instead";
    assert!(text.contains(told), "{text}");
    assert!(text.contains("VALID: ") && output.status.code() == Some(0), "{text}");
}

#[test]
fn a_view_is_neither_quiet_nor_verbose() {
    for other in [&["--quiet"][..], &["-v"], &["--find-limit", "1..8"]] {
        let (code, text) = told(&[&["--embedded", "--tui"], other].concat());
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("--tui") && text.contains("cannot be used with"), "{text}");
    }
}
