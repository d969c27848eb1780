//! One call at a time on each object.
//!
//! Callers repeat calls that took long, so two calls on one volume do meet. CSI wants the second to be refused with
//! `Aborted` rather than queued: the caller comes back, and no queue can grow behind a stuck mount.

use crate::error::CsiError;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

/// The objects (volumes, targets) that a call is at work on.
#[derive(Clone, Default)]
pub(crate) struct Locks(Arc<Mutex<HashSet<String>>>);

/// Ends the hold on an object when dropped.
pub(crate) struct LockGuard {
    locks: Locks,
    key: String,
}

impl Locks {
    /// Takes `key`, or says that another call has it.
    pub(crate) fn lock(&self, key: impl Into<String>) -> Result<LockGuard, CsiError> {
        let key = key.into();
        if self.0.lock().insert(key.clone()) {
            Ok(LockGuard { locks: self.clone(), key })
        } else {
            Err(CsiError::Busy(key))
        }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.locks.0.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_call_on_the_same_volume_is_refused_until_the_first_has_ended() {
        let locks = Locks::default();
        let first = locks.lock("volume a").unwrap();
        assert!(matches!(locks.lock("volume a"), Err(CsiError::Busy(key)) if key == "volume a"));
        let _other = locks.lock("volume b").unwrap();
        drop(first);
        assert!(locks.lock("volume a").is_ok());
    }
}
