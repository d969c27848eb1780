//! Quotas against the sum of what lies in them, and the registry against the tree.

use super::repair::Repair;
use super::{Check, Kind};
use crate::format::UNLIMITED;
use crate::store::{Key, QuotaState, ScanRequest, Scanned};
use crate::tx::Node;
use carafe_types::record::{QuotaRecord, SnapshotRecord, VolumeRecord};
use carafe_types::{FsResult, InodeNo, QuotaId};
use std::collections::HashMap;

/// Volumes that are looked at at once.
const PAGE: usize = 500;

/// What a record of the registry says of its tree.
struct Registered {
    id: String,
    root: InodeNo,
    quota: QuotaId,
}

impl Check<'_> {
    pub(super) async fn compare_quotas(&mut self) -> FsResult<()> {
        let page = self.scan.page(&ScanRequest::Quotas).await?;
        let mut quotas: HashMap<QuotaId, (QuotaRecord, QuotaState)> = HashMap::new();
        for found in page.found {
            let Scanned::Quota(id, state) = found else { continue };
            match QuotaRecord::decode(&state.record) {
                Ok(record) => drop(quotas.insert(id, (record, state))),
                Err(e) => self.findings.other(Kind::Damaged, format!("quota {}", id.0), e.to_string(), None),
            }
        }
        let parents = quotas.iter().map(|(id, (record, _))| (*id, record.parent)).collect();
        let totals = self.counts.totals(&parents);
        for (id, (record, state)) in &quotas {
            self.compare_quota(*id, record, state, totals.get(id).copied().unwrap_or_default());
        }
        for (id, root) in self.counts.roots.clone() {
            if id != QuotaId::ROOT && !quotas.contains_key(&id) {
                let detail = format!("quota {} begins here and is not there", id.0);
                self.findings.inode(Kind::LostQuota, root, detail);
            }
        }
        self.compare_inline().await
    }

    fn compare_quota(&mut self, id: QuotaId, record: &QuotaRecord, state: &QuotaState, is: (i64, i64)) {
        let what = format!("quota {}", id.0);
        if id != QuotaId::ROOT && self.counts.roots.get(&id) != Some(&record.root) {
            let detail = format!("begins at inode {}, which is no directory of this quota", record.root);
            self.findings.other(Kind::LostQuota, what.clone(), detail, None);
        }
        let limit =
            |l: Option<u64>| l.map_or(UNLIMITED, |n| i64::try_from(n).unwrap_or(UNLIMITED).min(UNLIMITED));
        let bytes = limit(record.limits.bytes) - state.left_bytes - state.reserved;
        let inodes = limit(record.limits.inodes) - state.left_inodes;
        if (bytes, inodes) != is {
            let detail = format!("counts {bytes} bytes and {inodes} inodes, holds {} and {}", is.0, is.1);
            let repair = Repair::Quota { quota: id, bytes: is.0 - bytes, inodes: is.1 - inodes };
            self.findings.other(Kind::WrongQuota, what, detail, repair);
        }
    }

    async fn compare_inline(&mut self) -> FsResult<()> {
        let store = self.client.store();
        let left = self.client.patiently(|s| async move { store.renew(&s).await }).await?.inline_left;
        let budget = i64::try_from(self.client.superblock().inline_budget).unwrap_or(i64::MAX);
        let counted = budget.saturating_sub(left);
        let is = self.counts.inline;
        if counted != is {
            let detail = format!("counts {counted} bytes, {is} are in use");
            let repair = Repair::Inline { by: is - counted };
            self.findings.other(Kind::WrongInlineBudget, "budget for inline data", detail, repair);
        }
        Ok(())
    }

    pub(super) async fn compare_volumes(&mut self) -> FsResult<()> {
        let mut after: Option<String> = None;
        loop {
            let page = self.scan.page(&ScanRequest::Volumes { after, limit: PAGE }).await?;
            after = None;
            let ended = page.found.len() < PAGE;
            for found in page.found {
                let Scanned::Volume(id, bytes) = found else { continue };
                match VolumeRecord::decode(&bytes) {
                    Ok(r) => {
                        let what = format!("volume {id}");
                        self.compare_root(&what, &id, &Registered { id: r.id, root: r.root, quota: r.quota })
                            .await?;
                    }
                    Err(e) => self.findings.other(Kind::Damaged, format!("volume {id}"), e.to_string(), None),
                }
                after = Some(id);
            }
            if ended || after.is_none() {
                return Ok(());
            }
        }
    }

    pub(super) async fn compare_snapshots(&mut self) -> FsResult<()> {
        let mut after: Option<String> = None;
        loop {
            let page = self.scan.page(&ScanRequest::Snapshots { after, limit: PAGE }).await?;
            after = None;
            let ended = page.found.len() < PAGE;
            for found in page.found {
                let Scanned::Snapshot(id, bytes) = found else { continue };
                let what = format!("snapshot {id}");
                match SnapshotRecord::decode(&bytes) {
                    Ok(r) => {
                        self.compare_root(&what, &id, &Registered { id: r.id, root: r.root, quota: r.quota })
                            .await?;
                    }
                    Err(e) => self.findings.other(Kind::Damaged, what, e.to_string(), None),
                }
                after = Some(id);
            }
            if ended || after.is_none() {
                return Ok(());
            }
        }
    }

    async fn compare_root(&mut self, what: &str, id: &str, record: &Registered) -> FsResult<()> {
        let root = self.scan.record(Key::Inode(record.root)).await?;
        let problem = match root.as_deref().map(Node::decode) {
            Some(Ok(Node::Dir(guard))) if !guard.quota_root || guard.quota != record.quota => {
                Some(format!("its directory {} does not begin quota {}", record.root, record.quota.0))
            }
            Some(Ok(Node::Dir(_))) if record.id != id => Some(format!("its record is of {}", record.id)),
            Some(Ok(Node::Dir(_))) => None,
            Some(_) => Some(format!("inode {} is no directory", record.root)),
            None => Some(format!("its directory {} is not there", record.root)),
        };
        if let Some(problem) = problem {
            self.findings.other(Kind::WrongVolume, what.to_owned(), problem, None);
        }
        Ok(())
    }
}
