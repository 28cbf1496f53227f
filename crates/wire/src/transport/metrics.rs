//! The server's metrics: one page of Prometheus text over HTTP.

use std::{error::Error, time::Duration};

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, StatusCode, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use prost::bytes::Bytes;

use super::access::Access;
use crate::net::Socket;
use workload::{endpoint::Endpoint, scenario::Target, version::ModelVersion};

const PENDING: &str = "nv_inference_pending_request_count";
/// The most that is read of a page.
const PAGE_MAX: usize = 16 * 1024 * 1024;

/// How many requests of the target's model wait to be executed, of its version or of all versions together.
///
/// # Errors
/// Why it cannot be told, in one line.
pub async fn pending_requests(
    metrics: &Endpoint,
    access: &Access,
    Target { model, version, .. }: &Target,
    limit: Duration,
) -> Result<u64, String> {
    let page = page_within(metrics, access, limit).await?;
    let pending = pending_in(&page, model, *version);
    pending.ok_or_else(|| format!("{}/metrics has no {PENDING} of model '{model}'", metrics.uri()))
}

/// The value of a gauge; of several with this name, such as one for each GPU, the sum.
///
/// # Errors
/// Why it cannot be told, in one line.
pub async fn gauge(metrics: &Endpoint, access: &Access, name: &str, limit: Duration) -> Result<u64, String> {
    let page = page_within(metrics, access, limit).await?;
    sum_in(&page, name, |_| true).ok_or_else(|| format!("{}/metrics has no {name}", metrics.uri()))
}

async fn page_within(metrics: &Endpoint, access: &Access, limit: Duration) -> Result<String, String> {
    tokio::time::timeout(limit, page(metrics, access))
        .await
        .unwrap_or_else(|_| Err(format!("no response within {} ms", limit.as_millis()).into()))
        .map_err(|why| format!("{}/metrics cannot be read: {why}", metrics.uri()))
}

async fn page(metrics: &Endpoint, access: &Access) -> Result<String, Box<dyn Error + Send + Sync>> {
    let connection = access.secured(metrics, Socket::connect(&metrics.address()).await?).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
    let mut request = Request::get("/metrics").header(HOST, metrics.address()).body(Empty::<Bytes>::new())?;
    request.headers_mut().extend(access.terms.headers.clone());
    let answer = async {
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(format!("the answer is {}", response.status()).into());
        }
        let body = Limited::new(response.into_body(), PAGE_MAX).collect().await?;
        String::from_utf8(body.to_bytes().into()).map_err(|_| "it is not UTF-8".into())
    };
    // The connection does its work only while somebody waits for it; where it ends first, the answer says why.
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        _ = connection => answer.await,
    }
}

/// The number of a version, or the sum over the model's versions; none where the page does not have it.
fn pending_in(page: &str, model: &str, version: Option<ModelVersion>) -> Option<u64> {
    let model = format!("model=\"{}\"", model.replace('\\', r"\\").replace('"', "\\\""));
    let version = version.map(|version| format!("version=\"{version}\""));
    let has = |labels: &str, label: &str| labels.starts_with(label) || labels.contains(&format!(",{label}"));
    sum_in(page, PENDING, |labels| has(labels, &model) && version.as_ref().is_none_or(|version| has(labels, version)))
}

/// The sum of the values in lines such as `name{model="m",version="1"} 0`, or `name 0`, of those whose labels are wanted; none where the
/// page has no such line.
fn sum_in(page: &str, name: &str, is_wanted: impl Fn(&str) -> bool) -> Option<u64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest.strip_prefix(' ')?),
        };
        // There may be a time behind it.
        let value: f64 = value.split_whitespace().next().filter(|_| is_wanted(labels))?.parse().ok()?;
        // A cast from floating point rounds towards zero and saturates: a negative count is none.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(value as u64)
    };
    page.lines().filter_map(value).reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn a_models_pending_requests_are_read_from_the_page() {
        let page = "# HELP nv_inference_pending_request_count Instantaneous number of pending requests\n\
            # TYPE nv_inference_pending_request_count gauge\n\
            nv_inference_pending_request_count{model=\"a\",version=\"1\"} 3\n\
            nv_inference_pending_request_count{model=\"a\",version=\"2\"} 4.000000\n\
            nv_inference_pending_request_count{version=\"1\",model=\"b\"} 0 1700000000\n\
            nv_inference_request_success{model=\"c\",version=\"1\"} 9\n\
            nv_inference_pending_request_count{model=\"q\\\"\\\\\",version=\"1\"} 5\n";
        for (model, expected) in [("a", Some(7)), ("b", Some(0)), ("c", None), ("", None), ("q\"\\", Some(5))] {
            assert_eq!(pending_in(page, model, None), expected, "{model}");
        }
        for (version, expected) in [(1, Some(3)), (2, Some(4)), (3, None)] {
            let version = NonZeroU64::new(version).map(ModelVersion);
            assert_eq!(pending_in(page, "a", version), expected, "{version:?}");
        }
        assert_eq!(pending_in("nv_inference_pending_request_count{model=\"a\"} -1", "a", None), Some(0));
        assert_eq!(pending_in("nv_inference_pending_request_count{model=\"a\"} many", "a", None), None);
    }
}
