//! URLs of stores and buckets, and that no error shows a password.
#![no_main]
use carafe_csi::{FsAddress, VolumeId, VolumePath};
use carafe_meta_redis::{Options, RedisStore};
use carafe_object::open::Location;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((which, data)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(data) else { return };
    match which % 5 {
        0 => redis(text),
        1 => carafe_meta_embedded::check_any_url(text),
        2 => drop(Location::parse(text)),
        3 => address(text),
        _ => {
            if let Ok(path) = VolumePath::new(text) {
                assert!(!path.as_str().starts_with('/') && path.as_path().is_relative());
            }
            if let Some(id) = VolumeId::parse(text) {
                assert_eq!(id.as_str(), text);
            }
        }
    }
});

/// The first call connects, so this reads the URL and nothing more.
fn redis(text: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _entered = runtime.enter();
    // A password that is longer than any word of an error.
    let secret = "hush-hush-hush";
    for url in [text.to_owned(), format!("redis://user:{secret}@{text}")] {
        if let Err(error) = RedisStore::new(&url, &Options::default()) {
            assert!(text.contains(secret) || !error.to_string().contains(secret), "{error}");
        }
    }
}

fn address(text: &str) {
    if let Ok(address) = FsAddress::new(text, None) {
        assert_eq!(address.public_url().password(), None);
        let whole = address.url_with_password();
        let again = FsAddress::new(whole.reveal(), None).expect("a URL with its password put back is one");
        assert_eq!(again.meta_password(), address.meta_password());
    }
}
