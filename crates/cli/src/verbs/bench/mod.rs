//! `carafe bench DIR`: the five figures that `juicefs bench` shows, with the same words, on any directory.

mod run;

use crate::ask;
use crate::failure::{Exit, Failure, Outcome, io};
use crate::out;
use crate::size::Size;
use clap::Args;
use run::{Plan, Row};
use serde::Serialize;
use std::path::PathBuf;

/// Measure big files, small files and stat in a directory
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// The directory to measure in; a folder for the test files is made and removed there
    dir: PathBuf,

    /// Bytes of one write and read call
    #[arg(long, default_value = "1M")]
    block_size: Size,

    /// Size of each big file, one for each thread (0: no big files)
    #[arg(long, default_value = "1G")]
    big_file_size: Size,

    /// Size of each small file
    #[arg(long, default_value = "128K")]
    small_file_size: Size,

    /// How many small files for each thread (0: none)
    #[arg(long, default_value_t = 100)]
    small_file_count: u32,

    /// How many threads work at once
    #[arg(short = 'p', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,

    /// Before reading, drop the local cache of the mount too, so that the bucket is read (the page cache is dropped
    /// whenever root runs this)
    #[arg(long)]
    cold: bool,
}

#[derive(Serialize)]
struct Report {
    dir: String,
    block_size: u64,
    big_file_size: u64,
    small_file_size: u64,
    small_file_count: u32,
    threads: u32,
    cold: bool,
    page_cache_dropped: bool,
    results: Vec<Row>,
}

pub(crate) fn run(args: &BenchArgs, as_json: bool) -> Outcome {
    let failed = |what: &str| Failure::new(Exit::Usage, what.to_owned());
    if args.block_size.0 == 0 || args.block_size.0 > 1 << 30 {
        return Err(failed("--block-size must be between 1 byte and 1 GiB"));
    }
    if args.big_file_size.0 == 0 && args.small_file_count == 0 {
        return Err(failed("nothing to measure: give --big-file-size or --small-file-count"));
    }
    let folder = args.dir.join(format!("__carafe_bench_{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(io(format!("cannot make {}", folder.display())))?;
    let plan = Plan {
        folder: folder.clone(),
        block: args.block_size.0 as usize,
        big: args.big_file_size.0,
        small: args.small_file_size.0,
        count: args.small_file_count,
        threads: args.threads,
    };
    let mut page_cache_dropped = false;
    let before_reading = || -> Outcome {
        if args.cold {
            ask::order(&args.dir, ask::DROP_CACHE).map_err(|e| e.about(&args.dir))?;
        }
        page_cache_dropped = std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
        Ok(())
    };
    let results = plan.run(before_reading);
    let removed = std::fs::remove_dir_all(&folder);
    let report = Report {
        dir: args.dir.display().to_string(),
        block_size: args.block_size.0,
        big_file_size: args.big_file_size.0,
        small_file_size: args.small_file_size.0,
        small_file_count: args.small_file_count,
        threads: args.threads,
        cold: args.cold,
        results: results?,
        page_cache_dropped,
    };
    removed.map_err(io(format!("cannot remove {}", folder.display())))?;
    out::report(as_json, &report, show)
}

fn show(report: &Report) -> String {
    let mut text = format!(
        "BlockSize: {}, BigFileSize: {}, SmallFileSize: {}, SmallFileCount: {}, NumThreads: {}\n",
        Size(report.block_size),
        Size(report.big_file_size),
        Size(report.small_file_size),
        report.small_file_count,
        report.threads
    );
    if !report.page_cache_dropped {
        text.push_str("The page cache could not be dropped (only root can), so reads come from memory.\n");
    }
    let cells: Vec<[String; 3]> = std::iter::once(["ITEM", "VALUE", "COST"].map(str::to_owned))
        .chain(report.results.iter().map(cells))
        .collect();
    let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let rule = format!("+{}+\n", widths.map(|w| "-".repeat(w + 2)).join("+"));
    for (number, row) in cells.iter().enumerate() {
        if number < 2 {
            text.push_str(&rule);
        }
        let padded: Vec<String> = row.iter().zip(widths).map(|(cell, w)| format!(" {cell:>w$} ")).collect();
        text.push_str(&format!("|{}|\n", padded.join("|")));
    }
    text + &rule
}

fn cells(row: &Row) -> [String; 3] {
    let cost = if row.cost_ms >= 1000.0 {
        format!("{:.2} s/file", row.cost_ms / 1000.0)
    } else {
        format!("{:.2} ms/file", row.cost_ms)
    };
    [row.item.to_owned(), format!("{:.2} {}", row.value, row.unit), cost]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_directory_can_be_measured_and_is_left_clean() {
        let dir = std::env::temp_dir().join(format!("carafe-bench-test-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let args = BenchArgs {
            dir: dir.clone(),
            block_size: Size(4096),
            big_file_size: Size(64 << 10),
            small_file_size: Size(100),
            small_file_count: 5,
            threads: 2,
            cold: false,
        };
        run(&args, true).unwrap();
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        std::fs::remove_dir(&dir).unwrap();
    }

    #[test]
    fn the_table_has_the_five_rows_between_rules() {
        let row = Row { item: "Stat file", value: 1234.5, unit: "files/s", cost_ms: 0.81 };
        let report = Report {
            dir: "/x".into(),
            block_size: 1 << 20,
            big_file_size: 1 << 30,
            small_file_size: 128 << 10,
            small_file_count: 100,
            threads: 1,
            cold: false,
            page_cache_dropped: true,
            results: vec![row],
        };
        let text = show(&report);
        assert!(text.contains("| Stat file | 1234.50 files/s | 0.81 ms/file |"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("+--")).count(), 3, "{text}");
    }
}
