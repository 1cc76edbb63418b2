use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};

use super::*;
use crate::site::Settings;
use crate::site::node::Node;

fn list(root: &std::path::Path, target: &str) -> (Listing, FilePath) {
    let tree = Tree::open(&Settings::new(root)).expect("a tree");
    let path = FilePath::parse(target).expect("a path");
    let Ok(Node::Folder(folder)) = tree.find(&path) else {
        panic!("{target} is a folder");
    };
    let listing = Listing::read(&tree, &folder, &path).expect("it is read");
    (listing, path)
}

#[test]
fn folders_come_first_and_names_in_the_order_of_people() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["b10", "b9", "B1", "a"] {
        fs::write(folder.path().join(name), "").expect("a file");
    }
    for name in ["z", "y"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let (listing, path) = list(folder.path(), "/");
    let names = listing.entries.iter().map(Entry::text);
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["y/", "z/", "a", "B1", "b9", "b10"]
    );
    let page = listing.html(&path, false);
    assert!(!page.contains("href=\"../\"") && page.contains("<title>/</title>"));
    assert!(!page.contains("is empty") && !page.contains("holds more"));
}

#[test]
fn any_name_is_text_in_the_page_and_leads_to_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("<b>&");
    fs::create_dir(&inner).expect("a folder");
    let names: [&[u8]; 8] = [
        b"<script>alert(1)<",
        b"\"><img src=x onerror=y>",
        b"javascript:alert(1)",
        b"a&amp;b",
        b"?a#b%41",
        b"\xff\xfe not UTF-8",
        b"line\nbreak\r\x1b[31m",
        "\u{202e}txt.exe".as_bytes(),
    ];
    for name in names {
        fs::write(inner.join(OsStr::from_bytes(name)), "").expect("a file");
    }
    let (listing, path) = list(folder.path(), "/%3Cb%3E&/");
    let page = listing.html(&path, false);
    assert!(page.contains("<title>/&lt;b&gt;&amp;</title>"));
    assert!(page.contains("<a href=\"/%3Cb%3E%26/\">&lt;b&gt;&amp;</a>"));
    assert!(page.contains("href=\"../\""));
    for outlaw in [
        "<script",
        "<img",
        "<b>",
        "href=\"javascript:",
        "\u{202e}",
        "\u{1b}",
        "\r",
        "&amp;amp;b<",
    ] {
        let is_there = page.contains(outlaw);
        assert_eq!(is_there, outlaw.ends_with("b<"), "{outlaw:?}");
    }
    // Each link is a path that names its file.
    let hrefs: Vec<_> = page
        .split("<tr><td><a href=\"")
        .skip(2)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(hrefs.len(), names.len());
    for href in hrefs {
        let target = FilePath::parse(&format!("/{href}")).expect("a path");
        assert!(names.contains(&target.as_bytes()), "{href}");
    }
    let json = listing.json(&path).expect("JSON");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["path"], "/%3Cb%3E%26/");
    assert_eq!(json["entries"].as_array().map(Vec::len), Some(names.len()));
    assert_eq!(json["is_all"], true);
}

#[test]
fn sizes_and_times_are_for_people_in_the_page_and_whole_in_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = fs::File::create(folder.path().join("a")).expect("a file");
    file.set_len(1_572_864).expect("a length");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(951_782_400))
        .expect("a time");
    fs::create_dir(folder.path().join("b")).expect("a folder");
    let (listing, path) = list(folder.path(), "/");
    let page = listing.html(&path, false);
    assert!(page.contains("<td class=\"n\">1.5 MiB</td><td class=\"d\">2000-02-29 00:00</td>"));
    let json = listing.json(&path).expect("JSON");
    let wanted = r#"{"name":"a","href":"a","type":"file","size":1572864,"modified":951782400}"#;
    assert!(json.contains(wanted), "{json}");
    assert!(
        json.contains(r#"{"name":"b","href":"b/","type":"folder","modified":"#),
        "{json}"
    );
}

#[test]
fn a_folder_of_very_many_entries_is_listed_in_part() {
    let folder = tempfile::tempdir().expect("a folder");
    for count in 0..=MOST {
        // Links to one file are quicker made than files.
        let path = folder.path().join(count.to_string());
        match count {
            0 => fs::write(path, "").expect("a file"),
            _ => fs::hard_link(folder.path().join("0"), path).expect("a name"),
        }
    }
    let (listing, path) = list(folder.path(), "/");
    assert_eq!(listing.entries.len(), MOST);
    assert!(
        listing
            .html(&path, false)
            .contains("no more than 10000 are listed")
    );
    assert!(
        listing
            .json(&path)
            .expect("JSON")
            .ends_with("\"is_all\":false}")
    );
    fs::remove_file(folder.path().join("1")).expect("it goes");
    assert!(list(folder.path(), "/").0.is_all);
}

#[test]
fn an_empty_folder_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let (listing, path) = list(folder.path(), "/");
    assert!(listing.html(&path, false).contains("This folder is empty."));
}

#[test]
fn json_is_for_those_who_ask_for_it() {
    for (accept, form) in [
        (None, Form::Html),
        (Some("*/*"), Form::Html),
        (Some("text/html,application/json;q=0.9"), Form::Html),
        (Some("application/json"), Form::Json),
        (Some("Application/JSON; q=0.5, */*"), Form::Json),
        (Some("application/jsonx"), Form::Html),
    ] {
        assert_eq!(Form::wanted(accept.map(str::as_bytes)), form, "{accept:?}");
    }
}
