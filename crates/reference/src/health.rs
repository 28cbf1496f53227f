//! The standard health service, as the real server has it: any service's name is as good as any other.

use tonic::{Request, Response, Status, codegen::BoxStream};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server::Health,
};

/// Says that the server serves.
#[derive(Debug)]
pub(super) struct Healthy;

#[tonic::async_trait]
impl Health for Healthy {
    type WatchStream = BoxStream<HealthCheckResponse>;

    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(HealthCheckResponse { status: ServingStatus::Serving.into() }))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented(""))
    }
}
