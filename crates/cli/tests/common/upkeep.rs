//! `fsck` and `gc` as a test calls them.

use carafe_testkit::FileSystem;

/// Runs `carafe fsck`, which must find nothing.
pub(crate) fn fsck_is_clean(fs: &FileSystem) {
    let output = fs.carafe(&["fsck", &fs.meta_url, "--json"]).unwrap();
    assert_eq!(output.code, 0, "fsck found something:\n{}{}", output.stdout, output.stderr);
}

/// The file system is not mounted: `fsck` is clean, `gc --delete` removes what crashes have left, and a second `gc` finds nothing.
pub(crate) fn nothing_is_left_over(fs: &FileSystem) {
    fsck_is_clean(fs);
    let first = gc(fs, true);
    assert_eq!(first.code, 0, "gc --delete failed:\n{}{}", first.stdout, first.stderr);
    let second = gc(fs, false);
    assert_eq!(second.code, 0, "gc found something after gc --delete:\n{}{}", second.stdout, second.stderr);
    fsck_is_clean(fs);
}

fn gc(fs: &FileSystem, delete: bool) -> carafe_testkit::ToolOutput {
    let mut arguments = vec!["gc", &fs.meta_url, "--json"];
    if delete {
        arguments.push("--delete");
    }
    fs.carafe(&arguments).unwrap()
}
