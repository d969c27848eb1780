//! A client's channel to a server on a Unix socket.

use std::path::{Path, PathBuf};
use thiserror::Error;
use tonic::transport::{Channel, Endpoint};

/// Why no channel to a socket could be opened.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The gRPC transport takes text only.
    #[error("the socket path {0:?} is not UTF-8: move the socket to a path that is")]
    NotUtf8(PathBuf),
    /// Nobody listens there.
    #[error("no server answers on {path:?} ({source}): is the plugin running, and is this its socket?")]
    Refused {
        /// The path as given.
        path: PathBuf,
        /// What the transport said.
        source: tonic::transport::Error,
    },
}

/// Connects to the gRPC server that listens on the Unix socket at `path`.
///
/// The channel connects again by itself when the server was restarted on the same path.
///
/// # Errors
/// When the path is not UTF-8, or nobody listens there at this moment.
pub async fn connect(path: &Path) -> Result<Channel, ConnectError> {
    let text = path.to_str().ok_or_else(|| ConnectError::NotUtf8(path.to_owned()))?;
    let refused = |source| ConnectError::Refused { path: path.to_owned(), source };
    Endpoint::from_shared(format!("unix://{text}")).map_err(refused)?.connect().await.map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_nobody_serves_is_an_error_that_names_it() {
        let error = connect(Path::new("/nonexistent/csi.sock")).await.unwrap_err();
        assert!(error.to_string().contains("/nonexistent/csi.sock"), "{error}");
    }
}
