//! What is being made: a volume or a snapshot, as far as a copy does not care which.

use super::super::VolumeError;
use crate::store::Key;
use bytes::Bytes;
use carafe_types::record::{CopyJob, SnapshotRecord, VolumeRecord, VolumeState};
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

    /// Whether a request for `new` is one for this: what is taken over must be what was begun.
    pub(super) fn is_asked_by(&self, new: &Target) -> bool {
        match (self, new) {
            (Self::Volume(there), Self::Volume(new)) => {
                there.source == new.source
                    && there.capacity == new.capacity
                    && there.parameters == new.parameters
            }
            (Self::Snapshot(there), Self::Snapshot(new)) => there.source == new.source,
            _ => false,
        }
    }
}
