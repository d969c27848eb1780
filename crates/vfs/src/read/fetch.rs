//! From the bucket into the cache, each byte once.
//!
//! A fetch is a *flight*: an aligned range of a slice on its way. Readers who need bytes that are in the air wait for
//! that flight instead of asking again. A flight puts its bytes into the cache, and keeps them for those who wait, so
//! that a cache without room still serves.

use crate::local::{Local, key_of};
use crate::remote::{Remote, SliceRef};
use crate::stats::Counter;
use bytes::Bytes;
use carafe_cache::{CacheError, FRAME_BYTES, ReadOutcome, SliceFile, SliceKey};
use carafe_object::ObjectError;
use carafe_types::record::ExtentKind;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use tokio::sync::{Notify, Semaphore};

/// A pack up to this size is fetched as a whole: its files are neighbours, and who opens one opens the next.
const WHOLE_PACK: u64 = 4 << 20;

/// Of a larger pack, what is fetched around a file.
const PACK_UNIT: u64 = 1 << 20;

/// How often a read looks again when bytes vanish from the cache under it.
const TRIES: usize = 3;

/// Why bytes could not be had.
#[derive(Clone, Debug)]
pub(crate) enum FetchError {
    /// The object does not exist (any more).
    Gone(String),
    /// The bucket fails, or the object is damaged.
    Bucket(ObjectError),
    /// The cache fails in a way that a fetch cannot heal.
    Cache(String),
}

impl From<ObjectError> for FetchError {
    fn from(e: ObjectError) -> Self {
        match e {
            ObjectError::NotFound { object } => FetchError::Gone(object),
            other => FetchError::Bucket(other),
        }
    }
}

impl From<CacheError> for FetchError {
    fn from(e: CacheError) -> Self {
        FetchError::Cache(e.to_string())
    }
}

/// A range on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    range: Range<u64>,
    done: OnceLock<Result<Vec<Bytes>, ObjectError>>,
    told: Notify,
}

impl Flight {
    fn new(range: Range<u64>) -> Arc<Self> {
        Arc::new(Flight { range, done: OnceLock::new(), told: Notify::new() })
    }

    fn land(&self, result: Result<Vec<Bytes>, ObjectError>) {
        let _first = self.done.set(result);
        self.told.notify_waiters();
    }

    async fn wait(&self) -> Result<&[Bytes], FetchError> {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            match self.done.get() {
                Some(Ok(bytes)) => return Ok(bytes),
                Some(Err(e)) => return Err(e.clone().into()),
                None => told.await,
            }
        }
    }

    /// Copies what this flight has of `at..at + buf.len()`.
    fn copy(&self, at: u64, buf: &mut [u8]) {
        let Some(Ok(chunks)) = self.done.get() else { return };
        let end = at + buf.len() as u64;
        let mut start = self.range.start;
        for chunk in chunks {
            let chunk_end = start + chunk.len() as u64;
            let (from, to) = (start.max(at), chunk_end.min(end));
            if from < to {
                let part = &chunk[(from - start) as usize..(to - start) as usize];
                buf[(from - at) as usize..(to - at) as usize].copy_from_slice(part);
            }
            start = chunk_end;
        }
    }
}

/// Figures since the start.
#[derive(Debug, Default)]
pub(crate) struct FetchCounts {
    /// Flights begun.
    pub(crate) flights: Counter,
    /// Bytes that arrived.
    pub(crate) bytes: Counter,
}

/// All fetches of a mount.
pub(crate) struct Fetcher {
    remote: Arc<Remote>,
    local: Arc<Local>,
    /// Bytes in the air, in frames.
    room: Arc<Semaphore>,
    frames_max: u32,
    flights: Mutex<HashMap<SliceKey, Vec<Arc<Flight>>>>,
    pub(crate) counts: FetchCounts,
}

impl Fetcher {
    pub(crate) fn new(remote: Arc<Remote>, local: Arc<Local>, bytes_max: u64) -> Arc<Self> {
        let frames_max = (bytes_max / FRAME_BYTES).clamp(64, 1 << 20) as u32;
        Arc::new(Fetcher {
            remote,
            local,
            room: Arc::new(Semaphore::new(frames_max as usize)),
            frames_max,
            flights: Mutex::default(),
            counts: FetchCounts::default(),
        })
    }

    /// The cache's file of a slice.
    pub(crate) fn open(&self, slice: &SliceRef) -> Result<Arc<SliceFile>, FetchError> {
        Ok(self.local.open(key_of(slice.session, slice.n), slice.len)?)
    }

    /// Reads a range of a slice, from the cache or the bucket.
    pub(crate) async fn read(
        self: &Arc<Self>,
        slice: &SliceRef,
        file: &Arc<SliceFile>,
        at: u64,
        buf: &mut [u8],
        unit: u64,
    ) -> Result<(), FetchError> {
        let want = at..at + buf.len() as u64;
        for _ in 0..TRIES {
            if file.read_at(at, buf)? == ReadOutcome::Bytes {
                return Ok(());
            }
            let flights = self.start(slice, file, want.clone(), unit, true);
            for flight in &flights {
                flight.wait().await?;
            }
            if file.read_at(at, buf)? == ReadOutcome::Bytes {
                return Ok(());
            }
            // The cache had no room. Together with what was here before, the flights may have all of it.
            if covers(&flights, &want) {
                flights.iter().for_each(|f| f.copy(at, buf));
                return Ok(());
            }
        }
        let direct = Flight::new(want.clone());
        direct.land(Ok(self.remote.read(slice, want).await?));
        direct.copy(at, buf);
        Ok(())
    }

