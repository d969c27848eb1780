//! What the mount tests share: the random model and its parts, the stacks below a mount, and the promises that kill tests check.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod arena;
pub(crate) mod attr;
pub(crate) mod driver;
pub(crate) mod exec;
pub(crate) mod exec_handle;
pub(crate) mod ops;
pub(crate) mod promise;
pub(crate) mod stack;
pub(crate) mod strategy;
pub(crate) mod sys;
pub(crate) mod tree;
pub(crate) mod upkeep;
pub(crate) mod world;
pub(crate) mod writer;
