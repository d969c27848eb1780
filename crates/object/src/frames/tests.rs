//! Properties of the block format: what goes in comes out, in any range; what was damaged never does.

use super::*;
use crate::error::ObjectError;
use crate::keys::ObjectId;
use bytes::Bytes;
use carafe_types::{Generation, InodeNo, SessionUuid};
use proptest::prelude::*;

const TRAILER: BlockTrailer = BlockTrailer {
    session: SessionUuid([9; 16]),
    n: 3,
    block: 5,
    generation: Generation(2),
    inode: InodeNo(4711),
    file_offset: 20 << 20,
};

/// Bytes that differ from frame to frame, made from a seed.
fn payload(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed) >> 56) as u8).collect()
}

fn encode(payload: &[u8]) -> Bytes {
    encode_block([payload], &TRAILER)
}

fn read(object: &Bytes, range: Range<u64>, payload_len: Option<u64>) -> crate::Result<Bytes> {
    let want = object_range_for(range.clone(), payload_len);
    let have = object
        .slice(want.start.min(object.len() as u64) as usize..want.end.min(object.len() as u64) as usize);
    decode_range(&TRAILER.id(), &have, frame_of(range.start), range)
}

/// Lengths around the frame boundaries, where mistakes live.
fn lengths() -> impl Strategy<Value = usize> {
    let frame = FRAME_DATA as usize;
    prop_oneof![
        0usize..200,
        (0usize..4, 0usize..80).prop_map(move |(f, d)| f * frame + d),
        frame - 80..frame + 1
    ]
}

#[test]
fn an_empty_payload_is_a_trailer_only() {
    let object = encode(b"");
    assert_eq!(object.len(), BLOCK_TRAILER_LEN);
    assert_eq!(decode_block(&TRAILER.id(), &object).unwrap(), (TRAILER, vec![]));
}

#[test]
fn a_payload_that_is_fetched_frame_by_frame_gives_the_same_object() {
    for len in [0, 1, 65_536, 65_537, 200_000] {
        let whole = payload(len, 3);
        let mut places = Vec::new();
        // What an earlier object has left in the room must not be seen.
        let room = vec![0xff; 150_000];
        let object = encode_block_with(len as u64, &TRAILER, room, |at, data: &mut [u8]| {
            places.push((at, data.len()));
            data.copy_from_slice(&whole[at as usize..][..data.len()]);
            Ok::<_, ()>(())
        });
        assert_eq!(Bytes::from(object.unwrap()), encode(&whole));
        assert_eq!(places.iter().map(|p| p.1).sum::<usize>(), len);
    }
    assert_eq!(encode_block_with(1, &TRAILER, Vec::new(), |_, _| Err(7)), Err(7));
}

#[test]
fn sizes_are_as_documented() {
    assert_eq!(encode(&payload(1, 0)).len(), 16 + 1 + 80);
    assert_eq!(encode(&payload(65_536, 0)).len(), 16 + 65_536 + 80);
    assert_eq!(encode(&payload(65_537, 0)).len(), 16 + 65_536 + 16 + 1 + 80);
    assert_eq!(object_range_for(70_000..70_001, None), 65_552..131_104);
    assert_eq!(object_range_for(70_000..70_001, Some(70_001)), 65_552..65_552 + 16 + 4_465);
    assert_eq!(object_range_for(0..u64::MAX, Some(u64::MAX)).end, frames_len(PAYLOAD_MAX));
}

#[test]
fn a_range_inside_one_frame_is_not_copied() {
    let object = encode(&payload(200_000, 1));
    let got = decode_range(&TRAILER.id(), &object, 0, 70_000..80_000).unwrap();
    let inside = object.as_ptr_range();
    assert!(inside.contains(&got.as_ptr()), "the range should point into the bytes that were read");
}

#[test]
fn frames_of_another_place_or_object_are_refused() {
    let object = encode(&payload(200_000, 1));
    let second = object.slice(FRAME_LEN as usize..);
    // Intact frames, handed out as others: shifted by one, of the next block, of another session, of a pack.
    assert!(decode_range(&TRAILER.id(), &second, 1, 65_536..70_000).is_ok());
    assert!(decode_range(&TRAILER.id(), &second, 0, 0..100).is_err());
    let shifted = BlockTrailer { block: 6, ..TRAILER };
    let stranger = BlockTrailer { session: SessionUuid([8; 16]), ..TRAILER };
    for id in [shifted.id(), stranger.id(), ObjectId::pack(TRAILER.session, TRAILER.n)] {
        let e = decode_range(&id, &object, 0, 0..10).unwrap_err();
        assert!(matches!(e, ObjectError::Corrupt { .. }), "{e}");
    }
    assert!(decode_block(&shifted.id(), &object).is_err());
}

