//! Properties of packs: members come back, the footer alone rebuilds the list, damage is seen.

use super::*;
use crate::frames::{decode_range, frame_of, object_range_for};
use crate::keys::ObjectId;
use bytes::Bytes;
use carafe_types::{Generation, SessionUuid};
use proptest::prelude::*;

const SESSION: SessionUuid = SessionUuid([3; 16]);
const KEY: &str = "d/00/key";

fn build(members: &[(MemberInfo, Vec<u8>)]) -> (ObjectId, Bytes, Vec<Placed>) {
    let mut pack = PackBuilder::new(SESSION, 9, Generation(4));
    let placed = members.iter().map(|(info, payload)| pack.add(info.clone(), payload).unwrap()).collect();
    (pack.id(), pack.finish(), placed)
}

fn footer(object: &[u8]) -> Result<PackFooter> {
    match read_footer(object, KEY)? {
        FooterRead::Footer(footer) => Ok(footer),
        FooterRead::NeedTail(n) => {
            Err(ObjectError::corrupt(KEY, format!("{n} bytes wanted of {}", object.len())))
        }
    }
}

fn member(id: &ObjectId, object: &Bytes, placed: &Placed) -> Result<Bytes> {
    let range = placed.offset..placed.offset + placed.length;
    let want = object_range_for(range.clone(), None);
    let len = object.len() as u64;
    let have = object.slice(want.start.min(len) as usize..want.end.min(len) as usize);
    let payload = decode_range(id, &have, frame_of(range.start), range)?;
    verify_member(&payload, placed, KEY)?;
    Ok(payload)
}

/// Everything that a reader or salvage would look at.
fn read_all(id: &ObjectId, object: &Bytes) -> Result<Vec<(MemberInfo, Bytes)>> {
    let footer = footer(object)?;
    let size = footer.trailer.footer_offset + footer.trailer.footer_len + PACK_TRAILER_LEN as u64;
    if size != object.len() as u64 || footer.trailer.id() != *id {
        return Err(ObjectError::corrupt(KEY, "another object"));
    }
    footer.members.into_iter().map(|m| Ok((m.info, member(id, object, &m.placed)?))).collect()
}

fn infos() -> impl Strategy<Value = MemberInfo> {
    let numbers =
        (any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<i64>(), any::<u64>());
    (numbers, prop::collection::vec(any::<u8>(), 0..=NAME_LEN_MAX)).prop_map(
        |((inode, parent, mode, uid, gid, mtime_ns, file_offset), name)| MemberInfo {
            inode,
            parent,
            name,
            mode,
            uid,
            gid,
            mtime_ns,
            file_offset,
        },
    )
}

fn members() -> impl Strategy<Value = Vec<(MemberInfo, Vec<u8>)>> {
    let payload =
        (0usize..40_000, any::<u8>()).prop_map(|(len, b)| (0..len).map(|i| b ^ (i >> 3) as u8).collect());
    prop::collection::vec((infos(), payload), 0..8)
}

#[test]
fn sizes_are_as_documented() {
    let info = MemberInfo { name: b"abc".to_vec(), ..MemberInfo::default() };
    let (_, object, placed) = build(&[(info, b"payload".to_vec())]);
    assert_eq!(object.len(), 16 + 7 + MEMBER_FIXED + 3 + PACK_TRAILER_LEN);
    assert_eq!(placed[0], Placed { offset: 0, length: 7, crc: crc32c::crc32c(b"payload") });
    assert_eq!(build(&[]).1.len(), PACK_TRAILER_LEN);
}

#[test]
fn a_short_tail_says_how_much_is_needed() {
    let many: Vec<_> = (0..100).map(|_| (MemberInfo::default(), vec![1])).collect();
    let (_, object, _) = build(&many);
    let need = 100 * MEMBER_FIXED + PACK_TRAILER_LEN;
    assert_eq!(read_footer(&object[object.len() - 100..], KEY), Ok(FooterRead::NeedTail(need as u64)));
    assert_eq!(footer(&object[object.len() - need..]).unwrap().members.len(), 100);
}

#[test]
fn limits_are_kept_and_the_pack_stays_usable() {
    let mut pack = PackBuilder::new(SESSION, 9, Generation(4));
    let long = MemberInfo { name: vec![b'x'; 256], ..MemberInfo::default() };
    assert_eq!(pack.add(long, b"x"), Err(PackError::NameTooLong(256)));
    (0..MEMBERS_MAX).for_each(|_| assert!(pack.add(MemberInfo::default(), b"").is_ok()));
    assert_eq!(pack.add(MemberInfo::default(), b""), Err(PackError::Full));
    assert_eq!(pack.payload_len(), 0);
    assert_eq!(footer(&pack.finish()).unwrap().members.len(), MEMBERS_MAX);
}

#[test]
fn a_pack_from_the_future_is_told_from_damage() {
    let tail = crate::wire::seal_trailer(vec![0; 64], 2, MAGIC);
    let e = read_footer(&tail, KEY).unwrap_err();
    assert_eq!(e, ObjectError::FutureVersion { what: format!("object {KEY}"), found: 2, known: 1 });
}

#[test]
fn a_block_is_no_pack() {
    let trailer = crate::BlockTrailer {
        session: SESSION,
        n: 9,
        block: 0,
        generation: Generation(4),
        inode: carafe_types::InodeNo(64),
        file_offset: 0,
    };
    let block = crate::encode_block([b"x".as_slice()], &trailer);
    assert!(matches!(read_footer(&block, KEY), Err(ObjectError::Corrupt { .. })));
}

#[test]
fn a_lying_trailer_allocates_nothing() {
    // Checksums are right, lengths are not: written by a foe, not by chance.
    let lie = PackTrailer {
        session: SESSION,
        n: 9,
        generation: Generation(4),
        payload_len: u64::MAX,
        footer_offset: u64::MAX,
        footer_len: u64::MAX,
        footer_crc: 0,
        members: u32::MAX,
    };
    assert!(matches!(read_footer(&lie.encode(), KEY), Err(ObjectError::Corrupt { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn members_come_back_with_their_names(members in members()) {
        let (id, object, placed) = build(&members);
        let got = read_all(&id, &object).unwrap();
        let want: Vec<_> = members.iter().map(|(info, payload)| (info.clone(), Bytes::from(payload.clone()))).collect();
        prop_assert_eq!(got, want);
        for ((_, payload), placed) in members.iter().zip(&placed) {
            prop_assert_eq!(&member(&id, &object, placed).unwrap()[..], &payload[..]);
        }
    }

    #[test]
    fn every_flipped_bit_is_seen(members in members(), at in 0.0f64..1.0, bit in 0u8..8) {
        let (id, object, _) = build(&members);
        let mut bad = object.to_vec();
        let at = (at * bad.len() as f64) as usize;
        bad[at] ^= 1 << bit;
        prop_assert!(read_all(&id, &Bytes::from(bad)).is_err());
    }

    #[test]
    fn every_truncation_is_seen(members in members(), keep in 0.0f64..1.0) {
        let (id, object, _) = build(&members);
        let keep = (keep * object.len() as f64) as usize;
        prop_assert!(read_all(&id, &object.slice(..keep)).is_err());
        prop_assert!(read_all(&id, &object.slice(object.len() - keep..)).is_err());
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), sealed: bool) {
        let tail = if sealed { crate::wire::seal_trailer(bytes, VERSION, MAGIC) } else { bytes };
        let _ = read_footer(&tail, KEY);
    }
}
