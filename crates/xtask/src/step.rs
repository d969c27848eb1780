//! Steps with a name, a verdict and a time, and the table of them at the end.

use std::time::Instant;

use anyhow::Result;

/// What a step that ended well has to report.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Checks that passed; 1 for a step that is one check.
    pub(crate) passed: u64,
    /// Checks that failed.
    pub(crate) failed: u64,
    /// A few words for the table.
    pub(crate) note: String,
}

impl Tally {
    /// One check that passed.
    pub(crate) fn one() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    /// The sum of two.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.note = format!("{}; {}", self.note.trim(), other.note.trim());
    }
}

/// One named piece of work on a context `C`.
#[derive(Debug)]
pub(crate) struct Step<C> {
    pub(crate) name: &'static str,
    /// Without it nothing after it makes sense: the rest is not run.
    pub(crate) vital: bool,
    pub(crate) run: fn(&C) -> Result<Tally>,
}

// Derived, these would ask the same of `C`, which is only pointed to.
impl<C> Clone for Step<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Step<C> {}

impl<C> Step<C> {
    pub(crate) const fn new(name: &'static str, run: fn(&C) -> Result<Tally>) -> Self {
        Self { name, vital: false, run }
    }

    pub(crate) const fn vital(name: &'static str, run: fn(&C) -> Result<Tally>) -> Self {
        Self { name, vital: true, run }
    }
}

struct Line {
    name: &'static str,
    verdict: &'static str,
    seconds: f64,
    note: String,
}

/// Runs the steps in order, prints the table, and says whether all went well. The last line is `N passed, N failed`.
pub(crate) fn run_all<C>(steps: &[Step<C>], context: &C) -> bool {
    let (mut lines, mut passed, mut failed) = (Vec::new(), 0, 0);
    for (index, step) in steps.iter().enumerate() {
        println!("\n==> {}", step.name);
        let start = Instant::now();
        let result = (step.run)(context);
        let seconds = start.elapsed().as_secs_f64();
        let tally = result.unwrap_or_else(|error| {
            println!("{} failed: {error:#}", step.name);
            let first = error.to_string().lines().next().unwrap_or_default().to_owned();
            Tally { passed: 0, failed: 1, note: first }
        });
        passed += tally.passed;
        failed += tally.failed;
        let verdict = if tally.failed == 0 { "ok" } else { "FAILED" };
        lines.push(Line { name: step.name, verdict, seconds, note: tally.note });
        if tally.failed > 0 && step.vital {
            lines.extend(steps[index + 1..].iter().map(|left| Line {
                name: left.name,
                verdict: "not run",
                seconds: 0.0,
                note: format!("after {} failed", step.name),
            }));
            break;
        }
    }
    print_table(&lines);
    println!("{passed} passed, {failed} failed");
    failed == 0
}

fn print_table(lines: &[Line]) {
    println!("\n{:<32} {:<8} {:>8}  note", "step", "result", "seconds");
    for line in lines {
        println!("{:<32} {:<8} {:>8.1}  {}", line.name, line.verdict, line.seconds, line.note);
    }
    let total: f64 = lines.iter().map(|line| line.seconds).sum();
    println!("{:<32} {:<8} {total:>8.1}\n", "total", "");
}
