//! What an error of the server or of the network means.

use carafe_meta::store::StoreError;
use redis::{ErrorKind, RedisError};

/// What to do about a failed request.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The connection is gone or silent: it is not known whether the request was carried out.
    Broken(String),
    /// The server did nothing, and may do it a little later.
    Refusing(String),
    /// The server does not have the script yet.
    NoScript,
    /// Trying again is of no use.
    Final(StoreError),
}

impl Fault {
    /// Sorts an error.
    pub(crate) fn of(error: &RedisError, address: &str) -> Self {
        let reason = error.to_string();
        let denied =
            || Fault::Final(StoreError::Denied { address: address.to_owned(), reason: reason.clone() });
        match error.code() {
            Some("NOSCRIPT") => return Fault::NoScript,
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => return denied(),
            Some("OOM") => return Fault::Final(StoreError::Full(reason)),
            Some(
                "READONLY" | "LOADING" | "MISCONF" | "NOREPLICAS" | "MASTERDOWN" | "BUSY" | "CLUSTERDOWN"
                | "TRYAGAIN" | "UNBLOCKED" | "FAILOVER",
            ) => return Fault::Refusing(reason),
            Some("MOVED" | "ASK") => {
                let help = "this node of the cluster does not hold the file system: name the node that does";
                return Fault::Final(StoreError::Engine(format!("{help} ({reason})")));
            }
            _ => {}
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => denied(),
            // TLS: who signed it is not trusted, or it is for another host. Waiting does not mend that.
            ErrorKind::Io if reason.contains("certificate") => {
                Fault::Final(StoreError::Unreachable { address: address.to_owned(), reason })
            }
            ErrorKind::Io | ErrorKind::Parse => Fault::Broken(reason),
            // The server says `ERR max number of clients reached` and closes.
            _ if reason.contains("max number of clients") => Fault::Refusing(reason),
            _ if error.is_io_error() || error.is_unrecoverable_error() => Fault::Broken(reason),
            _ => Fault::Final(StoreError::Engine(reason)),
        }
    }
}
