//! The registry over real metadata stores keeps what every registry must.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use async_trait::async_trait;
use carafe_csi::FsAddress;
use carafe_csi::store::{Connect, FileSystems, MetaFileSystems, MetaVolumes, StoreError, conformance};
use carafe_meta::format::{FormatOptions, format};
use carafe_meta::memory::MemoryStore;
use carafe_meta::store::MetaStore;
use carafe_meta::{Client, ClientOptions};
use carafe_testkit::RedisServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

async fn client(store: Arc<dyn MetaStore>) -> Arc<Client> {
    format(&*store, FormatOptions::new("csi", "file:///none")).await.unwrap();
    Client::open(store, ClientOptions::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_registry_in_memory_conforms() {
    let client = client(Arc::new(MemoryStore::new())).await;
    conformance::run(&MetaVolumes::new(client)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_registry_in_a_file_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("embedded://{}", dir.path().join("meta.redb").display());
    let client = client(carafe_meta_embedded::open(&url).unwrap()).await;
    conformance::run(&MetaVolumes::new(client.clone())).await;
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_registry_in_redis_conforms() {
    let server = RedisServer::start_durable().unwrap();
    let store = carafe_meta_redis::open(&server.url(0), &carafe_meta_redis::Options::default()).unwrap();
    let client = client(store).await;
    conformance::run(&MetaVolumes::new(client.clone())).await;
    client.close().await;
}

#[derive(Clone)]
struct Counter {
    store: Arc<MemoryStore>,
    times: Arc<AtomicUsize>,
}

#[async_trait]
impl Connect for Counter {
    async fn connect(&self, _address: &FsAddress) -> Result<Arc<Client>, StoreError> {
        self.times.fetch_add(1, Ordering::Relaxed);
        let opened = Client::open(self.store.clone(), ClientOptions::default()).await;
        opened.map_err(|e| StoreError::Unavailable(e.to_string()))
    }
}

#[tokio::test]
async fn a_file_system_is_connected_once_for_each_set_of_credentials() {
    let store = Arc::new(MemoryStore::new());
    format(&*store, FormatOptions::new("csi", "file:///none")).await.unwrap();
    let connector = Counter { store, times: Arc::default() };
    let all = MetaFileSystems::new(connector.clone());
    let address = |password: &str| FsAddress::new(&format!("redis://:{password}@host/1"), None).unwrap();
    let first = all.open(&address("one")).await.unwrap();
    let again = all.open(&address("one")).await.unwrap();
    assert_eq!((first.fs(), connector.times.load(Ordering::Relaxed)), (again.fs(), 1));
    all.open(&address("two")).await.unwrap();
    assert_eq!(connector.times.load(Ordering::Relaxed), 2);
    assert_eq!(all.take_all().await.len(), 1);
}
