//! A transaction as arguments of the commit script, and its answer.

use crate::load;
use crate::messages::encode as encode_message;
use crate::names::{Names, exactly, member, object};
use crate::reply;
use crate::script::{COMMIT, KeyIndex, Request};
use carafe_meta::store::{
    Check, Commit, DeadObject, Done, Failed, Fresh, Key, Outcome, SessionRef, StoreError, Take, WatchKey,
    Write,
};
use carafe_types::{EntryName, InodeNo, QuotaId, SessionNo};
use redis::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::IntoIter;

const SLOT: usize = 3;
const LAST: usize = 4;
const OP: usize = 5;
const FLAGS: usize = 6;

/// A transaction, ready for a slot.
pub(crate) struct Encoded {
    pub(crate) request: Request,
    frees: bool,
    written: Vec<WatchKey>,
    enlist: Vec<WatchKey>,
    checks: Vec<CheckKind>,
}

/// What the fresh value of a check looks like.
#[derive(Clone, Copy)]
enum CheckKind {
    Record,
    Name,
    Empty,
    Watchers,
}

/// What the script says.
pub(crate) enum Answer {
    /// How it ended.
    Ended(Outcome),
    /// An earlier copy was refused, and the slot closed: nothing happened.
    Closed,
}

impl Encoded {
    /// Puts the transaction into a slot.
    pub(crate) fn place(&mut self, slot: usize, last: Option<u64>, op: u64) {
        self.request.set_arg(SLOT, slot);
        self.request.set_arg(LAST, last.map(|n| n.to_string()).unwrap_or_default());
        self.request.set_arg(OP, op);
        self.request.set_arg(FLAGS, if self.frees { "f" } else { "" });
    }

    /// The same, sent once more.
    pub(crate) fn again(&self, request: &Request) -> Request {
        let mut request = request.clone();
        request.set_arg(FLAGS, if self.frees { "fa" } else { "a" });
        request
    }

    /// Reads the answer.
    pub(crate) fn decode(&self, value: Value) -> Result<Answer, StoreError> {
        let (letter, mut items) = reply::answer(value)?;
        let outcome = match letter {
            b'D' => Outcome::Done(done(&mut items)?),
            b'K' => return kept(reply::next(&mut items)?),
            b'C' => Outcome::Conflict(self.conflict(items)?),
            b'H' => Outcome::Held(self.held(items)?),
            b'S' => Outcome::NoSpace(QuotaId(reply::number(&reply::next(&mut items)?)?)),
            b'I' => Outcome::NoInlineSpace,
            other => return Err(reply::odd("the outcome of a commit", &Value::Int(i64::from(other)))),
        };
        Ok(Answer::Ended(outcome))
    }

    fn held(&self, items: IntoIter<Value>) -> Result<Vec<WatchKey>, StoreError> {
        let mut held = BTreeSet::new();
        for item in items {
            let n: i64 = reply::number(&item)?;
            let list = if n > 0 { &self.written } else { &self.enlist };
            let index = usize::try_from(n.unsigned_abs()).ok().and_then(|n| n.checked_sub(1));
            let key = index.and_then(|i| list.get(i));
            held.insert(*key.ok_or_else(|| reply::odd("a key that is held", &item))?);
        }
        Ok(held.into_iter().collect())
    }

    fn conflict(&self, mut items: IntoIter<Value>) -> Result<Vec<Failed>, StoreError> {
        let one = |kind: &CheckKind| {
            let failed = reply::number::<i64>(&reply::next(&mut items)?)? != 0;
            Ok(Failed { failed, fresh: fresh(*kind, reply::next(&mut items)?)? })
        };
        self.checks.iter().map(one).collect()
    }
}

fn done(items: &mut IntoIter<Value>) -> Result<Done, StoreError> {
    let seq = reply::number(&reply::next(items)?)?;
    let (secs, micros) = (reply::next(items)?, reply::next(items)?);
    Ok(Done { seq, time: reply::time(&secs, &micros)? })
}

