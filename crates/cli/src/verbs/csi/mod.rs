//! `carafe csi --endpoint unix:///PATH`: the CSI driver.
//!
//! With Redis each file system of a node is served by a child process, `carafe mount`, that outlives a restart of the
//! driver. The embedded engine has one process, so there the mount lives in this one, over the same client that the
//! controller uses.

mod embedded;
mod registry;

use crate::failure::{Exit, Failure, Outcome, io};
use crate::kubernetes::ClaimsOfCluster;
use crate::secret::{SecretArgs, Secrets};
use crate::store::MetaUrl;
use crate::volume::VolumeArgs;
use carafe_csi::store::MetaFileSystems;
use carafe_csi::{
    BucketKeys, ChildOptions, ChildProcess, Claims, Config, FsAddress, InProcess, MountLauncher, NodeConfig,
    Secret, SharedMounts, SharedOptions, VolumePath, listen,
};
use carafe_fuse::table::FS_TYPE;
use clap::Args;
use embedded::Embedded;
use registry::{Connector, Janitors};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Serve the CSI driver on a socket
#[derive(Args, Debug)]
pub(crate) struct CsiArgs {
    /// Where to listen
    #[arg(long, value_name = "unix:///PATH", env = "CSI_ENDPOINT")]
    endpoint: String,

    /// The node's name, unique in the cluster [default: the host name]
    #[arg(long, value_name = "NAME", env = "CARAFE_NODE_ID")]
    node_id: Option<String>,

    /// Metadata URL of a file system that serves requests without secrets (may be given several times); volumes can ask
    /// for it by NAME with the parameter `fileSystem`
    #[arg(long = "meta-url", value_name = "[NAME=]META_URL")]
    meta_urls: Vec<String>,

    /// Serve only the Controller service
    #[arg(long, conflicts_with = "node_only")]
    controller_only: bool,

    /// Serve only the Node service
    #[arg(long)]
    node_only: bool,

    /// The driver's own directory: its mounts and their logs
    #[arg(long, value_name = "DIR", default_value = "/var/lib/carafe/csi")]
    base: PathBuf,

    /// The folder in the file system that volumes are made in
    #[arg(long, value_name = "PATH", default_value = "volumes")]
    volumes: String,

    /// How long a mount that no pod uses any more lives on, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    linger: u64,

    /// The driver's name, as in the StorageClass
    #[arg(long, value_name = "NAME", default_value = carafe_csi::DRIVER_NAME)]
    driver_name: String,

    #[command(flatten)]
    volume: VolumeArgs,

    #[command(flatten)]
    secrets: SecretArgs,
}

pub(crate) async fn run(args: &CsiArgs) -> Outcome {
    let path = socket(&args.endpoint)?;
    let secrets = args.secrets.read()?;
    let file_systems =
        args.meta_urls.iter().map(|url| address(url, &secrets)).collect::<Outcome<Vec<_>>>()?;
    let embedded = Arc::new(Embedded::new(args.volume.clone()));
    let janitors = Arc::new(Janitors::default());
    let connector = Connector::new(embedded.clone(), args.volume.allow_volatile, janitors.clone());
    let registries = Arc::new(MetaFileSystems::new(connector));
    let mut config = Config::new(env!("CARGO_PKG_VERSION"));
    config.driver.clone_from(&args.driver_name);
    config.volumes =
        VolumePath::new(&args.volumes).map_err(|e| Failure::new(Exit::Usage, format!("--volumes is {e}")))?;
    if !args.node_only {
        config.controller = Some(registries.clone());
        config.claims = ClaimsOfCluster::new().map(|claims| Arc::new(claims) as Arc<dyn Claims>);
    }
    if !args.controller_only {
        let launcher = launcher(args, &file_systems, embedded.clone())?;
        config.node = Some(NodeConfig { node_id: node_id(args), launcher });
    }
    config.file_systems = file_systems;
    let listener = listen(&path).await.map_err(io(format!("cannot listen on {}", path.display())))?;
    tracing::info!(socket = %path.display(), "serving CSI");
    let end = end_signal()?;
    carafe_csi::serve(config, listener, end)
        .await
        .map_err(|e| Failure::new(Exit::Failed, format!("the CSI server failed: {e}")))?;
    janitors.end().await;
    for client in registries.take_all().await {
        // The embedded engine's client is the mounts', too, and ends with them.
        if !client.store().single_process() {
            client.close().await;
        }
    }
    embedded.close().await
}

