//! `carafe format META_URL NAME --bucket URL`: makes a file system.
//!
//! The order makes a repeated or interrupted `format` safe: the bucket is tried first, then it is marked for the new
//! file system, and the superblock comes last, in one step that refuses a store in use. If that step fails, the mark is
//! taken away again.

use crate::args::Connect;
use crate::bucket::{self, ENDPOINT, PATH_STYLE, REGION};
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::size::Size;
use crate::store::{self, MetaUrl};
use carafe_meta::format::FormatOptions;
use carafe_meta::store::{StoreError, StoreInfo};
use carafe_object::marker::MARKER_KEY;
use carafe_object::{Bucket, FsMarker};
use carafe_types::record::{Limits, Superblock};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Make a file system
#[derive(Args, Debug)]
pub(crate) struct FormatArgs {
    #[command(flatten)]
    connect: Connect,

    /// The name of the file system
    #[arg(value_parser = parse_name)]
    name: String,

    /// Where the bytes go: s3://BUCKET/PREFIX, gs://..., az://... or file:///DIR
    #[arg(long, value_name = "URL")]
    bucket: String,

    /// Address of an S3-compatible service, for example http://minio:9000
    #[arg(long, visible_alias = "s3-endpoint", value_name = "URL", help_heading = "Bucket")]
    endpoint: Option<String>,

    /// Region of the bucket
    #[arg(long, help_heading = "Bucket")]
    region: Option<String>,

    /// Whether the bucket stands in the path of requests (default: yes if there is an --endpoint)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Bucket")]
    path_style: Option<bool>,

    /// Size of an object of big files, a power of two
    #[arg(long, default_value = "4MiB", value_parser = parse_block_size)]
    block_size: Size,

    /// Files up to this size may be kept in the metadata store
    #[arg(long, default_value = "4KiB", value_parser = parse_inline_max)]
    inline_max: Size,

    /// How much of the metadata store's memory files may take that are kept in it
    #[arg(long, default_value = "256MiB")]
    inline_budget: Size,

    /// Limit of the whole file system in bytes (default: none)
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Size>,

    /// Limit of the number of files and directories (default: none)
    #[arg(long, value_name = "N")]
    inodes: Option<u64>,

    /// Succeed if a file system of this name is in this bucket already, whatever its settings
    #[arg(long)]
    if_absent: bool,

    /// Accept a metadata store that keeps nothing over a restart
    #[arg(long, visible_alias = "allow-volatile", env = "CARAFE_ALLOW_VOLATILE", value_parser = clap::builder::FalseyValueParser::new())]
    force_volatile: bool,
}

/// What was made.
#[derive(Serialize)]
struct Report {
    name: String,
    uuid: Uuid,
    meta_url: String,
    bucket: String,
    block_size: u32,
    inline_max: u32,
    inline_budget: u64,
    durability: String,
    server: String,
}

impl Report {
    fn new(superblock: &Superblock, args: &FormatArgs, info: &StoreInfo) -> Self {
        Report {
            name: superblock.name.clone(),
            uuid: superblock.uuid,
            meta_url: store::shown(&args.connect.meta_url),
            bucket: superblock.bucket.clone(),
            block_size: superblock.block_size,
            inline_max: superblock.inline_max,
            inline_budget: superblock.inline_budget,
            durability: info.durability.clone(),
            server: info.server.clone(),
        }
    }
}

