//! `carafe destroy META_URL`: removes a file system, its metadata and its objects.
//!
//! Objects first, then the metadata, then the marker: if it is cut short, the same command can be given again, and until
//! the marker goes no other file system takes the bucket.

use crate::args::Connect;
use crate::bucket;
use crate::failure::{Exit, Failure, Outcome};
use crate::out;
use crate::progress::Progress;
use crate::store::{self, MetaUrl};
use carafe_meta::store::MetaStore;
use carafe_object::{Bucket, marker, parse_key};
use carafe_types::record::{SessionRecord, Superblock};
use clap::Args;
use futures::TryStreamExt;
use serde::Serialize;
use std::io::{BufRead, IsTerminal};

/// Objects named in one call; the bucket cuts it into requests.
const BATCH: usize = 4000;

/// Remove a file system with all its files
#[derive(Args, Debug)]
pub(crate) struct DestroyArgs {
    #[command(flatten)]
    connect: Connect,

    /// Do not ask
    #[arg(long, visible_alias = "force")]
    yes: bool,

    /// Also while sessions are connected; what they have not stored is lost
    #[arg(long)]
    despite_sessions: bool,
}

#[derive(Serialize)]
struct Report {
    name: String,
    uuid: uuid::Uuid,
    objects_deleted: u64,
}

pub(crate) async fn run(args: &DestroyArgs, as_json: bool) -> Outcome {
    let secrets = args.connect.secrets.read()?;
    let store = store::connect(&MetaUrl::parse(&args.connect.meta_url)?, &secrets, false).await?;
    let (_, superblock) = store::inspect(store.as_ref()).await?;
    let bucket = bucket::open(&superblock, &secrets).await?;
    if !args.despite_sessions {
        refuse_sessions(store.as_ref()).await?;
    }
    if !args.yes {
        ask(&superblock)?;
    }
    let objects_deleted = delete_objects(&bucket).await?;
    store.destroy().await?;
    bucket.delete_many(&[marker::MARKER_KEY.to_owned()]).await?;
    let report = Report { name: superblock.name, uuid: superblock.uuid, objects_deleted };
    out::report(as_json, &report, |r| {
        format!("file system {} ({}) is gone, {} objects deleted", r.name, r.uuid, r.objects_deleted)
    })
}

async fn refuse_sessions(store: &dyn MetaStore) -> Outcome {
    let now = store.info().await?.time;
    let who: Vec<String> = store
        .sessions()
        .await?
        .iter()
        .filter(|s| s.alive && s.lease_end > now)
        .map(|s| match SessionRecord::decode(&s.record) {
            Ok(r) => format!("{} on {} (process {})", r.role, r.host, r.pid),
            Err(_) => format!("session {}", s.no.0),
        })
        .collect();
    if who.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, format!("the file system is in use: {}", who.join(", ")))
        .next("unmount it there; a daemon that died counts for 12 seconds; or --despite-sessions"))
}

fn ask(superblock: &Superblock) -> Outcome {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Usage, "nobody is there to confirm").next("add --yes"));
    }
    let question = format!(
        "This removes the file system {:?} ({}) and all its files in {}.\nType its name to go on:",
        superblock.name, superblock.uuid, superblock.bucket
    );
    out::line(question)?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(crate::failure::io("cannot read the answer"))?;
    if answer.trim() == superblock.name {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, "nothing was removed: that is not its name"))
}

/// Deletes what Carafe wrote, and nothing else that may lie in the bucket.
async fn delete_objects(bucket: &Bucket) -> Outcome<u64> {
    let progress = Progress::spinner("deleting objects");
    let mut listing = bucket.list("d");
    let (mut batch, mut gone) = (Vec::new(), 0);
    while let Some(object) = listing.try_next().await? {
        if parse_key(&object.key).is_some() {
            batch.push(object.key);
        }
        if batch.len() >= BATCH {
            gone += bucket.delete_many(&batch).await?;
            progress.set(gone);
            batch.clear();
        }
    }
    gone += bucket.delete_many(&batch).await?;
    Ok(gone)
}
