//! Measures commits a second: `cargo run --example rate -- /path/file [always|everysec]`.

use bytes::Bytes;
use carafe_meta::store::*;
use carafe_meta_embedded::{EmbeddedStore, Sync};
use carafe_types::record::{FORMAT_VERSION, Superblock};
use carafe_types::{EntryName, FileKind, InodeNo, SessionUuid, Timestamp};
use std::sync::Arc;
use std::time::Instant;

fn create(n: u64) -> Commit {
    let (dir, ino) = (InodeNo(1 << 20), InodeNo((1 << 20) + 64 + n));
    let name = EntryName::new(format!("{n:020}").as_bytes()).expect("a valid name");
    Commit {
        checks: vec![Check::NoName(dir, name.clone()), Check::Same(Key::Inode(ino), None)],
        writes: vec![
            Write::Put(Key::Inode(ino), Bytes::from(vec![1; 44])),
            Write::Link(dir, (name, FileKind::Regular, ino)),
            Write::Touch(dir),
        ],
        ..Commit::default()
    }
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<(), StoreError> {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("the path of a file to make");
    let sync = if args.next().as_deref() == Some("everysec") { Sync::EverySec } else { Sync::Always };
    let store = Arc::new(EmbeddedStore::open(path.as_ref(), sync)?);
    let superblock = Superblock {
        version: FORMAT_VERSION,
        name: "rate".into(),
        uuid: uuid::Uuid::nil(),
        bucket: "file:///nowhere".into(),
        bucket_options: Default::default(),
        block_size: 4 << 20,
        inline_max: 4096,
        inline_budget: 1 << 20,
        created: Timestamp(1),
    };
    let quota = QuotaState { record: Bytes::new(), left_bytes: 1 << 62, left_inodes: 1 << 62, reserved: 0 };
    store.format(superblock.encode().into(), vec![], quota).await?;
    let session = store.register(NewSession { uuid: SessionUuid([1; 16]), record: Bytes::new() }).await?;
    let mut next = 0;
    for clients in [1, 4, 16, 64] {
        let each = 4000 / clients;
        let start = Instant::now();
        let tasks: Vec<_> = (0..clients)
            .map(|_| {
                let (store, first) = (store.clone(), next);
                next += each;
                tokio::spawn(async move {
                    for n in first..first + each {
                        store.commit(&session, &create(n)).await?;
                    }
                    Ok::<_, StoreError>(())
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic")?;
        }
        let rate = (each * clients) as f64 / start.elapsed().as_secs_f64();
        println!("{sync}, {clients} clients: {rate:.0} commits/s");
    }
    let start = Instant::now();
    for n in 0..10_000u64 {
        let names =
            vec![(InodeNo(1 << 20), EntryName::new(format!("{:020}", n % 4000).as_bytes()).expect("valid"))];
        store.load(&session, &LoadRequest { names, ..LoadRequest::default() }).await?;
    }
    println!("1 client: {:.0} loads/s", 10_000.0 / start.elapsed().as_secs_f64());
    Ok(())
}
