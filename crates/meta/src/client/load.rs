//! Loading what operations need: one request for everything, whole buckets and small directories where that pays.

use super::{Client, How, drive::Pace};
use crate::cache::{Cache, SMALL_DIRECTORY, Sent, is_listed};
use crate::store::{ListRequest, LoadRequest, Loaded, SessionRef, StoreError, WatchKey};
use crate::tx::{Snapshot, View, Want};
use carafe_types::{FsError, FsResult};
use std::collections::{BTreeSet, HashSet};
use std::future::Future;
use std::time::Duration;

/// Loads after which a reply is taken although an own commit keeps overtaking it.
const TRIES_WHEN_OVERTAKEN: u32 = 8;
/// The longest pause before a key that another session holds alone is asked for again. Each load asks it to share.
const HELD_PAUSE: Duration = Duration::from_millis(25);

/// Ends "under way" also when the caller goes away.
struct UnderWay<'a> {
    client: &'a Client,
    sent: Sent,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.client.cache.lock().settle(&self.sent);
    }
}

impl Client {
    /// Answers all wants of the view that the cache does not, from one snapshot.
    pub(crate) async fn load_into(&self, view: &mut View, pace: &mut Pace, how: &How) -> FsResult<()> {
        let mut overtaken = 0;
        loop {
            let (request, under_way) = self.request(view);
            if request.is_nothing() {
                view.set_snapshot(None);
                return Ok(());
            }
            match self.store.load(&self.session(), &request).await {
                Ok(loaded) if !loaded.held.is_empty() => {
                    drop(under_way);
                    if pace.is_over() {
                        let keys = loaded.held;
                        return Err(FsError::Unavailable(format!("another session does not share {keys:?}")));
                    }
                    let wait = pace.next_wait(HELD_PAUSE);
                    self.sleep(wait).await;
                }
                Ok(loaded) => {
                    let late = self.take_in(&request, &under_way.sent, &loaded, view);
                    overtaken += 1;
                    if !late || overtaken > TRIES_WHEN_OVERTAKEN {
                        view.set_snapshot(Some(Snapshot::new(request, loaded)));
                        return Ok(());
                    }
                }
                Err(e) => {
                    drop(under_way);
                    self.survive(e, pace, how).await?;
                }
            }
        }
    }

    fn take_in(&self, request: &LoadRequest, sent: &Sent, loaded: &Loaded, view: &View) -> bool {
        self.session.clocks.heard(loaded.time);
        if !loaded.quotas.is_empty() {
            let mut quotas = self.quotas.write();
            for (id, state) in request.quotas.iter().zip(&loaded.quotas) {
                if let Some(state) = state {
                    quotas.learn(*id, state);
                }
            }
        }
        self.cache.lock().absorb(request, sent, loaded, &view.wants, !view.alone)
    }

    fn request(&self, view: &View) -> (LoadRequest, UnderWay<'_>) {
        let trust = self.session.may_trust();
        let mut cache = self.cache.lock();
        let request = build(&mut cache, &view.wants, trust && !view.alone);
        let sent = cache.send(request.watch.clone());
        (request, UnderWay { client: self, sent })
    }

    /// Waits until nobody holds any of `keys` alone, by asking again and again.
    pub(crate) async fn wait_until_shared(
        &self,
        keys: Vec<WatchKey>,
        pace: &mut Pace,
        how: &How,
    ) -> FsResult<()> {
        loop {
            let sent = self.cache.lock().send(keys.clone());
            let under_way = UnderWay { client: self, sent };
            let request = LoadRequest { watch: keys.clone(), ..LoadRequest::default() };
            match self.store.load(&self.session(), &request).await {
                Ok(loaded) if loaded.held.is_empty() => {
                    self.cache.lock().absorb(&request, &under_way.sent, &loaded, &HashSet::new(), true);
                    return Ok(());
                }
                Ok(_) if pace.is_over() => {
                    return Err(FsError::Unavailable(format!("another session does not share {keys:?}")));
                }
                Ok(_) => {
                    let wait = pace.next_wait(HELD_PAUSE);
                    self.sleep(wait).await;
                }
                Err(e) => self.survive(e, pace, how).await?,
            }
        }
    }

