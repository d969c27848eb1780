//! What is being made: a volume or a snapshot, as far as a copy does not care which.

use super::super::VolumeError;
use crate::store::Key;
use bytes::Bytes;
use carafe_types::record::{CopyJob, CopySource, SnapshotRecord, VolumeRecord, VolumeState};
use carafe_types::{InodeNo, QuotaId};
use std::collections::BTreeMap;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Volume(VolumeRecord),
    Snapshot(SnapshotRecord),
}

impl Target {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Volume(record) => &record.id,
            Self::Snapshot(record) => &record.id,
        }
    }

    pub(super) fn key(&self) -> Key {
        match self {
            Self::Volume(record) => Key::Volume(record.id.clone()),
            Self::Snapshot(record) => Key::Snapshot(record.id.clone()),
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        match self {
            Self::Volume(record) => record.encode().into(),
            Self::Snapshot(record) => record.encode().into(),
        }
    }

    /// The record as it is stored under the key of this one.
    pub(super) fn decode_like(&self, bytes: &[u8]) -> Result<Self, VolumeError> {
        let damaged = |source| VolumeError::Damaged { id: self.id().to_owned(), source };
        match self {
            Self::Volume(_) => VolumeRecord::decode(bytes).map(Self::Volume).map_err(damaged),
            Self::Snapshot(_) => SnapshotRecord::decode(bytes).map(Self::Snapshot).map_err(damaged),
        }
    }

    pub(super) fn place(&self) -> (InodeNo, QuotaId) {
        match self {
            Self::Volume(record) => (record.root, record.quota),
            Self::Snapshot(record) => (record.root, record.quota),
        }
    }

    pub(super) fn set_place(&mut self, root: InodeNo, quota: QuotaId) {
        match self {
            Self::Volume(record) => (record.root, record.quota) = (root, quota),
            Self::Snapshot(record) => (record.root, record.quota) = (root, quota),
        }
    }

    /// Who copies; `None` once it is ready.
    pub(super) fn job(&self) -> Option<CopyJob> {
        match self {
            Self::Volume(record) => record.copy,
            Self::Snapshot(record) => record.copy,
        }
    }

    /// It is being copied by `job`, or ready.
    pub(super) fn set_job(&mut self, job: Option<CopyJob>) {
        let now = if job.is_some() { VolumeState::Copying } else { VolumeState::Ready };
        match self {
            Self::Volume(record) => (record.copy, record.state) = (job, now),
            Self::Snapshot(record) => (record.copy, record.state) = (job, now),
        }
    }

    pub(super) fn settings(&self) -> BTreeMap<String, String> {
        match self {
            Self::Volume(record) => record.settings.clone(),
            Self::Snapshot(_) => BTreeMap::new(),
        }
    }

    pub(super) fn source(&self) -> Option<CopySource> {
        match self {
            Self::Volume(record) => record.source.clone(),
            Self::Snapshot(record) => Some(CopySource::Volume(record.source.clone())),
        }
    }
}
