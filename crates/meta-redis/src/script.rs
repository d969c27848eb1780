//! The scripts, put together from shared pieces. Rules that they keep are in `docs/format-store.md`.

use redis::Script;
use std::sync::LazyLock;

macro_rules! script {
    ($($(#[$doc:meta])* $name:ident = $($file:literal)+;)*) => {
        $(
            $(#[$doc])*
            pub(crate) static $name: LazyLock<Text> =
                LazyLock::new(|| Text::new(concat!($(include_str!(concat!("lua/", $file, ".lua"))),+)));
        )*
    };
}

/// A script and its name on the server.
pub(crate) struct Text {
    pub(crate) body: &'static str,
    pub(crate) sha: String,
}

impl Text {
    fn new(body: &'static str) -> Self {
        Text { body, sha: Script::new(body).get_hash().to_owned() }
    }
}

script! {
    /// One transaction.
    COMMIT = "session" "watchers" "tell" "commit";
    /// One snapshot, with enlistment.
    LOAD = "session" "watchers" "tell" "load";
    /// Marks in watcher lists.
    WATCH = "session" "watchers" "watch";
    /// One message.
    SEND = "session" "tell" "send";
    /// The lease.
    RENEW = "session" "renew";
    /// The end of another session.
    REAP = "session" "finish" "reap";
    /// The end of one's own.
    UNREGISTER = "session" "finish" "unregister";
    /// Numbers.
    ALLOCATE = "session" "allocate";
    /// Closes a slot against late copies of what was sent in it.
    SLOT = "session" "slot";
    /// The begin of a session.
    REGISTER = "register";
    /// The begin of a file system.
    FORMAT = "format";
    /// What is due in a queue.
    DUE = "due";
    /// Removes buckets that hold nothing but marks of the dead.
    SWEEP = "sweep";
}

/// Keys and arguments of one call.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) script: &'static Text,
    keys: Vec<String>,
    args: Vec<Vec<u8>>,
}

impl Request {
    pub(crate) fn new(script: &'static Text, keys: impl IntoIterator<Item = String>) -> Self {
        Request { script, keys: keys.into_iter().collect(), args: Vec::new() }
    }

    /// Appends an argument.
    pub(crate) fn arg(&mut self, value: impl AsRef<[u8]>) -> &mut Self {
        self.args.push(value.as_ref().to_vec());
        self
    }

    /// Appends a number.
    pub(crate) fn num(&mut self, value: impl ToString) -> &mut Self {
        self.args.push(value.to_string().into_bytes());
        self
    }

    /// Appends the number of a key, which is declared if it is new.
    pub(crate) fn key(&mut self, seen: &mut KeyIndex, key: String) -> &mut Self {
        let keys = &mut self.keys;
        let index = *seen.0.entry(key).or_insert_with_key(|key| {
            keys.push(key.clone());
            keys.len()
        });
        self.num(index)
    }

    pub(crate) fn set_arg(&mut self, index: usize, value: impl ToString) {
        self.args[index] = value.to_string().into_bytes();
    }

    /// The command; `whole` with the text of the script, which the server then keeps.
    pub(crate) fn command(&self, whole: bool) -> redis::Cmd {
        let mut cmd = if whole { redis::cmd("EVAL") } else { redis::cmd("EVALSHA") };
        cmd.arg(if whole { self.script.body } else { self.script.sha.as_str() });
        cmd.arg(self.keys.len());
        cmd.arg(&self.keys);
        for arg in &self.args {
            cmd.arg(arg.as_slice());
        }
        cmd
    }
}

/// Which keys a request has declared already.
#[derive(Default)]
pub(crate) struct KeyIndex(std::collections::HashMap<String, usize>);

impl KeyIndex {
    /// Says that a request begins with this key at this place, counted from 1.
    pub(crate) fn declare(&mut self, key: &str, place: usize) {
        self.0.insert(key.to_owned(), place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_keep_to_what_every_server_and_lua_has() {
        let all =
            [&COMMIT, &LOAD, &WATCH, &SEND, &RENEW, &REAP, &UNREGISTER, &ALLOCATE, &SLOT, &REGISTER, &FORMAT];
        for script in all.into_iter().chain([&DUE, &SWEEP]) {
            for banned in ["cjson", "struct.", "unpack", "#!", "cmsgpack", "bit.", "math.", "pcall", "goto "]
            {
                assert!(!script.body.contains(banned), "{banned}");
            }
            // Division differs between Lua 5.1 and 5.4. Text in comments may have slashes.
            let code = script.body.lines().map(|l| l.split("--").next().unwrap_or_default());
            assert!(code.into_iter().all(|l| !l.contains('/')));
        }
    }

    #[test]
    fn a_key_is_declared_once() {
        let mut seen = KeyIndex::default();
        let mut r = Request::new(&LOAD, ["root".to_owned()]);
        r.key(&mut seen, "a".to_owned()).key(&mut seen, "b".to_owned()).key(&mut seen, "a".to_owned());
        assert_eq!(r.keys, ["root", "a", "b"]);
        assert_eq!(r.args, [b"2", b"3", b"2"]);
    }
}
