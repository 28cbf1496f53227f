//! The flags for authentication and TLS.

use std::{fs, path::PathBuf, str::FromStr};

use clap::{Args, CommandFactory as _, builder::NonEmptyStringValueParser, error::ErrorKind};

use super::Cli;
use workload::{
    header::{Header, Secret},
    scenario::{AccessOverrides, Compression, Tls},
};

/// Authentication, TLS and compression.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Authentication and TLS")]
pub struct AccessArgs {
    /// Send a header with every call
    ///
    /// 'NAME: VALUE'; repeatable. 'NAME: $VARIABLE' and 'NAME: Bearer $VARIABLE' take the value from the environment. @FILE has one header a line. The
    /// tool writes no value to a file.
    #[arg(short = 'H', long = "header", value_name = "HEADER|@FILE")]
    pub headers: Vec<Secret>,
    /// TLS.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Compress requests and responses: none, gzip or deflate [default: none]
    #[arg(long, value_name = "METHOD", value_parser = compression)]
    pub compression: Option<Compression>,
    /// What the headers are.
    #[arg(skip)]
    read: Vec<Header>,
}

/// TLS alone.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Authentication and TLS")]
pub struct TlsArgs {
    /// Trust the CA certificates in FILE
    ///
    /// PEM [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub client_cert: Option<PathBuf>,
    /// Key of the client certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub client_key: Option<PathBuf>,
    /// Name that the server's certificate must have [default: the endpoint's host]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub server_name: Option<String>,
}

impl TlsArgs {
    /// What the flags say in place of a scenario.
    pub fn overrides(&self) -> Tls {
        let Self { ca, client_cert, client_key, server_name } = self.clone();
        Tls { ca, client_cert, client_key, server_name }
    }
}

fn compression(text: &str) -> Result<Compression, String> {
    match text {
        "none" => Ok(Compression::None),
        "gzip" => Ok(Compression::Gzip),
        "deflate" => Ok(Compression::Deflate),
        _ => Err("give none, gzip or deflate".to_owned()),
    }
}

impl AccessArgs {
    /// Reads the headers.
    pub(super) fn complete(&mut self) -> Result<(), clap::Error> {
        let wrong = |problem: String| Cli::command().error(ErrorKind::ValueValidation, problem);
        self.read = headers(&self.headers).map_err(wrong)?;
        Ok(())
    }

    /// Whether they say anything.
    pub(super) fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.tls.overrides() == Tls::default()
    }

    /// What the flags say in place of a scenario.
    pub fn overrides(&self) -> AccessOverrides {
        AccessOverrides { tls: self.tls.overrides(), headers: self.read.clone(), compression: self.compression }
    }

    /// The words that say it again, a flag and its value each; values that are written down nowhere are left out.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let files: Vec<_> = self.headers.iter().filter_map(file).collect();
        let of_files = files.iter().map(|file| ("-H", format!("@{file}")));
        let in_files = files.iter().flat_map(|file| headers_in(file).unwrap_or_default()).collect::<Vec<_>>();
        let others = self.read.iter().filter(|header| in_files.iter().all(|other| other.name() != header.name()));
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let tls = [
            ("--ca", path(&self.tls.ca)),
            ("--client-cert", path(&self.tls.client_cert)),
            ("--client-key", path(&self.tls.client_key)),
            ("--server-name", self.tls.server_name.clone()),
            ("--compression", self.compression.map(|compression| format!("{compression:?}").to_lowercase())),
        ];
        let tls = tls.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
        of_files.chain(others.map(|header| ("-H", header.to_string()))).chain(tls).collect()
    }
}

/// The file of a flag that names one.
fn file(given: &Secret) -> Option<&str> {
    given.reveal().strip_prefix('@')
}

/// What is wrong with a header is told here, because clap would show it.
fn headers(given: &[Secret]) -> Result<Vec<Header>, String> {
    let mut all: Vec<Header> = Vec::new();
    for one in given {
        match file(one) {
            Some(path) => all.extend(headers_in(path)?),
            None => all.push(Header::from_str(one.reveal()).map_err(|problem| format!("-H: {problem}"))?),
        }
    }
    match all.iter().enumerate().find(|(index, header)| all[..*index].iter().any(|other| other.name() == header.name()))
    {
        Some((_, header)) => Err(format!("-H: there are two headers '{}'", header.name())),
        None => Ok(all),
    }
}

/// The headers in a file, one a line; empty lines and those that begin with # are none.
fn headers_in(path: &str) -> Result<Vec<Header>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("-H @{path}: the file cannot be read: {error}"))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(index, line)| line.parse().map_err(|problem| format!("-H @{path}, line {}: {problem}", index + 1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn read(words: &[&str]) -> Result<AccessArgs, String> {
        let cli = Cli::try_parse_from(["sequence-stress"].iter().chain(words)).map_err(|error| error.to_string())?;
        let mut access = cli.stress.endpoint.access;
        access.complete().map_err(|error| error.to_string())?;
        Ok(access)
    }

    #[test]
    fn headers_are_read_from_flags_and_files_and_said_again_without_their_values() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("headers");
        fs::write(&path, "# mine\n\nx-of-a-file: hunter2\n").expect("it is written");
        let at = format!("@{}", path.display());
        let words = ["-H", "authorization: Bearer hunter2", "-H", &at, "-H", "x-key: $KEY", "--server-name", "a b"];
        let access = read(&words).expect("headers");
        let names: Vec<_> = access.overrides().headers.iter().map(|header| header.name().to_owned()).collect();
        assert_eq!(names, ["authorization", "x-of-a-file", "x-key"]);
        let again = [("-H", at.as_str()), ("-H", "authorization: …"), ("-H", "x-key: $KEY"), ("--server-name", "a b")];
        assert_eq!(access.words(), again.map(|(flag, value)| (flag, value.to_owned())));
        assert!(!format!("{access:?}").contains("hunter2"), "{access:?}");
    }

    #[test]
    fn what_is_wrong_with_a_header_is_told_without_its_value() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("headers");
        fs::write(&path, "a: b\nhunter2\n").expect("it is written");
        let at = format!("@{}", path.display());
        for (words, reason) in [
            (vec!["-H", "hunter2"], "no colon"),
            (vec!["-H", "a: hunter2", "-H", "A: hunter2"], "two headers 'a'"),
            (vec!["-H", &at], "line 2"),
            (vec!["-H", "@/nowhere/at/all"], "cannot be read"),
        ] {
            let error = read(&words).expect_err(reason);
            assert!(error.contains(reason) && !error.contains("hunter2"), "{error}");
        }
    }
}
