//! Ports, and waiting for a condition.
//!
//! A port below the ephemeral range is chosen: one that the kernel hands out for `bind(0)` may be taken by an outgoing
//! connection between the moment it is found free and the moment the server binds it.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use parking_lot::Mutex;

/// Linux hands out 32768 and above for outgoing connections, unless told otherwise.
const PORTS: std::ops::Range<u16> = 12_000..32_000;

static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// A loopback TCP port that nobody listens on and that this process was not given before.
///
/// # Panics
/// If none of 1,000 random ports is free.
pub fn free_port() -> u16 {
    let mut given = GIVEN.lock();
    let given = given.get_or_insert_with(HashSet::new);
    for _ in 0..1_000 {
        let port = PORTS.start + (random_u64() % PORTS.len() as u64) as u16;
        if !given.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            given.insert(port);
            return port;
        }
    }
    panic!("no free port among 1000 random ones of {PORTS:?}");
}

/// A number that differs from call to call and from process to process.
pub(crate) fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Asks `condition` every 20 ms until it is true.
///
/// # Errors
/// If it is still false after `timeout`: the message names `what`.
pub fn wait_until(what: &str, timeout: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + timeout;
    while !condition() {
        if Instant::now() >= end {
            bail!("still waiting for {what} after {:.1} s", timeout.as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_never_given_twice() {
        let ports: Vec<u16> = (0..50).map(|_| free_port()).collect();
        let distinct: HashSet<u16> = ports.iter().copied().collect();
        assert_eq!(distinct.len(), ports.len());
    }

    #[test]
    fn waiting_in_vain_says_what_was_waited_for() {
        let error = wait_until("the moon", Duration::from_millis(50), || false).unwrap_err();
        assert!(error.to_string().contains("the moon"), "{error}");
    }
}
