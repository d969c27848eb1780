//! Taking in the reply to a load.

use super::{Cache, Complete, Entry, SMALL_DIRECTORY, Sent, Touched, is_listed};
use crate::store::{DirEntry, Key, ListRequest, LoadRequest, Loaded, WatchKey, Watched};
use crate::tx::Want;
use bytes::Bytes;
use carafe_types::BucketNo;
use std::collections::HashSet;

impl Cache {
    /// Keeps what may be kept of a reply. Returns whether it is too old to answer any of `wants` with: then load again.
    /// `alone`: wants that the cache itself answers by now are never too old (false when the reply must stand for itself).
    pub(crate) fn absorb(
        &mut self,
        request: &LoadRequest,
        sent: &Sent,
        loaded: &Loaded,
        wants: &HashSet<Want>,
        alone: bool,
    ) -> bool {
        for (key, watched) in request.watch.iter().zip(&loaded.watched) {
            self.stand(*key, *watched, sent, loaded.seq);
        }
        for (key, value) in request.records.iter().zip(&loaded.records) {
            self.learn_record(key, value.clone(), loaded.seq);
        }
        for (bucket, found) in request.buckets.iter().zip(&loaded.buckets) {
            self.learn_bucket(*bucket, found, loaded.seq);
        }
        for ((dir, name), value) in request.names.iter().zip(&loaded.names) {
            if self.own.last(&Touched::Name(*dir, name.clone())) <= loaded.seq
                && let Some(e) = self.writable(&WatchKey::Names(*dir), loaded.seq)
            {
                e.learn_name(name, *value, loaded.seq);
            }
        }
        for (list, found) in request.lists.iter().zip(&loaded.lists) {
            self.learn_list(list, found, loaded.seq);
        }
        wants.iter().any(|w| {
            let kept = alone && self.knows(w);
            !kept && self.outdated(w, sent, loaded.seq)
        })
    }

    /// How this session stands in a list, as far as the reply may be believed.
    fn stand(&mut self, key: WatchKey, watched: Watched, sent: &Sent, seq: u64) {
        if !self.quiet_since(&key, sent) || self.answering.contains(&key) {
            return;
        }
        let used = self.tick;
        match watched {
            Watched::Sole if self.is_sole(&key) => {}
            Watched::Sole => {
                // What own commits did to the key while it was not kept is not in a reply older than they.
                let sole = self.own_change_of(&key) <= seq;
                let base = if sole { seq } else { 0 };
                self.entries.insert(key, Entry::new(&key, sole, base, Complete::Nothing).used_at(used));
            }
            Watched::Shared => {
                let too_big = self.entries.get(&key).is_some_and(|e| e.too_big);
                let mut e = Entry::new(&key, false, 0, Complete::Nothing).used_at(used);
                e.too_big = too_big;
                self.entries.insert(key, e);
            }
        }
    }

    /// The entry, if a value read at `seq` may be put in.
    fn writable(&mut self, key: &WatchKey, seq: u64) -> Option<&mut Entry> {
        self.entries.get_mut(key).filter(|e| e.sole && seq >= e.base)
    }

    fn learn_record(&mut self, key: &Key, value: Option<Bytes>, seq: u64) {
        let Some(watch) = key.watch_key() else { return };
        if self.own.last(&Touched::Record(key.clone())) <= seq
            && let Some(e) = self.writable(&watch, seq)
        {
            e.learn_record(key, value, seq);
        }
    }

    fn learn_bucket(&mut self, bucket: BucketNo, found: &[(Key, Bytes)], seq: u64) {
        let key = WatchKey::Bucket(bucket);
        for (record, value) in found.iter().filter(|(k, _)| is_listed(k)) {
            self.learn_record(record, Some(value.clone()), seq);
        }
        if let Some(e) = self.writable(&key, seq).filter(|e| e.skipped <= seq) {
            e.complete = e.complete.max(Complete::Listed);
        }
    }

    fn learn_list(&mut self, list: &ListRequest, found: &[DirEntry], seq: u64) {
        let key = WatchKey::Names(list.dir);
        let touched: Vec<bool> =
            found.iter().map(|f| self.own.last(&Touched::Name(list.dir, f.name.clone())) > seq).collect();
        // Of a part of a directory names may have been forgotten, those of newer own changes as well.
        let unchanged = self.own_change_of(&key) <= seq;
        let Some(e) = self.writable(&key, seq) else { return };
        let whole = list.after.is_none() && found.len() < list.limit;
        if !whole {
            e.too_big |= list.limit > SMALL_DIRECTORY;
            e.bound_names(found.len());
        }
        for (f, _) in found.iter().zip(touched).filter(|(_, touched)| !touched) {
            e.learn_name(&f.name, Some((f.kind, f.ino)), seq);
        }
        if whole {
            e.complete = Complete::Everything;
        } else if unchanged && e.complete == Complete::Nothing {
            let to = found.last().filter(|_| found.len() >= list.limit);
            e.knows_stretch(list.after.as_ref(), to.map(|f| &f.name));
        }
    }
}
