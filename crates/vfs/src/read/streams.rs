//! Telling readers that go forward from readers that jump.
//!
//! A handle may serve several readers (threads of a merge, each with its own part of a file), so a few streams are
//! followed at once. A stream that goes on doubles its window; what is fetched for a reader who jumps stays small.

use std::ops::Range;

/// Streams followed for one handle.
const STREAMS: usize = 4;

/// How far off the expected place a read may begin and still continue a stream: the kernel reorders its readahead.
const SLACK: u64 = 512 << 10;

/// Window of a reader that begins at the start of a file: most readers of small files want all of it.
const FIRST_WINDOW: u64 = 256 << 10;

/// What is fetched around a lonely small read.
const RANDOM_UNIT: u64 = 128 << 10;

const UNIT_MIN: u64 = 256 << 10;
const UNIT_MAX: u64 = 4 << 20;

/// How to serve one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Fetches are of aligned pieces of so many bytes (a power of two).
    pub(crate) unit: u64,
    /// What to fetch ahead, as a range of the file.
    pub(crate) ahead: Option<Range<u64>>,
}

impl Access {
    /// For a read about which nothing is known.
    pub(crate) fn random() -> Self {
        Access { unit: RANDOM_UNIT, ahead: None }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    next: u64,
    window: u64,
    ahead: u64,
    used: u64,
}

/// The streams of a handle.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: Vec<Stream>,
    clock: u64,
}

impl Streams {
    /// Notes a read, and says how to serve it.
    pub(crate) fn note(&mut self, offset: u64, len: u64, window_max: u64) -> Access {
        self.clock += 1;
        let clock = self.clock;
        let near = |s: &Stream| offset.abs_diff(s.next) <= if s.window > UNIT_MIN { SLACK } else { 0 };
        let stream = match self.streams.iter().position(near) {
            Some(found) => {
                let stream = &mut self.streams[found];
                if offset + len > stream.next {
                    stream.window = (stream.window * 2).max(UNIT_MIN).min(window_max);
                }
                stream
            }
            None => self.begin(offset, window_max),
        };
        stream.used = clock;
        stream.next = stream.next.max(offset + len);
        if stream.window == 0 {
            return Access::random();
        }
        let target = stream.next + stream.window;
        let from = stream.ahead.max(stream.next);
        let due = target.saturating_sub(from) >= stream.window / 2;
        if due {
            stream.ahead = target;
        }
        let unit = (stream.window / 4).clamp(UNIT_MIN, UNIT_MAX).next_power_of_two();
        Access { unit, ahead: due.then_some(from..target) }
    }

    fn begin(&mut self, offset: u64, window_max: u64) -> &mut Stream {
        if self.streams.len() == STREAMS {
            let oldest = (0..STREAMS).min_by_key(|&i| self.streams[i].used).unwrap_or(0);
            self.streams.swap_remove(oldest);
        }
        let window = if offset == 0 { FIRST_WINDOW.min(window_max) } else { 0 };
        self.streams.push(Stream { next: offset, window, ahead: 0, used: 0 });
        let last = self.streams.len() - 1;
        &mut self.streams[last]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 16 << 20;

    #[test]
    fn a_forward_reader_gets_a_growing_window_without_asking_twice() {
        let mut s = Streams::default();
        let mut fetched = 0;
        let mut unit = 0;
        for i in 0..400u64 {
            let access = s.note(i << 17, 1 << 17, MAX);
            unit = access.unit;
            if let Some(ahead) = access.ahead {
                assert!(ahead.start >= fetched && ahead.end <= ((i + 1) << 17) + MAX);
                fetched = ahead.end;
            }
        }
        assert_eq!(unit, 4 << 20);
        assert!(fetched >= (400 << 17) + MAX / 2);
    }

    #[test]
    fn a_jumping_reader_gets_small_fetches_and_nothing_ahead() {
        let mut s = Streams::default();
        for i in 1..100u64 {
            assert_eq!(s.note((i * 7_919_911) % (1 << 30) + 4096, 4096, MAX), Access::random());
        }
    }

    #[test]
    fn several_forward_readers_of_one_handle_are_told_apart() {
        let mut s = Streams::default();
        let mut last = Vec::new();
        for i in 0..50u64 {
            last = (0..3u64).map(|r| s.note((r << 32) + (i << 17), 1 << 17, MAX).unit).collect();
        }
        assert_eq!(last, [4 << 20; 3]);
    }
}
