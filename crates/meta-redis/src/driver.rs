//! Who moves the bytes of a connection.
//!
//! The crate's connection is a queue and a *driver*, a future that carries requests from the queue to the socket and answers back. As
//! a task of its own, the driver costs each request a hop to another thread before a byte is sent: a third of the time of a call to
//! a server nearby. So whoever puts a request into the queue polls the driver itself, and the request leaves from the caller's thread.
//! The task stays for everything else: answers, and what did not fit into the socket.
//!
//! 1. The queue wakes the driver when something comes in. That wake is held back while a caller queues (a mark of its thread, see
//!    [`QUEUING`]), since it polls the driver right after; if another thread polls the driver just then, the wake is made up for.
//! 2. All polls give the driver one waker, which wakes the task. So it does not matter who polled last.

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use tokio::task::AbortHandle;

thread_local! {
    /// This thread is putting a request into a queue.
    static QUEUING: Cell<bool> = const { Cell::new(false) };
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection's driver. With the last handle the connection ends.
pub(crate) struct Driver {
    inner: Arc<Inner>,
    task: AbortHandle,
}

struct Inner {
    /// `None` when it has ended.
    work: Mutex<Option<Work>>,
    wake: Arc<WakeTask>,
}

/// Wakes the task, unless the thread that wakes is about to poll the driver itself.
struct WakeTask(AtomicWaker);

impl Wake for WakeTask {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !QUEUING.get() {
            self.0.wake();
        }
    }
}

impl Inner {
    fn poll(&self, work: &mut Option<Work>) -> Poll<()> {
        let waker = Waker::from(self.wake.clone());
        let Some(running) = work else { return Poll::Ready(()) };
        let polled = running.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            *work = None;
        }
        polled
    }

    /// Moves what is in the queue, or sees to it that the task does.
    fn push(&self) {
        let moved = self.work.try_lock().is_some_and(|mut work| self.poll(&mut work).is_pending());
        if !moved {
            // It has ended, or it is being polled and may have looked at the queue already.
            self.wake.0.wake();
        }
    }
}

impl Driver {
    /// Runs `work` until it ends or this handle is dropped.
    pub(crate) fn start(work: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        let work: Work = Box::pin(work);
        let wake = Arc::new(WakeTask(AtomicWaker::new()));
        let inner = Arc::new(Inner { work: Mutex::new(Some(work)), wake });
        let of_task = inner.clone();
        let task = tokio::spawn(std::future::poll_fn(move |cx| {
            of_task.wake.0.register(cx.waker());
            of_task.poll(&mut of_task.work.lock())
        }));
        Arc::new(Driver { inner, task: task.abort_handle() })
    }

    /// The result of `call`, which puts a request into this connection's queue when it is first polled.
    pub(crate) async fn carry<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        let mut first = true;
        std::future::poll_fn(|cx| {
            if !std::mem::take(&mut first) {
                return call.as_mut().poll(cx);
            }
            let polled = {
                let _queuing = Queuing::begin();
                call.as_mut().poll(cx)
            };
            self.inner.push();
            polled
        })
        .await
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
        // The socket closes now, also if the task is never polled again.
        if let Some(mut work) = self.inner.work.try_lock() {
            *work = None;
        }
    }
}

/// Marks this thread.
struct Queuing;

impl Queuing {
    fn begin() -> Self {
        QUEUING.set(true);
        Queuing
    }
}

impl Drop for Queuing {
    fn drop(&mut self) {
        QUEUING.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::sync::{mpsc, oneshot};

    type Asked = oneshot::Sender<std::thread::ThreadId>;

    /// A driver that answers each request with the thread that polled it.
    fn echo() -> (mpsc::Sender<Asked>, Arc<Driver>) {
        let (queue, mut asked) = mpsc::channel::<Asked>(100);
        let work = async move {
            while let Some(reply) = asked.recv().await {
                let _ = reply.send(std::thread::current().id());
            }
        };
        (queue, Driver::start(work))
    }

    async fn ask(queue: mpsc::Sender<Asked>) -> std::thread::ThreadId {
        let (reply, answer) = oneshot::channel();
        queue.send(reply).await.unwrap();
        answer.await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_request_leaves_on_the_thread_of_its_caller() {
        let (queue, driver) = echo();
        // Until the driver waits for its queue.
        driver.carry(ask(queue.clone())).await;
        let runtime = tokio::runtime::Handle::current();
        let here = tokio::task::spawn_blocking(move || {
            let served = runtime.block_on(driver.carry(ask(queue)));
            served == std::thread::current().id()
        });
        assert!(here.await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_request_is_left_behind_when_many_queue_at_once() {
        let (queue, driver) = echo();
        let ask = |_| {
            let (queue, driver) = (queue.clone(), driver.clone());
            tokio::spawn(async move {
                for _ in 0..500 {
                    driver.carry(ask(queue.clone())).await;
                }
            })
        };
        let all = futures::future::join_all((0..16).map(ask));
        tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
    }

    #[tokio::test]
    async fn a_driver_without_handles_is_gone() {
        let (queue, driver) = echo();
        driver.carry(ask(queue.clone())).await;
        drop(driver);
        tokio::task::yield_now().await;
        assert!(queue.is_closed());
    }
}
