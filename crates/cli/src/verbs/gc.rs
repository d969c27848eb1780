//! `carafe gc META_URL [--delete]`: finds objects that nothing refers to, and with `--delete` removes them.
//!
//! A look takes one reading of all references and calls what it does not find *suspect*; to delete, a second reading a
//! grace later must agree (`carafe_meta::jobs::gc`). Objects of living sessions are never touched, so it is safe while
//! the file system is in use.

use crate::args::Connect;
use crate::failure::{Exit, Outcome};
use crate::janitor::BucketDeleter;
use crate::job::{Job, ListedSlice, each_slice};
use crate::out;
use crate::progress::Progress;
use crate::size::Size;
use carafe_meta::jobs::gc::{Collector, Verdict};
use carafe_meta::jobs::{delete_objects, purge_inodes};
use carafe_types::SessionUuid;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;

/// Find objects in the bucket that nothing refers to
#[derive(Args, Debug)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    connect: Connect,

    /// Delete them, and free what was unlinked
    #[arg(long)]
    delete: bool,

    /// With --delete: how long the two readings are apart, and how long a session must be dead, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    grace: u64,
}

/// Objects of one verdict.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Sum {
    slices: u64,
    objects: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, slice: &ListedSlice) {
        self.slices += 1;
        self.objects += slice.objects.len() as u64;
        self.bytes += slice.bytes();
    }
}

#[derive(Debug, Default, Serialize)]
struct Report {
    /// A file refers to it.
    in_use: Sum,
    /// Of a session that lives or died a moment ago.
    young: Sum,
    /// Waits for its time to be deleted.
    queued: Sum,
    /// Nothing refers to it.
    garbage: Sum,
    /// In the bucket's data folder, and not written by Carafe.
    strangers: Sum,
    deleted: Sum,
    unlinked_files_freed: u64,
    dead_slices_deleted: u64,
}

pub(crate) async fn run(args: &GcArgs, as_json: bool) -> Outcome<ExitCode> {
    let job = Job::open(&args.connect, if args.delete { "gc --delete" } else { "gc" }).await?;
    let done = collect(&job, args).await;
    job.client.close().await;
    let report = done?;
    out::report(as_json, &report, |r| show(r, args.delete))?;
    let left = report.garbage.objects - report.deleted.objects;
    Ok(if left > 0 { ExitCode::from(Exit::Findings as u8) } else { ExitCode::SUCCESS })
}

async fn collect(job: &Job, args: &GcArgs) -> Outcome<Report> {
    let progress = Progress::spinner("reading references");
    let told = |what, done| progress.told(what, done);
    let client = &*job.client;
    let mut report = Report::default();
    if args.delete {
        report.unlinked_files_freed = purge_inodes(client, &told).await?.purged;
        let deleter = BucketDeleter::new(job.bucket.clone(), job.superblock.block_size);
        report.dead_slices_deleted = delete_objects(client, &deleter, &told).await?;
    }
    let mut collector = Collector::begin(client, Duration::from_secs(args.grace), &told).await?;
    if args.delete {
        progress.told("waiting for the second reading", 0);
        collector.confirm(client, &told).await?;
    }
    let strangers = each_slice(&job.bucket, async |slices| {
        judge(job, &collector, &slices, args.delete, &mut report).await?;
        progress.told("objects", report.in_use.objects + report.garbage.objects);
        Ok(())
    })
    .await?;
    report.strangers = Sum { slices: 0, objects: strangers.objects, bytes: strangers.bytes };
    Ok(report)
}

async fn judge(
    job: &Job,
    collector: &Collector,
    slices: &[ListedSlice],
    delete: bool,
    report: &mut Report,
) -> Outcome {
    let names: Vec<(SessionUuid, u64)> = slices.iter().map(|s| (s.session, s.n)).collect();
    let mut keys = Vec::new();
    for (slice, verdict) in slices.iter().zip(collector.judge(&job.client, &names).await?) {
        match verdict {
            Verdict::InUse => report.in_use.add(slice),
            Verdict::Young => report.young.add(slice),
            Verdict::Queued => report.queued.add(slice),
            Verdict::Suspect => report.garbage.add(slice),
            Verdict::Garbage => {
                report.garbage.add(slice);
                if delete {
                    keys.extend(slice.objects.iter().map(|(id, _)| id.key()));
                    report.deleted.add(slice);
                }
            }
        }
    }
    job.bucket.delete_many(&keys).await?;
    Ok(())
}

fn show(report: &Report, delete: bool) -> String {
    let row = |name: &str, sum: &Sum| {
        vec![name.to_owned(), sum.slices.to_string(), sum.objects.to_string(), Size(sum.bytes).to_string()]
    };
    let mut rows = vec![
        row("in use", &report.in_use),
        row("of living sessions", &report.young),
        row("waiting for deletion", &report.queued),
        row("garbage", &report.garbage),
    ];
    if report.strangers.objects > 0 {
        rows.push(row("not carafe's", &report.strangers));
    }
    if delete {
        rows.push(row("deleted now", &report.deleted));
    }
    let mut text = out::table(&["", "SLICES", "OBJECTS", "BYTES"], &rows);
    if delete {
        text.push_str(&format!(
            "{} unlinked files freed, {} dead slices deleted\n",
            report.unlinked_files_freed, report.dead_slices_deleted
        ));
    } else if report.garbage.objects > 0 {
        text.push_str("delete the garbage with `carafe gc --delete`\n");
    }
    text
}
