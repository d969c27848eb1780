//! `fsck` and `gc` as a test calls them.

use std::time::Duration;

use carafe_testkit::{FileSystem, wait_until};
use serde_json::Value;

/// How long a dead session may count as young: its lease, the time until it is reaped, and the grace below.
const YOUNG: Duration = Duration::from_secs(60);

/// Runs `carafe fsck`, which must find nothing.
pub(crate) fn fsck_is_clean(fs: &FileSystem) {
    let output = fs.carafe(&["fsck", &fs.meta_url, "--json"]).unwrap();
    assert_eq!(output.code, 0, "fsck found something:\n{}{}", output.stdout, output.stderr);
}

/// The file system is not mounted: `fsck` is clean, `gc --delete` removes what crashes have left, a second `gc` finds nothing,
/// and what is left is whole, to the last byte in the bucket.
pub(crate) fn nothing_is_left_over(fs: &FileSystem) {
    fsck_is_clean(fs);
    // What a dead session was uploading is left alone until it can no more come back.
    wait_until("the killed sessions to be old enough for gc", YOUNG, || {
        objects(&gc(fs, false).1, "young") == 0
    })
    .unwrap();
    let (code, first) = gc(fs, true);
    assert_eq!(code, 0, "gc --delete left something: {first}");
    assert_eq!(objects(&first, "deleted"), objects(&first, "garbage"), "{first}");
    let (code, second) = gc(fs, false);
    assert_eq!((code, objects(&second, "garbage")), (0, 0), "gc after gc --delete: {second}");
    let check = fs.carafe(&["fsck", &fs.meta_url, "--json", "--data"]).unwrap();
    assert_eq!(check.code, 0, "fsck --data after gc:\n{}{}", check.stdout, check.stderr);
}

/// Exit code and report of `carafe gc`.
fn gc(fs: &FileSystem, delete: bool) -> (i32, Value) {
    let mut arguments = vec!["gc", &fs.meta_url, "--json", "--grace", "1"];
    if delete {
        arguments.push("--delete");
    }
    let output = fs.carafe(&arguments).unwrap();
    let report = serde_json::from_str(&output.stdout);
    (output.code, report.unwrap_or_else(|error| panic!("gc: {error}\n{}{}", output.stdout, output.stderr)))
}

fn objects(report: &Value, verdict: &str) -> u64 {
    report[verdict]["objects"].as_u64().unwrap_or_else(|| panic!("no count of {verdict} in {report}"))
}
