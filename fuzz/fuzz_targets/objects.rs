//! Everything that is read from a bucket: block trailers, frames, pack footers, the marker, object names.
#![no_main]
use carafe_object::{FsMarker, ObjectId, frames, keys, pack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((which, data)) = data.split_first() else { return };
    match which % 5 {
        0 => drop(frames::decode_trailer(data, "object")),
        1 => drop(pack::read_footer(data, "object")),
        2 => drop(FsMarker::decode(data)),
        3 => {
            if let Some(id) = std::str::from_utf8(data).ok().and_then(keys::parse_key) {
                assert_eq!(keys::parse_key(&id.key()), Some(id));
            }
        }
        _ => {
            let id = ObjectId::block(carafe_types::SessionUuid([7; 16]), 1, 0);
            let bytes = bytes::Bytes::copy_from_slice(data);
            drop(frames::decode_block(&id, &bytes));
            let len = data.len() as u64;
            drop(frames::decode_range(&id, &bytes, u64::from(*which), 0..len));
        }
    }
});
