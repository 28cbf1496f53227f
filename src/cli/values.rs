//! Values of flags, read so that what is wrong with one says what is wanted.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroU64},
    str::FromStr,
    time::Duration,
};

use super::MetricsArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use workload::{
    endpoint::{Endpoint, Scheme},
    scenario::{Arrivals, Millis, WORKERS_MAX},
};

/// A whole number of a type of which nobody comes near the upper limit. The standard library's errors do not tell the lower one.
pub(super) fn whole<N: FromStr>(text: &str) -> Result<N, String> {
    let least = "0".parse::<N>().map_or(1, |_| 0);
    text.parse().map_err(|_| format!("give a whole number, {least} or more"))
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("give a whole number from 0 to {}", u16::MAX))
}

/// A number of workers.
pub(super) fn workers(text: &str) -> Result<NonZeroU32, String> {
    let wanted = || format!("give a whole number from 1 to {WORKERS_MAX}");
    text.parse::<NonZeroU32>().ok().filter(|workers| workers.get() <= WORKERS_MAX).ok_or_else(wanted)
}

/// How iterations are spread over the time that a rate gives them.
pub(super) fn arrivals() -> impl TypedValueParser<Value = Arrivals> {
    PossibleValuesParser::new(Arrivals::NAMES).map(|name| Arrivals::named(&name).expect("it is one of the names"))
}

/// `ADDRESS:PORT`, or `:PORT` for one that only this machine reaches.
pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    let told = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':'));
    let address = match told {
        Some(port) => port.parse().ok().map(MetricsArgs::local),
        None => text.parse().ok(),
    };
    address.ok_or_else(|| {
        "give an IP address and a port, such as 127.0.0.1:9464, or :9464 for this machine alone".to_owned()
    })
}

/// `HOST:PORT`, `http://HOST:PORT/metrics` or the same with `https`.
pub(super) fn metrics(text: &str) -> Result<Endpoint, String> {
    let (scheme, address) = match text.strip_prefix("https://") {
        Some(address) => (Scheme::Https, address),
        None => (Scheme::default(), text.strip_prefix("http://").unwrap_or(text)),
    };
    let address = address.strip_suffix("/metrics").unwrap_or(address).trim_end_matches('/');
    if address.contains("://") {
        return Err(format!("'{text}': use HOST:PORT, such as localhost:8002, or https://HOST:PORT"));
    }
    address.parse::<Endpoint>().map(|endpoint| endpoint.speaking(scheme))
}

pub(super) fn share(text: &str) -> Result<f32, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "give a number from 0 to 1".to_owned())
}

pub(super) fn any_milliseconds(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    let is_whole = time.subsec_nanos().is_multiple_of(1_000_000) && time <= Duration::from_secs(3600);
    if is_whole { Ok(time) } else { Err("give whole milliseconds, at most an hour".to_owned()) }
}

pub(super) fn some_milliseconds(text: &str) -> Result<Duration, String> {
    any_milliseconds(text).and_then(|time| if time.is_zero() { Err("give 1ms or more".to_owned()) } else { Ok(time) })
}

pub(super) fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "give a time such as 500ms, 90s or 1h".to_owned())
}

/// A time of a second or more, at most a year.
pub(super) fn some_seconds(text: &str) -> Result<Duration, String> {
    whole_seconds(text).map(|seconds| Duration::from_secs(seconds.get()))
}

pub(super) fn whole_seconds(text: &str) -> Result<NonZeroU64, String> {
    let seconds = seconds_of(text).and_then(NonZeroU64::new);
    seconds.ok_or_else(|| "give whole seconds, such as 90s or 1h, from 1s to a year".to_owned())
}

/// Whole seconds, at most a year.
fn seconds_of(text: &str) -> Option<u64> {
    let time = time(text).ok()?;
    (time.subsec_nanos() == 0 && time.as_secs() <= Millis::MAX / 1000).then_some(time.as_secs())
}

