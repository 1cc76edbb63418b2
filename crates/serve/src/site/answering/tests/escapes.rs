//! Nothing outside of the site's folder, and nothing that is no file.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A site with a secret beside it, and links of all kinds.
fn fixture(symlinks: Symlinks) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.settings.symlinks = symlinks;
    fixture.settings.listings = true;
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("secret"), "secret").expect("a file");
    fixture.put("file", "file");
    fixture.put("folder/file", "inner");
    for (name, target) in [
        ("out", "../outside/secret"),
        ("out-folder", "../outside"),
        ("folder/out", "../../outside/secret"),
        ("absolute", outside.join("secret").to_str().expect("text")),
        ("in", "folder/file"),
        ("folder/up", "../file"),
        ("in-folder", "folder"),
        ("circle", "circle"),
        ("magic-root", "/proc/self/root"),
        ("magic-cwd", "/proc/self/cwd"),
        ("dangling", "none"),
        ("itself", "."),
        ("in-by-out", "../root/file"),
    ] {
        symlink(target, fixture.path(name)).expect("a link");
    }
    fixture
}

fn status(fixture: &mut Fixture, target: &str) -> u16 {
    let mut answer = fixture.get(target);
    let status = answer.status.as_u16();
    assert!(!content(&mut answer).contains("secret"), "{target}");
    status
}

#[test]
fn no_target_leads_out() {
    let mut fixture = fixture(Symlinks::Within);
    for (target, wanted) in [
        ("/../outside/secret", 400),
        ("/%2e%2e/outside/secret", 400),
        ("/..%2foutside/secret", 400),
        ("/folder/../../outside/secret", 400),
        ("/folder/%2E%2E/%2e./outside/secret", 400),
        ("/folder/..%5c..%5coutside/secret", 404),
        ("/folder/%252e%252e/%252e%252e/outside/secret", 404),
        ("/.../outside/secret", 404),
        ("/file%00", 400),
        ("/file%00.html", 400),
        ("//proc/self/environ", 404),
        ("/file/../file", 200),
        ("/file/", 404),
        ("/file/x", 404),
        ("/none", 404),
        ("/%ff", 404),
    ] {
        assert_eq!(status(&mut fixture, target), wanted, "{target}");
    }
    assert_eq!(status(&mut fixture, &format!("/{}", "a".repeat(256))), 404);
    assert_eq!(
        status(&mut fixture, &format!("/{}", "a/".repeat(4000))),
        404
    );
}

#[test]
fn links_are_followed_as_far_as_the_site_allows() {
    let target = "/folder/up";
    for (symlinks, inside, outside) in [
        (Symlinks::None, 404, 404),
        (Symlinks::Within, 200, 404),
        (Symlinks::Any, 200, 200),
    ] {
        let mut fixture = fixture(symlinks);
        for name in ["/in", target, "/in-folder/file", "/itself/itself/file"] {
            assert_eq!(status(&mut fixture, name), inside, "{symlinks:?} {name}");
        }
        for name in [
            "/out",
            "/out-folder/secret",
            "/folder/out",
            "/absolute",
            "/in-by-out",
        ] {
            let answer = fixture.get(name);
            assert_eq!(answer.status.as_u16(), outside, "{symlinks:?} {name}");
        }
        for name in [
            "/circle",
            "/dangling",
            "/magic-root/etc/passwd",
            "/magic-cwd/Cargo.toml",
            "/magic-root/",
        ] {
            assert_eq!(status(&mut fixture, name), 404, "{symlinks:?} {name}");
        }
    }
}

#[test]
fn a_listing_has_only_what_would_be_served() {
    for (symlinks, inside, outside) in [
        (Symlinks::None, false, false),
        (Symlinks::Within, true, false),
        (Symlinks::Any, true, true),
    ] {
        let mut fixture = fixture(symlinks);
        fixture.put(".hidden", "");
        let _socket = UnixListener::bind(fixture.path("socket")).expect("a socket");
        let page = content(&mut fixture.get("/"));
        let has = |name: &str| page.contains(&format!("href=\"{name}\""));
        assert!(has("file") && has("folder/"));
        assert_eq!([has("in"), has("in-folder/")], [inside; 2], "{symlinks:?}");
        assert_eq!([has("out"), has("absolute")], [outside; 2], "{symlinks:?}");
        assert!(!has("circle") && !has("dangling") && !has(".hidden") && !has("socket"));
        assert!(!has("magic-root/"));
    }
}

#[test]
fn what_is_no_file_is_not_there_and_nobody_waits_for_it() {
    let mut fixture = Fixture::new();
    let fifo = fixture.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("a pipe");
    let _socket = UnixListener::bind(fixture.path("socket")).expect("a socket");
    fixture.settings.symlinks = Symlinks::Any;
    symlink("/dev/null", fixture.path("null")).expect("a link");
    symlink("/dev/tty", fixture.path("tty")).expect("a link");
    for target in ["/fifo", "/socket", "/null", "/tty"] {
        assert_eq!(
            fixture.get(target).status,
            StatusCode::NOT_FOUND,
            "{target}"
        );
    }
}

#[test]
fn hidden_files_are_there_only_where_the_site_says_so() {
    let mut fixture = Fixture::new();
    fixture.put(".git/config", "secret");
    fixture.put("a/.htpasswd", "secret");
    fixture.put(".well-known/acme-challenge/x", "proof");
    for target in ["/.git/config", "/.git", "/a/.htpasswd", "/a/%2ehtpasswd"] {
        assert_eq!(status(&mut fixture, target), 404, "{target}");
    }
    assert_eq!(status(&mut fixture, "/.well-known/acme-challenge/x"), 200);
    fixture.settings.dot_files = true;
    fixture.site = None;
    assert_eq!(fixture.get("/.git/config").status, StatusCode::OK);
}

#[test]
fn what_the_file_system_forbids_is_forbidden() {
    use std::os::unix::fs::PermissionsExt;

    let mut fixture = Fixture::new();
    let path = fixture.put("a", "content");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("its mode");
    // Nothing is forbidden to root.
    let wanted = match fs::File::open(&path) {
        Ok(_) => StatusCode::OK,
        Err(_) => StatusCode::FORBIDDEN,
    };
    assert_eq!(fixture.get("/a").status, wanted);
}

#[test]
fn a_name_that_changes_under_the_walk_never_leads_out() {
    let mut fixture = fixture(Symlinks::Within);
    let is_over = AtomicBool::new(false);
    let (link, place) = (fixture.path("link"), fixture.path("place"));
    let renamed = fixture.path("renamed");
    fs::create_dir(&place).expect("a folder");
    fs::write(place.join("secret"), "public").expect("a file");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A folder and a link out of the site take each other's name without end.
            symlink("../outside", &link).expect("a link");
            while !is_over.load(Ordering::Relaxed) {
                fs::rename(&place, &renamed).expect("a name");
                fs::rename(&link, &place).expect("a name");
                fs::rename(&place, &link).expect("a name");
                fs::rename(&renamed, &place).expect("a name");
            }
        });
        let mut seen = BTreeSet::new();
        for _ in 0..20_000 {
            let mut answer = fixture.get("/place/secret");
            if answer.status == StatusCode::OK {
                seen.insert(content(&mut answer));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(seen, BTreeSet::from(["public".to_owned()]));
    });
}
