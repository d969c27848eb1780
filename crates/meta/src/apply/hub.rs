//! Messages between sessions of one process.

use crate::store::{Message, StoreError};
use carafe_types::SessionNo;
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Debug)]
struct Line {
    to: UnboundedSender<Message>,
    from: Option<UnboundedReceiver<Message>>,
}

/// One queue a session.
#[derive(Debug, Default)]
pub struct Hub(Mutex<HashMap<SessionNo, Line>>);

impl Hub {
    /// Begins a queue, in place of an older one of the same session.
    pub fn open(&self, sid: SessionNo) {
        let (to, from) = unbounded_channel();
        self.0.lock().insert(sid, Line { to, from: Some(from) });
    }

    /// The receiving end, once.
    ///
    /// # Errors
    /// [`StoreError::Engine`] if it was taken before or the session is not of this process.
    pub fn take(&self, sid: SessionNo) -> Result<UnboundedReceiver<Message>, StoreError> {
        let mut lines = self.0.lock();
        let from = lines.get_mut(&sid).and_then(|line| line.from.take());
        from.ok_or_else(|| StoreError::Engine(format!("the messages of session {} are taken", sid.0)))
    }

    /// Ends a queue; its receiver sees the end.
    pub fn close(&self, sid: SessionNo) {
        self.0.lock().remove(&sid);
    }

    /// Sends in order; what goes to nobody is dropped.
    pub fn deliver(&self, messages: Vec<(SessionNo, Message)>) {
        if messages.is_empty() {
            return;
        }
        let lines = self.0.lock();
        for (to, message) in messages {
            if let Some(line) = lines.get(&to) {
                // A receiver that is gone belongs to a session that has ended.
                let _ = line.to.send(message);
            }
        }
    }
}
