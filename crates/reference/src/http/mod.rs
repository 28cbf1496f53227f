//! The front end over HTTP: the same requests as over gRPC, as JSON, with tensors' bytes behind it where a client likes that better.
//!
//! Nothing is judged here that gRPC judges too: a request becomes the message that a gRPC client would have sent. One difference is the
//! real server's: a client that goes cancels nothing here.

mod compression;
mod contents;
mod infer;
mod json;
mod queries;
mod rejection;
mod request;
mod response;
mod route;

use std::{convert::Infallible, time::Duration};

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::{Request, StatusCode, body::Incoming, header::HeaderValue};
use prost::bytes::Bytes;

#[cfg(any(test, feature = "testing"))]
pub(super) use self::infer::request;
pub(super) use self::rejection::http_status;
use self::{rejection::Rejection, route::Route};
use super::{
    grpc::Service,
    web::{Answered, answered},
};

/// The largest body that is taken, compressed or not.
const BODY_BYTES_MAX: usize = 256 * 1024 * 1024;
/// How long a client may take to send one.
const BODY_LIMIT: Duration = Duration::from_secs(60);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain");

pub(super) async fn answer(service: Service, request: Request<Incoming>) -> Result<Answered, Infallible> {
    match answer_or_reject(&service, request).await {
        Ok(answer) => Ok(answer),
        Err(rejection) => {
            service.suffer_rejection().await;
            Ok(rejected(&rejection))
        }
    }
}

async fn answer_or_reject(service: &Service, request: Request<Incoming>) -> Result<Answered, Rejection> {
    let body = match Route::of(request.method(), request.uri().path())? {
        Route::Live | Route::Ready => return Ok(answered(StatusCode::OK, TEXT, Vec::new())),
        Route::ModelReady(model) => {
            return queries::model_ready(service, model).await.map(|body| answered(StatusCode::OK, TEXT, body));
        }
        Route::Infer(model) => return infer::infer(service, model, request).await,
        Route::ServerMetadata => queries::server_metadata(service).await?,
        Route::ModelMetadata(model) => queries::model_metadata(service, model).await?,
        Route::ModelConfig(model) => queries::model_config(service, model).await?,
        Route::Statistics(model) => queries::statistics(service, model).await?,
        Route::Index => queries::index(service, &read(request.into_body()).await?).await?,
        Route::Load(model) => queries::load(service, model, &read(request.into_body()).await?).await?,
        Route::Unload(model) => queries::unload(service, model).await?,
    };
    Ok(answered(StatusCode::OK, JSON, body))
}

fn rejected(rejection: &Rejection) -> Answered {
    answered(rejection.status, if rejection.is_json { JSON } else { TEXT }, rejection.body())
}

/// Reads a body to its end.
async fn read(body: Incoming) -> Result<Bytes, Rejection> {
    let read = tokio::time::timeout(BODY_LIMIT, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    match read {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Rejection::bad_request(format!("the body cannot be read: {error}"))),
        Err(_) => {
            let text = format!("the body did not come within {} s", BODY_LIMIT.as_secs());
            Err(Rejection::new(StatusCode::REQUEST_TIMEOUT, text))
        }
    }
}

fn too_large() -> Rejection {
    let text = format!("the body is larger than {BODY_BYTES_MAX} bytes");
    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, text)
}
