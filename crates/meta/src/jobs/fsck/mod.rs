//! Comparing everything with everything.
//!
//! The check reads without standing in anybody's way: all names from the root, all inodes by buckets, what they refer to,
//! the counters, the queues, the registry. What it notes of each inode is a bit, and of each slice a few words.
//!
//! It takes no snapshot, so of a file system in use it may see a thing half moved. The store's sequence number tells
//! whether anything was committed meanwhile; if so all is read a second time, and only what was found both times counts,
//! still marked as found under way ([`Report::exact`]).
//!
//! The bucket is the caller's to compare: [`Report::slices`] says what must be there.

mod count;
mod finding;
mod inodes;
mod names;
mod quotas;
mod repair;
mod slices;

pub use finding::{Finding, Kind};
pub use repair::repair;
pub use slices::UsedSlice;

use super::Scanner;
use super::sets::NumberSet;
use crate::client::Client;
use crate::format::TRASH;
use carafe_types::{FsResult, InodeNo};
use count::Counts;
use finding::Findings;
use slices::Uses;
use std::collections::{HashMap, HashSet};

pub(crate) use super::Progress;

/// What a check has found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Nothing was committed while everything was read.
    pub exact: bool,
    /// Where the store stood when the reading began.
    pub seq: u64,
    /// There were more findings than are kept.
    pub cut: bool,
    /// Inodes of files, symlinks and special files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes of all files, by their sizes.
    pub bytes: u64,
    /// Unlinked inodes that wait for their end.
    pub dead: u64,
    /// What must be in the bucket.
    pub slices: Vec<UsedSlice>,
}

/// What is noted while reading.
pub(crate) struct Check<'a> {
    pub(crate) client: &'a Client,
    pub(crate) scan: Scanner<'a>,
    pub(crate) progress: Progress<'a>,
    pub(crate) findings: Findings,
    /// Inodes that a name leads to.
    pub(crate) named: NumberSet,
    /// Inodes that were read.
    pub(crate) read: NumberSet,
    /// How many names lead to those that have several.
    pub(crate) links: HashMap<InodeNo, u32>,
    /// Inodes in the queue of the dead.
    pub(crate) dead: HashSet<InodeNo>,
    pub(crate) counts: Counts,
    pub(crate) uses: Uses,
}

/// Checks a file system. Other sessions may work meanwhile; see the module.
///
/// # Errors
/// Store errors. Damage is a finding, no error.
pub async fn fsck(client: &Client, progress: Progress<'_>) -> FsResult<Report> {
    let first = read_all(client, progress).await?;
    if first.exact || first.findings.is_empty() {
        return Ok(first);
    }
    let second = read_all(client, progress).await?;
    if second.exact {
        return Ok(second);
    }
    let seen: HashSet<&Finding> = first.findings.iter().collect();
    let findings = second.findings.iter().filter(|f| seen.contains(f)).cloned().collect();
    Ok(Report { findings, ..second })
}

async fn seq(client: &Client) -> FsResult<u64> {
    let store = client.store();
    Ok(client.patiently(|_| store.info()).await?.seq)
}

async fn read_all(client: &Client, progress: Progress<'_>) -> FsResult<Report> {
    let seq_before = seq(client).await?;
    let mut check = Check {
        client,
        scan: Scanner(client),
        progress,
        findings: Findings::default(),
        named: NumberSet::default(),
        read: NumberSet::default(),
        links: HashMap::new(),
        dead: HashSet::new(),
        counts: Counts::default(),
        uses: Uses::default(),
    };
    check.read_dead().await?;
    check.walk(InodeNo::ROOT).await?;
    check.walk(TRASH).await?;
    check.walk_snapshots().await?;
    check.read_inodes().await?;
    check.compare_slices().await?;
    check.compare_quotas().await?;
    check.compare_volumes().await?;
    check.compare_snapshots().await?;
    let slices = check.used_slices().await?;
    let (findings, cut) = check.findings.finish(check.scan).await?;
    Ok(Report {
        findings,
        exact: seq(client).await? == seq_before,
        seq: seq_before,
        cut,
        files: check.counts.files,
        directories: check.counts.directories,
        bytes: check.counts.bytes,
        dead: check.dead.len() as u64,
        slices,
    })
}
