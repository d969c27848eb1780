//! `carafe info PATH`: where a file lies, asked of the mount that holds it.

use crate::ask;
use crate::failure::{Outcome, io};
use crate::mountpoint::in_time;
use crate::out;
use crate::progress::Progress;
use crate::size::Size;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Show inode, extents, slices and objects of a file, or what a directory holds in all
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// Files or directories on a mount
    #[arg(required = true)]
    paths: Vec<PathBuf>,

    /// Do not walk directories
    #[arg(long)]
    no_summary: bool,
}

/// Where the bytes of an inode are. Made by the daemon, read by this command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FileReport {
    pub(crate) inode: u64,
    pub(crate) kind: String,
    pub(crate) size: u64,
    pub(crate) links: u32,
    pub(crate) quota: u32,
    pub(crate) data_version: u64,
    /// Where the content is: `empty`, `inline`, `extents`; `none` of what is no file.
    pub(crate) content: String,
    /// It has changes that are not stored yet; `content` and `extents` are those of the last commit.
    pub(crate) unsaved: bool,
    pub(crate) extents: Vec<ExtentReport>,
    /// Extents that did not fit into the answer.
    #[serde(default)]
    pub(crate) extents_left_out: u64,
}

/// A run of bytes and the objects that hold them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ExtentReport {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// `blocks` or `pack`.
    pub(crate) kind: String,
    pub(crate) slice: String,
    pub(crate) slice_offset: u64,
    /// The object of the first byte, and how many objects the extent touches.
    pub(crate) object: String,
    pub(crate) objects: u64,
}

/// What a directory holds, itself not counted.
#[derive(Clone, Debug, Default, Serialize)]
struct Summary {
    files: u64,
    directories: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Report {
    path: String,
    #[serde(flatten)]
    file: FileReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
}

pub(crate) fn run(args: &InfoArgs, as_json: bool) -> Outcome {
    let reports = args.paths.iter().map(|path| look(path, args.no_summary)).collect::<Outcome<Vec<_>>>()?;
    match reports.as_slice() {
        [one] => out::report(as_json, one, show),
        many => out::report(as_json, &many, |many| many.iter().map(show).collect::<Vec<_>>().join("\n")),
    }
}

fn look(path: &Path, no_summary: bool) -> Outcome<Report> {
    let asked = path.to_owned();
    let answer = in_time(move || ask::ask::<FileReport>(&asked, ask::INFO));
    let file = ask::in_time(answer, path)?;
    let summary = (file.kind == "directory" && !no_summary).then(|| summarise(path)).transpose()?;
    Ok(Report { path: path.display().to_string(), file, summary })
}

fn summarise(path: &Path) -> Outcome<Summary> {
    let progress = Progress::spinner("looking at entries");
    let mut sum = Summary::default();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = || format!("cannot read {}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(io(failed()))? {
            let entry = entry.map_err(io(failed()))?;
            let Ok(meta) = entry.metadata() else { continue }; // removed meanwhile
            progress.add(1);
            if meta.is_dir() {
                sum.directories += 1;
                folders.push(entry.path());
            } else {
                sum.files += 1;
                sum.bytes += meta.size();
            }
        }
    }
    Ok(sum)
}

fn show(report: &Report) -> String {
    let file = &report.file;
    let mut lines = vec![
        ("inode", file.inode.to_string()),
        ("kind", file.kind.clone()),
        ("size", format!("{} ({})", file.size, Size(file.size))),
        ("links", file.links.to_string()),
        ("quota", file.quota.to_string()),
    ];
    if let Some(sum) = &report.summary {
        lines.push(("files", sum.files.to_string()));
        lines.push(("directories", sum.directories.to_string()));
        lines.push(("length", format!("{} ({})", sum.bytes, Size(sum.bytes))));
    }
    if file.kind == "regular" {
        let unsaved = if file.unsaved { ", with changes that are not stored yet" } else { "" };
        lines.push(("content", format!("{}{unsaved}", file.content)));
    }
    let mut text = format!("{}\n{}", report.path, out::pairs(&lines));
    if !file.extents.is_empty() {
        let rows: Vec<Vec<String>> = file.extents.iter().map(extent_row).collect();
        let heading = ["OFFSET", "LENGTH", "KIND", "SLICE", "SLICE OFFSET", "OBJECTS", "FIRST OBJECT"];
        text.push_str(&out::table(&heading, &rows));
    }
    if file.extents_left_out > 0 {
        text.push_str(&format!("and {} extents more\n", file.extents_left_out));
    }
    text
}

fn extent_row(e: &ExtentReport) -> Vec<String> {
    vec![
        e.offset.to_string(),
        e.length.to_string(),
        e.kind.clone(),
        e.slice.clone(),
        e.slice_offset.to_string(),
        e.objects.to_string(),
        e.object.clone(),
    ]
}
