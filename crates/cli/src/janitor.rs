//! What a mount frees in the background: unlinked files, emptied trash, dead objects. One mount of all does it.

use carafe_meta::Client;
use carafe_meta::jobs::{DeadSlice, JanitorOptions, ObjectDeleter, run_janitor};
use carafe_object::client::DELETE_BATCH;
use carafe_object::{Bucket, ObjectId};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Deletes the objects of dead slices.
pub(crate) struct BucketDeleter {
    bucket: Bucket,
    block_size: u64,
}

impl BucketDeleter {
    pub(crate) fn new(bucket: Bucket, block_size: u32) -> Self {
        BucketDeleter { bucket, block_size: u64::from(block_size) }
    }

    fn keys(&self, slice: &DeadSlice) -> Vec<String> {
        if slice.pack {
            return vec![ObjectId::pack(slice.session, slice.n).key()];
        }
        let blocks = slice.len.div_ceil(self.block_size);
        (0..blocks).map(|block| ObjectId::block(slice.session, slice.n, block as u32).key()).collect()
    }
}

#[async_trait::async_trait]
impl ObjectDeleter for BucketDeleter {
    async fn delete(&self, slices: &[DeadSlice]) -> Result<(), String> {
        let keys: Vec<String> = slices.iter().flat_map(|slice| self.keys(slice)).collect();
        let client = self.bucket.client();
        for batch in keys.chunks(DELETE_BATCH) {
            client.delete(batch).await.map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

/// A janitor at work. Ended with [`Janitor::end`], before its client is.
pub(crate) struct Janitor {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Janitor {
    pub(crate) fn start(client: Arc<Client>, bucket: Bucket) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let deleter = Arc::new(BucketDeleter::new(bucket, client.superblock().block_size));
        let task = tokio::spawn(run_janitor(client, deleter, JanitorOptions::default(), async {
            // A sender that is gone means the same.
            let _ = stopped.await;
        }));
        Janitor { stop, task }
    }

    pub(crate) async fn end(self) {
        // The task may have ended by a panic, which is in the log.
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carafe_types::SessionUuid;

    #[test]
    fn every_object_of_a_slice_is_named() {
        let deleter = BucketDeleter::new(Bucket::memory(), 4 << 20);
        let slice = DeadSlice { session: SessionUuid([7; 16]), n: 3, pack: false, len: (8 << 20) + 1 };
        let keys = deleter.keys(&slice);
        assert_eq!(keys.len(), 3);
        assert!(keys[2].ends_with("-3/2"), "{keys:?}");
        assert_eq!(deleter.keys(&DeadSlice { pack: true, ..slice }).len(), 1);
    }
}
