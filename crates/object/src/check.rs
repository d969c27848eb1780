//! Proof, in a few seconds, that a bucket can be used: for `format` and `mount`, before anything depends on it.
//!
//! 1. The listing comes first. Some services create a bucket at the first put; a typo in its name must not.
//! 2. A small object is written, listed, read in part, compared, deleted, and must be gone: each right that Carafe needs
//!    is used once, and a service that returns other bytes than it was given is found out here.
//! 3. All steps together have [`CHECK_TIME`]: a wrong endpoint that swallows packets is an error, not a hang.

use crate::bucket::Bucket;
use crate::client::{ByteRange, ObjectClient};
use crate::decorate::RetryPolicy;
use crate::error::{ObjectError, Result};
use bytes::Bytes;
use futures::TryStreamExt;
use std::time::Duration;
use tokio::time::timeout;
use uuid::Uuid;

/// How long [`Bucket::check`] may take.
pub const CHECK_TIME: Duration = Duration::from_secs(4);

/// Prefix of the objects that checks leave if they are killed half-way.
pub const CHECK_PREFIX: &str = "carafe-check";

const BODY: &[u8] = b"written by carafe to see whether this bucket can be used; may be deleted";

impl Bucket {
    /// Puts, lists, gets and deletes a small object.
    ///
    /// # Errors
    /// [`ObjectError::NoBucket`], [`ObjectError::WrongKey`], [`ObjectError::Denied`] (it names the right that lacks),
    /// [`ObjectError::Unreachable`] after [`CHECK_TIME`] at most, [`ObjectError::Corrupt`] if the service does not return
    /// what it was given.
    pub async fn check(&self) -> Result<()> {
        let client = self.with_policy(RetryPolicy::within(CHECK_TIME));
        let key = format!("{CHECK_PREFIX}/{}", Uuid::new_v4().simple());
        match timeout(CHECK_TIME, run(&client, &key)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ObjectError::Unreachable {
                bucket: self.name().to_owned(),
                detail: format!("the check did not end within {CHECK_TIME:?}"),
            }),
        }
    }
}

async fn run(client: &impl ObjectClient, key: &str) -> Result<()> {
    client.list(CHECK_PREFIX, None).try_next().await?;
    client.put(key, Bytes::from_static(BODY)).await?;
    let outcome = read_back(client, key).await;
    // Deleted also if reading failed; then the first error is the one to report.
    let deleted = client.delete(&[key.to_owned()]).await;
    outcome?;
    deleted?;
    match client.head(key).await {
        Err(ObjectError::NotFound { .. }) => Ok(()),
        Ok(_) => Err(ObjectError::corrupt(key, "is still there after it was deleted")),
        Err(e) => Err(e),
    }
}

async fn read_back(client: &impl ObjectClient, key: &str) -> Result<()> {
    let range = 8..BODY.len() as u64;
    let got = client.get(key, ByteRange::Exact(range)).await?;
    if got != BODY[8..] {
        return Err(ObjectError::corrupt(key, "reads back as other bytes than were written"));
    }
    let mut listing = client.list(CHECK_PREFIX, None);
    while let Some(object) = listing.try_next().await? {
        if object.key == key && object.size == BODY.len() as u64 {
            return Ok(());
        }
    }
    Err(ObjectError::corrupt(key, "was written, but is not in the listing with its size"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Verb;
    use crate::decorate::{Failing, Faults, LimitOptions};
    use crate::store::StoreClient;
    use tokio::time::Instant;

    fn twin() -> (Bucket, Faults) {
        let (client, faults) = Failing::new(StoreClient::memory());
        (Bucket::over(client, "twin", RetryPolicy::default(), LimitOptions::default()), faults)
    }

    #[tokio::test]
    async fn a_good_bucket_passes_and_stays_empty() {
        let (bucket, _) = twin();
        bucket.check().await.unwrap();
        assert_eq!(bucket.list("").try_collect::<Vec<_>>().await.unwrap(), []);
    }

    #[tokio::test]
    async fn each_right_that_lacks_is_named() {
        for verb in [Verb::List, Verb::Put, Verb::Get, Verb::Delete] {
            let (bucket, faults) = twin();
            let denied = |verb| ObjectError::Denied {
                bucket: "twin".into(),
                verb,
                target: String::new(),
                detail: String::new(),
            };
            faults.fail_next(verb, 1, denied(verb));
            assert_eq!(bucket.check().await, Err(denied(verb)));
        }
    }

    #[tokio::test]
    async fn other_bytes_than_written_fail_the_check_and_are_deleted() {
        let (bucket, faults) = twin();
        faults.flip_reads(1);
        let e = bucket.check().await.unwrap_err();
        assert!(matches!(e, ObjectError::Corrupt { .. }), "{e}");
        assert_eq!(bucket.list("").try_collect::<Vec<_>>().await.unwrap(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_does_not_answer_fails_in_time() {
        let (bucket, faults) = twin();
        faults.delay(Duration::from_secs(3600));
        let start = Instant::now();
        assert!(bucket.check().await.unwrap_err().is_transient());
        assert!(start.elapsed() <= CHECK_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hiccup_does_not_fail_the_check() {
        let (bucket, faults) = twin();
        faults.drop_replies(Verb::Put, 2);
        bucket.check().await.unwrap();
    }
}
