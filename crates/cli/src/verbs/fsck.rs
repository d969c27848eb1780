//! `carafe fsck META_URL`: compares the tree, its counters and references with each other and with the bucket.

use crate::args::Connect;
use crate::failure::{Exit, Failure, Outcome};
use crate::job::{Job, each_slice, objects_of};
use crate::out;
use crate::progress::Progress;
use crate::size::Size;
use carafe_meta::jobs::fsck::{self, UsedSlice};
use carafe_object::frames::frames_len;
use carafe_object::{Bucket, ObjectError, ObjectId};
use carafe_types::{FsError, SessionUuid};
use clap::Args;
use futures::{StreamExt, stream};
use serde::Serialize;
use std::collections::HashMap;
use std::process::ExitCode;

/// Objects that are read at once with --data.
const READS_AT_ONCE: usize = 8;
/// Findings about objects that are told one by one.
const OBJECTS_TOLD: usize = 10_000;

/// Check a file system; it may be in use meanwhile
#[derive(Args, Debug)]
pub(crate) struct FsckArgs {
    #[command(flatten)]
    connect: Connect,

    /// Set right what can be set right without guessing (counters and queues); nobody may use the file system
    #[arg(long)]
    repair: bool,

    /// Read every byte in the bucket and compare its checksum
    #[arg(long)]
    data: bool,

    /// Do not look into the bucket
    #[arg(long, conflicts_with = "data")]
    metadata_only: bool,
}

#[derive(Serialize)]
struct Report {
    files: u64,
    directories: u64,
    bytes: u64,
    unlinked: u64,
    /// Nothing was changed while it was checked.
    exact: bool,
    slices: u64,
    objects_checked: u64,
    findings: Vec<Finding>,
    /// There were more than are listed.
    cut: bool,
    repaired: u64,
}

#[derive(Serialize)]
struct Finding {
    kind: String,
    what: String,
    path: Option<String>,
    detail: String,
    loses_data: bool,
    repairable: bool,
}

pub(crate) async fn run(args: &FsckArgs, as_json: bool) -> Outcome<ExitCode> {
    let job = Job::open(&args.connect, "fsck").await?;
    let done = check(&job, args).await;
    job.client.close().await;
    let report = done?;
    out::report(as_json, &report, show)?;
    let left = report.findings.len() as u64 > report.repaired;
    Ok(if left { ExitCode::from(Exit::Findings as u8) } else { ExitCode::SUCCESS })
}

async fn check(job: &Job, args: &FsckArgs) -> Outcome<Report> {
    let progress = Progress::spinner("checking");
    let told = |what, done| progress.told(what, done);
    let found = fsck::fsck(&job.client, &told).await?;
    let mut findings: Vec<Finding> = found.findings.iter().map(metadata_finding).collect();
    let mut objects_checked = 0;
    if !args.metadata_only {
        objects_checked = compare_bucket(job, &found.slices, &progress, &mut findings).await?;
    }
    if args.data {
        read_all(job, &found.slices, &progress, &mut findings).await;
    }
    let repaired = if args.repair { repair(job, &found).await? } else { 0 };
    Ok(Report {
        files: found.files,
        directories: found.directories,
        bytes: found.bytes,
        unlinked: found.dead,
        exact: found.exact,
        slices: found.slices.len() as u64,
        objects_checked,
        findings,
        cut: found.cut,
        repaired,
    })
}

fn metadata_finding(f: &fsck::Finding) -> Finding {
    Finding {
        kind: format!("{:?}", f.kind),
        what: f.what.clone(),
        path: f.path.clone(),
        detail: f.detail.clone(),
        loses_data: f.kind.loses_data(),
        repairable: f.is_repairable(),
    }
}

async fn repair(job: &Job, found: &fsck::Report) -> Outcome<u64> {
    match fsck::repair(&job.client, found).await {
        Ok(done) => Ok(done),
        Err(FsError::WouldBlock) => Err(Failure::new(
            Exit::Refused,
            "nothing was repaired: the file system was in use while it was checked",
        )
        .next("unmount it everywhere, then try again")),
        Err(e) => Err(e.into()),
    }
}

/// How much of a slice has been found in the listing.
struct Wanted {
    slice: UsedSlice,
    found: u64,
}

