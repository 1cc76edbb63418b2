//! Tests of the files that are kept open.

use super::*;

fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    // So long that no test sees its end.
    fixture.cache = Cache::new(CacheLimits {
        lifetime: Duration::from_secs(1000),
        files: 10,
    });
    fixture.put("a", "first");
    fixture
}

#[test]
fn a_file_is_looked_for_once() {
    let mut fixture = fixture();
    assert_eq!(content(&mut fixture.get("/a")), "first");
    // A removed name is noticed when the time is over.
    fs::remove_file(fixture.path("a")).expect("it goes");
    assert_eq!(content(&mut fixture.get("/a?query")), "first");
    assert_eq!(fixture.cache.files(), 1);
    fixture.cache = Cache::new(CacheLimits::default());
    assert_eq!(fixture.get("/a").status, StatusCode::NOT_FOUND);
}

#[test]
fn a_file_that_was_written_to_is_opened_again() {
    let mut fixture = fixture();
    let first = fixture.get("/a");
    fixture.put("a", "longer than before");
    let mut second = fixture.get("/a");
    assert_eq!(second.body.length(), 18);
    assert_ne!(field(&first, "etag"), field(&second, "etag"));
    assert_eq!(content(&mut second), "longer than before");
    fixture.touch("a", SETTLED + Duration::from_secs(1));
    assert_ne!(field(&fixture.get("/a"), "etag"), field(&second, "etag"));
    assert_eq!(fixture.cache.files(), 1);
}

#[test]
fn what_is_not_there_is_looked_for_each_time() {
    let mut fixture = fixture();
    assert_eq!(fixture.get("/b").status, StatusCode::NOT_FOUND);
    fixture.put("b", "second");
    assert_eq!(content(&mut fixture.get("/b")), "second");
}

#[test]
fn sites_and_codings_have_their_own_files() {
    let mut fixture = fixture();
    fixture.put("a.gz", "gzip");
    let fields = Fields {
        accept_encoding: Some((&b"gzip"[..]).into()),
        ..Fields::default()
    };
    let encoded = Request {
        fields,
        ..request("/a")
    };
    for _ in 0..2 {
        assert_eq!(content(&mut fixture.ask(&encoded)), "gzip");
        assert_eq!(content(&mut fixture.get("/a")), "first");
    }
    assert_eq!(fixture.cache.files(), 2);
    // Another site's file of the same name.
    let mut other = self::fixture();
    other.put("a", "other");
    other.cache = std::mem::replace(&mut fixture.cache, Cache::new(CacheLimits::default()));
    assert_eq!(content(&mut other.get("/a")), "other");
}

#[test]
fn what_another_thread_found_is_kept_too() {
    let mut fixture = fixture();
    let site = Arc::new(Site::open(&fixture.settings).expect("a site"));
    let request = request("/a");
    assert!(site.cached(&request, &mut fixture.cache).is_none());
    let helper = Arc::clone(&site);
    let found = std::thread::spawn(move || helper.find("/a", Form::Html));
    let found = found.join().expect("it ends");
    let Reply::Answer(answer) = site.answer_found(&request, found, &mut fixture.cache) else {
        panic!("nothing is compressed");
    };
    assert_eq!(answer.status, StatusCode::OK);
    let Some(Reply::Answer(mut answer)) = site.cached(&request, &mut fixture.cache) else {
        panic!("it is kept");
    };
    assert_eq!(content(&mut answer), "first");
}
