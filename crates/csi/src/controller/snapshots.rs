//! Snapshots: made when the answer says so.
//!
//! A call answers only when the copy is whole. Until then it is `Aborted` with how far it is, so that nobody is told of a
//! point in time that a copier which dies could not keep.

use super::volumes::bytes;
use super::{Core, not_ours};
use crate::error::CsiError;
use crate::id::{SnapshotId, VolumeId};
use crate::request::{self, required};
use crate::store::NewSnapshot;
use crate::token::ListToken;
use carafe_proto::csi::v1::list_snapshots_response::Entry;
use carafe_proto::csi::v1::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse, Snapshot,
};
use carafe_types::record::{SnapshotRecord, VolumeState};
use std::collections::HashMap;

/// Records that are read at once.
const PAGE: usize = 500;

impl Core {
    pub(super) async fn create_snapshot(
        &self,
        request: CreateSnapshotRequest,
    ) -> Result<CreateSnapshotResponse, CsiError> {
        let name = request::volume_name(&request.name)?;
        let source = required("source_volume_id", &request.source_volume_id)?;
        no_parameters(&request.parameters)?;
        let source = VolumeId::parse(source).ok_or_else(|| not_ours(source))?;
        let _lock = self.locks.lock(format!("snapshot {name:?}"))?;
        let store = self.resolver.for_volume(&source, &request.secrets).await?;
        let id = SnapshotId::new(store.fs(), name);
        let new = NewSnapshot { id, name: name.to_owned(), source };
        // Compared before it is made: a snapshot that is there needs no source any more.
        let record = match store.get_snapshot(&new.id).await? {
            Some(there) if there.source != new.source.as_str() || there.state == VolumeState::Ready => there,
            _ => store.create_snapshot(&new).await?,
        };
        if record.source != new.source.as_str() {
            let difference = format!("it is of volume {}, asked is one of {}", record.source, new.source);
            return Err(CsiError::Differs { id: record.id, name: new.name, difference });
        }
        match record.state {
            VolumeState::Ready => Ok(CreateSnapshotResponse { snapshot: Some(wire(&record)) }),
            _ => Err(CsiError::Busy(format!("snapshot {}, which is being copied", record.id))),
        }
    }

    pub(super) async fn delete_snapshot(
        &self,
        request: DeleteSnapshotRequest,
    ) -> Result<DeleteSnapshotResponse, CsiError> {
        let id = required("snapshot_id", &request.snapshot_id)?;
        let Some(id) = SnapshotId::parse(id) else { return Ok(DeleteSnapshotResponse {}) };
        let _lock = self.locks.lock(format!("snapshot {id}"))?;
        self.resolver.for_snapshot(&id, &request.secrets).await?.delete_snapshot(&id).await?;
        Ok(DeleteSnapshotResponse {})
    }

    pub(super) async fn get_snapshot(
        &self,
        request: GetSnapshotRequest,
    ) -> Result<GetSnapshotResponse, CsiError> {
        let id = required("snapshot_id", &request.snapshot_id)?;
        let missing = || CsiError::NoSnapshot(id.to_owned());
        let parsed = SnapshotId::parse(id).ok_or_else(missing)?;
        let found = self.snapshot(&parsed, &request.secrets).await?.ok_or_else(missing)?;
        Ok(GetSnapshotResponse { snapshot: Some(found) })
    }

    /// A ready snapshot.
    async fn snapshot(
        &self,
        id: &SnapshotId,
        secrets: &HashMap<String, String>,
    ) -> Result<Option<Snapshot>, CsiError> {
        let record = self.resolver.for_snapshot(id, secrets).await?.get_snapshot(id).await?;
        Ok(record.filter(|record| record.state == VolumeState::Ready).map(|record| wire(&record)))
    }

    /// By id, or a page of those of one volume or of all configured file systems, by uuid and then by id.
    pub(super) async fn list_snapshots(
        &self,
        request: ListSnapshotsRequest,
    ) -> Result<ListSnapshotsResponse, CsiError> {
        if !request.snapshot_id.is_empty() {
            let found = match SnapshotId::parse(&request.snapshot_id) {
                Some(id) => self.snapshot(&id, &request.secrets).await?,
                None => None,
            };
            let entries = found.into_iter().map(|snapshot| Entry { snapshot: Some(snapshot) }).collect();
            return Ok(ListSnapshotsResponse { entries, next_token: String::new() });
        }
        let limit = super::list::page_length(request.max_entries)?;
        let token = super::list::token(&request.starting_token)?;
        let mut response = ListSnapshotsResponse::default();
        let mut last: Option<ListToken> = None;
        for store in self.resolver.all().await? {
            let fs = store.fs();
            let Some(mut after) = super::list::begin(token.as_ref(), fs) else { continue };
            loop {
                let page = store.list_snapshots(after.as_deref(), PAGE).await?;
                let ended = page.len() < PAGE;
                after = page.last().map(|record| record.id.clone());
                let of_source = |r: &SnapshotRecord| {
                    request.source_volume_id.is_empty() || r.source == request.source_volume_id
                };
                for record in page.into_iter().filter(|r| r.state == VolumeState::Ready && of_source(r)) {
                    if response.entries.len() == limit {
                        response.next_token = last.as_ref().map(ListToken::encode).unwrap_or_default();
                        return Ok(response);
                    }
                    response.entries.push(Entry { snapshot: Some(wire(&record)) });
                    last = Some(ListToken { fs, last: record.id });
                }
                if ended {
                    break;
                }
            }
        }
        Ok(response)
    }
}

fn wire(record: &SnapshotRecord) -> Snapshot {
    let (seconds, nanos) =
        (record.created.0.div_euclid(1_000_000_000), record.created.0.rem_euclid(1_000_000_000));
    Snapshot {
        size_bytes: bytes(record.capacity),
        snapshot_id: record.id.clone(),
        source_volume_id: record.source.clone(),
        creation_time: Some(prost_types::Timestamp { seconds, nanos: nanos as i32 }),
        ready_to_use: true,
        group_snapshot_id: String::new(),
        accessible_topology: Vec::new(),
    }
}

/// A VolumeSnapshotClass has no parameters of ours.
fn no_parameters(parameters: &HashMap<String, String>) -> Result<(), CsiError> {
    let mut unknown: Vec<_> =
        parameters.keys().filter(|key| !key.starts_with("csi.storage.k8s.io/")).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort_unstable();
    Err(CsiError::Faults(vec![format!(
        "unknown snapshot parameters {unknown:?}; there are none: leave them out"
    )]))
}
