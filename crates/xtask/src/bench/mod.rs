//! `cargo xtask bench`: Carafe and JuiceFS side by side.
//!
//! The comparison is fair or worth nothing: one Redis server, one S3 server, one delay before it (a bucket on the same machine answers in
//! under a millisecond and flatters everybody), one disk for both caches, the rival's defaults, the same system calls from the
//! same process, and each group of rows back to back. Both figures are printed, and their ratio.

mod clickhouse;
mod groups;
mod rival;
mod table;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::setup::{Scope, setup};
use crate::{environment, sh};
use groups::{GROUPS, Group, Setting};
use rival::{Carafe, JuiceFs, Rival, World};
use table::Table;

/// What is measured, and how long it may take.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Only these groups of rows, for example `big,parts`; without it all: big, small, parts, memory, clickhouse.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Smaller and shorter: to see that it works, not for figures to quote.
    #[arg(long)]
    quick: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Only these systems: carafe, juicefs, juicefs-writeback.
    #[arg(long, value_delimiter = ',', default_value = "carafe,juicefs")]
    systems: Vec<String>,
    /// How often each group is measured, in turn by each system and in changing order; the table has the medians.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Delay of each answer of the S3 server, in milliseconds.
    #[arg(long, default_value_t = 20)]
    delay_ms: u64,
    /// How many files the memory of Redis is measured with; the time for it is limited to 60 s unless this is given.
    #[arg(long)]
    files: Option<u64>,
    /// Measure the binary that `CARAFE_BIN` names instead of building one with `--release`.
    #[arg(long)]
    no_build: bool,
}

/// Runs the rows and prints the table.
pub(crate) fn bench(root: &Path, arguments: &BenchArgs) -> Result<()> {
    setup(root, Scope::Demo)?;
    if !arguments.no_build && arguments.systems.iter().any(|name| name == "carafe") {
        build(root)?;
    }
    let setting = setting(arguments);
    let groups: Vec<_> = GROUPS
        .iter()
        .filter(|group| arguments.rows.is_empty() || arguments.rows.iter().any(|row| row == group.name))
        .collect();
    ensure!(!groups.is_empty(), "no such rows: the groups are big, small, parts, memory, clickhouse");
    let world = World::start(Duration::from_millis(arguments.delay_ms))?;
    let mut rivals = rivals(&world, &arguments.systems)?;
    let mut table = Table::new(rivals.iter().map(|rival| rival.name().to_owned()).collect());
    for group in groups {
        // Its tables and its state are of one round.
        let rounds = if group.name == "clickhouse" { 1 } else { arguments.rounds };
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..rivals.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for column in order {
                let rival = rivals[column].as_mut();
                eprintln!("{} on {}, round {}", group.name, rival.name(), round + 1);
                let setting = Setting { round, ..setting };
                measure(group, rival, &world, &setting, &mut table, column)?;
            }
        }
    }
    if arguments.json {
        println!("{}", table.json())
    } else {
        println!("{}", table.text())
    }
    Ok(())
}

fn measure(
    group: &Group,
    rival: &mut dyn Rival,
    world: &World,
    setting: &Setting,
    table: &mut Table,
    column: usize,
) -> Result<()> {
    rival.start()?;
    let rows = (group.run)(rival, world, setting);
    let resident = rival.resident_bytes();
    rival.stop();
    table.raise("daemon: resident memory", "MB", column, resident as f64 / 1e6);
    for row in rows.with_context(|| format!("{} on {}", group.name, rival.name()))? {
        table.put(row, column);
    }
    Ok(())
}

fn build(root: &Path) -> Result<()> {
    eprintln!("building carafe with --release");
    sh::run(&mut sh::cargo(root, &["build", "--quiet", "--release", "-p", "carafe-cli", "--bin", "carafe"]))?;
    environment::set("CARAFE_BIN", root.join("target/release/carafe").as_os_str());
    Ok(())
}

fn setting(arguments: &BenchArgs) -> Setting {
    let seconds = if arguments.quick { 2 } else { 10 };
    Setting {
        big_mib: if arguments.quick { 64 } else { 512 },
        seconds,
        round: 0,
        clickhouse_rows: if arguments.quick { 200_000 } else { 2_000_000 },
        memory_files: arguments.files.unwrap_or(if arguments.quick { 1_000 } else { 20_000 }),
        memory_seconds: if arguments.files.is_some() { 3_600 } else { 6 * seconds },
    }
}

fn rivals<'a>(world: &'a World, names: &[String]) -> Result<Vec<Box<dyn Rival + 'a>>> {
    names
        .iter()
        .zip(0..)
        .map(|(name, database)| -> Result<Box<dyn Rival + 'a>> {
            Ok(match name.as_str() {
                "carafe" => Box::new(Carafe::format(world, database)?),
                "juicefs" => Box::new(JuiceFs::format(world, "juicefs", database, &[])?),
                "juicefs-writeback" => Box::new(JuiceFs::format(world, name, database, &["--writeback"])?),
                other => {
                    anyhow::bail!("unknown system {other}: there are carafe, juicefs, juicefs-writeback")
                }
            })
        })
        .collect()
}

/// The rows that need no services, on a directory of any file system.
pub(crate) fn directory(dir: &Path) -> Result<()> {
    let home = tempfile::Builder::new().prefix("fsbench-").tempdir_in(dir)?;
    let mut table = Table::new(vec![dir.display().to_string()]);
    for row in groups::plain(home.path())? {
        table.put(row, 0);
    }
    println!("{}", table.text());
    Ok(())
}
