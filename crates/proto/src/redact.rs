//! `Debug` for requests with credentials: every field but the secrets, and of these only the names.
//!
//! The names stay because a misspelt key is the usual mistake and they are no secret themselves.

use crate::csi::v1;
use std::collections::HashMap;
use std::fmt;

/// The sorted keys of a secrets map; the values are never looked at.
struct KeysOnly<'a>(&'a HashMap<String, String>);

impl fmt::Debug for KeysOnly<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut keys: Vec<_> = self.0.keys().collect();
        keys.sort_unstable();
        f.debug_list().entries(keys).finish()
    }
}

macro_rules! debug_without_secrets {
    ($($message:ident { $($field:ident),* })*) => {$(
        impl fmt::Debug for v1::$message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // Taken apart in full, so that a new field cannot be forgotten here.
                let Self { $($field,)* secrets } = self;
                f.debug_struct(stringify!($message))
                    $(.field(stringify!($field), $field))*
                    .field("secrets", &KeysOnly(secrets))
                    .finish()
            }
        }
    )*};
}

debug_without_secrets! {
    CreateVolumeRequest {
        name, capacity_range, volume_capabilities, parameters, volume_content_source, accessibility_requirements,
        mutable_parameters
    }
    DeleteVolumeRequest { volume_id }
    ControllerPublishVolumeRequest { volume_id, node_id, volume_capability, readonly, volume_context }
    ControllerUnpublishVolumeRequest { volume_id, node_id }
    ValidateVolumeCapabilitiesRequest {
        volume_id, volume_context, volume_capabilities, parameters, mutable_parameters
    }
    ControllerModifyVolumeRequest { volume_id, mutable_parameters }
    ControllerExpandVolumeRequest { volume_id, capacity_range, volume_capability }
    CreateSnapshotRequest { source_volume_id, name, parameters, accessibility_requirements }
    DeleteSnapshotRequest { snapshot_id }
    ListSnapshotsRequest { max_entries, starting_token, source_volume_id, snapshot_id }
    GetSnapshotRequest { snapshot_id }
    NodeStageVolumeRequest { volume_id, publish_context, staging_target_path, volume_capability, volume_context }
    NodePublishVolumeRequest {
        volume_id, publish_context, staging_target_path, target_path, volume_capability, readonly, volume_context
    }
    NodeExpandVolumeRequest { volume_id, volume_path, capacity_range, staging_target_path, volume_capability }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_names_of_secrets_and_never_their_values() {
        let request = v1::NodeStageVolumeRequest {
            volume_id: "v1".into(),
            secrets: [("metaurl", "redis://:pa55@host/1"), ("secret-key", "hush")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..Default::default()
        };
        let shown = format!("{request:?}");
        assert!(shown.contains("v1") && shown.contains(r#"["metaurl", "secret-key"]"#), "{shown}");
        assert!(!shown.contains("pa55") && !shown.contains("hush"), "{shown}");
    }
}
