//! What a capacity range asks for.
//!
//! The quota of a volume is exactly the capacity that the answer tells, in bytes. Given both bounds, the volume gets the
//! lower one; a limit alone means "at most this", so it gets that; nothing means a volume without a quota, told as 0.

use crate::error::CsiError;
use carafe_proto::csi::v1::CapacityRange;

/// More than any quota can count.
const LARGEST: u64 = 1 << 62;

/// A checked capacity range, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    required: Option<u64>,
    limit: Option<u64>,
}

impl Capacity {
    /// Reads a range.
    ///
    /// # Errors
    /// `InvalidArgument` for negative numbers, `OutOfRange` if the limit is below what is required or more is required than
    /// any volume can hold.
    pub(crate) fn parse(range: Option<&CapacityRange>) -> Result<Self, CsiError> {
        let range = range.copied().unwrap_or_default();
        let bytes = |field: &str, value: i64| match u64::try_from(value) {
            Ok(0) => Ok(None),
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) => {
                Err(CsiError::invalid(format!("capacity_range.{field}"), format!("{value} is negative")))
            }
        };
        let required = bytes("required_bytes", range.required_bytes)?;
        let limit = bytes("limit_bytes", range.limit_bytes)?;
        if let (Some(required), Some(limit)) = (required, limit)
            && limit < required
        {
            let reason =
                format!("at least {required} and at most {limit} bytes are asked, which excludes every size");
            return Err(CsiError::OutOfRange(reason));
        }
        if let Some(required) = required.filter(|required| *required > LARGEST) {
            let reason =
                format!("{required} bytes are asked, a volume holds at most {LARGEST}: ask for less");
            return Err(CsiError::OutOfRange(reason));
        }
        Ok(Self { required, limit: limit.map(|limit| limit.min(LARGEST)) })
    }

    /// The capacity of a new volume; `None` is no quota.
    pub(crate) fn choose(self) -> Option<u64> {
        self.required.or(self.limit)
    }

    /// Whether an existing volume of `bytes` (0: no quota) is what this range asks for. Without a limit only the very
    /// size is: a caller that names one size and gets another has named another volume.
    pub(crate) fn is_met_by(self, bytes: u64) -> bool {
        let within_limit = self.limit.is_some_and(|limit| bytes != 0 && bytes <= limit);
        bytes == self.choose().unwrap_or(0) || (within_limit && bytes >= self.required.unwrap_or(0))
    }

    /// Whether a volume of `bytes` (0: no quota) that was there before can be what this range asks for: it may be bigger.
    pub(crate) fn is_within(self, bytes: u64) -> bool {
        let enough = bytes == 0 || bytes >= self.required.unwrap_or(0);
        enough && self.limit.is_none_or(|limit| bytes != 0 && bytes <= limit)
    }

    /// The capacity after an expansion of a volume that has `bytes` now (0: no quota).
    ///
    /// # Errors
    /// `InvalidArgument` if no size is asked, `OutOfRange` if the volume would have to shrink.
    pub(crate) fn expand(self, bytes: u64) -> Result<u64, CsiError> {
        let asked = self.choose().ok_or(CsiError::Missing("capacity_range"))?;
        match self.limit {
            Some(limit) if bytes == 0 || bytes > limit => Err(CsiError::OutOfRange(format!(
                "the volume has {}, at most {limit} are asked, and a volume never shrinks",
                if bytes == 0 { "no limit".to_owned() } else { format!("{bytes} bytes") }
            ))),
            // A volume without a quota holds whatever is asked.
            _ if bytes == 0 => Ok(0),
            _ => Ok(asked.max(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(required_bytes: i64, limit_bytes: i64) -> Capacity {
        Capacity::parse(Some(&CapacityRange { required_bytes, limit_bytes })).unwrap()
    }

    #[test]
    fn a_volume_gets_exactly_what_is_required_else_the_limit_else_no_quota() {
        assert_eq!(range(1_000_000_007, 0).choose(), Some(1_000_000_007));
        assert_eq!(range(5, 9).choose(), Some(5));
        assert_eq!(range(0, 9).choose(), Some(9));
        assert_eq!(Capacity::parse(None).unwrap().choose(), None);
    }

    #[test]
    fn a_range_that_excludes_every_size_is_out_of_range_and_a_negative_one_is_invalid() {
        let parse = |required_bytes, limit_bytes| {
            Capacity::parse(Some(&CapacityRange { required_bytes, limit_bytes }))
        };
        assert!(matches!(parse(9, 5), Err(CsiError::OutOfRange(_))));
        assert!(matches!(parse(i64::MAX, 0), Err(CsiError::OutOfRange(_))));
        assert!(matches!(parse(-1, 0), Err(CsiError::Invalid { .. })));
        assert!(matches!(parse(0, -1), Err(CsiError::Invalid { .. })));
    }

    #[test]
    fn the_same_name_means_the_same_volume_only_with_the_same_size_or_within_the_limit() {
        assert!(range(5, 0).is_met_by(5));
        assert!(!range(5, 0).is_met_by(6) && !range(5, 0).is_met_by(4));
        assert!(range(5, 9).is_met_by(9) && !range(5, 9).is_met_by(10));
        assert!(Capacity::default().is_met_by(0) && !Capacity::default().is_met_by(5));
        assert!(!range(5, 0).is_met_by(0) && !range(5, 9).is_met_by(0));
        assert!(range(5, 0).is_within(8) && range(5, 0).is_within(0) && !range(5, 0).is_within(4));
        assert!(range(5, 9).is_within(9) && !range(5, 9).is_within(10) && !range(5, 9).is_within(0));
    }

    #[test]
    fn a_volume_grows_to_the_byte_and_never_shrinks() {
        assert_eq!(range(11, 0).expand(10).unwrap(), 11);
        assert_eq!(range(9, 0).expand(10).unwrap(), 10);
        assert_eq!(range(9, 0).expand(0).unwrap(), 0);
        assert!(matches!(range(5, 9).expand(10), Err(CsiError::OutOfRange(_))));
        assert!(matches!(Capacity::default().expand(10), Err(CsiError::Missing(_))));
    }
}
