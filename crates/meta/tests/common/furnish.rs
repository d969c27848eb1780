//! A tree with something of everything, for jobs to free, mark and check.

use super::*;
use bytes::Bytes;
use carafe_meta::XattrMode;
use carafe_meta::volumes::NewVolume;
use carafe_types::record::SEGMENT_BYTES;

pub fn inline(c: &Client, ino: InodeNo, bytes: &'static [u8]) -> FileWrite {
    let data = WriteData::Inline(Bytes::from_static(bytes));
    FileWrite { data, size: bytes.len() as u64, ..write(c, ino, 0, 1) }
}

/// Two files in one pack.
pub fn packed(c: &Client, a: InodeNo, b: InodeNo) -> [FileWrite; 2] {
    let slice = c.next_slice();
    let part = |ino, slice_off, len| {
        let e = Extent { offset: 0, len, kind: ExtentKind::Pack, slice, slice_off, slice_len: 3000 };
        FileWrite { data: WriteData::Extents(vec![e]), size: len, ..write(c, ino, 0, 1) }
    };
    [part(a, 0, 1000), part(b, 1000, 2000)]
}

pub fn volume(id: &str) -> NewVolume {
    NewVolume {
        id: id.to_owned(),
        name: id.to_owned(),
        path: format!("volumes/{id}"),
        capacity: Some(1 << 40),
        inode_limit: None,
        uid: ME.uid,
        gid: ME.gid,
        mode: 0o755,
        parameters: Default::default(),
        settings: Default::default(),
    }
}

/// Fills `dir`. Returns how many inodes that made.
pub async fn furnish(c: &Client, dir: InodeNo) -> u64 {
    let sub = mkdir(c, dir, "sub").await;
    mkdir(c, sub, "empty").await;
    let plain = file(c, sub, "plain").await;
    c.commit_writes(&[write(c, plain, 0, 70_000)]).await.unwrap();
    c.link(&ME, plain, dir, &name("plain too")).await.unwrap();
    let sparse = file(c, dir, "sparse").await;
    for segment in [0, 1, 5, 40] {
        c.commit_writes(&[write(c, sparse, segment * SEGMENT_BYTES + 5, 2 * SEGMENT_BYTES / 3)])
            .await
            .unwrap();
    }
    let (a, b) = (file(c, dir, "packed a").await, file(c, sub, "packed b").await);
    c.commit_writes(&packed(c, a, b)).await.unwrap();
    let small = file(c, dir, "small").await;
    c.commit_writes(&[inline(c, small, b"a few bytes")]).await.unwrap();
    c.setxattr(small, b"user.colour", b"blue", XattrMode::Any).await.unwrap();
    c.setxattr(sub, b"user.colour", b"red", XattrMode::Any).await.unwrap();
    let clone = file(c, dir, "clone").await;
    c.copy_range(plain, 0, clone, 0, 50_000).await.unwrap();
    let target = Some(Bytes::from_static(b"sub/plain"));
    let link = NewNode { target, ..node(FileKind::Symlink, 0o777) };
    c.create(&ME, dir, &name("link"), link).await.unwrap();
    make(c, sub, "pipe", FileKind::Fifo).await.unwrap();
    file(c, dir, "hole").await;
    12
}
