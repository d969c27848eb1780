//! The map under the interpreter.

use super::Result;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// An ordered map of bytes. Inside one step it is seen by nobody else.
pub trait Kv {
    /// The value, if there is one.
    ///
    /// # Errors
    /// Those of the engine.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// Sets a value.
    ///
    /// # Errors
    /// Those of the engine.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a value; nothing if there is none.
    ///
    /// # Errors
    /// Those of the engine.
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// Up to `limit` pairs with `from <= key < to`, in order.
    ///
    /// # Errors
    /// Those of the engine.
    fn range(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Bytes)>>;
}

/// A map in memory.
#[derive(Debug, Default)]
pub struct MapKv(BTreeMap<Vec<u8>, Bytes>);

impl Kv for MapKv {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.0.get(key).cloned())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key.to_vec(), Bytes::copy_from_slice(value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.remove(key);
        Ok(())
    }

    fn range(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Bytes)>> {
        if from >= to {
            return Ok(Vec::new());
        }
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let pairs = self.0.range::<[u8], _>(bounds).take(limit);
        Ok(pairs.map(|(k, v)| (k.clone(), v.clone())).collect())
    }
}