/// Every object that a file needs must be in the listing, and long enough.
async fn compare_bucket(
    job: &Job,
    slices: &[UsedSlice],
    progress: &Progress,
    findings: &mut Vec<Finding>,
) -> Outcome<u64> {
    let key = |s: &UsedSlice| (s.session, s.n);
    let mut wanted: HashMap<(SessionUuid, u64), Wanted> =
        slices.iter().map(|slice| (key(slice), Wanted { slice: *slice, found: 0 })).collect();
    let mut checked = 0;
    each_slice(&job.bucket, async |listed| {
        for listed in listed {
            let Some(w) = wanted.get_mut(&(listed.session, listed.n)) else { continue };
            let sizes: HashMap<ObjectId, u64> = listed.objects.into_iter().collect();
            for (id, payload) in expected(job, &w.slice) {
                let Some(size) = sizes.get(&id) else { continue };
                w.found += 1;
                checked += 1;
                if *size < frames_len(payload) {
                    let need = frames_len(payload);
                    tell(findings, &id, format!("has {size} bytes and needs {need} for its payload"));
                }
            }
        }
        progress.told("objects", checked);
        Ok(())
    })
    .await?;
    for w in wanted.values() {
        let all = expected(job, &w.slice);
        if w.found < all.len() as u64 {
            missing(&job.bucket, all, findings).await;
        }
    }
    Ok(checked)
}

/// A listing may be a moment old: what it lacks is asked for by name.
async fn missing(bucket: &Bucket, objects: Vec<(ObjectId, u64)>, findings: &mut Vec<Finding>) {
    for (id, _) in objects {
        match bucket.head(&id.key()).await {
            Ok(_) => {}
            Err(ObjectError::NotFound { .. }) => tell(findings, &id, "is not in the bucket".to_owned()),
            Err(e) => tell(findings, &id, e.to_string()),
        }
    }
}

async fn read_all(job: &Job, slices: &[UsedSlice], progress: &Progress, findings: &mut Vec<Finding>) {
    let objects = slices.iter().flat_map(|slice| expected(job, slice));
    let reads = stream::iter(objects).map(|(id, payload)| async move {
        (id, payload, job.bucket.read_payload(&id, 0..payload, Some(payload)).await)
    });
    let mut reads = reads.buffer_unordered(READS_AT_ONCE);
    let mut bytes = 0;
    while let Some((id, payload, result)) = reads.next().await {
        if let Err(error) = result {
            tell(findings, &id, error.to_string());
        }
        bytes += payload;
        progress.told("bytes read", bytes);
    }
}

fn expected(job: &Job, s: &UsedSlice) -> Vec<(ObjectId, u64)> {
    objects_of(s.session, s.n, s.pack, s.len, job.superblock.block_size)
}

fn tell(findings: &mut Vec<Finding>, id: &ObjectId, detail: String) {
    if findings.len() < OBJECTS_TOLD {
        findings.push(Finding {
            kind: "Object".to_owned(),
            what: format!("object {id}"),
            path: None,
            detail,
            loses_data: true,
            repairable: false,
        });
    }
}

fn show(report: &Report) -> String {
    let mut text = out::pairs(&[
        ("files", report.files.to_string()),
        ("directories", report.directories.to_string()),
        ("bytes", format!("{} ({})", report.bytes, Size(report.bytes))),
        ("unlinked", report.unlinked.to_string()),
        ("slices", report.slices.to_string()),
        ("objects", report.objects_checked.to_string()),
    ]);
    for f in &report.findings {
        let path = f.path.as_ref().map(|p| format!(" ({p})")).unwrap_or_default();
        let weight = if f.loses_data { "LOST" } else { "WRONG" };
        text.push_str(&format!("{weight}: {}{path}: {}\n", f.what, f.detail));
    }
    if report.cut {
        text.push_str("and more than can be listed\n");
    }
    let total = report.findings.len();
    let repairable = report.findings.iter().filter(|f| f.repairable).count();
    text.push_str(&match (total, report.repaired) {
        (0, _) => "no problems found\n".to_owned(),
        (total, 0) if repairable > 0 => {
            format!("{total} problems, {repairable} of which `carafe fsck --repair` sets right\n")
        }
        (total, repaired) => format!("{total} problems, {repaired} set right\n"),
    });
    if !report.exact {
        text.push_str("the file system was in use meanwhile: check again when it is not, to be sure\n");
    }
    text
}
