//! The file keeps what every engine promises.
#![expect(clippy::unwrap_used, reason = "a test")]

use async_trait::async_trait;
use carafe_meta::conformance::Subject;
use carafe_meta::store::MetaStore;
use carafe_meta_embedded::{EmbeddedStore, Sync};
use carafe_types::SessionNo;
use std::sync::Arc;
use tempfile::TempDir;

struct File {
    _dir: TempDir,
    store: Arc<EmbeddedStore>,
}

#[async_trait]
impl Subject for File {
    async fn open(&self) -> Arc<dyn MetaStore> {
        self.store.clone()
    }

    async fn expire(&self, sid: SessionNo) {
        self.store.expire_lease(sid).await.unwrap();
    }
}

async fn file() -> File {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(&dir.path().join("meta.redb"), Sync::EverySec).unwrap());
    File { _dir: dir, store }
}

carafe_meta::conformance_suite!(file);
