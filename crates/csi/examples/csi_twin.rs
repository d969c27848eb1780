//! The driver over its twins, for `csi-sanity`: registry in memory, a local directory as the file system. Needs root.
//!
//! `cargo run -p carafe-csi --example csi_twin -- SOCKET DIRECTORY`, where DIRECTORY is the root of a tmpfs, then
//! `csi-sanity --csi.endpoint SOCKET`.

use carafe_csi::launcher::LocalDirectory;
use carafe_csi::store::{MemoryFileSystems, MemoryStore};
use carafe_csi::{Config, FsAddress, NodeConfig, SharedMounts, SharedOptions, listen, serve};
use std::path::PathBuf;
use std::sync::Arc;

const URL: &str = "redis://twin/0";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(socket), Some(directory)) = (arguments.next(), arguments.next()) else {
        return Err("usage: csi_twin SOCKET DIRECTORY".into());
    };
    let store = MemoryStore::new(uuid::Uuid::from_u128(0xCAFE)).with_directory(&directory);
    let options = SharedOptions::new(socket.with_extension("mounts"));
    let launcher = Arc::new(SharedMounts::new(LocalDirectory::new(directory), options));
    let config = Config {
        file_systems: vec![FsAddress::new(URL, None)?],
        controller: Some(Arc::new(MemoryFileSystems::default().with(URL, store))),
        node: Some(NodeConfig { node_id: "twin".into(), launcher }),
        ..Config::new("0.0.0-twin")
    };
    let stop = async {
        // Without a signal handler the default action ends the process, which is as good here.
        let _ = tokio::signal::ctrl_c().await;
    };
    Ok(serve(config, listen(&socket).await?, stop).await?)
}
