use std::fs;
use std::io::IoSliceMut;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::files::ReadMode;
use crate::http::{Fields, Piece};
use crate::site::Root;
use crate::site::{CacheLimits, CacheRule, Hsts, Symlinks};

mod caching;
mod conditions;
mod escapes;
mod fallback;
mod walk;

/// A time of change that has settled: 2026-01-01.
const SETTLED: Duration = Duration::from_secs(1_767_225_600);
const SETTLED_DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

/// A site in a folder of its own, beside which there is another.
struct Fixture {
    folder: TempDir,
    settings: Settings,
    site: Option<Site>,
    cache: Cache,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        fs::create_dir(&root).expect("a root");
        Self {
            settings: Settings::new(root),
            folder,
            site: None,
            cache: Cache::new(CacheLimits {
                lifetime: Duration::ZERO,
                files: 100,
            }),
        }
    }

    fn root(&self) -> &Path {
        match &self.settings.root {
            Root::Folder(path) => path,
            Root::Volume { .. } => panic!("it is a folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Puts a file there that has settled, and the folders on its way.
    fn put(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(&path, content).expect("a file");
        self.touch(name, SETTLED);
        path
    }

    fn touch(&self, name: &str, since_1970: Duration) {
        let file = fs::File::options()
            .write(true)
            .open(self.path(name))
            .expect("the file");
        file.set_modified(SystemTime::UNIX_EPOCH + since_1970)
            .expect("a time of change");
    }

    fn get(&mut self, target: &str) -> Answer {
        self.ask(&request(target))
    }

    fn ask(&mut self, request: &Request<'_>) -> Answer {
        if self.site.is_none() {
            self.site = Some(Site::open(&self.settings).expect("a site"));
        }
        let site = self.site.as_ref().expect("a site");
        site.answer(request, &mut self.cache)
    }
}

fn request(target: &str) -> Request<'_> {
    Request {
        method: Method::Get,
        method_name: "GET",
        target,
        scheme: None,
        host: Some("a"),
        fields: Fields::default(),
    }
}

/// The one field of this name.
fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let shared = answer.shared.iter().flat_map(|shared| shared.iter());
    let mut values = shared.chain(&answer.fields).filter(|(it, _)| it == name);
    let value = values
        .next()
        .map(|(_, value)| value.to_str().expect("text"));
    assert!(values.next().is_none(), "{name} twice in {answer:?}");
    value
}

fn content(answer: &mut Answer) -> String {
    let mut content = Vec::new();
    while let Some(piece) = answer.body.front() {
        let count = match piece {
            Piece::Bytes(bytes) => {
                content.extend_from_slice(bytes);
                bytes.len()
            }
            Piece::File(file, range) => {
                let mut buffer = vec![0; usize::try_from(range.end - range.start).expect("small")];
                let count = file
                    .read_at(
                        &mut [IoSliceMut::new(&mut buffer)],
                        range.start,
                        ReadMode::Wait,
                    )
                    .expect("the file is read");
                assert_eq!(count, buffer.len());
                content.extend_from_slice(&buffer);
                count
            }
        };
        answer.body.advance(count as u64);
    }
    assert_eq!(answer.body.length(), 0);
    String::from_utf8(content).expect("text")
}

#[test]
fn text_is_recognised_only_without_an_extension_and_only_if_asked_for() {
    for detect_text in [false, true] {
        let mut fixture = Fixture::new();
        fixture.settings.detect_text = detect_text;
        fixture.settings.index = vec!["INDEX".into()];
        for (name, content, is_text) in [
            ("README", "text", true),
            ("INDEX", "text", true),
            ("binary", "a\0b", false),
            ("a.unheard-of", "text", false),
        ] {
            fixture.put(name, content);
            let target = format!("/{}", name.trim_start_matches("INDEX"));
            let wanted = match is_text && detect_text {
                true => "text/plain; charset=utf-8",
                false => "application/octet-stream",
            };
            assert_eq!(field(&fixture.get(&target), "content-type"), Some(wanted));
        }
        let site = fixture.site.as_ref().expect("a site");
        assert_eq!(site.takes_time("/README"), detect_text);
        assert!(!site.takes_time("/a.txt"));
    }
}