/// `<seq> <seconds> <microseconds>`, or `-`.
fn kept(value: Value) -> Result<Answer, StoreError> {
    let text = reply::text(value)?;
    if text == "-" {
        return Ok(Answer::Closed);
    }
    let parts: Vec<Value> = text.split(' ').map(|p| Value::BulkString(p.as_bytes().to_vec())).collect();
    Ok(Answer::Ended(Outcome::Done(done(&mut parts.into_iter())?)))
}

fn fresh(kind: CheckKind, value: Value) -> Result<Fresh, StoreError> {
    Ok(match kind {
        CheckKind::Record => Fresh::Record(reply::optional(value)?),
        CheckKind::Name => Fresh::Name(load::name(value)?),
        CheckKind::Empty => Fresh::Empty(reply::number::<i64>(&value)? == 0),
        CheckKind::Watchers => {
            let sids = reply::array(value)?;
            Fresh::Watchers(sids.iter().map(|v| reply::number(v).map(SessionNo)).collect::<Result<_, _>>()?)
        }
    })
}

/// The arguments of a script that names a session, before the script's own.
pub(crate) fn begin(request: &mut Request, session: &SessionRef, who: &str) {
    request.num(session.generation.0).num(session.no.0).arg(who);
}

struct Encoder<'a> {
    names: &'a Names,
    seen: KeyIndex,
    request: Request,
}

/// Writes the arguments down.
pub(crate) fn encode(names: &Names, session: &SessionRef, who: &str, commit: &Commit) -> Encoded {
    let keys = [names.root(), names.sessions(), names.session(session.no), names.quotas()];
    let mut seen = KeyIndex::default();
    keys.iter().enumerate().for_each(|(i, k)| seen.declare(k, i + 1));
    let mut request = Request::new(&COMMIT, keys);
    begin(&mut request, session, who);
    // Slot, last operation, this operation, flags: see `place`.
    request.arg("").arg("").arg("").arg("");
    let mut e = Encoder { names, seen, request };
    let written: BTreeSet<WatchKey> = commit.writes.iter().filter_map(Write::watch_key).collect();
    let written: Vec<WatchKey> = written.into_iter().collect();
    e.watches(&written);
    e.watches(&commit.enlist);
    e.request.num(commit.checks.len());
    let checks = commit.checks.iter().map(|c| e.check(c)).collect();
    e.takes(&commit.takes, commit.take_inline);
    e.request.num(commit.writes.len());
    commit.writes.iter().for_each(|w| e.write(w));
    e.request.num(commit.notify.len());
    for (to, message) in &commit.notify {
        e.request.num(to.0).arg(encode_message(message));
    }
    Encoded { request: e.request, frees: commit.frees, written, enlist: commit.enlist.clone(), checks }
}