    /// Enlists in keys whatever their content.
    pub(crate) async fn enlist(&self, keys: &[WatchKey]) -> FsResult<()> {
        let missing: Vec<WatchKey> = {
            let cache = self.cache.lock();
            keys.iter().filter(|k| !cache.is_enlisted(k)).copied().collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let mut pace = Pace::new();
        loop {
            self.wait_until_shared(missing.clone(), &mut pace, &How::default()).await?;
            if self.stands_in(&missing) || pace.is_over() {
                return Ok(());
            }
            let wait = pace.next_wait(HELD_PAUSE);
            self.sleep(wait).await;
        }
    }

    fn stands_in(&self, keys: &[WatchKey]) -> bool {
        let cache = self.cache.lock();
        keys.iter().all(|k| cache.is_enlisted(k))
    }

    /// A call to the store that may be repeated, until it succeeds or patience ends.
    pub(crate) async fn patiently<T, F>(&self, mut call: impl FnMut(SessionRef) -> F) -> FsResult<T>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut pace = Pace::new();
        loop {
            match call(self.session()).await {
                Ok(value) => return Ok(value),
                Err(e) => self.survive(e, &mut pace, &How::default()).await?,
            }
        }
    }
}

/// The request that answers all `wants`; those that the cache answers are left out if it is trusted.
fn build(cache: &mut Cache, wants: &HashSet<Want>, trust: bool) -> LoadRequest {
    let mut request = LoadRequest::default();
    let mut watch = BTreeSet::new();
    let mut buckets = BTreeSet::new();
    for want in wants {
        if trust && cache.knows(want) {
            continue;
        }
        let key = want.watch_key();
        watch.extend(key);
        let entry = key.and_then(|k| cache.entry(&k));
        match want {
            // A bucket that others watch too is not kept: only what is asked for then.
            Want::Record(record) if is_listed(record) && trust && entry.is_none_or(|e| e.sole) => {
                if let Some(WatchKey::Bucket(b)) = key {
                    buckets.insert(b);
                }
            }
            Want::Record(record) => request.records.push(record.clone()),
            Want::Name(dir, name) => {
                request.names.push((*dir, name.clone()));
                if trust && entry.is_none_or(|e| e.sole && !e.too_big) {
                    add_list(&mut request, *dir, None, SMALL_DIRECTORY + 1);
                } else if trust {
                    // Who looks at names in order (ls -l, find, a backup) needs one request for many of them.
                    let ahead = cache.names_ahead(*dir, name);
                    if ahead > 0 {
                        add_list(&mut request, *dir, Some(name.clone()), ahead);
                    }
                }
            }
            Want::List(dir, after, limit) => {
                let whole = trust && after.is_none() && entry.is_none_or(|e| e.sole && !e.too_big);
                let limit = if whole { (*limit).max(SMALL_DIRECTORY + 1) } else { *limit };
                add_list(&mut request, *dir, after.clone(), limit);
            }
            Want::Quota(q) => request.quotas.push(*q),
        }
    }
    request.buckets = buckets.into_iter().collect();
    request.watch = watch.into_iter().collect();
    request
}

fn add_list(
    request: &mut LoadRequest,
    dir: carafe_types::InodeNo,
    after: Option<carafe_types::EntryName>,
    limit: usize,
) {
    match request.lists.iter_mut().find(|l| l.dir == dir && l.after == after) {
        Some(known) => known.limit = known.limit.max(limit),
        None => request.lists.push(ListRequest { dir, after, limit }),
    }
}

impl LoadRequest {
    fn is_nothing(&self) -> bool {
        self.records.is_empty()
            && self.buckets.is_empty()
            && self.names.is_empty()
            && self.lists.is_empty()
            && self.quotas.is_empty()
    }
}