#[test]
fn a_file_is_answered_with_what_it_is() {
    let mut fixture = Fixture::new();
    fixture.put("a.html", "<p>Hello</p>");
    fixture.settings.hsts = Some(Hsts {
        seconds: 60,
        subdomains: true,
        preload: false,
    });
    fixture.settings.fields = vec![(
        header::REFERRER_POLICY,
        HeaderValue::from_static("same-origin"),
    )];
    fixture.settings.cache_rules = vec![
        CacheRule {
            pattern: "*.css".into(),
            value: "no-store".into(),
        },
        CacheRule {
            pattern: "*.html".into(),
            value: "max-age=5".into(),
        },
    ];
    let mut answer = fixture.get("/a.html?x");
    assert_eq!(answer.status, StatusCode::OK);
    for (name, value) in [
        ("content-type", Some("text/html; charset=utf-8")),
        ("last-modified", Some(SETTLED_DATE)),
        ("accept-ranges", Some("bytes")),
        ("cache-control", Some("max-age=5")),
        ("x-content-type-options", Some("nosniff")),
        (
            "strict-transport-security",
            Some("max-age=60; includeSubDomains"),
        ),
        ("referrer-policy", Some("same-origin")),
        ("vary", None),
        ("content-encoding", None),
    ] {
        assert_eq!(field(&answer, name), value, "{name}");
    }
    let etag = field(&answer, "etag").expect("a tag");
    assert!(etag.starts_with('"') && etag.ends_with('"'), "{etag}");
    assert_eq!(answer.body.length(), 12);
    assert_eq!(content(&mut answer), "<p>Hello</p>");
}

#[test]
fn a_field_of_the_site_replaces_that_of_the_servers_own_pages() {
    let mut fixture = Fixture::new();
    fixture.put("a/b", "b");
    fixture.settings.listings = true;
    fixture.settings.fields = [
        (header::REFERRER_POLICY, "same-origin"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'self'"),
    ]
    .map(|(name, value)| (name, HeaderValue::from_static(value)))
    .to_vec();
    let mut json = request("/");
    json.fields.accept = Some(b"application/json".into());
    // The function `field` demands that there is one field of a name.
    for answer in [
        fixture.get("/"),
        fixture.get("/missing"),
        fixture.get("/a"),
        fixture.get("/a/b"),
        fixture.ask(&json),
    ] {
        assert_eq!(field(&answer, "referrer-policy"), Some("same-origin"));
        let policy = field(&answer, "content-security-policy");
        assert_eq!(policy, Some("default-src 'self'"));
    }
}

#[test]
fn an_empty_file_is_answered_with_nothing() {
    let mut fixture = Fixture::new();
    fixture.put("empty", "");
    let mut answer = fixture.get("/empty");
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.front().is_none());
    assert_eq!(content(&mut answer), "");
    let range = Some(&b"bytes=0-"[..]);
    let fields = Fields {
        range,
        ..Fields::default()
    };
    let answer = fixture.ask(&Request {
        fields,
        ..request("/empty")
    });
    assert_eq!(answer.status, StatusCode::OK);
}

#[test]
fn a_folder_is_its_index_or_its_listing_or_nothing() {
    let mut fixture = Fixture::new();
    fixture.put("index.html", "top");
    fixture.put("a/index.htm", "second name");
    fixture.put("b/c", "");
    fixture.put("d/index.html/x", "a folder of that name");
    fixture.settings.index = vec!["index.html".into(), "index.htm".into()];
    assert_eq!(content(&mut fixture.get("/")), "top");
    assert_eq!(content(&mut fixture.get("/?x")), "top");
    assert_eq!(content(&mut fixture.get("/a/")), "second name");
    assert_eq!(fixture.get("/b/").status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.get("/d/").status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.get("/index.html/").status, StatusCode::NOT_FOUND);
    fixture.settings.listings = true;
    fixture.site = None;
    let mut answer = fixture.get("/b/");
    assert_eq!(answer.status, StatusCode::OK);
    assert!(content(&mut answer).contains("href=\"c\""));
    assert_eq!(content(&mut fixture.get("/")), "top");
}

#[test]
fn a_folder_without_its_slash_is_sent_to_its_own_name_on_this_site() {
    let mut fixture = Fixture::new();
    fixture.put("a/b/index.html", "");
    fixture.put("evil.example/x", "");
    fixture.put("\\evil.example/x", "");
    for (target, location) in [
        ("/a", "/a/"),
        ("/a?b=c", "/a/?b=c"),
        ("/a/b", "/a/b/"),
        ("/a/../a/b", "/a/b/"),
        ("/%61", "/a/"),
        ("//evil.example", "/evil.example/"),
        ("///evil.example", "/evil.example/"),
        ("/a/..//evil.example", "/evil.example/"),
        ("/%5Cevil.example", "/%5Cevil.example/"),
        ("/\\evil.example", "/%5Cevil.example/"),
    ] {
        let answer = fixture.get(target);
        assert_eq!(answer.status, StatusCode::MOVED_PERMANENTLY, "{target}");
        assert_eq!(field(&answer, "location"), Some(location), "{target}");
    }
}

