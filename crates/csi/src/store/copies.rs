//! Copies that take longer than their callers wait.
//!
//! A copy of a big volume outlives the call that asked for it: it runs as a task of its own, known here by what it makes. A
//! call waits some seconds for it; the same call again waits for the same task. What is finished is told by the record in the
//! store, so nothing is lost when this process ends: the next call begins the copy anew.

use carafe_meta::volumes::VolumeError;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a call waits. The provisioner gives up on a call after 15 s by default.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    running: Arc<Mutex<HashMap<String, watch::Receiver<bool>>>>,
    patience: Duration,
}

impl Default for Copies {
    fn default() -> Self {
        Copies { running: Arc::default(), patience: PATIENCE }
    }
}

impl Copies {
    /// Runs `copying`, which makes `id`, unless that is being made already; then it waits for that and runs afterwards, to
    /// hear what became of it. `None`: it goes on.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        id: &str,
        copying: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Option<Result<T, VolumeError>> {
        let deadline = Instant::now() + self.patience;
        let ended = loop {
            match self.begin(id) {
                Ok(ended) => break ended,
                // However it ended: the next look tells.
                Err(mut other) => {
                    let _ = tokio::time::timeout_at(deadline, other.wait_for(|ended| *ended)).await.ok()?;
                }
            }
        };
        let task = tokio::spawn(async move {
            let result = copying.await;
            drop(ended);
            result
        });
        let result = tokio::time::timeout_at(deadline, task).await.ok()?;
        Some(result.unwrap_or_else(|panicked| {
            Err(carafe_types::FsError::Io(format!("the copy ended unexpectedly: {panicked}")).into())
        }))
    }

    /// This caller makes it from now on; or else who does.
    fn begin(&self, id: &str) -> Result<Ended, watch::Receiver<bool>> {
        let mut all = self.running.lock();
        if let Some(other) = all.get(id) {
            return Err(other.clone());
        }
        let (sender, receiver) = watch::channel(false);
        all.insert(id.to_owned(), receiver);
        Ok(Ended { copies: self.clone(), id: id.to_owned(), sender })
    }
}

/// Dropped when a copy has ended, however.
struct Ended {
    copies: Copies,
    id: String,
    sender: watch::Sender<bool>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.copies.running.lock().remove(&self.id);
        self.sender.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn a_long_copy_goes_on_when_its_caller_gave_up_and_the_next_call_waits_for_it() {
        let copies = Copies { patience: Duration::from_secs(1), ..Copies::default() };
        let runs = Arc::new(AtomicU32::new(0));
        let work = |millis: u64| {
            let runs = runs.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok(runs.fetch_add(1, Ordering::SeqCst))
            }
        };
        assert_eq!(copies.run("a", work(1500)).await, None);
        assert_eq!(copies.run("b", work(10)).await, Some(Ok(0)), "others do not wait");
        assert_eq!(copies.run("a", work(0)).await, Some(Ok(2)), "after the first one, which went on");
        assert!(copies.running.lock().is_empty());
    }
}
