//! The ClickHouse rows: `bench/clickhouse.py`, one process a phase, so that caches can be emptied in between.

use std::process::Command;

use anyhow::{Context, Result};
use carafe_testkit::ChdbEnv;
use serde_json::Value;

use super::groups::Setting;
use super::rival::{Rival, World};
use super::table::Row;
use crate::fsbench;
use crate::sh;

pub(super) fn rows(rival: &mut dyn Rival, world: &World, setting: &Setting) -> Result<Vec<Row>> {
    let state = world.dir(&format!("clickhouse-{}", rival.name()))?;
    let mut all = Vec::new();
    rival.proxy().reset();
    all.extend(phase(rival, &state, setting, "insert")?);
    rival.settle();
    let traffic = rival.proxy().reset();
    let puts = (traffic.count("PUT") + traffic.count("POST")) as f64;
    all.push(Row::less("ClickHouse inserts, uploads in all", "PUTs", puts));
    rival.cool()?;
    all.extend(phase(rival, &state, setting, "select-cold")?);
    rival.settle();
    rival.stop();
    fsbench::forget_pages_below(&rival.cache_dir())?;
    rival.start()?;
    all.extend(phase(rival, &state, setting, "select-local-cache")?);
    all.extend(phase(rival, &state, setting, "select-hot")?);
    all.extend(phase(rival, &state, setting, "optimize")?);
    Ok(all)
}

fn phase(rival: &dyn Rival, state: &std::path::Path, setting: &Setting, phase: &str) -> Result<Vec<Row>> {
    let mut command: Command = ChdbEnv::find()?.script("bench/clickhouse.py");
    command.arg(phase).arg("--dir").arg(rival.path()).arg("--state").arg(state);
    command.arg("--rows").arg(setting.clickhouse_rows.to_string());
    command.arg("--seconds").arg(setting.seconds.to_string());
    let out = sh::capture(&mut command).with_context(|| format!("ClickHouse {phase}"))?;
    let answer: Value =
        serde_json::from_str(out.lines().last().unwrap_or_default()).context("read the figures")?;
    let figures = answer.as_object().context("the figures are an object")?;
    Ok(figures
        .iter()
        .filter_map(|(what, value)| {
            let unit = if what.ends_with(", rows") { "Mrows/s" } else { "per s" };
            Some(Row::new(format!("ClickHouse {what}"), unit, value.as_f64()?))
        })
        .collect())
}
