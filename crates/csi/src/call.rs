//! How every call runs.
//!
//! A caller that gives up drops its connection, and with it the future that served it, at any await. A call that has
//! begun to change something must go on to its end all the same, with its lock held, or the next call would meet a
//! half-made state. So each call that changes something runs as a task of its own; the connection only waits for it.

use crate::error::CsiError;
use std::future::Future;
use std::time::{Duration, Instant};
use tonic::{Code, Response, Status};

/// Runs the call `name` on `object` to its end and answers it; failures are logged with their code.
pub(crate) async fn run<T: Send + 'static>(
    name: &'static str,
    object: &str,
    call: impl Future<Output = Result<T, CsiError>> + Send + 'static,
) -> Result<Response<T>, Status> {
    let begin = Instant::now();
    let result = match tokio::spawn(call).await {
        Ok(result) => result,
        Err(panicked) => Err(CsiError::Defect(panicked.to_string())),
    };
    answer(name, object, begin.elapsed(), result)
}

/// The same for a call that only looks: it may end with its caller.
pub(crate) async fn look<T>(
    name: &'static str,
    object: &str,
    call: impl Future<Output = Result<T, CsiError>>,
) -> Result<Response<T>, Status> {
    let begin = Instant::now();
    let result = call.await;
    answer(name, object, begin.elapsed(), result)
}

fn answer<T>(
    name: &'static str,
    object: &str,
    took: Duration,
    result: Result<T, CsiError>,
) -> Result<Response<T>, Status> {
    let took_ms = took.as_millis() as u64;
    match result {
        Ok(answer) => {
            tracing::debug!(call = name, object, took_ms, "answered");
            Ok(Response::new(answer))
        }
        Err(error) => {
            let status = Status::from(error);
            let (code, message) = (status.code(), status.message());
            match code {
                Code::Aborted => tracing::debug!(call = name, object, took_ms, %code, message, "refused"),
                Code::Internal | Code::DataLoss => {
                    tracing::error!(call = name, object, took_ms, %code, message, "failed")
                }
                _ => tracing::warn!(call = name, object, took_ms, %code, message, "failed"),
            }
            Err(status)
        }
    }
}