/// Both launchers have the same shape; which one it is depends on the engine of the file systems.
fn launcher(
    args: &CsiArgs,
    file_systems: &[FsAddress],
    embedded: Arc<Embedded>,
) -> Outcome<Arc<dyn MountLauncher>> {
    let mut options = SharedOptions::new(&args.base);
    options.linger = Duration::from_secs(args.linger);
    let kinds: Vec<bool> = file_systems
        .iter()
        .map(|fs| MetaUrl::parse(fs.public_url().as_str()).map(|url| url.is_embedded()))
        .collect::<Outcome<_>>()?;
    if kinds.iter().any(|embedded| *embedded) {
        if kinds.contains(&false) {
            return Err(Failure::new(Exit::Usage, "one driver serves either embedded or Redis file systems"));
        }
        let mount = move |address, point| embedded.clone().mount(address, point);
        return Ok(Arc::new(SharedMounts::new(InProcess::new(FS_TYPE, mount), options)));
    }
    let child = ChildOptions {
        program: std::env::current_exe().map_err(io("cannot find the own program"))?,
        arguments: child_arguments(&args.volume),
        logs: args.base.join("logs"),
        fs_type: FS_TYPE.to_owned(),
    };
    Ok(Arc::new(SharedMounts::new(ChildProcess::new(child), options)))
}

/// What the driver was told about mounts, for a child that makes one.
fn child_arguments(volume: &VolumeArgs) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut pair = |name: &str, value: OsString| arguments.extend([name.into(), value]);
    if let Some(dir) = &volume.cache_dir {
        pair("--cache-dir", dir.into());
    }
    pair("--cache-size", volume.cache_size.0.to_string().into());
    pair("--memory-cache-size", volume.memory_cache_size.0.to_string().into());
    pair("--upload-parallel", volume.upload_parallel.to_string().into());
    for (wanted, flag) in [
        (volume.no_cache_disk, "--no-cache-disk"),
        (volume.close_sync, "--close-sync"),
        (volume.allow_volatile, "--allow-volatile"),
    ] {
        if wanted {
            arguments.push(flag.into());
        }
    }
    arguments
}

fn address(text: &str, secrets: &Secrets) -> Outcome<FsAddress> {
    let (name, url) = named(text);
    // The scheme is checked now and not by the first pod.
    MetaUrl::parse(url)?;
    let password = secrets.meta_password.as_ref().map(|p| Secret::new(p.expose()));
    let mut address =
        FsAddress::new(url, password).map_err(|e| Failure::new(Exit::Usage, format!("--meta-url is {e}")))?;
    address.name = name.map(str::to_owned);
    if let (Some(access_key), Some(secret_key)) = (&secrets.access_key, &secrets.secret_key) {
        address.bucket_keys = Some(BucketKeys {
            access_key: access_key.clone(),
            secret_key: Secret::new(secret_key.expose()),
            session_token: secrets.session_token.as_ref().map(|t| Secret::new(t.expose())),
        });
    }
    Ok(address)
}

/// `NAME=URL`, or a URL alone; an equals sign behind the scheme belongs to the URL.
fn named(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((name, url)) if !name.contains(':') && !name.is_empty() => (Some(name), url),
        _ => (None, text),
    }
}

/// The secrets of an address in the shape that the rest of the program takes.
fn secrets_of(address: &FsAddress) -> Secrets {
    let keys = address.bucket_keys.as_ref();
    let own = |secret: &Secret| carafe_object::Secret::new(secret.reveal());
    Secrets {
        meta_password: address.meta_password().map(own),
        meta_ca_pem: None,
        access_key: keys.map(|k| k.access_key.clone()),
        secret_key: keys.map(|k| own(&k.secret_key)),
        session_token: keys.and_then(|k| k.session_token.as_ref()).map(own),
    }
}

fn socket(endpoint: &str) -> Outcome<PathBuf> {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    if !path.starts_with('/') {
        return Err(Failure::new(Exit::Usage, format!("the endpoint {endpoint:?} is no Unix socket"))
            .next("write unix:///absolute/path.sock"));
    }
    Ok(path.into())
}

fn node_id(args: &CsiArgs) -> String {
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    args.node_id.clone().unwrap_or_else(host)
}

fn end_signal() -> Outcome<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(io("cannot listen for signals"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(io("cannot listen for signals"))?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_unix_sockets() {
        assert_eq!(socket("unix:///csi/csi.sock").unwrap(), PathBuf::from("/csi/csi.sock"));
        assert_eq!(socket("/csi/csi.sock").unwrap(), PathBuf::from("/csi/csi.sock"));
        assert!(socket("tcp://1.2.3.4:5").is_err() && socket("unix://relative").is_err());
    }

    #[test]
    fn a_file_system_may_be_given_a_name() {
        assert_eq!(named("main=redis://host/1?a=b"), (Some("main"), "redis://host/1?a=b"));
        assert_eq!(named("redis://host/1?a=b"), (None, "redis://host/1?a=b"));
    }

    #[test]
    fn an_address_keeps_its_secrets_and_gives_them_back() {
        let secrets = Secrets {
            meta_password: Some(carafe_object::Secret::new("pw")),
            meta_ca_pem: None,
            access_key: Some("AK".into()),
            secret_key: Some(carafe_object::Secret::new("SK")),
            session_token: None,
        };
        let address = address("redis://host/1", &secrets).unwrap();
        assert!(!format!("{address:?}").contains("SK"));
        let back = secrets_of(&address);
        assert_eq!(back.meta_password, secrets.meta_password);
        assert_eq!((back.access_key, back.secret_key), (secrets.access_key, secrets.secret_key));
    }
}
