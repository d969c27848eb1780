//! The memory twin keeps what every engine promises, and the decorators do what they say.

use async_trait::async_trait;
use carafe_meta::conformance::Subject;
use carafe_meta::counting::Counting;
use carafe_meta::decorate::Call;
use carafe_meta::failing::Failing;
use carafe_meta::memory::MemoryStore;
use carafe_meta::store::{MetaStore, StoreError};
use carafe_types::SessionNo;
use std::sync::Arc;

struct Twin(Arc<MemoryStore>);

#[async_trait]
impl Subject for Twin {
    async fn open(&self) -> Arc<dyn MetaStore> {
        self.0.clone()
    }

    async fn expire(&self, sid: SessionNo) {
        self.0.expire_lease(sid);
    }
}

async fn twin() -> Twin {
    Twin(Arc::new(MemoryStore::new()))
}

carafe_meta::conformance_suite!(twin);

#[tokio::test]
async fn a_counting_store_counts_and_begins_anew() {
    let store = Counting::new(Arc::new(MemoryStore::new()));
    store.info().await.unwrap();
    store.info().await.unwrap();
    assert_eq!((store.counts().of(Call::Info), store.counts().round_trips()), (2, 0));
    store.counts().reset();
    assert_eq!(store.counts().of(Call::Info), 0);
}

#[tokio::test]
async fn a_failing_store_fails_as_often_as_told_and_may_lose_the_answer_of_what_happened() {
    let inner = Arc::new(MemoryStore::new());
    let store = Failing::new(inner.clone());
    store.faults().fail_next(Call::Info, 1, StoreError::Full("no room".into()));
    assert!(matches!(store.info().await, Err(StoreError::Full(_))));
    assert!(store.info().await.is_ok());
    store.faults().lose_answers(Call::Destroy, 1);
    assert!(matches!(store.destroy().await, Err(StoreError::Unreachable { .. })));
    store.faults().heal();
    assert!(store.destroy().await.is_ok());
}
