//! The formats as `docs/format-objects.md` has them, against bytes that another program made from that page.
//!
//! If one of these fails, buckets that exist can no longer be read: raise the version instead.

use bytes::Bytes;
use carafe_object::frames::decode_block;
use carafe_object::pack::FooterRead;
use carafe_object::{BlockTrailer, FsMarker, MemberInfo, PackBuilder, encode_block, read_footer};
use carafe_types::{Generation, InodeNo, SessionUuid};

const SESSION: SessionUuid = SessionUuid([9; 16]);

const BLOCK: &str = concat!(
    "bae00bd60600000000000000010000006361726166650909090909090909090909090909090903000000000000000200",
    "00000000000067120000000000000000400100000000060000000000000005000000000000005000010018a41bf06361",
    "726166652d62",
);

const PACK: &str = concat!(
    "67d2d1610600000000000000010000006361726166650000000000000000060000000000000042000000000000004100",
    "0000000000000700000000000000ffffffffffffffffa4810000e8030000e90300004a890ae80300612e620909090909",
    "090909090909090909090903000000000000000200000000000000060000000000000016000000000000004500000000",
    "00000084304857010000005000010047ab48616361726166652d70",
);

const MARKER: &str = r#"{
  "uuid": "00000000-0000-0000-0000-000000000007",
  "name": "analytics",
  "format": 1,
  "created": 1700000000,
  "crc32c": 1514152516
}
"#;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn a_block_is_as_documented() {
    let (generation, inode, file_offset) = (Generation(2), InodeNo(4711), 20 << 20);
    let trailer = BlockTrailer { session: SESSION, n: 3, block: 5, generation, inode, file_offset };
    let object = encode_block([b"carafe".as_slice()], &trailer);
    assert_eq!(hex(&object), BLOCK);
    let read = decode_block(&trailer.id(), &object).unwrap();
    assert_eq!(read, (trailer, vec![Bytes::from_static(b"carafe")]));
    assert_eq!(trailer.id().key(), "d/7f/09090909090909090909090909090909-3/5");
}

#[test]
fn a_pack_is_as_documented() {
    let mut pack = PackBuilder::new(SESSION, 3, Generation(2));
    let (mode, uid, gid) = (0o100_644, 1000, 1001);
    let (inode, parent, name) = (66, 65, b"a.b".to_vec());
    let member = MemberInfo { inode, parent, name, mode, uid, gid, mtime_ns: -1, file_offset: 7 };
    pack.add(member.clone(), b"carafe").unwrap();
    assert_eq!(pack.id().key(), "d/7f/09090909090909090909090909090909-3/p");
    let object = pack.finish();
    assert_eq!(hex(&object), PACK);
    let Ok(FooterRead::Footer(footer)) = read_footer(&object, "pack") else { panic!("the footer is there") };
    assert_eq!(footer.members[0].info, member);
}

#[test]
fn the_marker_is_as_documented() {
    let marker = FsMarker::new(uuid::Uuid::from_u128(7), "analytics", 1_700_000_000).unwrap();
    assert_eq!(marker.encode(), MARKER);
    assert_eq!(FsMarker::decode(MARKER.as_bytes()), Ok(marker));
}