#[test]
fn only_reading_is_allowed() {
    let mut fixture = Fixture::new();
    fixture.put("a", "content");
    for (method, status) in [
        (Method::Head, StatusCode::OK),
        (Method::Options, StatusCode::NO_CONTENT),
        (Method::Other, StatusCode::METHOD_NOT_ALLOWED),
        (Method::Unknown, StatusCode::NOT_IMPLEMENTED),
    ] {
        for target in ["/a", "/none"] {
            let answer = fixture.ask(&Request {
                method,
                ..request(target)
            });
            if method == Method::Head && target == "/none" {
                assert_eq!(answer.status, StatusCode::NOT_FOUND);
                continue;
            }
            assert_eq!(answer.status, status);
            let allow = (method != Method::Head).then_some("GET, HEAD, OPTIONS");
            assert_eq!(field(&answer, "allow"), allow);
        }
    }
    let answer = fixture.ask(&Request {
        method: Method::Options,
        ..request("*")
    });
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
}

#[test]
fn what_the_client_takes_is_chosen_of_the_files_beside() {
    let mut fixture = Fixture::new();
    fixture.put("a.js", "plain");
    fixture.put("a.js.br", "brotli");
    fixture.put("a.js.gz", "gzip");
    fixture.put("a.js.zst", "too old");
    fixture.touch("a.js.zst", SETTLED - Duration::from_secs(1));
    let mut ask = |accept: &str| {
        let fields = Fields {
            accept_encoding: Some(accept.as_bytes().into()),
            ..Fields::default()
        };
        fixture.ask(&Request {
            fields,
            ..request("/a.js")
        })
    };
    let mut tags = Vec::new();
    for (accept, text, coding) in [
        ("", "plain", None),
        ("zstd", "plain", None),
        ("gzip, br, zstd", "brotli", Some("br")),
        ("gzip, zstd", "gzip", Some("gzip")),
        ("identity;q=0, *", "brotli", Some("br")),
        // There is nothing that this client takes, and it gets the file as any other one does.
        ("identity;q=0, zstd", "plain", None),
        ("*;q=0", "plain", None),
    ] {
        let mut answer = ask(accept);
        assert_eq!(field(&answer, "content-encoding"), coding, "{accept}");
        assert_eq!(field(&answer, "vary"), Some("accept-encoding"));
        let content_type = Some("text/javascript; charset=utf-8");
        assert_eq!(field(&answer, "content-type"), content_type);
        tags.push(field(&answer, "etag").map(str::to_owned));
        assert_eq!(content(&mut answer), text, "{accept}");
    }
    assert!(tags[0] == tags[1] && tags[2] == tags[4]);
    assert!(tags[0] != tags[2] && tags[0] != tags[3] && tags[2] != tags[3]);

    fixture.settings.precompressed = Vec::new();
    fixture.site = None;
    let answer = fixture.get("/a.js");
    assert_eq!(field(&answer, "vary"), None);
}

#[test]
fn errors_have_a_page_of_the_site_or_the_usual_one() {
    let mut fixture = Fixture::new();
    let page = fixture.folder.path().join("404.html");
    fs::write(&page, "<p>Not here</p>").expect("a page");
    let mut answer = fixture.get("/none");
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    let policy = field(&answer, "content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'"));
    assert_eq!(field(&answer, "x-content-type-options"), Some("nosniff"));
    assert!(content(&mut answer).contains("404 Not Found"));

    fixture.settings.error_pages.insert(404, page);
    fixture.site = None;
    let mut answer = fixture.get("/none");
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(field(&answer, "content-security-policy"), None);
    assert_eq!(content(&mut answer), "<p>Not here</p>");
    assert_eq!(fixture.get("/%").status, StatusCode::BAD_REQUEST);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let fixture = Fixture::new();
    let page = fixture.folder.path().join("page");
    fs::write(&page, vec![b'x'; 1 << 20]).expect("a page");
    let open = |change: &dyn Fn(&mut Settings)| {
        let mut settings = fixture.settings.clone();
        change(&mut settings);
        Site::open(&settings)
    };
    assert!(open(&|settings| drop(settings.error_pages.insert(404, page.clone()))).is_ok());
    fs::write(&page, vec![b'x'; (1 << 20) + 1]).expect("a page");
    let changes: [&dyn Fn(&mut Settings); 10] = [
        &|settings| settings.root = Root::Folder("/none".into()),
        &|settings| settings.root = Root::Folder(page.clone()),
        &|settings| settings.index.push("a/b".into()),
        &|settings| settings.index.push("..".into()),
        &|settings| drop(settings.types.insert("x".into(), "a\nb".into())),
        &|settings| drop(settings.error_pages.insert(200, page.clone())),
        &|settings| drop(settings.error_pages.insert(404, page.clone())),
        &|settings| drop(settings.error_pages.insert(404, "/none".into())),
        &|settings| {
            settings.cache_rules.push(CacheRule {
                pattern: "*".into(),
                value: "a\nb".into(),
            });
        },
        &|settings| {
            let value = HeaderValue::from_static("0");
            settings.fields.push((header::CONTENT_LENGTH, value));
        },
    ];
    for change in changes {
        let error = open(change).expect_err("a refusal");
        assert!(!error.to_string().is_empty());
    }
}
