//! The input is the fields, one on each line, of a request for a file that exists, also compressed.

#![no_main]

use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use libfuzzer_sys::fuzz_target;
use scrim_fuzz::site::{content, field, get};
use scrim_serve::http::{Coding, Fields};
use scrim_serve::site::{Cache, CacheLimits, Settings, Site};
use tempfile::TempDir;

const PLAIN: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const CODED: &[u8] = b"0123456789ABCDEFGHIJ";

static SITE: LazyLock<(TempDir, Site)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content) in [("file", PLAIN), ("file.gz", CODED)] {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("a file");
        let file = fs::File::options()
            .write(true)
            .open(&path)
            .expect("the file");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        file.set_modified(time).expect("a time of change");
    }
    let mut settings = Settings::new(folder.path());
    settings.precompressed = vec![Coding::Gzip];
    let site = Site::open(&settings).expect("a site");
    (folder, site)
});

fuzz_target!(|input: &[u8]| {
    let lines: Vec<&[u8]> = input.split(|&byte| byte == b'\n').collect();
    // An empty line stands for no field.
    let line = |at: usize| lines.get(at).copied().filter(|line| !line.is_empty());
    let fields = Fields {
        range: line(0),
        if_range: line(1),
        if_match: line(2).map(Into::into),
        if_none_match: line(3).map(Into::into),
        if_modified_since: line(4),
        if_unmodified_since: line(5),
        accept_encoding: line(6).map(Into::into),
        accept: line(7).map(Into::into),
        ..Fields::default()
    };
    let mut cache = Cache::new(CacheLimits::default());
    let mut answer = SITE.1.answer(&get("/file", fields.clone()), &mut cache);
    let is_coded = field(&answer, "content-encoding").is_some();
    assert!(!is_coded || fields.accept_encoding.is_some());
    let whole = if is_coded { CODED } else { PLAIN };
    match answer.status.as_u16() {
        200 => assert_eq!(content(&mut answer), whole),
        206 => {
            assert!(fields.range.is_some());
            let said = field(&answer, "content-range").map(str::to_owned);
            let kind = field(&answer, "content-type").map(str::to_owned);
            let content = content(&mut answer);
            match said {
                Some(said) => {
                    let said = said.strip_prefix("bytes ").expect("a unit");
                    let (range, length) = said.split_once('/').expect("a length");
                    let (first, last) = range.split_once('-').expect("a range");
                    let number = |text: &str| text.parse::<usize>().expect("a number");
                    assert_eq!(number(length), whole.len());
                    assert_eq!(content, whole[number(first)..=number(last)]);
                }
                None => assert!(
                    kind.expect("a type")
                        .starts_with("multipart/byteranges; boundary=")
                ),
            }
        }
        304 => {
            assert!(fields.if_none_match.is_some() || fields.if_modified_since.is_some());
            assert!(field(&answer, "etag").is_some());
        }
        406 => assert!(fields.accept_encoding.is_some()),
        412 => assert!(fields.if_match.is_some() || fields.if_unmodified_since.is_some()),
        416 => {
            assert!(fields.range.is_some());
            assert!(
                field(&answer, "content-range")
                    .expect("a range")
                    .starts_with("bytes */")
            );
        }
        status => panic!("{status}"),
    }
});
