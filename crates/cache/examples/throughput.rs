//! How fast the cache and the journal are on this machine: `cargo run --release --example throughput [directory]`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example prints and may fail loudly")]

use std::time::Instant;

use carafe_cache::{Cache, CacheConfig, FRAME_BYTES, Journal, JournalHeader, ReadOutcome, SliceKey};

const MIB: usize = 1 << 20;
const TOTAL: usize = 256 << 20;

fn main() {
    let dir =
        std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into).join("carafe-cache-throughput");
    // What an interrupted run left would be in the way.
    let _absent = std::fs::remove_dir_all(&dir);
    let mut config = CacheConfig::new(&dir, 4 << 30, [1; 16], [2; 16]);
    config.free_ratio = 0.0;
    let cache = Cache::open(config).unwrap();
    println!("-- disk");
    slices(&cache);
    journal(&cache.journal_dir().unwrap());
    drop(cache);
    std::fs::remove_dir_all(&dir).unwrap();
    println!("-- memory");
    slices(&Cache::memory(4 << 30));
}

fn key(n: u64) -> SliceKey {
    SliceKey { session_uuid: 9, n }
}

fn slices(cache: &Cache) {
    let data: Vec<u8> = (0..MIB).map(|i| (i * 7 + i / 255) as u8).collect();
    for (n, size) in [(1, 4096), (2, 128 << 10), (3, MIB)] {
        let slice = cache.create(key(n)).unwrap();
        rate(&format!("write_at {size}"), TOTAL, || {
            (0..TOTAL / size).for_each(|i| slice.write_at((i * size) as u64, &data[..size]).unwrap());
        });
        rate(&format!("  seal after {size}"), TOTAL, || slice.seal(TOTAL as u64).unwrap());
        slice.mark_clean().unwrap();
        let mut buf = vec![0; size];
        let mut read = |i: usize| {
            assert_eq!(slice.read_at((i * size) as u64, &mut buf).unwrap(), ReadOutcome::Bytes);
        };
        rate(&format!("read_at {size}"), TOTAL, || (0..TOTAL / size).for_each(&mut read));
        rate(&format!("  read_verified {size}"), TOTAL / 4, || {
            for i in 0..TOTAL / 4 / size {
                let _bytes = slice.read_verified((i * size) as u64, &mut buf).unwrap();
            }
        });
        slice.discard();
    }
    random_reads(cache, &data);
    for (n, size) in [(5, FRAME_BYTES as usize), (6, MIB)] {
        let slice = cache.get_or_insert(key(n), Some(TOTAL as u64)).unwrap();
        rate(&format!("fill {size}"), TOTAL, || {
            for i in 0..TOTAL / size {
                slice.fill((i * size) as u64, &data[..size]).unwrap();
            }
        });
        slice.discard();
    }
    let start = Instant::now();
    let small = 5000;
    for n in 0..small {
        let slice = cache.create(key(1000 + n)).unwrap();
        slice.write_at(0, &data[..FRAME_BYTES as usize]).unwrap();
        slice.seal(FRAME_BYTES).unwrap();
        slice.mark_clean().unwrap();
    }
    println!(
        "{:28} {:10.0} slices/s",
        "create+write 64K+clean",
        small as f64 / start.elapsed().as_secs_f64()
    );
}

fn random_reads(cache: &Cache, data: &[u8]) {
    let slice = cache.create(key(4)).unwrap();
    (0..TOTAL / MIB).for_each(|i| slice.write_at((i * MIB) as u64, data).unwrap());
    slice.seal(TOTAL as u64).unwrap();
    slice.mark_clean().unwrap();
    for threads in [1, 2] {
        let start = Instant::now();
        let per_thread = 500_000;
        std::thread::scope(|s| {
            for t in 0..threads {
                let slice = &slice;
                s.spawn(move || {
                    let mut buf = [0; 4096];
                    for i in 0..per_thread {
                        let at = (i * 2_654_435_761 + t) % 65_536 * 4096;
                        let _bytes = slice.read_at(at, &mut buf).unwrap();
                    }
                });
            }
        });
        let per_s = (threads * per_thread) as f64 / start.elapsed().as_secs_f64();
        println!("{:28} {:10.0} reads/s", format!("random read 4096, {threads} thread"), per_s);
    }
    slice.discard();
}

fn journal(dir: &std::path::Path) {
    let header = JournalHeader {
        boot_id: [2; 16],
        fs_uuid: [1; 16],
        session_uuid: [3; 16],
        session: 1,
        generation: 1,
    };
    let journal = Journal::create(dir, header, 64 << 20).unwrap();
    let data = [7; 4096];
    for (size, count) in [(64, 500_000), (4096, 200_000)] {
        let start = Instant::now();
        (0..count).for_each(|_| drop(journal.append(1, &[&data[..40], &data[..size]]).unwrap()));
        println!(
            "{:28} {:10.0} appends/s",
            format!("journal append {size}"),
            f64::from(count) / start.elapsed().as_secs_f64()
        );
    }
}

fn rate(what: &str, bytes: usize, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    println!("{what:28} {:10.0} MB/s", bytes as f64 / 1e6 / start.elapsed().as_secs_f64());
}
