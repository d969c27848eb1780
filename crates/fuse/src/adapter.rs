//! From the kernel's requests to calls of the vfs.
//!
//! 1. A request is first polled right on the thread that read it: what memory can answer costs no hop to another
//!    thread. What has to wait moves to the runtime, and the thread reads the next request. So a handful of threads serve
//!    any number of waiting requests.
//! 2. The thread stands in the runtime's context while it polls, so that timers and tasks find their runtime.
//!    While it polls it may wait for a moment, so that a store nearby costs no hop either ([`brief`]).
//! 3. A panic in a call costs that call (it gets EIO) and not the thread: with its threads gone, a mount would hang.

use crate::attr::Nodes;
use crate::control::Control;
use crate::killed::{Waiting, Waits};
use crate::options::MountOptions;
use crate::stats::{Call, FuseStats, Op};
use crate::vfs::{Ctx, Vfs, brief};
use carafe_types::{EntryName, FsError, FsResult, InodeNo};
use fuser::{INodeNo, Request};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::runtime::Handle;

/// The file system that `fuser` drives.
#[derive(Debug)]
pub(crate) struct Adapter {
    pub(crate) vfs: Arc<Vfs>,
    pub(crate) nodes: Nodes,
    pub(crate) control: Option<Arc<dyn Control>>,
    stats: Arc<FuseStats>,
    runtime: Handle,
    waiting: Arc<Waiting>,
}

/// A request on its way.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Adapter {
    pub(crate) fn new(vfs: Arc<Vfs>, runtime: Handle, nodes: Nodes, options: &MountOptions) -> Self {
        let (control, stats) = (options.control.clone(), options.stats.clone());
        Adapter { vfs, nodes, control, stats, runtime, waiting: Arc::default() }
    }

    /// A request was read: its time begins.
    pub(crate) fn begin(&self, op: Op) -> Call {
        self.stats.begin(op)
    }

    /// The calls that wait, for who lets go of killed callers.
    pub(crate) fn waiting(&self) -> &Arc<Waiting> {
        &self.waiting
    }

    /// Runs the work of one request, here if it never has to wait. The work owns the request's reply, and `fuser`
    /// answers EIO for a reply that is dropped. Should the caller be killed while the work waits, it is let go.
    pub(crate) fn serve(&self, request: &Request, work: impl Future<Output = ()> + Send + 'static) {
        self.run(Box::pin(work), || self.waiting.enter(request.unique().0, request.pid()));
    }

    /// As [`Adapter::serve`], for work whose result must reach the kernel.
    pub(crate) fn serve_to_end(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.run(Box::pin(work), || None);
    }

    fn run(&self, mut work: Work, wait: impl FnOnce() -> Option<Waits>) {
        let _context = self.runtime.enter();
        // Nobody needs to be woken by this poll: a runtime polls what it is given, and that poll leaves the real waker.
        let mut nobody = Context::from_waker(Waker::noop());
        match catch_unwind(AssertUnwindSafe(|| brief::allow(|| work.as_mut().poll(&mut nobody)))) {
            Ok(Poll::Ready(())) => {}
            Ok(Poll::Pending) => {
                let waits = wait();
                drop(self.runtime.spawn(async move {
                    work.await;
                    drop(waits);
                }));
            }
            Err(_) => {
                tracing::error!("a file system call panicked and is answered with EIO; please report this");
            }
        }
    }

    pub(crate) fn inode(&self, node: INodeNo) -> InodeNo {
        self.nodes.inode(node)
    }
}

/// The caller of a request.
pub(crate) fn ctx(request: &Request) -> Ctx {
    Ctx { uid: request.uid(), gid: request.gid(), pid: request.pid() }
}

/// The kernel's name as a checked one.
pub(crate) fn name(name: &OsStr) -> FsResult<EntryName> {
    EntryName::new(name.as_bytes()).map_err(FsError::from)
}
