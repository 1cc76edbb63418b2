use std::fs;

use super::*;
use crate::files::OpenFile;
use crate::site::resource::FieldDefaults;

fn resource() -> Arc<Resource> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    fs::write(&path, "content").expect("a file");
    let file: std::os::fd::OwnedFd = fs::File::open(&path).expect("the file").into();
    let stat = rustix::fs::fstat(&file).expect("its data");
    let defaults = FieldDefaults {
        path: b"file",
        compress: &[],
        content_type: http::HeaderValue::from_static("text/plain"),
        cache_control: None,
        common: &[],
        now: std::time::SystemTime::now(),
    };
    Arc::new(Resource::new(
        OpenFile::new(file, stat),
        Vec::new(),
        &defaults,
    ))
}

fn limits(files: usize) -> CacheLimits {
    CacheLimits {
        lifetime: Duration::from_secs(1),
        files,
    }
}

#[test]
fn an_entry_is_there_until_its_time_is_over() {
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    let mut cache = Cache::new(limits(10));
    cache.put(1, "/a", &resource(), start);
    assert!(cache.get(1, "/a", start).is_some());
    assert!(cache.get(1, "/a", start + second / 2).is_some());
    assert!(cache.get(1, "/a", start + second).is_none());
    assert!(cache.get(1, "/b", start).is_none());
    assert!(cache.get(2, "/a", start).is_none());
    cache.sweep_at(start + second / 2);
    assert_eq!(cache.files(), 1);
    cache.sweep_at(start + second);
    assert_eq!(cache.files(), 0);
    assert!(cache.sites.is_empty() && cache.order.is_empty());
}

#[test]
fn no_more_files_are_open_than_the_limit_and_the_oldest_goes() {
    let start = Instant::now();
    let mut cache = Cache::new(limits(3));
    let resource = resource();
    for count in 0..5 {
        cache.put(1, &format!("/{count}"), &resource, start);
        assert!(cache.files() <= 3 && cache.order.len() <= 3);
    }
    let has = |count| cache.get(1, &format!("/{count}"), start).is_some();
    assert_eq!([0, 1, 2, 3, 4].map(has), [false, false, true, true, true]);
}

#[test]
fn an_entry_that_is_made_anew_all_the_time_leaves_nothing_behind() {
    let start = Instant::now();
    let mut cache = Cache::new(limits(3));
    let resource = resource();
    for _ in 0..100 {
        cache.put(1, "/a", &resource, start);
        cache.remove(1, "/a");
        cache.put(2, "/a", &resource, start);
        assert!(cache.order.len() <= 3 && cache.files() <= 3);
    }
    assert!(cache.get(1, "/a", start).is_none());
    assert!(cache.get(2, "/a", start).is_some());
}

#[test]
fn nothing_is_kept_where_nothing_may_be() {
    let start = Instant::now();
    let resource = resource();
    let mut cache = Cache::new(CacheLimits {
        lifetime: Duration::ZERO,
        files: 10,
    });
    cache.put(1, "/a", &resource, start);
    assert_eq!(cache.files(), 0);
    let mut cache = Cache::new(limits(0));
    cache.put(1, "/a", &resource, start);
    assert_eq!(cache.files(), 0);
    let mut cache = Cache::new(limits(10));
    cache.put(1, &"/a".repeat(600), &resource, start);
    assert_eq!(cache.files(), 0);
}
