//! The map on disk, with watcher lists and leases laid over it in memory.

use crate::failed;
use bytes::Bytes;
use carafe_meta::apply::{Kv, LEASE_PREFIX, MapKv, Result, WATCH_PREFIX};
use redb::{ReadOnlyTable, ReadableTable, Table, TableDefinition};
use std::cell::Cell;

/// The one table. Its name carries the version of the layout (`docs/format-store.md`).
pub(crate) const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("carafe-1");

/// What is void when the process ends.
fn is_volatile(key: &[u8]) -> bool {
    matches!(key.first(), Some(&WATCH_PREFIX | &LEASE_PREFIX))
}

/// A table in some transaction.
pub(crate) enum Rows<'txn> {
    /// Of a transaction that may write.
    Write(Table<'txn, &'static [u8], &'static [u8]>),
    /// Of a snapshot.
    Read(ReadOnlyTable<&'static [u8], &'static [u8]>),
    /// Of a file that nothing was ever written to.
    Empty,
}

/// One transaction.
pub(crate) struct DiskKv<'a, 'txn> {
    pub(crate) rows: Rows<'txn>,
    pub(crate) volatile: &'a mut MapKv,
    /// The disk failed: nothing of this transaction may stay.
    pub(crate) broken: Cell<bool>,
}

impl<'a, 'txn> DiskKv<'a, 'txn> {
    pub(crate) fn new(rows: Rows<'txn>, volatile: &'a mut MapKv) -> Self {
        DiskKv { rows, volatile, broken: Cell::new(false) }
    }

    fn note<T>(&self, result: std::result::Result<T, redb::StorageError>) -> Result<T> {
        result.map_err(|e| {
            self.broken.set(true);
            failed("the metadata file", e)
        })
    }

    fn table(&mut self) -> Result<&mut Table<'txn, &'static [u8], &'static [u8]>> {
        match &mut self.rows {
            Rows::Write(table) => Ok(table),
            Rows::Read(_) | Rows::Empty => {
                self.broken.set(true);
                Err(failed("the metadata file", "a step that only reads tried to write"))
            }
        }
    }
}

impl Kv for DiskKv<'_, '_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        if is_volatile(key) {
            return self.volatile.get(key);
        }
        let value = match &self.rows {
            Rows::Write(table) => self.note(table.get(key))?,
            Rows::Read(table) => self.note(table.get(key))?,
            Rows::Empty => None,
        };
        Ok(value.map(|v| Bytes::copy_from_slice(v.value())))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if is_volatile(key) {
            return self.volatile.put(key, value);
        }
        let done = self.table()?.insert(key, value).map(drop);
        self.note(done)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        if is_volatile(key) {
            return self.volatile.delete(key);
        }
        let done = self.table()?.remove(key).map(drop);
        self.note(done)
    }

    fn range(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Bytes)>> {
        if from >= to {
            return Ok(Vec::new());
        }
        let on_disk = match &self.rows {
            Rows::Write(table) => Some(self.note(table.range(from..to))?),
            Rows::Read(table) => Some(self.note(ReadableTable::range(table, from..to))?),
            Rows::Empty => None,
        };
        let mut pairs = self.volatile.range(from, to, limit)?;
        let in_memory = pairs.len();
        for row in on_disk.into_iter().flatten().take(limit) {
            let (key, value) = self.note(row)?;
            pairs.push((key.value().to_vec(), Bytes::copy_from_slice(value.value())));
        }
        if in_memory > 0 {
            pairs.sort();
            pairs.truncate(limit);
        }
        Ok(pairs)
    }
}
