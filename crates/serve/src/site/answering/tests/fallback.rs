//! Tests of the file that stands for paths without a file.

use super::*;

fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.put("index.html", "application");
    fixture.put("assets/app.js", "script");
    fixture.put(".secret", "hidden");
    fixture.settings.fallback = Some("/index.html".into());
    fixture
}

#[test]
fn paths_of_the_application_get_its_page() {
    let mut fixture = fixture();
    fixture.settings.cache_rules = vec![CacheRule {
        pattern: "index.html".into(),
        value: "no-cache".into(),
    }];
    for target in [
        "/users/7",
        "/users/7/?tab=b",
        "/users/john.doe",
        "/about.html",
        "/assets/",
        "/index.html/",
    ] {
        let mut answer = fixture.get(target);
        assert_eq!(answer.status, StatusCode::OK, "{target}");
        let fields = ["content-type", "cache-control"].map(|name| field(&answer, name));
        let wanted = [Some("text/html; charset=utf-8"), Some("no-cache")];
        assert_eq!(fields, wanted, "{target}");
        assert_eq!(content(&mut answer), "application", "{target}");
    }
    assert_eq!(content(&mut fixture.get("/assets/app.js")), "script");
    assert_eq!(fixture.get("/assets").status, StatusCode::MOVED_PERMANENTLY);
}

#[test]
fn missing_assets_and_refused_paths_get_their_errors() {
    let mut fixture = fixture();
    std::os::unix::fs::symlink("/etc/passwd", fixture.path("out.js")).expect("a link");
    for (target, status) in [
        ("/assets/gone.js", StatusCode::NOT_FOUND),
        ("/assets/gone.CSS?v=1", StatusCode::NOT_FOUND),
        ("/favicon.ico", StatusCode::NOT_FOUND),
        ("/.secret", StatusCode::NOT_FOUND),
        ("/a/.git/config", StatusCode::NOT_FOUND),
        ("/.well-known/acme-challenge/x", StatusCode::NOT_FOUND),
        ("/out.js", StatusCode::NOT_FOUND),
        ("/../x", StatusCode::BAD_REQUEST),
        ("/%00", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(fixture.get(target).status, status, "{target}");
    }
    fs::remove_file(fixture.path("index.html")).expect("the page");
    assert_eq!(fixture.get("/users/7").status, StatusCode::NOT_FOUND);
}

#[test]
fn made_up_paths_keep_no_file_open() {
    let mut fixture = fixture();
    fixture.cache = Cache::new(CacheLimits::default());
    for number in 0..100 {
        let answer = fixture.get(&format!("/users/{number}"));
        assert_eq!(answer.status, StatusCode::OK);
    }
    assert_eq!(fixture.cache.files(), 0);
}

#[test]
fn a_fallback_is_a_file_that_is_served() {
    let fixture = fixture();
    for path in [
        "",
        "index.html",
        "/",
        "/assets",
        "/gone.html",
        "/index.html/",
        "/.secret",
        "/../x",
        "/%69ndex.html",
    ] {
        let settings = Settings {
            fallback: Some(path.into()),
            ..fixture.settings.clone()
        };
        let error = Site::open(&settings).expect_err(path);
        assert!(matches!(error, SiteError::Fallback { .. }), "{error}");
    }
}
