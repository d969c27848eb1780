//! Waiting for replicas (`wait=n`), once for all who wait.
//!
//! WAIT counts only what its own connection wrote, and blocks that connection: hence a connection of its own, and a tiny
//! write before each WAIT.

use crate::fault::Fault;
use crate::link::Link;
use crate::names::Names;
use carafe_meta::store::StoreError;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, cmd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long replicas may take.
const WAIT: Duration = Duration::from_secs(10);

/// Who waits for replicas.
#[derive(Default)]
pub(crate) struct Barrier {
    connection: tokio::sync::Mutex<Option<MultiplexedConnection>>,
    begun: AtomicU64,
    finished: AtomicU64,
}

impl Barrier {
    /// Returns when what was acknowledged before the call is on `replicas` replicas.
    pub(crate) async fn pass(&self, link: &Link, names: &Names, replicas: u32) -> Result<(), StoreError> {
        // Any round that begins from now on covers this call.
        let needed = self.begun.load(Ordering::SeqCst) + 1;
        let mut connection = self.connection.lock().await;
        if self.finished.load(Ordering::SeqCst) >= needed {
            return Ok(());
        }
        let round = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let result = round_of(&mut connection, link, names, replicas).await;
        match &result {
            Ok(()) => self.finished.store(round, Ordering::SeqCst),
            Err(_) => *connection = None,
        }
        result
    }
}

async fn round_of(
    connection: &mut Option<MultiplexedConnection>,
    link: &Link,
    names: &Names,
    replicas: u32,
) -> Result<(), StoreError> {
    let address = &link.target.address;
    let failed = |e: redis::RedisError| match Fault::of(&e, address) {
        Fault::Final(error) => error,
        Fault::Refusing(reason) => StoreError::Refusing(reason),
        _ => StoreError::Unreachable { address: address.clone(), reason: e.to_string() },
    };
    if connection.is_none() {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(link.patience.connect))
            .set_response_timeout(Some(WAIT + link.patience.response));
        let made = link.target.client.get_multiplexed_async_connection_with_config(&config).await;
        *connection = Some(made.map_err(failed)?);
    }
    let Some(open) = connection else { return Ok(()) };
    let mut write = cmd("HINCRBY");
    write.arg(names.root()).arg("wait").arg(1);
    write.query_async::<i64>(open).await.map_err(failed)?;
    let mut wait = cmd("WAIT");
    wait.arg(replicas).arg(WAIT.as_millis() as u64);
    let reached: u32 = wait.query_async(open).await.map_err(failed)?;
    if reached < replicas {
        return Err(StoreError::Refusing(format!("{reached} of {replicas} replicas have the last changes")));
    }
    Ok(())
}
