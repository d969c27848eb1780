//! What requests ask for, checked and in types: the only place that looks into wire messages.
//!
//! A check that fails here is `InvalidArgument` or `OutOfRange`; everything behind it may rely on the types.

mod capability;
mod capacity;
mod keys;
mod parameters;
mod path;
mod secrets;

pub(crate) use capability::{Access, Attributes, access, accesses};
pub(crate) use capacity::Capacity;
pub use parameters::ParameterKey;
pub(crate) use parameters::VolumeParameters;
pub use path::VolumePath;
pub(crate) use path::{CONTEXT_PATH, absolute, directory};
pub use secrets::SecretKey;
pub(crate) use secrets::address;

use crate::error::CsiError;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_128_bytes_is_allowed_and_a_longer_or_empty_one_is_not() {
        assert!(volume_name(&"n".repeat(128)).is_ok());
        assert!(volume_name(&"n".repeat(129)).is_err());
        assert!(matches!(volume_name(""), Err(CsiError::Missing("name"))));
        assert!(volume_name("a\nb").is_err());
    }
}
