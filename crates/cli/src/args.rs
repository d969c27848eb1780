//! The command line.

use crate::log::LogArgs;
use crate::secret::SecretArgs;
use crate::verbs::{
    bench, cache, csi, destroy, docs, format, fsck, gc, info, mount, status, umount, uninstall_check,
};
use clap::{Args, Parser, Subcommand};

/// A shared POSIX file system for ClickHouse: names in Redis, bytes in a bucket.
///
/// Exit codes: 0 done, 1 failed, 2 wrong command line, 3 store or bucket out of reach, 4 access denied,
/// 5 something wrong was found (fsck, gc), 6 refused because of what is there already.
#[derive(Parser, Debug)]
#[command(name = "carafe", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,

    /// Report in JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    Format(format::FormatArgs),
    Mount(mount::MountArgs),
    Umount(umount::UmountArgs),
    Status(status::StatusArgs),
    Info(info::InfoArgs),
    Fsck(fsck::FsckArgs),
    Gc(gc::GcArgs),
    Destroy(destroy::DestroyArgs),
    Bench(bench::BenchArgs),
    Cache(cache::CacheArgs),
    Csi(csi::CsiArgs),
    UninstallCheck(uninstall_check::UninstallCheckArgs),
    Completions(docs::CompletionsArgs),
    Man(docs::ManArgs),
}

/// Where a file system's metadata is, and the secrets of store and bucket.
#[derive(Args, Clone, Debug)]
pub(crate) struct Connect {
    /// Where the metadata is: redis://HOST:PORT/DB, rediss://..., redis+unix:///SOCKET?db=N or embedded:///FILE
    #[arg(value_name = "META_URL")]
    pub(crate) meta_url: String,

    #[command(flatten)]
    pub(crate) secrets: SecretArgs,
}
