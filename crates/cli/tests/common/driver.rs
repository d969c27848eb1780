//! Makes random plans, runs them, and makes a failing one small.
//!
//! A batch of 1,000 steps by four actors takes about a second, so the usual shrinking, one element at a time, would take too
//! long: first whole chunks of steps are left out, halving their size, then proptest's own trees simplify what is left.

use std::collections::VecDeque;
use std::env;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::arena::{Arena, Failure, Plan, Report};
use super::ops::Step;
use super::strategy;
use super::world::Tally;

type Tree = Box<dyn ValueTree<Value = Step>>;

/// How long a failing plan may be made smaller.
const SHRINK: Duration = Duration::from_secs(120);
/// Of a plan that could not be made small only so many steps are shown.
const STEPS_SHOWN: usize = 60;
/// What so many plans have left stays, while time and other plans pass over it, and is compared again.
const KEPT: usize = 6;
/// Steps of one actor in one plan.
const BATCH: usize = 250;

/// A number from the environment.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    env::var(variable)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// `CARAFE_MODEL_SEED`, else one from the clock.
pub(crate) fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    number("CARAFE_MODEL_SEED", now % 1_000_000_000)
}

/// Runs `ops` random steps in `arena`, in plans of `actors`. After each plan `after` may do to the mounts what it likes; then the
/// trees must still be the same. It is given the number of the plan, or `None` if it should do all it ever does.
///
/// # Panics
/// At the first difference, with the seed and the smallest plan found that shows it.
pub(crate) fn run(arena: &Arena, ops: u64, actors: usize, mut after: impl FnMut(Option<u64>)) {
    let seed = seed();
    show(&format!("{ops} operations by {actors} actors, CARAFE_MODEL_SEED={seed}"));
    let mut runner = runner(seed);
    let step = strategy::step().boxed();
    let mut tally = Tally::new();
    let mut done = 0;
    let mut plan_no = 0;
    let mut kept = VecDeque::new();
    while done < ops {
        let mut trees = plant(&mut runner, &step, actors);
        let name = format!("plan-{plan_no}");
        let result = arena.run(&name, &current(&trees)).and_then(|report| {
            after(Some(plan_no));
            let again = arena.compare(&name, &report);
            again.map(|()| report).map_err(|what| Failure { at: None, late: true, what })
        });
        match result {
            Ok(report) => {
                add(&mut tally, &report);
                kept.push_back((name, report));
            }
            Err(failure) => fail(arena, seed, &name, &mut trees, failure, &mut after),
        }
        if kept.len() > KEPT {
            retire(arena, seed, kept.pop_front());
        }
        done += (actors * BATCH) as u64;
        plan_no += 1;
    }
    kept.into_iter().for_each(|plan| retire(arena, seed, Some(plan)));
    if env::var_os("CARAFE_MODEL_TALLY").is_some() {
        show(&format!("succeeded and failed: {tally:?}"));
    }
}

/// Runs fixed steps, as a regression test does.
///
/// # Panics
/// If the sides differ.
pub(crate) fn replay(arena: &Arena, name: &str, plan: &Plan) {
    if let Err(failure) = arena.run(name, plan) {
        panic!("{failure:?}");
    }
    arena.remove(name);
}

fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(Config::default(), rng)
}

fn plant(runner: &mut TestRunner, step: &BoxedStrategy<Step>, actors: usize) -> Vec<Vec<Tree>> {
    let mut tree = |step: &BoxedStrategy<Step>| step.new_tree(runner).expect("the strategy rejects nothing");
    let actor = |n: usize| {
        let start: Vec<BoxedStrategy<Step>> = strategy::start(n == 0);
        let start: Vec<Tree> = start.iter().map(&mut tree).collect();
        start.into_iter().chain((0..BATCH).map(|_| tree(step))).collect()
    };
    (0..actors).map(actor).collect()
}

fn current(trees: &[Vec<Tree>]) -> Plan {
    trees.iter().map(|actor| actor.iter().map(|tree| tree.current()).collect()).collect()
}

/// The last look at what a plan has left.
fn retire(arena: &Arena, seed: u64, plan: Option<(String, Report)>) {
    let Some((name, report)) = plan else { return };
    if let Err(what) = arena.compare(&name, &report) {
        panic!("{name} was right and is wrong some plans later (CARAFE_MODEL_SEED={seed}): {what}");
    }
    arena.remove(&name);
}

