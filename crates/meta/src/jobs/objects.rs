//! What nothing refers to leaves the bucket.
//!
//! A slice whose last owner went, and a pack without live bytes, wait in a queue for as long as a backup may need them.
//! Then their objects are deleted, by a function that knows what objects are called, and only when that has succeeded the
//! slice leaves the queue: a crash between the two deletes the same objects again, which is no error.

use super::{Client, Progress, Scanner};
use crate::store::{DeadObject, ScanRequest, Scanned, Write};
use async_trait::async_trait;
use carafe_types::{FsError, FsResult, SessionUuid};

/// Slices that are deleted at once.
const PAGE: usize = 250;
/// After how long a slice is looked at again whose objects cannot be named.
const LOOK_AGAIN_MS: u64 = 24 * 3_600_000;

/// A slice to be deleted, as the bucket calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeadSlice {
    /// Who wrote it.
    pub session: SessionUuid,
    /// Its number there.
    pub n: u64,
    /// A pack (one object), or blocks.
    pub pack: bool,
    /// Payload bytes of the whole slice: with the block size, how many objects.
    pub len: u64,
}

/// Deletes objects from the bucket.
#[async_trait]
pub trait ObjectDeleter: Send + Sync {
    /// Deletes all objects of these slices. An object that is not there is no error.
    ///
    /// # Errors
    /// Why the bucket did not do it, in words for a log; some may be gone. It will be asked again.
    async fn delete(&self, slices: &[DeadSlice]) -> Result<(), String>;
}

/// Deletes all objects whose time has come. Returns how many slices went.
///
/// # Errors
/// [`FsError::Unavailable`] when the bucket does not delete; store errors.
pub async fn delete_objects(
    client: &Client,
    deleter: &dyn ObjectDeleter,
    progress: Progress<'_>,
) -> FsResult<u64> {
    let mut gone = 0;
    loop {
        let page = Scanner(client).page(&ScanRequest::DeadObjects { limit: PAGE, from: None }).await?;
        let due: Vec<DeadObject> = page
            .found
            .into_iter()
            .filter_map(|found| if let Scanned::DeadObject(object, _) = found { Some(object) } else { None })
            .collect();
        if due.is_empty() {
            return Ok(gone);
        }
        let (named, nameless) = name_all(client, &due).await?;
        let slices: Vec<DeadSlice> = named.iter().map(|(_, slice)| *slice).collect();
        if !slices.is_empty() {
            deleter
                .delete(&slices)
                .await
                .map_err(|e| FsError::Unavailable(format!("objects not deleted: {e}")))?;
        }
        client
            .run(|tx| {
                tx.frees();
                named.iter().for_each(|(object, _)| tx.push(Write::UnqueueObject(*object)));
                nameless.iter().for_each(|object| tx.push(Write::QueueObject(*object, LOOK_AGAIN_MS)));
                Ok(())
            })
            .await?;
        gone += named.len() as u64;
        progress("slices deleted from the bucket", gone);
    }
}

/// The slices with their names in the bucket, and those of sessions that the store does not know.
async fn name_all(
    client: &Client,
    due: &[DeadObject],
) -> FsResult<(Vec<(DeadObject, DeadSlice)>, Vec<DeadObject>)> {
    let (mut named, mut nameless) = (Vec::new(), Vec::new());
    for object in due {
        let DeadObject { slice, pack, len } = *object;
        match client.session_uuid(slice.session).await {
            Ok(session) => named.push((*object, DeadSlice { session, n: slice.n, pack, len })),
            Err(FsError::Io(reason)) => {
                tracing::error!(%slice, reason, "a dead slice has no name in the bucket; `carafe fsck` tells more");
                nameless.push(*object);
            }
            Err(e) => return Err(e),
        }
    }
    Ok((named, nameless))
}