pub(crate) async fn run(args: &FormatArgs, as_json: bool) -> Outcome {
    let url = MetaUrl::parse(&args.connect.meta_url)?;
    let secrets = args.connect.secrets.read()?;
    let public = public_options(args);
    let mut options = bucket::options(&public, &secrets);
    options.create = true;
    let bucket = Bucket::open(&args.bucket, &options)?;
    bucket.check().await?;
    let store = store::connect(&url, &secrets, true).await?;
    let info = store.info().await?;
    if let Some(bytes) = &info.superblock {
        let old = Superblock::decode(bytes);
        if let (true, Ok(old)) = (args.if_absent, &old)
            && old.name == args.name
            && old.bucket == bucket.name()
        {
            return out::report(as_json, &Report::new(old, args, &info), show);
        }
        let name = old.map(|s| s.name).unwrap_or_default();
        return Err(StoreError::AlreadyFormatted { name }.into());
    }
    store::check_fit(&info, args.force_volatile)?;
    store::warn(&info);

    let options = FormatOptions {
        bucket_options: public,
        block_size: args.block_size.0 as u32,
        inline_max: args.inline_max.0 as u32,
        inline_budget: args.inline_budget.0,
        limits: Limits { bytes: args.capacity.map(|s| s.0), inodes: args.inodes },
        ..FormatOptions::new(&args.name, bucket.name())
    };
    let created = info.time.parts().0.unsigned_abs();
    bucket.write_marker(&FsMarker::new(options.uuid, &options.name, created)?).await.map_err(taken)?;
    let superblock = match carafe_meta::format::format(store.as_ref(), options).await {
        Ok(superblock) => superblock,
        Err(error) => {
            // The marker must not keep the bucket for a file system that does not exist.
            if let Err(left) = bucket.delete_many(&[MARKER_KEY.to_owned()]).await {
                tracing::warn!(%left, "the bucket stays marked for the file system that could not be made");
            }
            return Err(error.into());
        }
    };
    out::report(as_json, &Report::new(&superblock, args, &info), show)
}

/// A marker of another file system may be all that is left of it.
fn taken(error: carafe_object::ObjectError) -> Failure {
    let foreign = matches!(error, carafe_object::ObjectError::ForeignBucket { .. });
    let failure = Failure::from(error);
    if foreign {
        return failure.next(
            "choose another bucket or prefix; if that file system is gone, `carafe destroy` was not run on it: empty the \
             prefix by hand",
        );
    }
    failure
}

fn public_options(args: &FormatArgs) -> BTreeMap<String, String> {
    let path_style = args.path_style.map(|p| p.to_string());
    [(ENDPOINT, args.endpoint.clone()), (REGION, args.region.clone()), (PATH_STYLE, path_style)]
        .into_iter()
        .filter_map(|(key, value)| value.map(|value| (key.to_owned(), value)))
        .collect()
}

fn show(report: &Report) -> String {
    let lines = [
        ("name", report.name.clone()),
        ("uuid", report.uuid.to_string()),
        ("metadata", format!("{} ({}, durability {})", report.meta_url, report.server, report.durability)),
        ("bucket", report.bucket.clone()),
        ("block size", Size(u64::from(report.block_size)).to_string()),
        (
            "inline",
            format!("up to {}, {} in all", Size(u64::from(report.inline_max)), Size(report.inline_budget)),
        ),
    ];
    format!("{}\nmount it: carafe mount {} DIR\n", out::pairs(&lines), report.meta_url)
}

/// What a mount table, a bucket's marker and a shell all take.
fn parse_name(name: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 63 || !name.chars().all(good) || name.starts_with(['-', '.']) {
        return Err(
            "a name has 1 to 63 letters, digits, '-', '_' and '.', and begins with a letter or digit".into(),
        );
    }
    Ok(name.to_owned())
}

fn parse_block_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    if !size.0.is_power_of_two() || !(64 << 10..=64 << 20).contains(&size.0) {
        return Err("a block size is a power of two from 64KiB to 64MiB".into());
    }
    Ok(size)
}

fn parse_inline_max(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    if size.0 > 64 << 10 {
        return Err("files above 64KiB do not belong into a metadata store".into());
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes_are_checked_before_anything_is_touched() {
        assert!(parse_name("prod-1.eu").is_ok());
        for bad in ["", "-x", "a/b", "a b", ".x", &"x".repeat(64)] {
            assert!(parse_name(bad).is_err(), "{bad}");
        }
        assert!(parse_block_size("4M").is_ok() && parse_inline_max("4K").is_ok());
        assert!(parse_block_size("3M").is_err() && parse_block_size("128M").is_err());
        assert!(parse_inline_max("1M").is_err());
    }
}
