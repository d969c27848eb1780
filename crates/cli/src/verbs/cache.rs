//! `carafe cache drop DIR`.

use crate::ask;
use crate::failure::Outcome;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Look after the local cache of a mount
#[derive(Args, Debug)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    verb: CacheVerb,
}

#[derive(Subcommand, Debug)]
enum CacheVerb {
    /// Drop everything from a mount's local cache that the bucket has too
    Drop {
        /// The mount point
        dir: PathBuf,
    },
}

pub(crate) fn run(args: &CacheArgs) -> Outcome {
    match &args.verb {
        CacheVerb::Drop { dir } => ask::order(dir, ask::DROP_CACHE).map_err(|e| e.about(dir)),
    }
}
