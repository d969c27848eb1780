//! What requests ask for, checked and in types: the only place that looks into wire messages.
//!
//! A check that fails here is `InvalidArgument` or `OutOfRange`; everything behind it may rely on the types.

mod capability;
mod capacity;
mod context;
mod keys;
mod parameters;
mod path;
mod pattern;
mod quantity;
mod secrets;
mod settings;

pub(crate) use capability::{Access, Attributes, access, accesses};
pub(crate) use capacity::Capacity;
pub use context::ContextKey;
pub(crate) use context::VolumeContext;
pub use parameters::ParameterKey;
pub(crate) use parameters::VolumeParameters;
pub use path::VolumePath;
pub(crate) use path::{CONTEXT_PATH, absolute};
pub use secrets::SecretKey;
pub(crate) use secrets::address;
pub use settings::SettingKey;
pub(crate) use settings::Settings;

use crate::error::CsiError;
use carafe_proto::csi::v1::{CreateVolumeRequest, NodePublishVolumeRequest};
use prost::Message;

/// A required text field.
pub(crate) fn required<'a>(field: &'static str, value: &'a str) -> Result<&'a str, CsiError> {
    if value.is_empty() { Err(CsiError::Missing(field)) } else { Ok(value) }
}

/// The name of a new volume: required, at most 128 bytes, no control characters (both from the specification).
pub(crate) fn volume_name(name: &str) -> Result<&str, CsiError> {
    required("name", name)?;
    if name.len() > 128 {
        return Err(CsiError::invalid("name", format!("{} bytes long, at most 128 are allowed", name.len())));
    }
    if name.chars().any(char::is_control) {
        return Err(CsiError::invalid("name", "has control characters"));
    }
    Ok(name)
}

/// Runs every check of this module on the message in `bytes`, of the type that the first byte chooses.
pub(crate) fn check_any(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let volumes = VolumePath::new("volumes").expect("a plain name is a valid path");
    match kind % 4 {
        0 => {
            let Ok(request) = CreateVolumeRequest::decode(bytes) else { return };
            let _ = (volume_name(&request.name).ok(), address(&request.secrets).ok());
            let _ = (
                accesses(&request.volume_capabilities).ok(),
                VolumeParameters::parse(&request.parameters).ok(),
                Settings::parse(&request.mutable_parameters).ok(),
            );
            if let Ok(capacity) = Capacity::parse(request.capacity_range.as_ref()) {
                let chosen = capacity.choose().unwrap_or(0);
                assert!(capacity.is_met_by(chosen), "a new volume is what was asked for");
                assert!(chosen == 0 || capacity.expand(chosen).is_ok_and(|bytes| bytes == chosen));
            }
        }
        1 => {
            let Ok(request) = NodePublishVolumeRequest::decode(bytes) else { return };
            let _ = (access(request.volume_capability.as_ref()).ok(), address(&request.secrets).ok());
            if let Ok(context) = VolumeContext::parse(&request.volume_id, &request.volume_context, &volumes) {
                let plain = |c| matches!(c, std::path::Component::Normal(_));
                assert!(context.path.as_path().components().all(plain), "a volume lies below the root");
            }
        }
        2 => drop(crate::token::ListToken::decode(&String::from_utf8_lossy(bytes))),
        _ => drop(crate::mount::table::MountTable::parse(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_of_128_bytes_is_allowed_and_a_longer_or_empty_one_is_not() {
        assert!(volume_name(&"n".repeat(128)).is_ok());
        assert!(volume_name(&"n".repeat(129)).is_err());
        assert!(matches!(volume_name(""), Err(CsiError::Missing("name"))));
        assert!(volume_name("a\nb").is_err());
    }

    proptest! {
        #[test]
        fn no_request_makes_the_checks_panic(bytes: Vec<u8>) {
            check_any(&bytes);
        }
    }
}
