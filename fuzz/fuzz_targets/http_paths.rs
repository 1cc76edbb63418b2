//! The input is a target. The site is a real folder, with links in it that lead out of it.

#![no_main]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use scrim_fuzz::site::{content, field, get};
use scrim_serve::http::{Fields, Method, Request};
use scrim_serve::site::{Cache, CacheLimits, Settings, Site, Symlinks};
use tempfile::TempDir;

static SITES: LazyLock<(TempDir, [Site; 2])> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    for place in [folder.path().join("a/b"), root.join("a/b"), root.join("b")] {
        fs::create_dir_all(place).expect("folders");
    }
    for name in ["f", "a/f", "a/b/f", "b/f", "a/index.html", ".h", "a/.h"] {
        let inside = if name.contains('.') && !name.contains("index") {
            "hidden"
        } else {
            "inside"
        };
        fs::write(root.join(name), inside).expect("a file");
    }
    for name in ["f", "a/f", "a/b/f"] {
        fs::write(folder.path().join(name), "outside").expect("a file");
    }
    for (name, target) in [
        ("i", "a/b"),
        ("o", "../a"),
        ("a/o", "../../a/f"),
        ("a/i", ".."),
        ("p", "/proc/self/root"),
        ("h", ".h"),
    ] {
        symlink(target, root.join(name)).expect("a link");
    }
    let site = |symlinks| {
        let mut settings = Settings::new(&root);
        settings.symlinks = symlinks;
        settings.listings = true;
        Site::open(&settings).expect("a site")
    };
    let sites = [site(Symlinks::None), site(Symlinks::Within)];
    (folder, sites)
});

fuzz_target!(|target: &str| {
    let mut found = Vec::new();
    for site in &SITES.1 {
        let mut cache = Cache::new(CacheLimits::default());
        for method in [Method::Get, Method::Head] {
            let request = Request {
                method,
                ..get(target, Fields::default())
            };
            let mut answer = site.answer(&request, &mut cache);
            let status = answer.status.as_u16();
            match status {
                200 => {
                    let content = content(&mut answer);
                    assert!(
                        content == b"inside"
                            || content.starts_with(b"<!doctype html>")
                            || content == b"hidden"
                    );
                    // A hidden file is found only by the name of a link to it, which is not hidden.
                    assert!(content != b"hidden" || target.contains(['h', '%']));
                }
                301 => {
                    let location = field(&answer, "location").expect("a place");
                    let second = location.as_bytes().get(1);
                    assert!(location.starts_with('/') && !matches!(second, Some(b'/' | b'\\')));
                    assert!(location.bytes().all(|byte| byte.is_ascii_graphic()));
                }
                400 | 404 => {}
                _ => panic!("{status}"),
            }
            found.push(status);
        }
    }
    // Without links the answer is the same or 404, and HEAD gets the same answer as GET.
    let [one, head, other, last] = found[..] else {
        panic!("four answers");
    };
    assert!(one == head && other == last);
    assert!(one == other || one == 404);
});
