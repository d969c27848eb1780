//! Which server: URLs and secrets.

use carafe_meta::store::StoreError;
use percent_encoding::percent_decode_str;
use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates,
};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The tag of a file system's keys unless the URL names one.
const TAG: &str = "carafe";

/// What is not in the URL.
#[derive(Clone, Default)]
pub struct Options {
    /// Wins over the user in the URL.
    pub user: Option<String>,
    /// Wins over the password in the URL.
    pub password: Option<String>,
    /// Certificates (PEM) to trust for `rediss://` instead of the usual public ones.
    pub ca_pem: Option<Vec<u8>>,
    /// How long to try.
    pub patience: Patience,
}

/// How long a call goes on trying before it fails.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until a connection stands.
    pub connect: Duration,
    /// Until one request is answered; then the connection is given up and the request sent again on another.
    pub response: Duration,
    /// While the server cannot be reached.
    pub unreachable: Duration,
    /// While the server refuses changes (loading, read-only, too few replicas).
    pub refusing: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            connect: Duration::from_secs(3),
            response: Duration::from_secs(10),
            unreachable: Duration::from_secs(600),
            refusing: Duration::from_secs(60),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.password.as_ref().map(|_| "***");
        f.debug_struct("Options")
            .field("user", &self.user)
            .field("password", &secret)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// A server, a database on it, a file system in that.
pub(crate) struct Target {
    pub(crate) client: Client,
    /// For people, without secrets.
    pub(crate) address: String,
    /// The tag of all keys.
    pub(crate) tag: String,
    /// How many replicas `barrier` waits for.
    pub(crate) wait: Option<u32>,
}

struct Parsed {
    addr: ConnectionAddr,
    address: String,
    user: Option<String>,
    password: Option<String>,
    db: i64,
    tag: String,
    wait: Option<u32>,
}

impl Target {
    pub(crate) fn new(url: &str, options: &Options) -> Result<Self, StoreError> {
        let shown = without_secrets(url);
        let bad = |reason: String| StoreError::BadUrl { url: shown.clone(), reason };
        let parsed = parse(url).map_err(bad)?;
        let mut redis = RedisConnectionInfo::default().set_db(parsed.db).set_skip_set_lib_name();
        if let Some(user) = options.user.as_ref().or(parsed.user.as_ref()) {
            redis = redis.set_username(user);
        }
        if let Some(password) = options.password.as_ref().or(parsed.password.as_ref()) {
            redis = redis.set_password(password);
        }
        let tls = matches!(parsed.addr, ConnectionAddr::TcpTls { .. });
        let tcp = TcpSettings::default().set_nodelay(true);
        let info: ConnectionInfo = parsed.addr.into_connection_info().map_err(|e| bad(e.to_string()))?;
        let info = info.set_tcp_settings(tcp).set_redis_settings(redis);
        let client = if tls {
            // Fails if another part of the program has chosen a provider already: then that one serves.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
            let certificates = TlsCertificates { client_tls: None, root_cert: options.ca_pem.clone() };
            Client::build_with_tls(info, certificates)
        } else {
            Client::open(info)
        };
        let client = client.map_err(|e| bad(e.to_string()))?;
        Ok(Target { client, address: parsed.address, tag: parsed.tag, wait: parsed.wait })
    }
}