fn add(tally: &mut Tally, report: &Report) {
    for (op, counts) in &report.tally {
        let sum = tally.entry(op.clone()).or_default();
        *sum = [sum[0] + counts[0], sum[1] + counts[1]];
    }
}

fn fail(
    arena: &Arena,
    seed: u64,
    name: &str,
    trees: &mut Vec<Vec<Tree>>,
    first: Failure,
    after: &mut dyn FnMut(Option<u64>),
) -> ! {
    show(&format!("seed {seed}, {name}: {first:?}; making it smaller"));
    let mut shrinker = Shrinker {
        arena,
        base: name.to_owned(),
        runs: 0,
        end: Instant::now() + SHRINK,
        last: first.clone(),
        after: first.late.then_some(after),
    };
    if let Some((actor, step)) = first.at {
        trees[actor].truncate(step + 1);
        shrinker.keep_only(trees, actor);
    }
    shrinker.drop_chunks(trees);
    shrinker.simplify(trees);
    let steps: Vec<String> = current(trees)
        .iter()
        .enumerate()
        .flat_map(|(actor, steps)| steps.iter().map(move |step| format!("  {actor}: {step:?}")))
        .collect();
    let shown = &steps[steps.len().saturating_sub(STEPS_SHOWN)..];
    panic!(
        "the mount and the reference differ (CARAFE_MODEL_SEED={seed}, {} runs to make it small)\n{} steps, the last of them:\n{}\n{}\nfirst seen: {}",
        shrinker.runs,
        steps.len(),
        shown.join("\n"),
        shrinker.last.what,
        first.what
    );
}

struct Shrinker<'a> {
    arena: &'a Arena,
    base: String,
    runs: u32,
    end: Instant,
    last: Failure,
    /// What has to be done between the plan and the comparison that failed.
    after: Option<&'a mut dyn FnMut(Option<u64>)>,
}

impl Shrinker<'_> {
    /// Whether a plan still fails. Out of time: no, so the last one that did is kept.
    fn fails(&mut self, plan: &Plan) -> bool {
        if Instant::now() > self.end {
            return false;
        }
        self.runs += 1;
        let name = format!("{}-{}", self.base, self.runs);
        let result = self.arena.run(&name, plan).and_then(|report| {
            let Some(after) = &mut self.after else { return Ok(()) };
            after(None);
            self.arena.compare(&name, &report).map_err(|what| Failure { at: None, late: true, what })
        });
        match result {
            Ok(()) => false,
            Err(failure) => {
                self.last = failure;
                true
            }
        }
    }

    fn keep_only(&mut self, trees: &mut Vec<Vec<Tree>>, actor: usize) {
        let plan = current(trees);
        let alone = plan.iter().enumerate().map(|(n, s)| if n == actor { s.clone() } else { Vec::new() });
        if self.fails(&alone.collect()) {
            for (n, steps) in trees.iter_mut().enumerate() {
                if n != actor {
                    steps.clear();
                }
            }
        }
    }

    fn drop_chunks(&mut self, trees: &mut [Vec<Tree>]) {
        for actor in 0..trees.len() {
            let mut size = trees[actor].len().div_ceil(2);
            while size > 0 {
                let mut from = 0;
                while from < trees[actor].len() {
                    let to = (from + size).min(trees[actor].len());
                    let mut plan = current(trees);
                    plan[actor].drain(from..to);
                    if self.fails(&plan) {
                        trees[actor].drain(from..to);
                    } else {
                        from = to;
                    }
                }
                size /= 2;
            }
        }
    }

    fn simplify(&mut self, trees: &mut [Vec<Tree>]) {
        for actor in 0..trees.len() {
            for n in 0..trees[actor].len() {
                let mut tries = 0;
                while tries < 24 && trees[actor][n].simplify() {
                    tries += 1;
                    while !self.fails(&current(trees)) {
                        if !trees[actor][n].complicate() {
                            break;
                        }
                    }
                }
            }
        }
    }
}

/// Shown by the test runner for a failed test.
#[expect(clippy::print_stderr, reason = "the seed of a failed test must be seen")]
pub(crate) fn show(text: &str) {
    eprintln!("{text}");
}
