//! `carafe status META_URL`: what the file system is, how full, and who is connected.

use crate::args::Connect;
use crate::failure::Outcome;
use crate::out;
use crate::size::Size;
use crate::store::{self, MetaUrl};
use crate::when::utc;
use carafe_meta::store::{MetaStore, QuotaState, ScanRequest, Scanned, SessionInfo, StoreInfo};
use carafe_types::QuotaId;
use carafe_types::record::{QuotaRecord, SessionRecord, Superblock};
use clap::Args;
use serde::Serialize;

/// Show a file system's settings, use and sessions
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    connect: Connect,

    /// Show sessions that have ended, too
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct Report {
    superblock: Superblock,
    meta_url: String,
    server: String,
    durability: String,
    time: String,
    generation: u64,
    commits: u64,
    problems: Vec<String>,
    warnings: Vec<String>,
    quotas: Vec<QuotaReport>,
    sessions: Vec<SessionReport>,
}

#[derive(Serialize)]
struct QuotaReport {
    id: u32,
    root_inode: u64,
    used_bytes: u64,
    reserved_bytes: u64,
    limit_bytes: Option<u64>,
    used_inodes: u64,
    limit_inodes: Option<u64>,
}

#[derive(Serialize)]
struct SessionReport {
    session: u32,
    uuid: String,
    alive: bool,
    lease_end: String,
    #[serde(flatten)]
    record: Option<SessionRecord>,
}

pub(crate) async fn run(args: &StatusArgs, as_json: bool) -> Outcome {
    let secrets = args.connect.secrets.read()?;
    let store = store::connect(&MetaUrl::parse(&args.connect.meta_url)?, &secrets, false).await?;
    let (info, superblock) = store::inspect(store.as_ref()).await?;
    let quotas = quotas(store.as_ref()).await?;
    let sessions: Vec<SessionReport> =
        store.sessions().await?.iter().filter(|s| args.all || s.alive).map(session).collect();
    let report = report(args, info, superblock, quotas, sessions);
    out::report(as_json, &report, show)
}

fn report(
    args: &StatusArgs,
    info: StoreInfo,
    superblock: Superblock,
    quotas: Vec<QuotaReport>,
    sessions: Vec<SessionReport>,
) -> Report {
    Report {
        superblock,
        meta_url: store::shown(&args.connect.meta_url),
        server: info.server,
        durability: info.durability,
        time: utc(info.time),
        generation: info.generation.0,
        commits: info.seq,
        problems: info.unfit,
        warnings: info.warnings,
        quotas,
        sessions,
    }
}

async fn quotas(store: &dyn MetaStore) -> Outcome<Vec<QuotaReport>> {
    let page = store.scan(&ScanRequest::Quotas).await?;
    let mut all = Vec::new();
    for found in page.found {
        if let Scanned::Quota(id, state) = found {
            all.push(quota(id, &state)?);
        }
    }
    all.sort_by_key(|q| q.id);
    Ok(all)
}

/// The counters say what is left; a limit of "none" began at 2^62.
fn quota(id: QuotaId, state: &QuotaState) -> Outcome<QuotaReport> {
    const NONE: i64 = 1 << 62;
    let record = QuotaRecord::decode(&state.record)?;
    let used = |limit: Option<u64>, left: i64| {
        let limit = limit.map_or(NONE, |l| i64::try_from(l).unwrap_or(i64::MAX));
        limit.saturating_sub(left).max(0).unsigned_abs()
    };
    let reserved = state.reserved.max(0).unsigned_abs();
    Ok(QuotaReport {
        id: id.0,
        root_inode: record.root.0,
        used_bytes: used(record.limits.bytes, state.left_bytes).saturating_sub(reserved),
        reserved_bytes: reserved,
        limit_bytes: record.limits.bytes,
        used_inodes: used(record.limits.inodes, state.left_inodes),
        limit_inodes: record.limits.inodes,
    })
}

fn session(info: &SessionInfo) -> SessionReport {
    SessionReport {
        session: info.no.0,
        uuid: info.uuid.to_string(),
        alive: info.alive,
        lease_end: utc(info.lease_end),
        record: SessionRecord::decode(&info.record).ok(),
    }
}

fn show(report: &Report) -> String {
    let s = &report.superblock;
    let mut lines = vec![
        ("name", s.name.clone()),
        ("uuid", s.uuid.to_string()),
        ("created", utc(s.created)),
        ("metadata", format!("{} ({}, durability {})", report.meta_url, report.server, report.durability)),
        ("bucket", s.bucket.clone()),
        ("block size", Size(u64::from(s.block_size)).to_string()),
        ("commits", report.commits.to_string()),
    ];
    lines.extend(report.problems.iter().map(|p| ("PROBLEM", p.clone())));
    lines.extend(report.warnings.iter().map(|w| ("warning", w.clone())));
    let mut text = out::pairs(&lines);
    let quotas: Vec<Vec<String>> = report.quotas.iter().map(quota_row).collect();
    text.push_str(&format!(
        "\n{}",
        out::table(&["QUOTA", "USED", "LIMIT", "INODES", "LIMIT", "ROOT"], &quotas)
    ));
    let sessions: Vec<Vec<String>> = report.sessions.iter().map(session_row).collect();
    if sessions.is_empty() {
        return text + "\nno sessions\n";
    }
    let heading = ["SESSION", "HOST", "PID", "ROLE", "VERSION", "SINCE", "STATE"];
    text + &format!("\n{}", out::table(&heading, &sessions))
}

fn quota_row(q: &QuotaReport) -> Vec<String> {
    let limit = |n: Option<String>| n.unwrap_or_else(|| "none".to_owned());
    vec![
        q.id.to_string(),
        Size(q.used_bytes).to_string(),
        limit(q.limit_bytes.map(|n| Size(n).to_string())),
        q.used_inodes.to_string(),
        limit(q.limit_inodes.map(|n| n.to_string())),
        q.root_inode.to_string(),
    ]
}

fn session_row(s: &SessionReport) -> Vec<String> {
    let record = s.record.as_ref();
    let of = |get: fn(&SessionRecord) -> String| record.map(get).unwrap_or_else(|| "?".to_owned());
    vec![
        s.session.to_string(),
        of(|r| r.host.clone()),
        of(|r| r.pid.to_string()),
        of(|r| r.role.clone()),
        of(|r| r.program.clone()),
        of(|r| utc(r.started)),
        if s.alive { "alive" } else { "ended" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use carafe_types::InodeNo;
    use carafe_types::record::{FORMAT_VERSION, Limits};

    #[test]
    fn use_is_what_is_neither_left_nor_reserved() {
        let limits = Limits { bytes: Some(1000), inodes: None };
        let record = QuotaRecord {
            version: FORMAT_VERSION,
            parent: None,
            root: InodeNo::ROOT,
            limits,
            settings: Default::default(),
        };
        let state = QuotaState {
            record: record.encode().into(),
            left_bytes: 600,
            left_inodes: (1 << 62) - 7,
            reserved: 100,
        };
        let q = quota(QuotaId::ROOT, &state).unwrap();
        assert_eq!((q.used_bytes, q.reserved_bytes, q.used_inodes), (300, 100, 7));
        let over = quota(QuotaId::ROOT, &QuotaState { left_bytes: -50, reserved: 0, ..state }).unwrap();
        assert_eq!(over.used_bytes, 1050, "a limit set below the use");
    }
}
