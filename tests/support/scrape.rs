//! Fetches metrics as Prometheus does.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpStream},
};

use super::http::{LIMIT, request, try_ask};

/// A page of metrics in Prometheus' own text.
#[derive(Clone, Debug)]
pub struct Page {
    pub text: String,
    /// By name and labels, as they stand on the page.
    values: BTreeMap<String, f64>,
}

impl Page {
    /// Fetches the metrics at this address.
    pub fn fetch(address: SocketAddr) -> Self {
        Self::try_fetch(address).expect("somebody answers")
    }

    /// The same, where somebody answers at this address.
    pub fn try_fetch(address: SocketAddr) -> Option<Self> {
        let connection = TcpStream::connect_timeout(&address, LIMIT).ok()?;
        connection.set_read_timeout(Some(LIMIT)).ok()?;
        let answer = try_ask(connection, &request("GET", "/metrics", &[("Accept", "text/plain")], b""))?;
        assert_eq!((answer.status, answer.kind()), (200, "text/plain; version=0.0.4; charset=utf-8"));
        let text = answer.text();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let value = |line: &str| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (series.to_owned(), value.parse().expect("a number"))
        };
        Some(Self { values: lines.map(value).collect(), text })
    }

    /// Each series with this name, without the labels' braces, and its value.
    pub fn all<'p>(&'p self, name: &'p str) -> impl Iterator<Item = (&'p str, f64)> {
        let labels = move |series: &'p str| {
            let rest = series.strip_prefix(name)?;
            if rest.is_empty() { Some("") } else { rest.strip_prefix('{')?.strip_suffix('}') }
        };
        self.values.iter().filter_map(move |(series, value)| Some((labels(series)?, *value)))
    }

    /// The sum of the values of a name, of the series that have this text in their labels.
    pub fn sum(&self, name: &str, with: &str) -> f64 {
        self.all(name).filter(|(labels, _)| labels.contains(with)).map(|(_, value)| value).sum()
    }

    /// The families that the page describes, and the type of each.
    pub fn families(&self) -> BTreeMap<&str, &str> {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        lines.collect()
    }

    /// Fails where a count is lower than on an earlier page.
    pub fn assert_not_below(&self, earlier: &Self) {
        let falls = |name: &str| ["_total", "_bucket", "_count", "_sum"].iter().any(|ending| name.ends_with(ending));
        for (series, before) in
            earlier.values.iter().filter(|(series, _)| falls(series.split('{').next().expect("one")))
        {
            let now = self.values.get(series);
            assert!(now.is_some_and(|now| now >= before), "{series}: {before}, and then {now:?}");
        }
    }
}
