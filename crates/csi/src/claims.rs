//! PersistentVolumeClaims as path patterns see them.
//!
//! A CSI call brings the name and namespace of its claim, and nothing else of it. Labels and annotations are read from the
//! orchestrator, which this crate knows through one question only; a driver outside Kubernetes has nobody to ask.

use async_trait::async_trait;
use std::collections::BTreeMap;

/// What of a claim can be in a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Reads claims.
#[async_trait]
pub trait Claims: Send + Sync {
    /// The claim, `None` if there is none of that name. The error is a sentence fragment for the user; it may pass.
    async fn claim(&self, namespace: &str, name: &str) -> Result<Option<Claim>, String>;
}

/// Claims in memory, by namespace and name: the twin for tests.
#[derive(Clone, Debug, Default)]
pub struct MemoryClaims(pub BTreeMap<(String, String), Claim>);

#[async_trait]
impl Claims for MemoryClaims {
    async fn claim(&self, namespace: &str, name: &str) -> Result<Option<Claim>, String> {
        Ok(self.0.get(&(namespace.to_owned(), name.to_owned())).cloned())
    }
}
