//! Progress on standard error, for people only, and only for what takes longer than two seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// What ends sooner shows nothing.
const QUIET: Duration = Duration::from_secs(2);

/// A progress bar that stays hidden for the first two seconds, and for good where nobody watches.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Something of unknown length.
    pub(crate) fn spinner(what: &'static str) -> Self {
        Self::new(ProgressBar::no_length(), what, "{spinner} {msg} {human_pos} ({elapsed})")
    }

    /// Something that has `total` steps.
    pub(crate) fn steps(what: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), what, "{msg} [{wide_bar}] {human_pos}/{human_len} ({eta})")
    }

    fn new(bar: ProgressBar, what: &'static str, template: &str) -> Self {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template(template).expect("the templates are constants"));
        bar.set_message(what);
        if std::io::stderr().is_terminal() {
            let shown = bar.clone();
            std::thread::spawn(move || {
                std::thread::sleep(QUIET);
                if !shown.is_finished() {
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                    shown.enable_steady_tick(Duration::from_millis(120));
                }
            });
        }
        Progress { bar }
    }

    /// `n` more steps are done.
    pub(crate) fn add(&self, n: u64) {
        self.bar.inc(n);
    }

    /// So many steps are done in all.
    pub(crate) fn set(&self, n: u64) {
        self.bar.set_position(n);
    }

    /// What a job tells of itself.
    pub(crate) fn told(&self, what: &'static str, done: u64) {
        self.bar.set_message(what);
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