/// Whole seconds, or none.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    seconds_of(text).ok_or_else(|| "give whole seconds, such as 90s or 1h, from 0s to a year".to_owned())
}

/// A share as percent, such as `5%`.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let share = number.parse::<f64>().map(|percent| percent / 100.0);
    share.ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "give a percentage from 0% to 100%".to_owned())
}

pub(super) fn milliseconds(text: &str) -> Result<Millis, String> {
    u64::try_from(time(text)?.as_millis()).map_err(|_| "the time is too long".to_owned())?.try_into()
}

/// The name of a gauge of the server's metrics.
pub(super) fn gauge(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if text.parse::<u32>().is_ok() {
        return Err(format!(
            "it has to be the name of a gauge of the server's metrics: a process ID is --server-pid {text}"
        ));
    }
    if text.is_empty() || !text.chars().all(is_name) || text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("it has to be the name of a gauge of the server's metrics".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_no_process() {
        assert_eq!(gauge("process_resident_memory_bytes").as_deref(), Ok("process_resident_memory_bytes"));
        for text in ["", "a b", "-1", "12x"] {
            assert!(gauge(text).is_err(), "{text}");
        }
        assert!(gauge("4711").is_err_and(|why| why.ends_with("a process ID is --server-pid 4711")));
    }

    #[test]
    fn whole_numbers_are_told_with_their_bounds() {
        assert_eq!(port("0"), Ok(0));
        assert_eq!(whole::<NonZeroU32>("4294967295").map(NonZeroU32::get), Ok(u32::MAX));
        for text in ["", "x", "-1", "1.5", "0", "4294967296"] {
            let error = whole::<NonZeroU32>(text).expect_err(text);
            assert_eq!(error, "give a whole number, 1 or more");
        }
        assert_eq!(port("70000"), Err("give a whole number from 0 to 65535".to_owned()));
        for text in ["0", "100001", "x"] {
            assert_eq!(workers(text), Err("give a whole number from 1 to 100000".to_owned()));
        }
    }

    #[test]
    fn percentages_and_whole_seconds_are_told_with_their_bounds() {
        for (text, share) in [("5%", 0.05), ("5", 0.05), ("0", 0.0), ("2.5 %", 0.025), ("100%", 1.0)] {
            assert_eq!(percent(text), Ok(share), "{text}");
        }
        for text in ["", "%", "-1%", "101%", "NaN", "inf", "five"] {
            assert!(percent(text).is_err(), "{text}");
        }
        assert_eq!((seconds("0s"), seconds("2m")), (Ok(0), Ok(120)));
        assert!(seconds("1500ms").is_err() && seconds("-1s").is_err());
    }

    #[test]
    fn an_address_to_listen_at_is_of_this_machine_alone_unless_it_names_another() {
        for (text, expected) in [
            (":9464", "127.0.0.1:9464"),
            ("localhost:0", "127.0.0.1:0"),
            ("0.0.0.0:9464", "0.0.0.0:9464"),
            ("[::1]:9464", "[::1]:9464"),
        ] {
            assert_eq!(listen(text).map(|address| address.to_string()), Ok(expected.to_owned()), "{text}");
        }
        for text in ["", "9464", ":", ":65536", "host:9464", "127.0.0.1", "http://127.0.0.1:9464", ":-1"] {
            assert!(listen(text).is_err_and(|why| why.starts_with("give an IP address")), "{text}");
        }
    }

    #[test]
    fn the_metrics_address_is_read_in_every_form() {
        for text in ["h:1", "http://h:1", "http://h:1/metrics", "http://h:1/"] {
            assert_eq!(metrics(text).map(|endpoint| endpoint.to_string()), Ok("h:1".to_owned()), "{text}");
        }
        assert_eq!(metrics("https://h:1/metrics").map(|endpoint| endpoint.to_string()), Ok("https://h:1".to_owned()));
        for text in ["grpc://h:1", "https://http://h:1", "h", "h:1/other"] {
            assert!(metrics(text).is_err(), "{text}");
        }
    }
}
