//! Settings of a mount's data paths.

use carafe_cache::Cache;
use carafe_object::Bucket;
use std::time::Duration;

/// Settings of [`crate::Vfs::new`]. [`VfsOptions::new`] gives the defaults.
#[derive(Clone)]
pub struct VfsOptions {
    /// The local cache: write buffer and read cache. With a directory its journal is kept there, too.
    pub cache: Cache,
    /// Where the bytes go.
    pub bucket: Bucket,
    /// The boot of this node (`carafe_cache::read_boot_id`): a journal of another boot is discarded.
    pub boot_id: [u8; 16],
    /// `close()` always waits until the file is durable, also where nobody else looks.
    pub close_sync: bool,
    /// Objects on their way to the bucket at once. Each holds a block in memory.
    pub upload_parallel: usize,
    /// How long fsync, publishing and reading wait for the bucket or the store before they give EIO.
    pub patience: Duration,
    /// A closed dirty file goes up after this long. The window in which the death of the *node* loses an unpublished,
    /// unsynced file; shorter means more and smaller packs.
    pub flush_delay: Duration,
    /// A file that stays open goes up when its oldest dirty byte is this old, as with a local disk's write-back.
    pub open_flush_delay: Duration,
    /// Bytes of dirty small files in memory; above, files of any size go to the cache disk.
    pub small_bytes_max: u64,
    /// A file with more dirty bytes than this is kept in a file of the cache instead of in memory.
    pub spill_bytes: u64,
    /// The most that is fetched ahead of one sequential reader.
    pub readahead_bytes: u64,
    /// Bytes of fetches in memory at once, for all readers.
    pub fetch_bytes_max: u64,
    /// Size of the write buffer in memory that takes over while the cache disk is full or broken.
    pub memory_bytes: u64,
}

/// Settings of a volume that go before the mount's options, as its quota brings them: `true` makes closes wait.
pub(crate) const CLOSE_SYNC: &str = "closeSync";
/// Bytes that are fetched ahead of one sequential reader.
pub(crate) const READ_AHEAD: &str = "readAhead";

impl VfsOptions {
    /// The defaults. One second of delay makes a busy writer of small files fill its packs (3,000 files a second are 3
    /// packs of 4 MiB), and costs at most one PUT a second when little happens.
    pub fn new(cache: Cache, bucket: Bucket, boot_id: [u8; 16]) -> Self {
        VfsOptions {
            cache,
            bucket,
            boot_id,
            close_sync: false,
            upload_parallel: 20,
            patience: Duration::from_secs(600),
            flush_delay: Duration::from_secs(1),
            open_flush_delay: Duration::from_secs(30),
            small_bytes_max: 32 << 20,
            spill_bytes: 128 << 10,
            readahead_bytes: 32 << 20,
            fetch_bytes_max: 64 << 20,
            memory_bytes: 64 << 20,
        }
    }
}

impl std::fmt::Debug for VfsOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VfsOptions")
            .field("bucket", &self.bucket)
            .field("close_sync", &self.close_sync)
            .field("upload_parallel", &self.upload_parallel)
            .field("patience", &self.patience)
            .field("flush_delay", &self.flush_delay)
            .finish_non_exhaustive()
    }
}
