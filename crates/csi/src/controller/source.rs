//! What a new volume is a copy of.

use super::not_ours;
use crate::error::CsiError;
use crate::id::{SnapshotId, VolumeId};
use crate::request::required;
use carafe_proto::csi::v1::VolumeContentSource;
use carafe_proto::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use carafe_types::record::CopySource;
use uuid::Uuid;

/// A source whose id is one of ours.
pub(super) enum Source {
    Volume(VolumeId),
    Snapshot(SnapshotId),
}

/// The source that a request names.
pub(super) fn wanted(source: Option<&VolumeContentSource>) -> Result<Option<Source>, CsiError> {
    let Some(source) = source else { return Ok(None) };
    match &source.r#type {
        None => Err(CsiError::Missing("volume_content_source.type")),
        Some(Type::Volume(VolumeSource { volume_id })) => {
            let id = required("volume_content_source.volume.volume_id", volume_id)?;
            Ok(Some(Source::Volume(VolumeId::parse(id).ok_or_else(|| not_ours(id))?)))
        }
        Some(Type::Snapshot(SnapshotSource { snapshot_id })) => {
            let id = required("volume_content_source.snapshot.snapshot_id", snapshot_id)?;
            let unknown = || CsiError::NoSnapshot(id.to_owned());
            Ok(Some(Source::Snapshot(SnapshotId::parse(id).ok_or_else(unknown)?)))
        }
    }
}

impl Source {
    /// The source as records have it, if it lies in the file system `fs`: a copy shares its bytes.
    pub(super) fn within(self, fs: Uuid) -> Result<CopySource, CsiError> {
        let (its, source) = match self {
            Self::Volume(id) => (id.fs(), CopySource::Volume(id.to_string())),
            Self::Snapshot(id) => (id.fs(), CopySource::Snapshot(id.to_string())),
        };
        if its == fs {
            return Ok(source);
        }
        let reason = format!(
            "{} lies in file system {its}, the new volume in {fs}: use a storage class of the same file system",
            source.id()
        );
        Err(CsiError::invalid("volume_content_source", reason))
    }
}

/// As the wire has it.
pub(super) fn wire(source: &CopySource) -> VolumeContentSource {
    let r#type = match source.clone() {
        CopySource::Volume(volume_id) => Type::Volume(VolumeSource { volume_id }),
        CopySource::Snapshot(snapshot_id) => Type::Snapshot(SnapshotSource { snapshot_id }),
    };
    VolumeContentSource { r#type: Some(r#type) }
}

/// For a message.
pub(super) fn told(source: &Option<CopySource>) -> String {
    match source {
        None => "nothing".to_owned(),
        Some(CopySource::Volume(id)) => format!("volume {id}"),
        Some(CopySource::Snapshot(id)) => format!("snapshot {id}"),
    }
}
