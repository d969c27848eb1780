//! Memory for objects on their way to the bucket and for answers to large reads, used again.
//!
//! A block is 4 MiB. The allocator gets that much from the kernel and gives it back each time: a thousand page faults for
//! a block, and what stays in between makes the heap grow. So a few rooms are kept while they are needed, and given back when
//! nobody took one for a while.

use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

#[derive(Debug)]
struct Kept {
    rooms: Vec<Vec<u8>>,
    /// A room was taken since the last upkeep.
    used: bool,
}

/// The rooms that are free.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    kept: Arc<Mutex<Kept>>,
    most: usize,
}

/// An object in a room, which is free again when the object is dropped.
struct Object {
    bytes: Vec<u8>,
    rooms: Rooms,
}

impl AsRef<[u8]> for Object {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let mut kept = self.rooms.kept.lock();
        if kept.rooms.len() < self.rooms.most {
            kept.rooms.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl Rooms {
    /// At most `most` rooms are kept.
    pub(crate) fn new(most: usize) -> Self {
        Rooms { kept: Arc::new(Mutex::new(Kept { rooms: Vec::new(), used: false })), most }
    }

    /// A room, whose old content is of no meaning.
    pub(crate) fn take(&self) -> Vec<u8> {
        let mut kept = self.kept.lock();
        kept.used = true;
        kept.rooms.pop().unwrap_or_default()
    }

    /// What is in a room now; with the last of these bytes the room is free again.
    pub(crate) fn bytes(&self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Object { bytes, rooms: self.clone() })
    }

    /// Regular upkeep: rooms that nobody took since the last time are given back.
    pub(crate) fn maintain(&self) {
        let mut kept = self.kept.lock();
        if !std::mem::take(&mut kept.used) {
            kept.rooms = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_serves_again_until_it_is_idle() {
        let rooms = Rooms::new(1);
        let make = |byte: u8| {
            let mut room = rooms.take();
            let had = room.len() as u8;
            room.clear();
            room.extend([byte; 10]);
            room.push(had);
            rooms.bytes(room)
        };
        let (first, second) = (make(1), make(2));
        assert_eq!((first[0], first[10], second[0]), (1, 0, 2));
        drop((first.clone(), second));
        drop(first);
        assert_eq!(make(3)[10], 11, "the room of an object that is gone");
        rooms.maintain();
        assert_eq!(make(4)[10], 11);
        rooms.maintain();
        rooms.maintain();
        assert_eq!(make(5)[10], 0, "given back");
    }
}