/// The URL as it may be shown.
fn without_secrets(url: &str) -> String {
    match (url.split_once("://"), url.rfind('@')) {
        (Some((scheme, _)), Some(end)) => format!("{scheme}://***{}", &url[end..]),
        _ => url.to_owned(),
    }
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn parse(url: &str) -> Result<Parsed, String> {
    if let Some(rest) = url.strip_prefix("redis+unix://") {
        return parse_unix(rest);
    }
    let parsed = url::Url::parse(url).map_err(|e| e.to_string())?;
    let scheme @ ("redis" | "rediss") = parsed.scheme() else {
        return Err(format!("{:?} is none of redis, rediss, redis+unix", parsed.scheme()));
    };
    let host = parsed.host_str().ok_or("a host is missing")?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = parsed.port().unwrap_or(6379);
    let db = match parsed.path().trim_matches('/') {
        "" => Ok(0),
        db => db.parse(),
    };
    let db = db.map_err(|_| "what follows the host must be a database number: redis://host:port/0")?;
    let address = format!("{scheme}://{host}:{port}/{db}");
    let addr = if scheme == "redis" {
        ConnectionAddr::Tcp(host, port)
    } else {
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    };
    let user = Some(parsed.username()).filter(|u| !u.is_empty()).map(decode);
    let password = parsed.password().map(decode);
    let out = Parsed { addr, address, user, password, db, tag: TAG.to_owned(), wait: None };
    options(out, parsed.query().unwrap_or_default())
}

/// `[user:password@]/path[?options]`: no URL by the standard, which wants a host after credentials.
fn parse_unix(rest: &str) -> Result<Parsed, String> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (secrets, path) = match place.find("@/") {
        Some(at) if !place.starts_with('/') => (&place[..at], &place[at + 1..]),
        _ => ("", place),
    };
    if !path.starts_with('/') || path.len() < 2 {
        return Err("the path of a socket is missing: redis+unix:///run/redis/redis.sock?db=0".to_owned());
    }
    let (user, password) = secrets.split_once(':').unwrap_or((secrets, ""));
    let some = |text: &str| Some(text).filter(|t| !t.is_empty()).map(decode);
    let (user, password, path) = (some(user), some(password), decode(path));
    let address = format!("redis+unix://{path}");
    let addr = ConnectionAddr::Unix(PathBuf::from(path));
    options(Parsed { addr, address, user, password, db: 0, tag: TAG.to_owned(), wait: None }, query)
}

fn options(mut out: Parsed, query: &str) -> Result<Parsed, String> {
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        apply(&mut out, &name, &value)?;
    }
    Ok(out)
}

fn apply(out: &mut Parsed, name: &str, value: &str) -> Result<(), String> {
    match name {
        "db" => out.db = value.parse().map_err(|_| format!("db={value:?} is no number"))?,
        "wait" => {
            let replicas = value.parse().ok().filter(|n| (1..=100).contains(n));
            out.wait = Some(replicas.ok_or_else(|| format!("wait={value:?} is no number of replicas"))?);
        }
        "fs" => {
            let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if value.is_empty() || value.len() > 64 || !value.chars().all(fine) {
                return Err(format!("fs={value:?} must be 1 to 64 of a-z A-Z 0-9 - _ ."));
            }
            out.tag = value.to_owned();
        }
        _ => return Err(format!("unknown option {name:?}: there are fs, wait and db")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::new(url, &Options::default()).unwrap()
    }

    #[test]
    fn urls_name_server_database_and_file_system() {
        let t = target("redis://us%40er:p%3Aw@db.example:7000/3?fs=prod&wait=2");
        assert_eq!(
            (t.address.as_str(), t.tag.as_str(), t.wait),
            ("redis://db.example:7000/3", "prod", Some(2))
        );
        let settings = t.client.get_connection_info().redis_settings();
        assert_eq!(
            (settings.username(), settings.password(), settings.db()),
            (Some("us@er"), Some("p:w"), 3)
        );
        let t = target("redis://[::1]");
        assert_eq!((t.address.as_str(), t.tag.as_str(), t.wait), ("redis://::1:6379/0", "carafe", None));
        let t = target("redis+unix://:secret@/run/redis.sock?db=2");
        let settings = t.client.get_connection_info().redis_settings();
        assert_eq!((settings.password(), settings.db()), (Some("secret"), 2));
        assert!(matches!(
            target("rediss://x").client.get_connection_info().addr(),
            ConnectionAddr::TcpTls { .. }
        ));
    }

    #[test]
    fn options_win_over_the_url_and_are_never_shown() {
        let options = Options { user: Some("u".into()), password: Some("hush".into()), ..Options::default() };
        let t = Target::new("redis://a:b@h/1", &options).unwrap();
        let settings = t.client.get_connection_info().redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("u"), Some("hush")));
        assert!(!format!("{options:?}").contains("hush"));
    }

    #[test]
    fn bad_urls_are_refused_without_showing_the_password() {
        for url in [
            "http://x",
            "redis://u:hush@h/x",
            "redis://:hush@h?fs={}",
            "redis://:hush@h?colour=red",
            "redis://:hush@h?wait=0",
            "redis+unix://:hush@/",
            "no url",
        ] {
            let Err(e) = Target::new(url, &Options::default()) else { panic!("{url} was taken") };
            assert!(matches!(e, StoreError::BadUrl { .. }));
            assert!(!e.to_string().contains("hush"), "{e}");
        }
    }
}
