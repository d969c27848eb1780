//! A directory on the mount, or on each of two mounts, and one on a plain disk beside it, in which plans of random steps
//! are run and compared.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::attr::Clock;
use super::ops::Step;
use super::tree::Comparison;
use super::world::{Roots, Rules, Tally, World};

/// The magic number of FUSE.
const FUSE: rustix::fs::FsWord = 0x6573_5546;

/// What each actor does, one list an actor.
pub(crate) type Plan = Vec<Vec<Step>>;

/// Where and how a plan failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// Actor and step; `None` if the trees differed at the end.
    pub(crate) at: Option<(usize, usize)>,
    /// It was only seen after the mounts had been left alone, or mounted anew.
    pub(crate) late: bool,
    pub(crate) what: String,
}

/// What a plan did.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) tally: Tally,
    /// Inodes of the reference whose times are free.
    unsettled: HashSet<u64>,
}

/// Both sides.
pub(crate) struct Arena {
    reference: PathBuf,
    mounts: Vec<PathBuf>,
    clock: Clock,
    fine_times: bool,
    direct: bool,
}

impl Arena {
    /// `reference` is a plain directory, `mounts` are mount points of one file system.
    pub(crate) fn new(reference: &Path, mounts: &[&Path]) -> Self {
        let fine_times = has_fine_times(reference);
        let direct = rustix::fs::statfs(mounts[0]).is_ok_and(|stat| stat.f_type == FUSE);
        let mounts = mounts.iter().map(|mount| mount.to_path_buf()).collect();
        Self { reference: reference.to_path_buf(), mounts, clock: Clock::start(), fine_times, direct }
    }

    /// Runs a plan in a new directory `name` on all sides, the actors at the same time, and compares what is left.
    pub(crate) fn run(&self, name: &str, plan: &Plan) -> Result<Report, Failure> {
        for side in [&self.reference, &self.mounts[0]] {
            for actor in 0..plan.len() {
                fs::create_dir_all(side.join(name).join(format!("t{actor}")))
                    .expect("make the actors' directories");
            }
            fs::create_dir_all(side.join(name).join("shared")).expect("make the shared directory");
        }
        let shared = Mutex::new(());
        let stop = AtomicBool::new(false);
        let rules =
            Rules { clock: self.clock, fine_times: self.fine_times, direct: self.direct, shared: &shared };
        let results: Vec<_> = thread::scope(|scope| {
            let actors: Vec<_> = (0..plan.len())
                .map(|actor| {
                    let stop = &stop;
                    scope.spawn(move || self.act(name, actor, &plan[actor], rules, stop))
                })
                .collect();
            actors.into_iter().map(|actor| actor.join().expect("an actor does not panic")).collect()
        });
        let mut report = Report::default();
        for result in results {
            let one = result?;
            report.unsettled.extend(one.unsettled);
            for (op, counts) in one.tally {
                let sum = report.tally.entry(op).or_default();
                *sum = [sum[0] + counts[0], sum[1] + counts[1]];
            }
        }
        self.compare(name, &report).map_err(|what| Failure { at: None, late: false, what })?;
        Ok(report)
    }

    /// Whether what a plan left is still the same on all sides.
    pub(crate) fn compare(&self, name: &str, report: &Report) -> Result<(), String> {
        for (n, mount) in self.mounts.iter().enumerate() {
            Comparison::new(self.clock, &report.unsettled)
                .compare(&self.reference.join(name), &mount.join(name))
                .map_err(|what| format!("at the end, mount {n}: {what}"))?;
        }
        Ok(())
    }

    /// Removes a plan's directory on all sides.
    pub(crate) fn remove(&self, name: &str) {
        for side in [&self.reference, &self.mounts[0]] {
            fs::remove_dir_all(side.join(name)).expect("remove what a plan has left");
        }
        for mount in &self.mounts {
            let left = fs::symlink_metadata(mount.join(name));
            assert!(left.is_err(), "{name} is still visible below {}", mount.display());
        }
    }

    fn act(
        &self,
        name: &str,
        actor: usize,
        steps: &[Step],
        rules: Rules<'_>,
        stop: &AtomicBool,
    ) -> Result<Report, Failure> {
        let own = format!("t{actor}");
        let roots = |side: &PathBuf| Roots::open(&side.join(name), &own);
        let early = |error: rustix::io::Errno| Failure {
            at: None,
            late: false,
            what: format!("open the roots: {error}"),
        };
        let reference = roots(&self.reference).map_err(early)?;
        let mounts = self.mounts.iter().map(roots).collect::<Result<Vec<_>, _>>().map_err(early)?;
        let mut world = World::new(reference, mounts, rules);
        for (n, step) in steps.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            world.step(step).map_err(|what| {
                stop.store(true, Ordering::Relaxed);
                Failure { at: Some((actor, n)), late: false, what: format!("{:?}: {what}", step.op) }
            })?;
        }
        Ok(Report {
            tally: std::mem::take(&mut world.tally),
            unsettled: std::mem::take(&mut world.unsettled),
        })
    }
}

/// Whether changes in a row that are looked at one by one have different times. Older kernels count in ticks, and a tmpfs
/// does for a directory in which a name is removed.
fn has_fine_times(dir: &Path) -> bool {
    let (file, link) = (dir.join("fine-times"), dir.join("fine-times-link"));
    let time = |path: &Path| {
        let meta = fs::metadata(path).expect("stat on the reference");
        meta.mtime() * 1_000_000_000 + meta.mtime_nsec()
    };
    let mut last = [0; 3];
    let distinct = (0..200).all(|n: u32| {
        fs::write(&file, n.to_le_bytes()).expect("write to the reference");
        fs::hard_link(&file, &link).expect("link on the reference");
        let linked = time(dir);
        fs::remove_file(&link).expect("unlink on the reference");
        let now = [time(&file), linked, time(dir)];
        let before = std::mem::replace(&mut last, now);
        now[0] != before[0] && now[1] != before[2] && now[1] != now[2]
    });
    fs::remove_file(&file).expect("remove from the reference");
    distinct
}
