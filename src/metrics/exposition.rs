//! The metrics as text, in the two forms that Prometheus reads.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet, prometheus_text, text},
    metrics::MetricType,
    registry::{Registry, Unit as Named},
};

use super::{
    families::{Family, PREFIX, Points, Unit, families},
    values::Values,
};

/// A form of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    OpenMetrics,
    Prometheus,
}

impl Form {
    /// The form that a client asks for in its header `Accept`; the older one where it asks for none.
    pub(super) fn asked_for(accept: &str) -> Self {
        let quality = |is_meant: fn(&str) -> bool| {
            let of = |range: &str| {
                let mut parts = split(range, ';').map(str::trim);
                let name = parts.next()?.to_ascii_lowercase();
                let mut quality = 1.0_f32;
                for parameter in parts {
                    let Some((parameter, value)) = parameter.split_once('=') else { continue };
                    let value = unquoted(value.trim());
                    match parameter.trim().to_ascii_lowercase().as_str() {
                        "q" => quality = value.parse().ok()?,
                        // Another version of the form is another form.
                        "version" if name == OPEN && value != VERSION => return None,
                        _ => {}
                    }
                }
                is_meant(&name).then_some(quality)
            };
            split(accept, ',').filter_map(of).fold(0.0_f32, f32::max)
        };
        let open = quality(|name| name == OPEN);
        if open > 0.0 && open >= quality(|name| name == "text/plain") { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The page.
    pub(super) fn page(self, values: &Values) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(Page(families(values))));
        let mut page = String::new();
        let written = match self {
            Self::OpenMetrics => text::encode(&mut page, &registry),
            Self::Prometheus => prometheus_text::encode(&mut page, &registry),
        };
        written.expect("memory takes it");
        page
    }
}

/// The parts of a header's value between separators. A separator in a quoted string separates nothing.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |char| {
        let separates = !is_quoted && char == separator;
        is_quoted ^= char == '"' && !is_escaped;
        is_escaped = is_quoted && !is_escaped && char == '\\';
        separates
    })
}

/// The value of a parameter, which a client may quote.
fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}

const OPEN: &str = "application/openmetrics-text";
const VERSION: &str = "1.0.0";

#[derive(Debug)]
struct Page(Vec<Family>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

impl Family {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let unit = self.unit.map(|unit| match unit {
            Unit::Seconds => Named::Seconds,
            Unit::Bytes => Named::Bytes,
        });
        let kind = match self.points {
            Points::Counter(_) => MetricType::Counter,
            Points::Gauge(_) => MetricType::Gauge,
            Points::Histogram(_) => MetricType::Histogram,
            Points::Info(_) => MetricType::Info,
        };
        let mut encoder = encoder.encode_descriptor(self.name, self.help, unit.as_ref(), kind)?;
        match &self.points {
            Points::Counter(points) => points.iter().try_for_each(|(labels, value)| {
                encoder.encode_family(labels)?.encode_counter::<NoLabelSet, _, f64>(value, None)
            }),
            Points::Gauge(points) => {
                points.iter().try_for_each(|(labels, value)| encoder.encode_family(labels)?.encode_gauge(value))
            }
            Points::Histogram(points) => points.iter().try_for_each(|(labels, times)| {
                let buckets: Vec<_> = times.buckets().map(|(bound, count)| (in_seconds(bound), count)).collect();
                let sum = in_seconds(Some(times.sum_us()));
                encoder.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, times.count(), &buckets, None)
            }),
            Points::Info(points) => points.iter().try_for_each(|labels| encoder.encode_info(labels)),
        }
    }
}

/// A bound of a bucket; of the last one that is infinite.
#[expect(clippy::cast_precision_loss, reason = "it is exact up to 285 years")]
fn in_seconds(us: Option<u64>) -> f64 {
    us.map_or(f64::INFINITY, |us| us as f64 / 1e6)
}

#[cfg(test)]
mod tests;
