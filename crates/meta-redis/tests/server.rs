//! What is particular to a server: lost answers, restarts, full memory, rights, several file systems.

mod common;

use carafe_meta::store::*;
use carafe_meta_redis::{Options, Patience, RedisStore};
use carafe_testkit::{LatencyProxy, RedisOptions, RedisServer};
use carafe_types::{InodeNo, QuotaId, SessionUuid};
use common::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn through(proxy: &LatencyProxy) -> String {
    format!("redis://127.0.0.1:{}/0", proxy.port())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_happens_once() {
    let redis = RedisServer::start_default().unwrap();
    let proxy = LatencyProxy::start(redis.port(), Duration::ZERO).unwrap();
    let peer = Peer::first(&through(&proxy), &Options::default()).await;
    let before = peer.seq().await;
    for n in 1..=20 {
        proxy.lose_answers(1);
        let take = Commit {
            takes: vec![Take { quota: QuotaId::ROOT, bytes: 10, inodes: 1 }],
            writes: vec![Write::AddSubdirs(DIR, 1), put(70, &n.to_string())],
            ..Commit::default()
        };
        let Outcome::Done(done) = peer.commit(take).await.unwrap() else { panic!("refused") };
        assert_eq!(done.seq, before + n, "the kept answer is the first one");
    }
    assert_eq!(peer.record(Key::DirSubdirs(DIR)).await.as_deref(), Some(&b"20"[..]));
    assert_eq!(peer.quota().await.left_bytes, LEFT - 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_other_call_survives_a_lost_answer_too() {
    let redis = RedisServer::start_default().unwrap();
    let proxy = LatencyProxy::start(redis.port(), Duration::ZERO).unwrap();
    let store = RedisStore::new(&through(&proxy), &Options::default()).unwrap();
    store.info().await.unwrap();
    let lose = || proxy.lose_answers(1);
    lose();
    format(&store).await.expect("the file system that is there is the one we made");
    assert!(matches!(format(&store).await, Err(StoreError::AlreadyFormatted { .. })));
    lose();
    let session = store.register(new_session(1)).await.unwrap();
    assert!(!session.resumed && session.no.0 == 1, "asked twice, registered once: {session:?}");
    lose();
    assert!(store.register(new_session(1)).await.unwrap().resumed);
    lose();
    let first = store.allocate_inodes(&session).await.unwrap();
    assert!(store.allocate_inodes(&session).await.unwrap() > first);
    let watch = LoadRequest { watch: vec![WatchKey::Names(DIR)], ..LoadRequest::default() };
    lose();
    assert_eq!(store.load(&session, &watch).await.unwrap().watched, [Watched::Sole]);
    lose();
    store.watch(&session, &[(WatchKey::Names(DIR), WatchChange::Share)]).await.unwrap();
    lose();
    store.renew(&session).await.unwrap();
    lose();
    store.unregister(&session).await.unwrap();
    lose();
    store.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_whose_answer_was_lost_stays_a_refusal() {
    let redis = RedisServer::start_default().unwrap();
    let proxy = LatencyProxy::start(redis.port(), Duration::ZERO).unwrap();
    let peer = Peer::first(&through(&proxy), &Options::default()).await;
    for _ in 0..5 {
        proxy.lose_answers(1);
        let wrong = Commit {
            checks: vec![Check::Same(Key::Inode(InodeNo(64)), None)],
            writes: vec![put(70, "no")],
            ..Commit::default()
        };
        assert!(matches!(peer.commit(wrong).await.unwrap(), Outcome::Conflict(_)));
        assert!(matches!(peer.commit(one(71, "yes")).await.unwrap(), Outcome::Done(_)), "the slot goes on");
    }
    assert_eq!(peer.record(Key::Inode(InodeNo(70))).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_broken_connections_every_commit_happens_once() {
    let redis = RedisServer::start_default().unwrap();
    let proxy = LatencyProxy::start(redis.port(), Duration::from_millis(1)).unwrap();
    let peer = Arc::new(Peer::first(&through(&proxy), &Options::default()).await);
    let tasks: Vec<_> = (0..8)
        .map(|t| {
            let peer = peer.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    let writes = vec![Write::AddSubdirs(InodeNo(640 + 64 * t), 1)];
                    let outcome = peer.commit(Commit { writes, ..Commit::default() }).await.unwrap();
                    assert!(matches!(outcome, Outcome::Done(_)));
                }
            })
        })
        .collect();
    for n in 0..12 {
        tokio::time::sleep(Duration::from_millis(30)).await;
        if n % 2 == 0 { proxy.break_connections() } else { proxy.lose_answers(1) }
    }
    for task in tasks {
        task.await.unwrap();
    }
    for t in 0..8 {
        let count = peer.record(Key::DirSubdirs(InodeNo(640 + 64 * t))).await;
        assert_eq!(count.as_deref(), Some(&b"50"[..]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_was_given_up_never_lands_after_the_next_one() {
    let redis = RedisServer::start_default().unwrap();
    let proxy = LatencyProxy::start(redis.port(), Duration::ZERO).unwrap();
    let patience = Patience {
        response: Duration::from_millis(100),
        unreachable: Duration::from_millis(300),
        ..Patience::default()
    };
    let peer = Peer::first(&through(&proxy), &Options { patience, ..Options::default() }).await;
    proxy.stall(true);
    let lost = peer.commit(one(70, "late")).await;
    assert!(matches!(lost, Err(StoreError::Unreachable { .. })), "{lost:?}");
    proxy.stall(false);
    assert!(matches!(peer.commit(one(70, "new")).await.unwrap(), Outcome::Done(_)));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(peer.record(Key::Inode(InodeNo(70))).await.as_deref(), Some(&b"new"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_one_round_trip() {
    let redis = RedisServer::start_default().unwrap();
    let proxy = LatencyProxy::start(redis.port(), Duration::ZERO).unwrap();
    let mut peer = Peer::first(&through(&proxy), &Options::default()).await;
    let watch = LoadRequest { watch: vec![WatchKey::Names(DIR)], ..LoadRequest::default() };
    // Scripts are known to the server after their first use.
    peer.commit(one(70, "x")).await.unwrap();
    peer.load(&watch).await.unwrap();
    peer.silence();
    tokio::time::sleep(Duration::from_millis(100)).await;
    proxy.reset();
    for n in 0..10 {
        peer.commit(one(70, &n.to_string())).await.unwrap();
        peer.load(&watch).await.unwrap();
    }
    assert_eq!(proxy.traffic().total(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_come_back_after_the_server_has_forgotten_them() {
    let redis = RedisServer::start_default().unwrap();
    let peer = Peer::first(&redis.url(0), &Options::default()).await;
    for n in 0..3 {
        redis.command(&["SCRIPT", "FLUSH"]).unwrap();
        assert!(matches!(peer.commit(one(70, &n.to_string())).await.unwrap(), Outcome::Done(_)));
        peer.load(&LoadRequest::default()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_wait_for_a_server_that_restarts() {
    let mut redis = RedisServer::start_durable().unwrap();
    let mut peer = Peer::first(&redis.url(0), &Options::default()).await;
    let info = peer.store.info().await.unwrap();
    assert_eq!((info.durability.as_str(), info.unfit.len()), ("always", 0));
    peer.commit(one(70, "before")).await.unwrap();
    redis.kill();
    let store = peer.store.clone();
    let session = peer.session;
    let waiting = tokio::spawn(async move { store.commit(&session, &one(71, "during")).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    redis.restart().unwrap();
    assert!(matches!(waiting.await.unwrap().unwrap(), Outcome::Done(_)));
    assert_eq!(peer.record(Key::Inode(InodeNo(70))).await.as_deref(), Some(&b"before"[..]));
    assert_eq!(peer.message().await, Message::Gap, "what was said meanwhile is not known");
    peer.store.renew(&peer.session).await.unwrap();
    peer.store.send(&peer.session, peer.session.no, Message::Unlocked(DIR)).await.unwrap();
    loop {
        match peer.message().await {
            Message::Gap => {}
            other => return assert_eq!(other, Message::Unlocked(DIR)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_older_is_noticed() {
    let mut redis = RedisServer::start_default().unwrap();
    let peer = Peer::first(&redis.url(0), &Options::default()).await;
    peer.commit(one(70, "kept")).await.unwrap();
    redis.command(&["SAVE"]).unwrap();
    peer.commit(one(70, "lost")).await.unwrap();
    redis.restart().unwrap();
    let renewed = peer.store.renew(&peer.session).await;
    assert!(matches!(renewed, Err(StoreError::Lost(_))), "{renewed:?}");
    let next = peer.commit(one(70, "next")).await;
    assert!(matches!(next, Err(StoreError::Lost(_))), "{next:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_message_connection_is_a_gap_and_heals() {
    let redis = RedisServer::start_default().unwrap();
    let proxy = LatencyProxy::start(redis.port(), Duration::ZERO).unwrap();
    let mut peer = Peer::first(&through(&proxy), &Options::default()).await;
    let other = Peer::join(&redis.url(0), 2, &Options::default()).await;
    other.store.send(&other.session, peer.session.no, Message::Unlocked(InodeNo(1))).await.unwrap();
    assert_eq!(peer.message().await, Message::Unlocked(InodeNo(1)));
    proxy.refuse(true);
    assert_eq!(peer.message().await, Message::Gap);
    other.store.send(&other.session, peer.session.no, Message::Unlocked(InodeNo(2))).await.unwrap();
    proxy.refuse(false);
    assert_eq!(peer.message().await, Message::Gap, "one was sent while nobody listened");
    other.store.send(&other.session, peer.session.no, Message::Unlocked(InodeNo(3))).await.unwrap();
    assert_eq!(peer.message().await, Message::Unlocked(InodeNo(3)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_what_takes_memory_and_passes_what_frees_it() {
    let options = RedisOptions { maxmemory: Some("4mb".to_owned()), ..RedisOptions::default() };
    let redis = RedisServer::start(options).unwrap();
    let peer = Peer::first(&redis.url(0), &Options::default()).await;
    let filler = "f".repeat(30_000);
    let full = async {
        for n in 0..1000 {
            match peer.commit(one(1000 + n, &filler)).await {
                Ok(_) => {}
                Err(error) => return error,
            }
        }
        panic!("never full")
    };
    let error = full.await;
    assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    assert!(peer.store.renew(&peer.session).await.unwrap().fullness.unwrap() > 0.9);
    let watch = LoadRequest { watch: vec![WatchKey::Names(DIR)], ..LoadRequest::default() };
    peer.load(&watch).await.unwrap();
    Peer::join(&redis.url(0), 2, &Options::default()).await;
    for n in 0..20 {
        let unlink = Commit {
            writes: vec![Write::Delete(Key::Inode(InodeNo(1000 + n))), Write::Touch(DIR)],
            takes: vec![Take { quota: QuotaId::ROOT, bytes: -1, inodes: -1 }],
            frees: true,
            ..Commit::default()
        };
        assert!(matches!(peer.commit(unlink).await.unwrap(), Outcome::Done(_)));
    }
    assert!(matches!(peer.commit(one(70, "fits again")).await.unwrap(), Outcome::Done(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfit_servers_are_described() {
    let options = RedisOptions { policy: Some("allkeys-lru".to_owned()), ..RedisOptions::default() };
    let redis = RedisServer::start(options).unwrap();
    let store = RedisStore::new(&redis.url(0), &Options::default()).unwrap();
    let info = store.info().await.unwrap();
    assert!(info.server.starts_with("Redis "), "{}", info.server);
    assert_eq!(info.durability, "volatile");
    assert!(info.unfit.iter().any(|u| u.contains("maxmemory-policy is allkeys-lru")), "{:?}", info.unfit);
    assert!(info.unfit.iter().any(|u| u.starts_with("volatile:")), "{:?}", info.unfit);
    assert!(info.warnings.iter().any(|w| w.contains("maxmemory")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_come_from_the_url_or_the_options() {
    let options = RedisOptions { password: Some("s3cret p@ss".to_owned()), ..RedisOptions::default() };
    let redis = RedisServer::start(options).unwrap();
    let bare = format!("redis://127.0.0.1:{}/0", redis.port());
    for (url, password) in [(bare.clone(), None), (bare.clone(), Some("wrong"))] {
        let options = Options { password: password.map(str::to_owned), ..Options::default() };
        let store = RedisStore::new(&url, &options).unwrap();
        let error = store.info().await.unwrap_err();
        assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
        assert!(!error.to_string().contains("wrong"));
    }
    let right = Options { password: Some("s3cret p@ss".to_owned()), ..Options::default() };
    Peer::first(&bare, &right).await;
    let url = format!("redis://:s3cret%20p%40ss@127.0.0.1:{}/0", redis.port());
    Peer::join(&url, 2, &Options::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_documented_rights_can_do_everything() {
    let redis = RedisServer::start_default().unwrap();
    let rights = "on >pw resetkeys ~{prod}* resetchannels &{prod}m* -@all +@hash +@sortedset +@scripting \
                  +@connection +@pubsub +del +unlink +scan +time +info +wait";
    let mut setuser = vec!["ACL", "SETUSER", "carafe"];
    setuser.extend(rights.split_whitespace());
    redis.command(&setuser).unwrap();
    let url = format!("redis://carafe:pw@127.0.0.1:{}/0?fs=prod", redis.port());
    let mut peer = Peer::first(&url, &Options::default()).await;
    let info = peer.store.info().await.unwrap();
    assert!(info.warnings.iter().any(|w| w.contains("CONFIG GET is refused")), "{:?}", info.warnings);
    peer.commit(one(70, "x")).await.unwrap();
    peer.store.send(&peer.session, peer.session.no, Message::Unlocked(DIR)).await.unwrap();
    assert_eq!(peer.message().await, Message::Unlocked(DIR));
    peer.store.renew(&peer.session).await.unwrap();
    peer.store.scan(&ScanRequest::Buckets { cursor: 0, limit: 100 }).await.unwrap();
    let stranger = RedisStore::new(&url.replace("prod", "other"), &Options::default()).unwrap();
    assert!(matches!(stranger.info().await, Err(StoreError::Denied { .. })));
    peer.store.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unix_socket_and_a_database_number_are_used() {
    let redis = RedisServer::start(RedisOptions { unix: true, ..RedisOptions::default() }).unwrap();
    let peer = Peer::first(&redis.url(3), &Options::default()).await;
    peer.commit(one(70, "in 3")).await.unwrap();
    let other = RedisStore::new(&redis.url(4), &Options::default()).unwrap();
    assert_eq!(other.info().await.unwrap().superblock, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_systems_with_other_tags_and_databases_do_not_touch_each_other() {
    let redis = RedisServer::start_default().unwrap();
    let mut peers = Vec::new();
    for url in
        [redis.url(0), redis.url(1), format!("{}?fs=x", redis.url(0)), format!("{}?fs=carafe2", redis.url(0))]
    {
        peers.push(Peer::first(&url, &Options::default()).await);
    }
    for (n, peer) in peers.iter().enumerate() {
        peer.commit(one(70, &n.to_string())).await.unwrap();
        // All have the same session number, and channels know no databases.
        peer.store.send(&peer.session, peer.session.no, Message::Unlocked(InodeNo(n as u64))).await.unwrap();
    }
    peers[3].store.destroy().await.unwrap();
    for (n, peer) in peers.iter_mut().enumerate() {
        assert_eq!(peer.message().await, Message::Unlocked(InodeNo(n as u64)));
        peer.hears_nothing().await;
        let expected = if n == 3 { None } else { Some(n.to_string().into()) };
        assert_eq!(peer.record(Key::Inode(InodeNo(70))).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_reported_within_five_seconds() {
    let closed = format!("redis://127.0.0.1:{}/0", carafe_testkit::free_port());
    let redis = RedisServer::start_default().unwrap();
    let silent = LatencyProxy::start(redis.port(), Duration::ZERO).unwrap();
    silent.stall(true);
    for url in [closed, through(&silent)] {
        let store = RedisStore::new(&url, &Options::default()).unwrap();
        let start = Instant::now();
        let error = store.info().await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Unreachable { address, .. } if address.contains("127.0.0.1")),
            "{error:?}"
        );
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_refuses_changes_for_a_bounded_time() {
    let redis = RedisServer::start_default().unwrap();
    let patience = Patience { refusing: Duration::from_millis(500), ..Patience::default() };
    let peer = Peer::first(&redis.url(0), &Options { patience, ..Options::default() }).await;
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let error = peer.commit(one(70, "x")).await.unwrap_err();
    assert!(matches!(error, StoreError::Refusing(_)), "{error:?}");
    assert!(peer.store.info().await.unwrap().unfit.iter().any(|u| u.contains("replica")));
    redis.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    assert!(matches!(peer.commit(one(70, "y")).await.unwrap(), Outcome::Done(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_barrier_waits_for_replicas() {
    let primary = RedisServer::start_default().unwrap();
    let url = format!("{}?wait=1", primary.url(0));
    let peer = Peer::first(&url, &Options::default()).await;
    assert_eq!(peer.store.info().await.unwrap().durability, "wait:1");
    let replica = RedisServer::start_default().unwrap();
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).unwrap();
    peer.commit(one(70, "x")).await.unwrap();
    let waits: Vec<_> = (0..5)
        .map(|_| {
            let store = peer.store.clone();
            tokio::spawn(async move { store.barrier().await })
        })
        .collect();
    for wait in waits {
        wait.await.unwrap().unwrap();
    }
    assert!(primary.info("connected_slaves").unwrap() == 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_an_earlier_process_sent_lands_after_its_session_was_resumed() {
    let redis = RedisServer::start_default().unwrap();
    let old = Peer::first(&redis.url(0), &Options::default()).await;
    let new = Peer::join(&redis.url(0), 1, &Options::default()).await;
    assert!(new.session.resumed && new.session.no == old.session.no);
    let late = old.commit(one(70, "late")).await;
    assert_eq!(late.map(drop), Err(StoreError::Fenced));
    new.commit(one(70, "new")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_a_dropped_caller_still_end_well() {
    let redis = RedisServer::start_default().unwrap();
    let proxy = LatencyProxy::start(redis.port(), Duration::from_millis(50)).unwrap();
    let peer = Peer::first(&through(&proxy), &Options::default()).await;
    for n in 0..20 {
        // Most of these callers are gone before the answer comes.
        let _ = tokio::time::timeout(Duration::from_millis(5), peer.commit(one(70, &n.to_string()))).await;
    }
    assert!(matches!(peer.commit(one(71, "x")).await.unwrap(), Outcome::Done(_)));
    assert_eq!(peer.seq().await, 21, "each of them happened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_costs_the_bytes_that_were_promised() {
    let redis = RedisServer::start_default().unwrap();
    let peer = Peer::first(&redis.url(0), &Options::default()).await;
    let before = redis.info("used_memory").unwrap();
    for dir in 0..100 {
        peer.commit(directory(InodeNo((1 << 20) + (dir << 6)), 60)).await.unwrap();
    }
    let each = (redis.info("used_memory").unwrap() - before) / 6000;
    assert!(each <= 200, "{each} bytes a file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_with_a_given_authority() {
    let Some(tls) = Tls::start() else { return eprintln!("openssl or TLS in redis-server is missing") };
    let url = format!("rediss://localhost:{}/0", tls.port);
    let options = Options { ca_pem: Some(tls.ca.clone()), ..Options::default() };
    let peer = Peer::first(&url, &options).await;
    peer.commit(one(70, "over TLS")).await.unwrap();
    let untrusting = RedisStore::new(&url, &Options::default()).unwrap();
    let (start, error) = (Instant::now(), untrusting.info().await.unwrap_err());
    assert!(error.to_string().contains("certificate"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(1), "waiting does not make it trusted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_session_is_fenced_here() {
    let redis = RedisServer::start_default().unwrap();
    let peer = Peer::first(&redis.url(0), &Options::default()).await;
    let stranger = SessionRef { uuid: SessionUuid([9; 16]), ..peer.session };
    assert_eq!(peer.store.renew(&stranger).await.map(drop), Err(StoreError::Fenced));
}
