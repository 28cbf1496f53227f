//! Inference over HTTP.

use hyper::{
    Request, StatusCode,
    body::Incoming,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tonic::Code;

use super::{
    BODY_BYTES_MAX, JSON,
    compression::{Encoding, decompress},
    read, rejected,
    rejection::Rejection,
    request::{Inference, raw, read as read_request},
    response,
    route::Model,
    too_large,
};
use crate::{
    grpc::{Gone, Service},
    spec::Spec,
    web::{Answered, answered},
};

/// Says how many bytes of a body are JSON.
const HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

pub(super) async fn infer(service: &Service, model: Model, http: Request<Incoming>) -> Result<Answered, Rejection> {
    let (head, body) = http.into_parts();
    let found = service.repository.find(&model.name, &model.version);
    let spec = found.map_err(|failure| Rejection::from(failure).said_as_text())?.spec();
    if spec.is_decoupled {
        let text = "HTTP end point doesn't support models with decoupled transaction policy";
        return Err(Rejection::new(StatusCode::NOT_IMPLEMENTED, text).said_as_text());
    }
    let encoding = header(&head.headers, &CONTENT_ENCODING).unwrap_or_default();
    let is_compressed = !matches!(encoding, "" | "identity");
    if is_compressed && Encoding::named(encoding).is_none() {
        return Ok(unknown_encoding());
    }
    let body = read(body).await?;
    let body = if is_compressed { take_apart(&body)?.into() } else { body };
    let length = header(&head.headers, &HEADER_LENGTH);
    let Inference { message, binary } = inference(&model, length, &body, &spec)?;
    let response = service.infer(message, Gone::Ignored).await.map_err(|failure| {
        // What the model or its queue says comes another way than what is said at once.
        let comes_late = matches!(failure.code(), Code::Unavailable | Code::Internal | Code::Cancelled);
        let rejection = Rejection::from(failure);
        if comes_late { rejection.said_as_text() } else { rejection }
    })?;
    let mut body = response::write(&response, &binary)?;
    let encoding = Encoding::of_answer(header(&head.headers, &ACCEPT_ENCODING).unwrap_or_default());
    if let Some(encoding) = encoding {
        body.bytes = encoding.compress(&body.bytes);
    }
    let mut answered = answered(StatusCode::OK, JSON, body.bytes);
    let headers = answered.headers_mut();
    if let Some(json) = body.json {
        headers.insert(CONTENT_TYPE, BYTES);
        headers.insert(HEADER_LENGTH, json.into());
    }
    if let Some(encoding) = encoding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
    }
    Ok(answered)
}

fn unknown_encoding() -> Answered {
    let rejection = Rejection::new(StatusCode::NOT_IMPLEMENTED, "Unsupported compression type").said_as_text();
    let mut answered = rejected(&rejection);
    answered.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, deflate"));
    answered
}

fn take_apart(body: &[u8]) -> Result<Vec<u8>, Rejection> {
    if body.is_empty() {
        return Err(Rejection::bad_request("nothing to be decompressed").said_as_text());
    }
    decompress(body, BODY_BYTES_MAX).ok_or_else(too_large)
}

/// Reads a body as the message that a gRPC client would have sent.
fn inference(model: &Model, length: Option<&str>, body: &[u8], spec: &Spec) -> Result<Inference, Rejection> {
    let length = match length {
        None => body.len(),
        Some(text) => {
            usize::try_from(leading_number(text)).ok().filter(|length| *length <= body.len()).ok_or_else(|| {
                let range = format!("inference header size should be in range (0, {}), got: {text}", body.len());
                Rejection::bad_request(range).said_as_text()
            })?
        }
    };
    let (header, behind) = body.split_at(length);
    if header.is_empty() { raw(model, behind, spec) } else { read_request(model, header, behind) }
}

/// The number that a text begins with, in the 32 bits that the real server has for it; zero where there is none.
fn leading_number(text: &str) -> i32 {
    let text = text.trim_start();
    let (is_negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let digits = digits.bytes().take_while(u8::is_ascii_digit);
    let number = digits.fold(0_i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    #[expect(clippy::cast_possible_truncation, reason = "so does the real server")]
    let number = (if is_negative { -number } else { number }) as i32;
    number
}

#[cfg(any(test, feature = "testing"))]
/// Reads a body as a request to a model, for fuzzing; none where it is rejected.
pub(crate) fn request(
    model: &str,
    length: Option<&str>,
    body: &[u8],
    spec: &Spec,
) -> Option<wire::proto::ModelInferRequest> {
    let model = Model { name: model.to_owned(), version: String::new() };
    inference(&model, length, body, spec).ok().map(|inference| inference.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_the_real_server_reads_them() {
        for (text, number) in [
            ("12", 12),
            ("12x", 12),
            ("abc", 0),
            ("", 0),
            ("-5", -5),
            (" +7", 7),
            ("1099511627776", 0),
            ("1180591620717411303424", -1),
        ] {
            assert_eq!(leading_number(text), number, "{text}");
        }
    }
}
