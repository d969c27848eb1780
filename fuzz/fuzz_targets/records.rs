//! Every record decoder, on any bytes: it may refuse, it may not panic, and what it accepts must survive a round trip.
#![no_main]
use carafe_types::record::{
    DirTimes, Guard, Inode, LockRecord, QuotaRecord, Segment, SessionRecord, Superblock, VolumeRecord, Xattrs,
};
use libfuzzer_sys::fuzz_target;

/// What was decoded encodes to something that decodes to the same.
macro_rules! holds {
    ($ty:ty, $data:expr) => {
        if let Ok(record) = <$ty>::decode($data) {
            assert_eq!(<$ty>::decode(&record.encode()).as_ref(), Ok(&record));
        }
    };
}

fuzz_target!(|data: &[u8]| {
    let Some((which, data)) = data.split_first() else { return };
    match which % 10 {
        0 => holds!(Inode, data),
        1 => holds!(Guard, data),
        2 => holds!(LockRecord, data),
        3 => holds!(Xattrs, data),
        4 => holds!(Superblock, data),
        5 => holds!(SessionRecord, data),
        6 => holds!(QuotaRecord, data),
        7 => holds!(VolumeRecord, data),
        8 => {
            if let Ok(times) = DirTimes::decode(data) {
                let _ = (times.mtime(), times.ctime(), times.encode());
            }
        }
        _ => {
            let index = u64::from(*which);
            if let Ok(segment) = Segment::decode(index, data) {
                assert_eq!(Segment::decode(index, &segment.encode(index)), Ok(segment));
            }
        }
    }
});
