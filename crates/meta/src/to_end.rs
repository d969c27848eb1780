//! Work that goes on although its caller goes away.
//!
//! A commit that is under way must be settled whatever becomes of the call that sent it. A task of its own would do that, at the
//! price of two hops between threads for each call. Here the caller polls the work itself, and only if it is dropped before the end
//! does the rest become a task.

use futures::FutureExt;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::runtime::Handle;

/// A future that is carried out to its end; made by [`to_end`].
struct ToEnd<T: Send + 'static> {
    work: Option<Work<T>>,
    handle: Handle,
}

type Work<T> = Pin<Box<dyn Future<Output = Result<T, Panicked>> + Send>>;

/// What a panic says.
pub type Panicked = Box<dyn Any + Send>;

/// Polls `work` where the result is polled. If that is dropped before the end, `work` goes on as a task of `handle`. As with a task, a
/// panic is a result.
pub fn to_end<T: Send + 'static>(
    handle: Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = Result<T, Panicked>> + Send {
    ToEnd { work: Some(Box::pin(AssertUnwindSafe(work).catch_unwind())), handle }
}

impl<T: Send + 'static> Future for ToEnd<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let work = self.work.as_mut().expect("a future is not polled after its end");
        let result = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(result)
    }
}

impl<T: Send + 'static> Drop for ToEnd<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.handle.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_goes_on_when_its_caller_goes_away() {
        let (go, gone) = oneshot::channel();
        let (tell, told) = oneshot::channel();
        let work = async move {
            let word: u32 = gone.await.unwrap();
            tell.send(word).unwrap();
        };
        let caller = to_end(Handle::current(), work);
        assert!(tokio::time::timeout(Duration::from_millis(5), caller).await.is_err());
        go.send(7).unwrap();
        assert_eq!(told.await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_is_a_result_and_ends_nobody_else() {
        let work = async {
            if Handle::try_current().is_ok() {
                panic!("on purpose")
            }
        };
        assert!(to_end(Handle::current(), work).await.is_err());
        assert_eq!(to_end(Handle::current(), async { 3 }).await.ok(), Some(3));
    }
}
