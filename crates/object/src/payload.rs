//! Reading payloads out of a bucket: the right range of the object, verified, and a second look before giving up.
//!
//! A checksum that does not match may be the object's fault or the way's (a proxy, a bad cable, a node that was just
//! replaced). So what is corrupt is read once more; only if it is corrupt again the caller hears of it.

use crate::bucket::Bucket;
use crate::client::{ByteRange, ObjectClient};
use crate::error::{ObjectError, Result};
use crate::frames::{decode_chunks, frame_of, object_range_for};
use crate::keys::ObjectId;
use crate::pack::{FooterRead, PackFooter, read_footer};
use bytes::Bytes;
use std::future::Future;
use std::ops::Range;

/// What is read of a pack to find its footer: the footer of about 700 members.
const FOOTER_GUESS: u64 = 64 * 1024;

impl Bucket {
    /// The bytes `range` of the payload of a block or a pack, verified, in pieces that are not copied.
    ///
    /// With `payload_len` (if the caller knows it) no byte too many is read; without, up to a frame's worth.
    ///
    /// # Errors
    /// As [`Bucket::get`]; [`ObjectError::Corrupt`] if the bytes were wrong twice.
    pub async fn read_payload(
        &self,
        id: &ObjectId,
        range: Range<u64>,
        payload_len: Option<u64>,
    ) -> Result<Vec<Bytes>> {
        let want = object_range_for(range.clone(), payload_len);
        if want.is_empty() && !range.is_empty() {
            let detail =
                format!("bytes {}..{} wanted of a payload of {payload_len:?}", range.start, range.end);
            return Err(ObjectError::corrupt(id.key(), detail));
        }
        let key = id.key();
        twice(&key, || async {
            let want = if payload_len.is_some() {
                ByteRange::Exact(want.clone())
            } else {
                ByteRange::UpTo(want.clone())
            };
            let bytes = self.client().get(&key, want).await?;
            decode_chunks(id, &bytes, frame_of(range.start), range.clone())
        })
        .await
    }

    /// The footer of a pack.
    ///
    /// # Errors
    /// As [`Bucket::get`]; [`ObjectError::Corrupt`] if the bytes were wrong twice, or are another pack's.
    pub async fn read_pack_footer(&self, id: &ObjectId) -> Result<PackFooter> {
        let key = id.key();
        twice(&key, || async {
            let footer = match read_footer(&self.get_last(&key, FOOTER_GUESS).await?, &key)? {
                FooterRead::Footer(footer) => footer,
                FooterRead::NeedTail(n) => match read_footer(&self.get_last(&key, n).await?, &key)? {
                    FooterRead::Footer(footer) => footer,
                    FooterRead::NeedTail(_) => {
                        return Err(ObjectError::corrupt(&key, "shorter than its footer"));
                    }
                },
            };
            if footer.trailer.id() != *id {
                return Err(ObjectError::corrupt(&key, format!("holds {}", footer.trailer.id())));
            }
            Ok(footer)
        })
        .await
    }
}

async fn twice<T, F: Future<Output = Result<T>>>(key: &str, attempt: impl Fn() -> F) -> Result<T> {
    match attempt().await {
        Err(ObjectError::Corrupt { detail, .. }) => {
            tracing::warn!(object = %key, %detail, "wrong bytes, reading again");
            attempt().await
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Verb;
    use crate::decorate::{Failing, Faults, LimitOptions, RetryPolicy};
    use crate::frames::{BlockTrailer, encode_block};
    use crate::pack::{MemberInfo, PackBuilder};
    use crate::store::StoreClient;
    use carafe_types::{Generation, InodeNo, SessionUuid};

    const TRAILER: BlockTrailer = BlockTrailer {
        session: SessionUuid([1; 16]),
        n: 1,
        block: 0,
        generation: Generation(1),
        inode: InodeNo(65),
        file_offset: 0,
    };

    async fn with_block(payload: &[u8]) -> (Bucket, Faults) {
        let (client, faults) = Failing::new(StoreClient::memory());
        let bucket = Bucket::over(client, "twin", RetryPolicy::default(), LimitOptions::default());
        bucket.put(&TRAILER.id().key(), encode_block([payload], &TRAILER)).await.unwrap();
        (bucket, faults)
    }

    #[tokio::test]
    async fn a_small_read_moves_one_frame() {
        let payload: Vec<u8> = (0..4u32 << 20).map(|i| (i >> 4) as u8).collect();
        let (bucket, _) = with_block(&payload).await;
        for len in [Some(payload.len() as u64), None] {
            let got = bucket.read_payload(&TRAILER.id(), 100_000..104_096, len).await.unwrap();
            assert_eq!(got.concat(), payload[100_000..104_096]);
        }
        assert_eq!(bucket.snapshot().of(Verb::Get).bytes, 2 * (65_536 + 16));
    }

    #[tokio::test]
    async fn bytes_that_are_wrong_once_are_read_again() {
        let (bucket, faults) = with_block(b"payload").await;
        faults.flip_reads(1);
        assert_eq!(bucket.read_payload(&TRAILER.id(), 0..7, Some(7)).await.unwrap().concat(), b"payload");
        faults.flip_reads(2);
        let e = bucket.read_payload(&TRAILER.id(), 0..7, Some(7)).await.unwrap_err();
        assert!(matches!(e, ObjectError::Corrupt { .. }), "{e}");
    }

    #[tokio::test]
    async fn a_range_that_the_payload_does_not_have_is_an_error() {
        let (bucket, _) = with_block(b"payload").await;
        for (range, len) in [(0..8, None), (7..8, Some(7)), (0..8, Some(8)), (1 << 20..1 << 21, None)] {
            let e = bucket.read_payload(&TRAILER.id(), range.clone(), len).await.unwrap_err();
            assert!(matches!(e, ObjectError::Corrupt { .. }), "{range:?} {len:?}: {e}");
        }
        assert_eq!(bucket.read_payload(&TRAILER.id(), 3..3, None).await, Ok(vec![]));
    }

    #[tokio::test]
    async fn a_pack_says_what_is_in_it_however_long_its_footer() {
        let (bucket, _) = with_block(b"x").await;
        for members in [1u64, 2_000] {
            let mut pack = PackBuilder::new(TRAILER.session, members, Generation(1));
            for inode in 0..members {
                pack.add(
                    MemberInfo { inode, name: b"data.bin".to_vec(), ..MemberInfo::default() },
                    b"0123456789",
                )
                .unwrap();
            }
            let id = pack.id();
            bucket.put(&id.key(), pack.finish()).await.unwrap();
            let footer = bucket.read_pack_footer(&id).await.unwrap();
            assert_eq!(footer.members.len() as u64, members);
            let last = footer.members.last().unwrap().placed;
            let got = bucket.read_payload(&id, last.offset..last.offset + last.length, None).await.unwrap();
            assert_eq!(got.concat(), b"0123456789");
        }
    }

    #[tokio::test]
    async fn another_pack_under_this_name_is_refused() {
        let (bucket, _) = with_block(b"x").await;
        let other = PackBuilder::new(TRAILER.session, 8, Generation(1)).finish();
        let id = ObjectId::pack(TRAILER.session, 9);
        bucket.put(&id.key(), other).await.unwrap();
        assert!(matches!(bucket.read_pack_footer(&id).await, Err(ObjectError::Corrupt { .. })));
    }
}
