use std::collections::BTreeMap;
use std::fs;
use std::io::{IoSliceMut, Read};
use std::os::unix::fs::symlink;

use super::*;
use crate::files::ReadMode;
use crate::site::listing::Form;
use crate::site::{Found, Settings};

/// All entries of the archive at a target, by name: the content of files, and nothing for folders.
fn entries(settings: &Settings, target: &str) -> BTreeMap<String, Option<Vec<u8>>> {
    let bytes = archive(settings, target).unwrap();
    assert!(bytes.ends_with(&[0; 2 * BLOCK]));
    let mut archive = tar::Archive::new(bytes.as_slice());
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let is_file = entry.header().entry_type().is_file();
        (name, is_file.then_some(content))
    });
    entries.collect()
}

/// The bytes of the archive at a target.
fn archive(settings: &Settings, target: &str) -> io::Result<Vec<u8>> {
    let site = Arc::new(Site::open(settings).unwrap());
    let Found::Archive(names) = site.find(target, Form::Html) else {
        panic!("no archive at {target}");
    };
    let mut source = names.archive(&site, ()).body.take_source().unwrap();
    let mut bytes = Vec::new();
    while let Some(pieces) = source.next()? {
        for piece in pieces {
            match piece {
                Piece::Bytes(piece) => bytes.extend_from_slice(&piece),
                Piece::File(file, range) => {
                    let mut content = vec![0; usize::try_from(range.end).unwrap()];
                    let mut place = [IoSliceMut::new(&mut content)];
                    file.read_at(&mut place, range.start, ReadMode::Wait)?;
                    bytes.extend_from_slice(&content);
                }
            }
        }
    }
    Ok(bytes)
}

fn settings(folder: &tempfile::TempDir) -> Settings {
    let mut settings = Settings::new(folder.path());
    settings.archives = true;
    settings
}

#[test]
fn an_archive_has_what_the_folder_serves() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("a/b/empty")).unwrap();
    let long = "long ".repeat(50);
    let files: [(&str, &[u8]); 5] = [
        ("a/one", b"one"),
        ("a/block", &[7; BLOCK]),
        ("a/b/\u{e4}", &[8; BLOCK + 1]),
        ("a/nothing", b""),
        (&format!("a/{long}"), b"long"),
    ];
    for (name, content) in files {
        fs::write(path(name), content).unwrap();
    }
    fs::write(path("a/.hidden"), "hidden").unwrap();
    fs::write(path("outside"), "outside").unwrap();
    symlink("one", path("a/link")).unwrap();
    symlink("../outside", path("a/link-to-outside-of-the-archive")).unwrap();
    symlink("/etc/passwd", path("a/link-to-outside-of-the-site")).unwrap();
    symlink(".", path("a/circle")).unwrap();
    symlink("nowhere", path("a/dangling")).unwrap();
    let mut wanted: BTreeMap<_, _> = files
        .iter()
        .map(|(name, content)| ((*name).to_owned(), Some(content.to_vec())))
        .collect();
    wanted.insert("a/link".into(), Some(b"one".to_vec()));
    wanted.insert(
        "a/link-to-outside-of-the-archive".into(),
        Some(b"outside".to_vec()),
    );
    for folder in ["a/", "a/b/", "a/b/empty/"] {
        wanted.insert(folder.into(), None);
    }
    let mut settings = settings(&folder);
    assert_eq!(entries(&settings, "/a/?archive=tar"), wanted);
    // Names begin with the last folder's.
    let of_b = entries(&settings, "/a/b/?x=y&archive=tar");
    let names: Vec<_> = of_b.keys().map(String::as_str).collect();
    assert_eq!(names, ["b/", "b/empty/", "b/\u{e4}"]);
    let of_site = entries(&settings, "/?archive=tar");
    assert_eq!(of_site.len(), wanted.len() + 2);
    assert!(of_site.contains_key("site/") && of_site.contains_key("site/a/one"));
    settings.dot_files = true;
    assert!(entries(&settings, "/a/?archive=tar").contains_key("a/.hidden"));
    settings.symlinks = crate::site::Symlinks::None;
    assert!(!entries(&settings, "/a/?archive=tar").contains_key("a/link"));
}

#[test]
fn many_files_come_in_parts_and_those_that_have_gone_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..100 {
        fs::write(folder.path().join(number.to_string()), [1]).unwrap();
    }
    let site = Arc::new(Site::open(&settings(&folder)).unwrap());
    let Found::Archive(names) = site.find("/?archive=tar", Form::Html) else {
        panic!("no archive");
    };
    let mut source = names.archive(&site, ()).body.take_source().unwrap();
    let mut files = 0;
    let mut rounds = 0;
    while let Some(pieces) = source.next().unwrap() {
        rounds += 1;
        let opened = pieces
            .iter()
            .filter(|piece| matches!(piece, Piece::File(..)))
            .count();
        assert!(opened <= ENTRIES_MAX);
        files += opened;
        if rounds == 1 {
            for number in 90..100 {
                fs::remove_file(folder.path().join(number.to_string())).unwrap();
            }
        }
    }
    assert_eq!(files, 90);
}

