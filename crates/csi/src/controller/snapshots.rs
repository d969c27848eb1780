//! Snapshots: made when the answer says so.
//!
//! A call answers only when the copy is whole. Until then it is `Aborted` with how far it is, so that nobody is told of a
//! point in time that a copier which dies could not keep.

use super::list::{Listing, PAGE};
use super::volumes::bytes;
use super::{Core, not_ours};
use crate::error::CsiError;
use crate::id::{SnapshotId, VolumeId};
use crate::request::{self, required};
use crate::store::{NewSnapshot, VolumeStore};
use async_trait::async_trait;
use carafe_proto::csi::v1::list_snapshots_response::Entry;
use carafe_proto::csi::v1::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse, Snapshot,
};
use carafe_types::record::{SnapshotRecord, VolumeState};
use std::collections::HashMap;

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
        let (max, begin) = (request.max_entries, &request.starting_token);
        let (entries, next_token) = self.page(max, begin, Of(&request.source_volume_id)).await?;
        Ok(ListSnapshotsResponse { entries, next_token })
    }
}

/// The snapshots of a volume; of all volumes if there is no id.
struct Of<'a>(&'a str);

#[async_trait]
impl Listing for Of<'_> {
    type Entry = Entry;

    async fn read(
        &self,
        store: &dyn VolumeStore,
        after: Option<&str>,
    ) -> Result<Vec<(String, Option<Entry>)>, CsiError> {
        let entry = |record: SnapshotRecord| {
            let asked = self.0.is_empty() || record.source == self.0;
            let snapshot = (record.state == VolumeState::Ready && asked).then(|| wire(&record));
            (record.id, snapshot.map(|snapshot| Entry { snapshot: Some(snapshot) }))
        };
        Ok(store.list_snapshots(after, PAGE).await?.into_iter().map(entry).collect())
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