    /// Sends off what is missing of `want`, rounded to pieces of `unit`; returns the flights that carry some of `want`.
    ///
    /// Who is not urgent gets nothing if there is no room in the air.
    pub(crate) fn start(
        self: &Arc<Self>,
        slice: &SliceRef,
        file: &Arc<SliceFile>,
        want: Range<u64>,
        unit: u64,
        urgent: bool,
    ) -> Vec<Arc<Flight>> {
        let unit = match slice.kind {
            ExtentKind::Pack if slice.len <= WHOLE_PACK => WHOLE_PACK,
            ExtentKind::Pack => PACK_UNIT.max(unit),
            ExtentKind::Blocks => unit.min(self.remote.block_size()),
        };
        let around = want.start / unit * unit..want.end.next_multiple_of(unit).min(slice.len);
        let missing = file.missing(around);
        if missing.is_empty() || (!urgent && self.room.available_permits() == 0) {
            return Vec::new();
        }
        let mut wanted = Vec::new();
        let mut fresh = Vec::new();
        let mut flights = self.flights.lock();
        let flying = flights.entry(file.key()).or_default();
        for gap in missing {
            let (old, rest) = split_flying(flying, gap);
            wanted.extend(old.into_iter().filter(|f| overlaps(&f.range, &want)));
            fresh.extend(rest.into_iter().flat_map(|r| pieces(r, unit)).map(Flight::new));
        }
        flying.extend(fresh.iter().cloned());
        if flying.is_empty() {
            flights.remove(&file.key());
        }
        drop(flights);
        for flight in fresh {
            if overlaps(&flight.range, &want) {
                wanted.push(flight.clone());
            }
            tokio::spawn(self.clone().fly(*slice, file.clone(), flight));
        }
        wanted
    }

    async fn fly(self: Arc<Self>, slice: SliceRef, file: Arc<SliceFile>, flight: Arc<Flight>) {
        let landing = Landing { fetcher: &self, key: file.key(), flight: &flight };
        let frames = (flight.range.end - flight.range.start).div_ceil(FRAME_BYTES) as u32;
        let _room = self.room.acquire_many(frames.min(self.frames_max)).await;
        self.counts.flights.add(1);
        let result = self.remote.read(&slice, flight.range.clone()).await;
        if let Ok(chunks) = &result {
            self.counts.bytes.add(flight.range.end - flight.range.start);
            self.keep(&file, flight.range.start, chunks);
        }
        flight.land(result);
        drop(landing);
    }

    /// Puts fetched bytes into the cache. That it has no room or no disk is no reason to fail a read.
    fn keep(&self, file: &SliceFile, mut at: u64, chunks: &[Bytes]) {
        for chunk in chunks {
            if let Err(e) = file.fill(at, chunk) {
                tracing::debug!(slice = %file.key(), error = %e, "fetched bytes are not cached");
                return;
            }
            at += chunk.len() as u64;
        }
    }
}

/// Takes a flight out of the list whatever happens, so that nobody waits for a task that died.
struct Landing<'a> {
    fetcher: &'a Fetcher,
    key: SliceKey,
    flight: &'a Arc<Flight>,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let lost =
            ObjectError::Unreachable { bucket: "bucket".into(), detail: "the fetch was given up".into() };
        self.flight.land(Err(lost));
        let mut flights = self.fetcher.flights.lock();
        if let Some(flying) = flights.get_mut(&self.key) {
            flying.retain(|f| !Arc::ptr_eq(f, self.flight));
            if flying.is_empty() {
                flights.remove(&self.key);
            }
        }
    }
}

fn overlaps(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// What of `gap` is in the air already, and what is not.
fn split_flying(flying: &[Arc<Flight>], gap: Range<u64>) -> (Vec<Arc<Flight>>, Vec<Range<u64>>) {
    let mut over: Vec<_> = flying.iter().filter(|f| overlaps(&f.range, &gap)).cloned().collect();
    over.sort_by_key(|f| f.range.start);
    let mut rest = Vec::new();
    let mut at = gap.start;
    for flight in &over {
        if flight.range.start > at {
            rest.push(at..flight.range.start);
        }
        at = at.max(flight.range.end);
    }
    if at < gap.end {
        rest.push(at..gap.end);
    }
    (over, rest)
}

/// Cuts a range at multiples of `unit`.
fn pieces(range: Range<u64>, unit: u64) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let end = ((at / unit + 1) * unit).min(range.end);
        let piece = at..end;
        at = end;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Whether landed flights have every byte of `want`.
fn covers(flights: &[Arc<Flight>], want: &Range<u64>) -> bool {
    let mut ranges: Vec<_> = flights.iter().map(|f| f.range.clone()).collect();
    ranges.sort_by_key(|r| r.start);
    let reach = ranges.iter().fold(want.start, |at, r| if r.start <= at { at.max(r.end) } else { at });
    reach >= want.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_air_is_not_asked_for_again() {
        let flying = [Flight::new(100..200), Flight::new(300..400)];
        let (old, rest) = split_flying(&flying, 50..350);
        assert_eq!((old.len(), rest), (2, vec![50..100, 200..300]));
        assert_eq!(pieces(50..250, 100).collect::<Vec<_>>(), [50..100, 100..200, 200..250]);
    }

    #[test]
    fn bytes_come_from_several_flights_in_any_order() {
        let (a, b) = (Flight::new(10..14), Flight::new(14..18));
        a.land(Ok(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"cd")]));
        b.land(Ok(vec![Bytes::from_static(b"efgh")]));
        let flights = [b, a];
        assert!(covers(&flights, &(11..16)) && !covers(&flights, &(11..19)));
        let mut buf = [0; 5];
        flights.iter().for_each(|f| f.copy(11, &mut buf));
        assert_eq!(&buf, b"bcdef");
    }
}
