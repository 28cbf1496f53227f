//! Commands that serve metrics.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{scrape::Page, tool::tool};

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A command that serves metrics, and ends when the last ones were fetched.
pub struct Metered {
    pub child: Child,
    pub address: SocketAddr,
    /// What it writes besides.
    rest: Option<JoinHandle<String>>,
}

impl Metered {
    pub fn begin(arguments: &[&str]) -> Self {
        Self::of(tool().args(arguments).args(["--metrics-listen", ":0", "--metrics-linger", "10m"]))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("UTF-8");
        let address = line.trim().strip_prefix("sequence-stress: metrics at http://");
        let address = address.and_then(|address| address.strip_suffix("/metrics")?.parse().ok());
        let address = address.unwrap_or_else(|| panic!("{line}"));
        let rest = thread::spawn(move || {
            let mut rest = String::new();
            // Where it is no text, somebody else says what is wrong.
            let _ = said.read_to_string(&mut rest);
            rest
        });
        Self { child, address, rest: Some(rest) }
    }

    /// Waits until the report is written; returns it.
    pub fn report(&mut self, last_line: &str) -> String {
        let mut all = String::new();
        for line in BufReader::new(self.child.stdout.take().expect("it was not read")).lines() {
            all = all + &line.expect("UTF-8") + "\n";
            if all.lines().last().is_some_and(|line| line.starts_with(last_line)) {
                return all;
            }
        }
        panic!("it ended without '{last_line}': {all}");
    }

    /// Fetches metrics until they show this.
    pub fn shows(&self, what: impl Fn(&Page) -> bool) -> Page {
        loop {
            let page = Page::fetch(self.address);
            if what(&page) {
                return page;
            }
            thread::sleep(LOOK);
        }
    }

    /// Fetches metrics until the command has ended; returns the last ones, and the exit code.
    pub fn end(mut self) -> (Page, Option<i32>) {
        let mut last = None;
        while let Some(page) = Page::try_fetch(self.address) {
            last = Some(page);
            thread::sleep(LOOK);
        }
        (last.expect("a page"), self.child.wait().expect("it ends").code())
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.rest.take().map(JoinHandle::join);
    }
}
