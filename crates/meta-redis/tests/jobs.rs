//! The jobs over a real server: a volume with something of everything is made, grown, checked, deleted, freed and collected.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "../../meta/tests/common/mod.rs"]
mod common;

use async_trait::async_trait;
use carafe_meta::format::{FormatOptions, format};
use carafe_meta::jobs::gc::{Collector, Verdict};
use carafe_meta::jobs::{
    DeadSlice, ObjectDeleter, delete_objects, fsck, janitor, purge_inodes, purge_trash, run_janitor, silently,
};
use carafe_meta::store::{MetaStore, ScanRequest};
use carafe_meta::{Client, ClientOptions};
use carafe_testkit::RedisServer;
use carafe_types::Timestamp;
use common::furnish::{furnish, volume};
use common::tree::{Tree, dead_slices};
use common::*;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
struct Bucket(Mutex<Vec<DeadSlice>>);

#[async_trait]
impl ObjectDeleter for Bucket {
    async fn delete(&self, slices: &[DeadSlice]) -> Result<(), String> {
        self.0.lock().extend(slices);
        Ok(())
    }
}

async fn client(store: &Arc<dyn MetaStore>) -> Arc<Client> {
    let options = ClientOptions { delete_after: Duration::ZERO, ..ClientOptions::default() };
    Client::open(store.clone(), options).await.unwrap()
}

async fn sound(store: &dyn MetaStore, c: &Client) {
    Tree::check(store).await;
    let report = fsck::fsck(c, &silently).await.unwrap();
    assert_eq!(report.findings, [], "{:#?}", report.findings);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_and_jobs_work_on_a_real_server() {
    let server = RedisServer::start_durable().unwrap();
    let store = carafe_meta_redis::open(&server.url(0), &carafe_meta_redis::Options::default()).unwrap();
    format(&*store, FormatOptions::new("jobs", "file:///none")).await.unwrap();
    let (a, b) = (client(&store).await, client(&store).await);
    let record = a.create_volume(&volume("v")).await.unwrap();
    let made = furnish(&b, record.root).await;
    assert_eq!(a.expand_volume("v", 1 << 41).await.unwrap().capacity, 1 << 41);
    sound(&*store, &a).await;

    // One of the two has a file open that the other one removes.
    let open = find(&b, record.root, "sparse").await.unwrap().ino;
    b.opened(open).await.unwrap();
    a.unlink(&ME, record.root, &name("sparse")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    a.delete_volume("v").await.unwrap();
    assert_eq!(a.list_volumes(None, 10).await.unwrap(), []);
    let gone = purge_trash(&a, Duration::ZERO, &silently).await.unwrap();
    assert_eq!(gone, made, "all but the open file, and with the root");
    sound(&*store, &a).await;
    b.closed(open);
    tokio::time::sleep(Duration::from_millis(300)).await;
    purge_inodes(&a, &silently).await.unwrap();
    let waiting =
        store.scan(&ScanRequest::DeadInodes { limit: 100, from: Some(Timestamp(0)) }).await.unwrap();
    // What could not be freed at once (somebody stood in the bucket's list) is due in ten minutes.
    assert!(waiting.found.len() as u64 <= made, "{waiting:?}");
    sound(&*store, &a).await;

    let bucket = Arc::new(Bucket::default());
    let dead = dead_slices(&*store).await.len();
    assert_eq!(delete_objects(&a, &*bucket, &silently).await.unwrap(), dead as u64);
    assert_eq!(bucket.0.lock().len(), dead);
    assert!(dead_slices(&*store).await.is_empty());

    let uuid = b.session().uuid;
    b.close().await;
    let mut collector = Collector::begin(&a, Duration::from_millis(100), &silently).await.unwrap();
    collector.confirm(&a, &silently).await.unwrap();
    let verdicts = collector.judge(&a, &[(uuid, 1000), (a.session().uuid, 1000)]).await.unwrap();
    assert_eq!(verdicts, [Verdict::Garbage, Verdict::Young]);

    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let options = carafe_meta::jobs::JanitorOptions {
        busy_pause: Duration::from_millis(10),
        ..carafe_meta::jobs::JanitorOptions::default()
    };
    let task = tokio::spawn(run_janitor(a.clone(), bucket, options, async { drop(ended.await) }));
    for _ in 0..200 {
        if janitor(&a).await.unwrap() == Some(a.session().no) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(janitor(&a).await.unwrap(), Some(a.session().no));
    end.send(()).unwrap();
    task.await.unwrap();
    assert_eq!(janitor(&a).await.unwrap(), None);
    a.close().await;
}