#[test]
fn sizes_and_names_beyond_ustar_have_pax_headers() {
    let long = "n".repeat(300);
    for (name, size) in [
        ("short", USTAR_SIZE_END - 1),
        ("short", USTAR_SIZE_END),
        (long.as_str(), 1),
        (long.as_str(), u64::MAX >> 8),
    ] {
        let bytes = header_of(name.as_bytes(), Some(size), -1).unwrap();
        assert_eq!(bytes.len() % BLOCK, 0);
        let is_plain = name.len() < 100 && size < USTAR_SIZE_END;
        assert_eq!(bytes.len() == BLOCK, is_plain, "{name} {size}");
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entry = archive.entries().unwrap().next().unwrap().unwrap();
        assert_eq!(entry.path_bytes(), name.as_bytes());
        assert_eq!(entry.size(), size);
    }
}

#[test]
fn the_field_for_the_name_holds_any_name() {
    for (name, value) in [
        (
            &b"site"[..],
            "attachment; filename=\"site.tar\"; filename*=UTF-8''site.tar",
        ),
        (
            "a \"\u{e4}".as_bytes(),
            "attachment; filename=\"a____.tar\"; filename*=UTF-8''a%20%22%C3%A4.tar",
        ),
        (
            b"\xff\r\n",
            "attachment; filename=\"___.tar\"; filename*=UTF-8''%FF%0D%0A.tar",
        ),
    ] {
        assert_eq!(disposition(name), value);
    }
}

#[test]
fn an_archive_is_made_only_where_that_is_allowed_and_of_folders() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "text").unwrap();
    let mut settings = settings(&folder);
    let found =
        |settings: &Settings, target| Site::open(settings).unwrap().find(target, Form::Html);
    assert!(matches!(
        found(&settings, "/file?archive=tar"),
        Found::Resource(_)
    ));
    for target in [
        "/",
        "/?archive=zip",
        "/?archive=tarx",
        "/?xarchive=tar",
        "/?archive",
    ] {
        assert!(
            matches!(found(&settings, target), Found::Answer(_)),
            "{target}"
        );
    }
    settings.archives = false;
    assert!(matches!(
        found(&settings, "/?archive=tar"),
        Found::Answer(_)
    ));
}

#[test]
fn the_site_may_set_a_field_of_archives() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&folder);
    let value = HeaderValue::from_static("inline");
    settings.fields = vec![(header::CONTENT_DISPOSITION, value)];
    let site = Arc::new(Site::open(&settings).unwrap());
    let Found::Archive(names) = site.find("/?archive=tar", Form::Html) else {
        panic!("no archive");
    };
    let answer = names.archive(&site, ());
    let fields = answer.shared.iter().flat_map(|shared| shared.iter());
    let fields = fields.chain(&answer.fields);
    let values: Vec<_> = fields
        .filter(|(name, _)| name == header::CONTENT_DISPOSITION)
        .map(|(_, value)| value)
        .collect();
    assert_eq!(values, ["inline"]);
}

#[test]
fn files_have_names_for_messages_until_the_next_are_made() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    for number in 0..2 * ENTRIES_MAX {
        fs::write(folder.path().join(format!("a/{number:02}\n")), [1]).unwrap();
    }
    let site = Arc::new(Site::open(&settings(&folder)).unwrap());
    let Found::Archive(names) = site.find("/a/?archive=tar", Form::Html) else {
        panic!("no archive");
    };
    let mut source = names.archive(&site, ()).body.take_source().unwrap();
    let mut made = || {
        let pieces = source.next().unwrap().unwrap();
        let files = pieces.into_iter().filter_map(|piece| match piece {
            Piece::File(file, _) => Some(file),
            Piece::Bytes(_) => None,
        });
        let files: Vec<_> = files.collect();
        let names: Vec<_> = files.iter().map(|file| source.name_of(file)).collect();
        (files, names)
    };
    let (first, names) = made();
    assert_eq!(names.len(), ENTRIES_MAX);
    assert_eq!(names[1].as_deref(), Some("a/01\\n"));
    let (_, names) = made();
    assert_eq!(names[0].as_deref(), Some("a/16\\n"));
    assert_eq!(source.name_of(&first[1]), None);
}
