//! A real Redis server keeps what every engine promises.
#![expect(clippy::unwrap_used, reason = "a test")]

use async_trait::async_trait;
use carafe_meta::conformance::Subject;
use carafe_meta::store::MetaStore;
use carafe_meta_redis::{Options, RedisStore};
use carafe_testkit::RedisServer;
use carafe_types::SessionNo;
use std::sync::Arc;

struct Server {
    redis: RedisServer,
}

impl Server {
    fn handle(&self) -> RedisStore {
        RedisStore::new(&self.redis.url(0), &Options::default()).unwrap()
    }
}

#[async_trait]
impl Subject for Server {
    async fn open(&self) -> Arc<dyn MetaStore> {
        Arc::new(self.handle())
    }

    async fn expire(&self, sid: SessionNo) {
        self.handle().expire_lease(sid).await.unwrap();
    }
}

async fn server() -> Server {
    Server { redis: RedisServer::start_default().unwrap() }
}

carafe_meta::conformance_suite!(server);
