//! The janitor: one session of all frees what waits to be freed.
//!
//! Every mount runs it. Each looks into one record every half minute; whoever finds no living janitor there writes itself,
//! by a compare, and works: unlinked files and objects whose time has come, every few seconds while there are any, less
//! often while there are none. The lease lies in the record and is far longer than a look, so a janitor that dies is
//! followed within two minutes, and nothing it did by halves matters: all jobs may run twice, even at once.

use super::{Client, ObjectDeleter, Scanner, delete_objects, purge_inodes, purge_trash, silently};
use crate::store::Key;
use crate::tx::{Op, Tx};
use carafe_types::{FsError, FsResult, SessionNo, Timestamp};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RECORD: Key = Key::Single("janitor");

/// How the janitor works.
#[derive(Clone, Debug)]
pub struct JanitorOptions {
    /// How long deleted volumes stay in the trash.
    pub keep_trash: Duration,
    /// The shortest pause between two looks for work.
    pub busy_pause: Duration,
    /// The longest pause, when there was nothing to do for a while, and between two looks for a living janitor.
    pub idle_pause: Duration,
    /// How long the record says that this session is the janitor; at least two idle pauses.
    pub lease: Duration,
}

impl Default for JanitorOptions {
    fn default() -> Self {
        JanitorOptions {
            keep_trash: Duration::from_secs(24 * 3600),
            busy_pause: Duration::from_secs(2),
            idle_pause: Duration::from_secs(30),
            lease: Duration::from_secs(90),
        }
    }
}

/// Works until `shutdown` completes; a read-only client leaves it to others. Failures are logged and tried again.
pub async fn run_janitor(
    client: Arc<Client>,
    deleter: Arc<dyn ObjectDeleter>,
    options: JanitorOptions,
    shutdown: impl Future<Output = ()>,
) {
    if client.options.read_only {
        return shutdown.await;
    }
    let work = work_for_ever(&client, &*deleter, &options);
    let shutdown = std::pin::pin!(shutdown);
    let work = std::pin::pin!(work);
    futures::future::select(shutdown, work).await;
    if let Err(e) = client.run(resign).await {
        tracing::debug!(error = %e, "the next janitor waits for the end of this one's lease");
    }
}

async fn work_for_ever(client: &Client, deleter: &dyn ObjectDeleter, options: &JanitorOptions) {
    let mut pause = options.busy_pause;
    let mut lease_end = Instant::now();
    loop {
        // Mounts that were started together must not look together.
        let jitter = rand::random_range(0.8..1.2);
        client.sleep(pause.mul_f64(jitter)).await;
        let asked = Instant::now();
        if asked + options.idle_pause.mul_f64(1.5) >= lease_end {
            match client.run(|tx| apply_for(tx, options.lease)).await {
                Ok(true) => lease_end = asked + options.lease,
                Ok(false) => {
                    pause = options.idle_pause;
                    continue;
                }
                Err(e) => {
                    tracing::debug!(error = %e, "no janitor's lease");
                    pause = options.idle_pause;
                    continue;
                }
            }
        }
        pause = match once(client, deleter, options).await {
            Ok(0) => (pause * 2).min(options.idle_pause),
            Ok(_) => options.busy_pause,
            Err(e) => {
                tracing::warn!(error = %e, "the janitor could not free everything");
                options.idle_pause
            }
        };
    }
}

/// One round. Returns how much there was to do.
async fn once(client: &Client, deleter: &dyn ObjectDeleter, options: &JanitorOptions) -> FsResult<u64> {
    // One that fails (a bucket that is away) keeps no other from its work.
    let inodes = purge_inodes(client, &silently).await.map(|r| r.purged + r.open);
    let trash = purge_trash(client, options.keep_trash, &silently).await;
    let objects = delete_objects(client, deleter, &silently).await;
    let done = inodes? + trash? + objects?;
    if done > 0 {
        tracing::debug!(done, "freed by the janitor");
    }
    Ok(done)
}

/// Who is janitor, and until when by the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Post {
    holder: SessionNo,
    until: Timestamp,
}

impl Post {
    fn encode(&self) -> Vec<u8> {
        format!("{} {}", self.holder.0, self.until.0).into_bytes()
    }

    /// Nonsense is an empty post.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (holder, until) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
        Some(Post { holder: SessionNo(holder.parse().ok()?), until: Timestamp(until.parse().ok()?) })
    }
}

/// Whether this session is the janitor from now on, for the length of the lease.
fn apply_for(tx: &mut Tx<'_>, lease: Duration) -> Op<bool> {
    let now = tx.world.now;
    let post = tx.record(&RECORD)?.and_then(|bytes| Post::decode(&bytes));
    if post.is_some_and(|p| p.holder != tx.world.session && p.until > now) {
        return Ok(false);
    }
    tx.same(&RECORD)?;
    let until = Timestamp(now.0.saturating_add(i64::try_from(lease.as_nanos()).unwrap_or(i64::MAX)));
    tx.put(RECORD, Post { holder: tx.world.session, until }.encode());
    Ok(true)
}

fn resign(tx: &mut Tx<'_>) -> Op<()> {
    let post = tx.record(&RECORD)?.and_then(|bytes| Post::decode(&bytes));
    if post.is_some_and(|p| p.holder == tx.world.session) {
        tx.same(&RECORD)?;
        tx.delete(RECORD);
    }
    Ok(())
}

/// The session that is janitor, for `status`; `None` when nobody is.
///
/// # Errors
/// Store errors.
pub async fn janitor(client: &Client) -> Result<Option<SessionNo>, FsError> {
    let post = Scanner(client).record(RECORD).await?.and_then(|bytes| Post::decode(&bytes));
    Ok(post.filter(|p| p.until > client.now()).map(|p| p.holder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_reads_back_and_nonsense_is_an_empty_one() {
        let post = Post { holder: SessionNo(7), until: Timestamp(1_764_500_000_000_000_000) };
        assert_eq!(Post::decode(&post.encode()), Some(post));
        for bad in [&b""[..], b"7", b"x 1", b"7 x", b"\xff 1"] {
            assert_eq!(Post::decode(bad), None);
        }
    }
}
