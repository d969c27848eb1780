//! How long something took, counted in buckets: what every layer measures with, and nobody but the binary shows.
//!
//! Recording is two additions to atomics. There is no lock, so a snapshot taken while others record may have a call in its
//! buckets and not yet in its sum; the next snapshot has both.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets in microseconds: 50 us to 10 s. What took longer is in one more bucket.
pub const BOUNDS_MICROS: [u64; 17] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

const BUCKETS: usize = BOUNDS_MICROS.len() + 1;

/// Times of calls of one kind.
#[derive(Debug, Default)]
pub struct Latency {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// What a [`Latency`] held at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Calls whose time is at most the bound of the same place in [`BOUNDS_MICROS`] and above the one before; the last
    /// one has the rest.
    pub buckets: [u64; BUCKETS],
    /// Sum of all times, nanoseconds.
    pub nanos: u64,
}

impl Latency {
    /// Counts a call that took so long.
    pub fn record(&self, took: Duration) {
        let nanos = took.as_nanos() as u64;
        let place = BOUNDS_MICROS.partition_point(|bound| bound * 1_000 < nanos);
        self.buckets[place].fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> Latencies {
        let buckets = self.buckets.each_ref().map(|n| n.load(Relaxed));
        Latencies { buckets, nanos: self.nanos.load(Relaxed) }
    }
}

impl Latencies {
    /// Calls counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Sum of all times, seconds.
    pub fn seconds(&self) -> f64 {
        self.nanos as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_own_bucket_and_no_time_is_left_out() {
        let latency = Latency::default();
        latency.record(Duration::ZERO);
        latency.record(Duration::from_micros(50));
        latency.record(Duration::from_nanos(50_001));
        latency.record(Duration::from_secs(10));
        latency.record(Duration::from_secs(11));
        let seen = latency.snapshot();
        assert_eq!((seen.buckets[0], seen.buckets[1]), (2, 1));
        assert_eq!((seen.buckets[BUCKETS - 2], seen.buckets[BUCKETS - 1]), (1, 1));
        assert_eq!((seen.count(), seen.nanos), (5, 21_000_100_001));
    }
}