impl Encoder<'_> {
    fn key(&mut self, key: String) -> &mut Request {
        self.request.key(&mut self.seen, key)
    }

    fn place(&mut self, (key, field): (String, String)) -> &mut Request {
        self.key(key).arg(field)
    }

    fn watches(&mut self, keys: &[WatchKey]) {
        self.request.num(keys.len());
        for key in keys {
            self.place(self.names.watch(key));
        }
    }

    fn check(&mut self, check: &Check) -> CheckKind {
        match check {
            Check::Same(key, want) => {
                self.request.arg("r");
                let want = match want {
                    Some(bytes) => [b"+", bytes.as_ref()].concat(),
                    None => b"-".to_vec(),
                };
                self.place(self.names.record(key)).arg(want);
                CheckKind::Record
            }
            Check::HasName(dir, name, kind, ino) => {
                self.name(*dir, name, &member(name, *kind, *ino));
                CheckKind::Name
            }
            Check::NoName(dir, name) => {
                self.name(*dir, name, b"");
                CheckKind::Name
            }
            Check::Empty(dir) => {
                self.request.arg("z");
                self.key(self.names.entries(*dir)).arg("").arg("");
                CheckKind::Empty
            }
            Check::Alone(key) => self.watchers("a", key),
            Check::AloneOrFlushing(key) => self.watchers("f", key),
        }
    }

    fn name(&mut self, dir: InodeNo, name: &EntryName, want: &[u8]) {
        let (from, to) = exactly(name);
        self.request.arg("n");
        self.key(self.names.entries(dir)).arg(from).arg(to).arg(want);
    }

    fn watchers(&mut self, kind: &str, key: &WatchKey) -> CheckKind {
        self.request.arg(kind);
        self.place(self.names.watch(key)).arg("");
        CheckKind::Watchers
    }

    fn takes(&mut self, takes: &[Take], inline: i64) {
        let mut sums: BTreeMap<QuotaId, (i64, i64)> = BTreeMap::new();
        for t in takes {
            let sum = sums.entry(t.quota).or_default();
            *sum = (sum.0.saturating_add(t.bytes), sum.1.saturating_add(t.inodes));
        }
        self.request.num(sums.len());
        for (quota, (bytes, inodes)) in sums {
            self.request.num(quota.0);
            self.request.num(bytes).num(bytes.saturating_neg()).num(inodes).num(inodes.saturating_neg());
        }
        self.request.num(inline).num(inline.saturating_neg());
    }

    fn op(&mut self, kind: &str, place: (String, String)) -> &mut Request {
        self.request.arg(kind);
        self.place(place)
    }

    fn write(&mut self, write: &Write) {
        let n = self.names;
        match write {
            Write::Put(key, value) => {
                self.op("h", n.record(key)).arg(value);
            }
            Write::Delete(key) => {
                self.op("d", n.record(key));
            }
            Write::Link(dir, (name, kind, ino)) => {
                self.plain("l", n.entries(*dir), &member(name, *kind, *ino))
            }
            Write::Unlink(dir, (name, kind, ino)) => {
                self.plain("u", n.entries(*dir), &member(name, *kind, *ino))
            }
            Write::Touch(dir) => {
                self.op("t", n.record(&Key::DirTimes(*dir)));
            }
            Write::AddSubdirs(dir, by) => {
                self.op("s", n.record(&Key::DirSubdirs(*dir))).num(by);
            }
            Write::Retain(slice) => {
                self.op("s", n.record(&Key::SliceOwners(*slice))).num(1);
            }
            Write::Release { object, after_ms } => {
                self.op("r", n.record(&Key::SliceOwners(object.slice)));
                self.queue(object).num(after_ms);
            }
            Write::PackLive { object, by, after_ms } => {
                self.op("p", n.record(&Key::PackLive(object.slice))).num(by);
                self.queue(object).num(after_ms);
            }
            Write::QueueDead(ino, after_ms) => {
                self.op("k", (n.dead_inodes(), ino.0.to_string())).num(after_ms);
            }
            Write::UnqueueDead(ino) => self.plain("u", n.dead_inodes(), ino.0.to_string().as_bytes()),
            Write::QueueObject(o, after_ms) => {
                self.op("k", (n.dead_objects(), object(o))).num(after_ms);
            }
            Write::UnqueueObject(o) => self.plain("u", n.dead_objects(), object(o).as_bytes()),
            Write::HoldOpen(ino) => {
                self.op("o", (n.open_holders(), ino.0.to_string()));
            }
            Write::DropOpen(ino) => {
                self.op("x", (n.open_holders(), ino.0.to_string()));
            }
            Write::Reserve(q, by) => {
                self.op("v", (n.quotas(), q.0.to_string())).num(by);
            }
            Write::InitQuota(q, Some((bytes, inodes))) => {
                self.op("q", (n.quotas(), q.0.to_string())).num(bytes).num(inodes);
            }
            Write::InitQuota(q, None) => {
                self.op("z", (n.quotas(), q.0.to_string()));
            }
        }
    }

    fn plain(&mut self, kind: &str, key: String, member: &[u8]) {
        self.request.arg(kind);
        self.key(key).arg(member);
    }

    fn queue(&mut self, o: &DeadObject) -> &mut Request {
        self.key(self.names.dead_objects()).arg(object(o))
    }
}
