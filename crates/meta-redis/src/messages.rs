//! Messages: Pub/Sub on a connection of its own, counted so that a lost one is noticed.
//!
//! The server counts the messages to a session in the step that sends them, and each carries its number. A number that is
//! not the next one, a count that a renewal shows and that was never heard, and a broken connection all become
//! [`Message::Gap`].

use crate::link::Link;
use crate::names::{Names, parse_watch, watch_text};
use crate::reply;
use carafe_meta::store::{Message, StoreError};
use carafe_types::{InodeNo, QuotaId, SessionNo};
use futures::StreamExt;
use parking_lot::Mutex;
use redis::aio::{PubSubSink, PubSubStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// After so long without a message the connection is tried.
const QUIET: Duration = Duration::from_secs(3);
/// How long the steps of connecting, and a trial, may take.
const STEP: Duration = Duration::from_secs(5);

/// The text of a message.
pub(crate) fn encode(message: &Message) -> String {
    match message {
        Message::Share(key) => format!("S {}", watch_text(key)),
        Message::Flush { dir, from } => format!("F {} {}", dir.0, from.0),
        Message::Flushed { dir, by } => format!("D {} {}", dir.0, by.0),
        Message::Unlocked(ino) => format!("U {}", ino.0),
        Message::Yield(key) => format!("Y {}", watch_text(key)),
        Message::ReturnReserve(quota) => format!("R {}", quota.0),
        Message::Changed(ino) => format!("C {}", ino.0),
        Message::Gap => "G".to_owned(),
    }
}

/// The message that a text is; `None` for one of a newer program.
fn decode(text: &str) -> Option<Message> {
    let mut words = text.split(' ');
    let kind = words.next()?;
    let first = words.next();
    let ino = || first?.parse().ok().map(InodeNo);
    let mut session = || words.next()?.parse().ok().map(SessionNo);
    Some(match kind {
        "S" => Message::Share(parse_watch(first?)?),
        "F" => Message::Flush { dir: ino()?, from: session()? },
        "D" => Message::Flushed { dir: ino()?, by: session()? },
        "U" => Message::Unlocked(ino()?),
        "Y" => Message::Yield(parse_watch(first?)?),
        "R" => Message::ReturnReserve(QuotaId(first?.parse().ok()?)),
        "C" => Message::Changed(ino()?),
        "G" => Message::Gap,
        _ => return None,
    })
}

/// What was heard so far.
#[derive(Debug, Default)]
struct Heard {
    /// The number of the last message.
    last: u64,
    /// Up to here a gap has been told.
    excused: u64,
    /// The count at the last renewal.
    renewed: u64,
}

/// The messages of one session.
pub(crate) struct Line {
    heard: Mutex<Heard>,
    to: Mutex<Option<UnboundedSender<Message>>>,
}

impl Line {
    /// `told` messages were sent to the session before.
    pub(crate) fn new(told: u64) -> Self {
        let heard = Heard { last: told, excused: told, renewed: told };
        Line { heard: Mutex::new(heard), to: Mutex::new(None) }
    }

    fn push(&self, message: Message) {
        if let Some(to) = &*self.to.lock() {
            // A receiver that is gone needs no messages.
            let _ = to.send(message);
        }
    }

    /// The server has sent `count` messages so far; all of them should have been heard.
    fn expect(&self, count: u64) {
        let mut heard = self.heard.lock();
        let gap = count > heard.last && count > heard.excused;
        heard.excused = heard.excused.max(count);
        drop(heard);
        if gap {
            self.push(Message::Gap);
        }
    }

    /// A renewal says how many were sent. Those of the last renewal must have arrived by now, later ones may be under way.
    pub(crate) fn renewed(&self, count: u64) {
        let before = std::mem::replace(&mut self.heard.lock().renewed, count);
        self.expect(before);
    }

    /// A message came in: `<number> <text>`.
    fn receive(&self, payload: &str) {
        let parsed = payload.split_once(' ').and_then(|(n, text)| Some((n.parse::<u64>().ok()?, text)));
        let Some((number, text)) = parsed else {
            return tracing::warn!(payload, "a message that is none");
        };
        if number > 0 {
            self.expect(number - 1);
        }
        let mut heard = self.heard.lock();
        if number <= heard.last {
            return;
        }
        heard.last = number;
        drop(heard);
        match decode(text) {
            Some(message) => self.push(message),
            None => tracing::warn!(text, "a message of an unknown kind"),
        }
    }
}

/// Listens until the receiver is dropped.
pub(crate) struct Listener {
    pub(crate) link: Arc<Link>,
    pub(crate) names: Names,
    pub(crate) sid: SessionNo,
    pub(crate) channel: String,
    pub(crate) line: Arc<Line>,
}

impl Listener {
    /// Returns when the first subscription stands.
    pub(crate) async fn start(self) -> Result<UnboundedReceiver<Message>, StoreError> {
        let (to, from) = unbounded_channel();
        *self.line.to.lock() = Some(to.clone());
        let (ready, wait) = oneshot::channel();
        tokio::spawn(self.listen(to, ready));
        wait.await.map_err(|_| StoreError::Engine("the listener ended".to_owned()))??;
        Ok(from)
    }

    async fn listen(self, to: UnboundedSender<Message>, ready: oneshot::Sender<Result<(), StoreError>>) {
        let mut ready = Some(ready);
        let mut pause = Duration::from_millis(10);
        loop {
            match self.subscribe().await {
                Ok((sink, stream)) => {
                    pause = Duration::from_millis(10);
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(Ok(()));
                    }
                    tokio::select! {
                        () = self.pump(sink, stream) => self.line.push(Message::Gap),
                        () = to.closed() => return,
                    }
                }
                Err(error) => {
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(Err(error));
                        return;
                    }
                    tracing::debug!("no messages for now: {error}");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(1)),
                () = to.closed() => return,
            }
        }
    }

    async fn subscribe(&self) -> Result<(PubSubSink, PubSubStream), StoreError> {
        let address = &self.link.target.address;
        let late =
            |_| StoreError::Unreachable { address: address.clone(), reason: "no answer in time".to_owned() };
        let failed = |e: redis::RedisError| match crate::fault::Fault::of(&e, address) {
            crate::fault::Fault::Final(error) => error,
            _ => StoreError::Unreachable { address: address.clone(), reason: e.to_string() },
        };
        let connecting = tokio::time::timeout(STEP, self.link.target.client.get_async_pubsub());
        let (mut sink, stream) = connecting.await.map_err(late)?.map_err(failed)?.split();
        tokio::time::timeout(STEP, sink.subscribe(&self.channel)).await.map_err(late)?.map_err(failed)?;
        // What was sent before the subscription stood is lost.
        let mut count = redis::cmd("HGET");
        count.arg(self.names.sessions()).arg(format!("{}n", self.sid.0));
        let count = self.link.command(&count, self.link.brief(STEP)).await?;
        self.line.expect(if count == redis::Value::Nil { 0 } else { reply::number(&count)? });
        Ok((sink, stream))
    }

    /// Passes messages on until the connection breaks or does not answer.
    async fn pump(&self, mut sink: PubSubSink, mut stream: PubSubStream) {
        loop {
            match tokio::time::timeout(QUIET, stream.next()).await {
                Ok(Some(message)) => {
                    self.line.receive(&String::from_utf8_lossy(message.get_payload_bytes()));
                }
                Ok(None) => return,
                Err(_) => {
                    let alive = tokio::time::timeout(STEP, sink.ping::<redis::Value>()).await;
                    if !matches!(alive, Ok(Ok(_))) {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(line: &Line) -> UnboundedReceiver<Message> {
        let (to, from) = unbounded_channel();
        *line.to.lock() = Some(to);
        from
    }

    fn drain(from: &mut UnboundedReceiver<Message>) -> Vec<Message> {
        std::iter::from_fn(|| from.try_recv().ok()).collect()
    }

    #[test]
    fn a_number_that_is_not_the_next_one_is_a_gap_told_once() {
        let line = Line::new(4);
        let mut from = heard(&line);
        line.receive("5 U 1");
        line.receive("7 U 2");
        line.receive("7 U 2");
        line.receive("8 U 3");
        let unlocked = |n| Message::Unlocked(InodeNo(n));
        assert_eq!(drain(&mut from), [unlocked(1), Message::Gap, unlocked(2), unlocked(3)]);
    }

    #[test]
    fn a_renewal_that_counts_more_than_was_heard_is_a_gap_one_renewal_later() {
        let line = Line::new(0);
        let mut from = heard(&line);
        line.renewed(1);
        assert_eq!(drain(&mut from), [], "it may still be under way");
        line.renewed(1);
        line.renewed(1);
        assert_eq!(drain(&mut from), [Message::Gap]);
        line.receive("1 U 9");
        assert_eq!(drain(&mut from), [Message::Unlocked(InodeNo(9))], "late, but it came");
    }

    #[test]
    fn nonsense_is_no_message() {
        let line = Line::new(0);
        let mut from = heard(&line);
        for bad in ["", "x", "1", "x U 1", "1 Q 5", "2 S", "3 S x5", "4 F 1", "5 U -1"] {
            line.receive(bad);
        }
        assert_eq!(drain(&mut from), []);
    }
}
