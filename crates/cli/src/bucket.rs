//! Opening the bucket of a file system: its public settings come from the superblock, its secrets from this process.

use crate::failure::{Failure, Outcome};
use crate::secret::Secrets;
use carafe_object::{Bucket, BucketOptions};
use carafe_types::record::Superblock;
use std::collections::BTreeMap;

/// Key of [`Superblock::bucket_options`].
pub(crate) const ENDPOINT: &str = "endpoint";
/// Key of [`Superblock::bucket_options`].
pub(crate) const REGION: &str = "region";
/// Key of [`Superblock::bucket_options`]: `true` or `false`.
pub(crate) const PATH_STYLE: &str = "path-style";

/// The options of a bucket with these public settings.
pub(crate) fn options(public: &BTreeMap<String, String>, secrets: &Secrets) -> BucketOptions {
    BucketOptions {
        endpoint: public.get(ENDPOINT).cloned(),
        region: public.get(REGION).cloned(),
        path_style: public.get(PATH_STYLE).map(|value| value == "true"),
        access_key: secrets.access_key.clone(),
        secret_key: secrets.secret_key.clone(),
        session_token: secrets.session_token.clone(),
        ..BucketOptions::default()
    }
}

/// Opens the bucket of a file system and makes sure that it is the right one.
pub(crate) async fn open(superblock: &Superblock, secrets: &Secrets) -> Outcome<Bucket> {
    let bucket = Bucket::open(&superblock.bucket, &options(&superblock.bucket_options, secrets))
        .map_err(|e| Failure::from(e).during(format!("bucket {}", superblock.bucket)))?;
    bucket.verify_marker(superblock.uuid).await?;
    Ok(bucket)
}
