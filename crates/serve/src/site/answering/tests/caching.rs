//! Tests of the files that are kept open.

use super::*;

fn ground() -> Ground {
    let mut ground = Ground::new();
    // So long that no test sees its end.
    ground.cache = Cache::new(CacheLimits {
        lifetime: Duration::from_secs(1000),
        files: 10,
    });
    ground.put("a", "first");
    ground
}

#[test]
fn a_file_is_looked_for_once() {
    let mut ground = ground();
    assert_eq!(content(&mut ground.get("/a")), "first");
    // A removed name is noticed when the time is over.
    fs::remove_file(ground.path("a")).expect("it goes");
    assert_eq!(content(&mut ground.get("/a?query")), "first");
    assert_eq!(ground.cache.files(), 1);
    ground.cache = Cache::new(CacheLimits::default());
    assert_eq!(ground.get("/a").status, StatusCode::NOT_FOUND);
}

#[test]
fn a_file_that_was_written_to_is_opened_again() {
    let mut ground = ground();
    let first = ground.get("/a");
    ground.put("a", "longer than before");
    let mut second = ground.get("/a");
    assert_eq!(second.body.length(), 18);
    assert_ne!(field(&first, "etag"), field(&second, "etag"));
    assert_eq!(content(&mut second), "longer than before");
    ground.touch("a", SETTLED + Duration::from_secs(1));
    assert_ne!(field(&ground.get("/a"), "etag"), field(&second, "etag"));
    assert_eq!(ground.cache.files(), 1);
}

#[test]
fn what_is_not_there_is_looked_for_each_time() {
    let mut ground = ground();
    assert_eq!(ground.get("/b").status, StatusCode::NOT_FOUND);
    ground.put("b", "second");
    assert_eq!(content(&mut ground.get("/b")), "second");
}

#[test]
fn sites_and_codings_have_their_own_files() {
    let mut ground = ground();
    ground.put("a.gz", "gzip");
    let fields = Fields {
        accept_encoding: Some((&b"gzip"[..]).into()),
        ..Fields::default()
    };
    let encoded = Request {
        fields,
        ..request("/a")
    };
    for _ in 0..2 {
        assert_eq!(content(&mut ground.ask(&encoded)), "gzip");
        assert_eq!(content(&mut ground.get("/a")), "first");
    }
    assert_eq!(ground.cache.files(), 2);
    // Another site's file of the same name.
    let mut other = self::ground();
    other.put("a", "other");
    other.cache = std::mem::replace(&mut ground.cache, Cache::new(CacheLimits::default()));
    assert_eq!(content(&mut other.get("/a")), "other");
}

#[test]
fn what_another_thread_found_is_kept_too() {
    let mut ground = ground();
    let site = Arc::new(Site::open(&ground.settings).expect("a site"));
    let request = request("/a");
    assert!(site.cached(&request, &mut ground.cache).is_none());
    let helper = Arc::clone(&site);
    let found = std::thread::spawn(move || helper.find("/a", Form::Html));
    let found = found.join().expect("it ends");
    let answer = site.answer_found(&request, found, &mut ground.cache);
    assert_eq!(answer.status, StatusCode::OK);
    let mut answer = site
        .cached(&request, &mut ground.cache)
        .expect("it is kept");
    assert_eq!(content(&mut answer), "first");
}