#[test]
fn a_range_behind_the_end_is_refused() {
    let object = encode(&payload(100, 1));
    assert!(read(&object, 0..100, None).is_ok());
    let e = read(&object, 0..101, None).unwrap_err().to_string();
    assert!(e.contains("ends at 100"), "{e}");
    assert!(read(&object, 70_000..70_001, None).is_err());
}

#[test]
fn a_trailer_from_the_future_is_told_from_damage() {
    let body = vec![0; 200];
    let tail = crate::wire::seal_trailer(body, 9, *b"carafe-b");
    let e = decode_trailer(&tail, "d/00/x").unwrap_err();
    assert_eq!(e, ObjectError::FutureVersion { what: "object d/00/x".into(), found: 9, known: 1 });
    assert!(e.to_string().contains("upgrade"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_goes_in_comes_out(len in lengths(), cuts in prop::collection::vec(0usize..300_000, 0..5), seed: u64) {
        let data = payload(len, seed);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(len)).chain([0, len]).collect();
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &data[w[0]..w[1]]).collect();
        let object = encode_block(pieces, &TRAILER);
        prop_assert_eq!(object.len() as u64, frames_len(len as u64) + BLOCK_TRAILER_LEN as u64);
        let (trailer, chunks) = decode_block(&TRAILER.id(), &object).unwrap();
        prop_assert_eq!(trailer, TRAILER);
        prop_assert_eq!(chunks.concat(), data);
    }

    #[test]
    fn any_range_is_read_alone_with_or_without_knowing_the_length(
        len in lengths(), a in 0.0f64..1.0, b in 0.0f64..1.0, seed: u64,
    ) {
        let data = payload(len, seed);
        let object = encode(&data);
        let (a, b) = ((a * len as f64) as u64, (b * len as f64).ceil() as u64);
        let range = a.min(b)..a.max(b);
        let want = &data[range.start as usize..range.end as usize];
        prop_assert_eq!(&read(&object, range.clone(), Some(len as u64)).unwrap()[..], want);
        prop_assert_eq!(&read(&object, range, None).unwrap()[..], want);
    }

    #[test]
    fn every_flipped_bit_is_seen(len in lengths(), at in 0.0f64..1.0, bit in 0u8..8, seed: u64) {
        let mut object = encode(&payload(len, seed)).to_vec();
        let at = (at * object.len() as f64) as usize;
        object[at] ^= 1 << bit;
        prop_assert!(decode_block(&TRAILER.id(), &Bytes::from(object)).is_err());
    }

    #[test]
    fn a_flipped_bit_in_a_frame_is_seen_by_every_range_that_touches_it(at in 0u64..200_000 + 64, bit in 0u8..8) {
        let data = payload(200_000, 7);
        let mut object = encode(&data).to_vec();
        object[at as usize] ^= 1 << bit;
        let object = Bytes::from(object);
        for frame in 0..data.len() as u64 / FRAME_DATA {
            let range = frame * FRAME_DATA + 5..frame * FRAME_DATA + 6;
            let touched = at / FRAME_LEN == frame;
            prop_assert_eq!(read(&object, range, None).is_err(), touched);
        }
    }

    #[test]
    fn every_truncation_is_seen(len in lengths(), keep in 0.0f64..1.0, seed: u64) {
        let object = encode(&payload(len, seed));
        let cut = object.slice(..(keep * object.len() as f64) as usize);
        prop_assert!(decode_block(&TRAILER.id(), &cut).is_err());
        if len > 0 && (cut.len() as u64) < frames_len(len as u64) {
            prop_assert!(read(&cut, 0..len as u64, None).is_err());
        }
    }

    #[test]
    fn no_bytes_make_the_decoders_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), first: u64, a: u64, b: u64) {
        let bytes = Bytes::from(bytes);
        let _ = decode_trailer(&bytes, "x");
        let _ = decode_block(&TRAILER.id(), &bytes);
        let _ = decode_chunks(&TRAILER.id(), &bytes, first, a..b);
        let _ = decode_chunks(&TRAILER.id(), &bytes, 0, 0..b % 1000);
    }
}
