//! Random operations on a mount and on a plain directory give the same results, errno and bytes.
//!
//! Four threads work at the same time, each in a directory of its own and, one at a time, in one that they share. After each
//! plan the trees are compared as a whole; after every tenth the file system is unmounted, its cache thrown away, and
//! what comes back from store and bucket compared again.
//!
//! `CARAFE_MODEL_OPS=1000000` runs longer, `CARAFE_MODEL_SEED` repeats a run, `CARAFE_MODEL_TALLY=1` shows what was done.
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use std::path::Path;

use carafe_testkit::{Mount, MountOptions};
use common::arena::Arena;
use common::driver;
use common::stack::Stack;

const ACTORS: usize = 4;
const REMOUNT_EVERY: u64 = 10;

/// Half of the operations go to each of the two stacks.
fn operations() -> u64 {
    driver::number("CARAFE_MODEL_OPS", 20_000) / 2
}

fn run(stack: &Stack, options: MountOptions) {
    let mut mount = stack.fs.mount_with(options).unwrap();
    let point = mount.path().to_path_buf();
    let arena = Arena::new(&stack.plain("reference"), &[&point]);
    driver::run(&arena, operations(), ACTORS, |plan| {
        if plan.is_none_or(|plan| plan % REMOUNT_EVERY == REMOUNT_EVERY - 1) {
            from_nothing(&mut mount);
        }
    });
}

/// Unmounts, and mounts again with an empty cache.
fn from_nothing(mount: &mut Mount) {
    mount.unmount().unwrap();
    mount.lose_cache().unwrap();
    mount.remount().unwrap();
}

#[test]
fn random_operations_agree_with_a_local_disk_on_redis_and_s3() {
    // A cache that is far too small, so that much is evicted and fetched again.
    let options = MountOptions { cache_size: Some("64MiB".to_owned()), ..MountOptions::default() };
    run(&Stack::redis_and_s3(), options);
}

#[test]
fn random_operations_agree_with_a_local_disk_on_the_embedded_engine_and_a_folder() {
    run(&Stack::embedded(), MountOptions::default());
}

/// Shows that the harness itself finds nothing where there is nothing: one local file system against another.
#[test]
fn random_operations_agree_between_two_local_disks() {
    // Times of a tmpfs are coarse, so it is the reference.
    let (one, other) = (other_disk(), tempfile::tempdir().unwrap());
    let arena = Arena::new(one.path(), &[other.path()]);
    driver::run(&arena, driver::number("CARAFE_MODEL_OPS", 4_000), ACTORS, |_| {});
}

/// A directory on another kind of file system than the temporary one, where there is one.
fn other_disk() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm).unwrap() } else { tempfile::tempdir().unwrap() }
}
