//! Serving the plugin on its socket.

use crate::config::Config;
use crate::controller::ControllerService;
use crate::identity::IdentityService;
use crate::node::NodeService;
use carafe_proto::csi::v1::controller_server::ControllerServer;
use carafe_proto::csi::v1::identity_server::IdentityServer;
use carafe_proto::csi::v1::node_server::NodeServer;
use std::future::Future;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

/// How long calls that are under way at the end may take.
const GRACE: Duration = Duration::from_secs(10);

/// Listens on the Unix socket at `path`, for root and its group. A socket that a dead plugin left is replaced; one that
/// somebody answers on is not.
///
/// # Errors
/// `AddrInUse` when somebody answers there, or when something that is not a socket has that name; else what the system
/// said.
pub async fn listen(path: &Path) -> Result<UnixListener, Error> {
    let in_use = |what: &str| Error::new(ErrorKind::AddrInUse, format!("{path:?} {what}"));
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(in_use("exists and is not a socket: name another path"));
        }
        Ok(_) if UnixStream::connect(path).await.is_ok() => {
            return Err(in_use("is served by another process: end it first"));
        }
        Ok(_) => std::fs::remove_file(path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// Serves the plugin on `listener` until `shutdown` ends, then lets calls under way end and ends the mounts that nothing
/// refers to.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    config: Config,
    listener: UnixListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), tonic::transport::Error> {
    let launcher = config.node.as_ref().map(|node| node.launcher.clone());
    let (told, hear) = tokio::sync::oneshot::channel();
    let signal = async move {
        shutdown.await;
        // The receiver is gone only when the server has failed already.
        let _ = told.send(());
    };
    let serving = Server::builder()
        .add_service(IdentityServer::new(IdentityService::new(&config)))
        .add_optional_service(ControllerService::new(&config).map(ControllerServer::new))
        .add_optional_service(NodeService::new(&config).map(NodeServer::new))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), signal);
    let grace = async {
        // A sender dropped without a word means that the server has ended, so that this branch is not looked at again.
        let _ = hear.await;
        tokio::time::sleep(GRACE).await;
    };
    let result = tokio::select! {
        result = serving => result,
        () = grace => {
            tracing::warn!("calls that are still under way are left to their callers");
            Ok(())
        }
    };
    if let Some(launcher) = launcher {
        launcher.shutdown().await;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_left_by_a_dead_plugin_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        let live = listen(&path).await.unwrap();
        let error = listen(&path).await.unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
        drop(live);
        assert!(listen(&path).await.is_ok());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        std::fs::write(&path, "data").unwrap();
        assert_eq!(listen(&path).await.unwrap_err().kind(), ErrorKind::AddrInUse);
        assert!(path.exists());
    }
}
