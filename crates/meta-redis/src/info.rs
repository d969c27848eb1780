//! What the server is and how it is set up.

use crate::link::{Limits, Link};
use crate::names::Names;
use crate::reply;
use carafe_meta::store::{StoreError, StoreInfo};
use carafe_types::Generation;
use redis::{Value, cmd};
use std::collections::HashMap;
use std::time::Duration;

/// The trait promises an answer within 5 s; the parts below run one after the other.
const TRY: Duration = Duration::from_millis(3500);
const ALL: Duration = Duration::from_millis(4800);

type Fields = HashMap<String, String>;

/// Reads `INFO` or `CONFIG GET` into fields.
fn fields(text: &str) -> Fields {
    let lines = text.lines().filter_map(|l| l.split_once(':'));
    lines.map(|(k, v)| (k.to_owned(), v.trim().to_owned())).collect()
}

/// See [`carafe_meta::store::MetaStore::info`].
pub(crate) async fn info(link: &Link, names: &Names) -> Result<StoreInfo, StoreError> {
    let address = link.target.address.clone();
    let late = StoreError::Unreachable { address, reason: "no answer within 5 s".to_owned() };
    tokio::time::timeout(ALL, ask(link, names)).await.unwrap_or(Err(late))
}

async fn ask(link: &Link, names: &Names) -> Result<StoreInfo, StoreError> {
    let limits = link.brief(TRY);
    let mut root = cmd("HMGET");
    root.arg(names.root()).arg("fmt").arg("gen").arg("seq");
    let mut root = reply::array(link.command(&root, limits).await?)?.into_iter();
    let superblock = reply::optional(reply::next(&mut root)?)?;
    let mut number = || match reply::next(&mut root)? {
        Value::Nil => Ok(0),
        value => reply::number(&value),
    };
    let (generation, seq) = (Generation(number()?), number()?);
    let time = reply::array(link.command(&cmd("TIME"), limits).await?)?;
    let [secs, micros] = time.as_slice() else { return Err(reply::odd("the time", &Value::Array(time))) };
    let server = fields(&reply::text(link.command(&cmd("INFO"), limits).await?)?);
    let mut warnings = Vec::new();
    let fsync = fsync(link, limits, &mut warnings).await?;
    let (durability, volatile) = durability(link.target.wait, &server, fsync.as_deref());
    let mut unfit = unfit(&server);
    unfit.extend(volatile);
    if server.get("maxmemory").is_some_and(|m| m == "0") {
        warnings.push("maxmemory is not set: a full machine ends the server instead of an ENOSPC".to_owned());
    }
    Ok(StoreInfo {
        superblock,
        generation,
        seq,
        time: reply::time(secs, micros)?,
        durability,
        server: product(&server),
        unfit,
        warnings,
    })
}

/// `appendfsync`, if the server tells it: managed ones often refuse CONFIG.
async fn fsync(
    link: &Link,
    limits: Limits,
    warnings: &mut Vec<String>,
) -> Result<Option<String>, StoreError> {
    let mut config = cmd("CONFIG");
    config.arg("GET").arg("appendfsync");
    match link.command(&config, limits).await {
        Ok(value) => {
            let pairs = reply::pairs(value)?;
            Ok(pairs.first().map(|(_, v)| String::from_utf8_lossy(v).into_owned()))
        }
        Err(StoreError::Denied { .. } | StoreError::Engine(_)) => {
            warnings.push("CONFIG GET is refused, so appendfsync is taken for everysec".to_owned());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The class, and what is unfit about it.
fn durability(wait: Option<u32>, server: &Fields, fsync: Option<&str>) -> (String, Option<String>) {
    if let Some(replicas) = wait {
        return (format!("wait:{replicas}"), None);
    }
    let help = "set `appendonly yes` and `appendfsync always` or `everysec`, or allow a volatile store";
    let volatile = |why: &str| ("volatile".to_owned(), Some(format!("volatile: {why}; {help}")));
    let aof = server.get("aof_enabled").is_some_and(|v| v == "1");
    match fsync {
        _ if !aof => volatile("the server keeps no append-only file, a restart loses acknowledged changes"),
        Some("always") => ("always".to_owned(), None),
        Some("no") => volatile("appendfsync is `no`, the server never waits for its disk"),
        _ => ("everysec".to_owned(), None),
    }
}

fn unfit(server: &Fields) -> Vec<String> {
    let mut unfit = Vec::new();
    let version = server.get("redis_version").map_or("0", String::as_str);
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    let version_parts = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version_parts < (6, 2) {
        unfit.push(format!("the server speaks the language of Redis {version}; 6.2 or newer is needed"));
    }
    if let Some(policy) = server.get("maxmemory_policy").filter(|p| *p != "noeviction") {
        unfit.push(format!(
            "maxmemory-policy is {policy}: it deletes files when memory is short; set noeviction"
        ));
    }
    if server.get("role").is_some_and(|r| r == "slave") {
        unfit.push("this server is a replica; name the primary".to_owned());
    }
    unfit
}

fn product(server: &Fields) -> String {
    let known =
        [("dragonfly_version", "Dragonfly"), ("valkey_version", "Valkey"), ("redis_version", "Redis")];
    let found = known.iter().find_map(|(field, name)| Some(format!("{name} {}", server.get(*field)?)));
    found.unwrap_or_else(|| "unknown".to_owned())
}

/// `used_memory / maxmemory`, if the server has a bound and tells it.
pub(crate) async fn fullness(link: &Link, limits: Limits) -> Option<f64> {
    let mut info = cmd("INFO");
    info.arg("memory");
    let text = reply::text(link.command(&info, limits).await.ok()?).ok()?;
    let memory = fields(&text);
    let number = |name: &str| memory.get(name)?.parse::<f64>().ok();
    let bound = number("maxmemory").filter(|m| *m > 0.0)?;
    Some(number("used_memory")? / bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> Fields {
        fields(text)
    }

    #[test]
    fn settings_that_lose_data_are_unfit() {
        let good = server("redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\nrole:master\r\n");
        assert_eq!(unfit(&good), [""; 0]);
        let bad = server("redis_version:6.0.9\r\nmaxmemory_policy:allkeys-lru\r\nrole:slave\r\n");
        assert_eq!(unfit(&bad).len(), 3);
        assert!(unfit(&server("redis_version:10.1.0")).is_empty());
    }

    #[test]
    fn the_durability_class_follows_the_append_only_file() {
        let class = |aof: &str, fsync: Option<&str>, wait| durability(wait, &server(aof), fsync);
        assert_eq!(class("aof_enabled:1", Some("always"), None), ("always".to_owned(), None));
        assert_eq!(class("aof_enabled:1", Some("everysec"), None), ("everysec".to_owned(), None));
        assert_eq!(class("aof_enabled:1", None, None).0, "everysec");
        for (aof, fsync) in [("aof_enabled:0", Some("always")), ("aof_enabled:1", Some("no")), ("", None)] {
            let (class, unfit) = class(aof, fsync, None);
            assert!(class == "volatile" && unfit.is_some_and(|u| u.starts_with("volatile:")));
        }
        assert_eq!(class("aof_enabled:0", None, Some(2)), ("wait:2".to_owned(), None));
    }

    #[test]
    fn servers_are_named_by_their_own_version() {
        assert_eq!(product(&server("redis_version:7.2.4\nvalkey_version:8.0.1")), "Valkey 8.0.1");
        assert_eq!(product(&server("redis_version:7.0.15")), "Redis 7.0.15");
    }
}
