use super::*;

fn image(size: u64) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    drop(FileBackend::create(&path, size).unwrap());
    (folder, path)
}

#[test]
fn what_is_written_is_read_back_from_the_file() {
    let (_folder, path) = image(8192);
    let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
    backend
        .write_at(4096, &[5; 512], Durability::Durable)
        .unwrap();
    backend.write_at(0, &[6; 16], Durability::Cached).unwrap();
    backend.flush().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((bytes.len(), bytes[0], bytes[4096]), (8192, 6, 5));
    backend.write_zeroes(0..8192, Durability::Durable).unwrap();
    assert!(std::fs::read(&path).unwrap().iter().all(|&b| b == 0));
    backend.discard(0..4096).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 8192);
}

#[test]
fn zeros_by_hand_cover_exactly_the_range() {
    let (_folder, path) = image(256 << 10);
    std::fs::write(&path, vec![9; 256 << 10]).unwrap();
    let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
    backend.write_zeroes_by_hand(3..(200 << 10)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[..3], [9; 3]);
    assert!(bytes[3..200 << 10].iter().all(|&b| b == 0));
    assert!(bytes[200 << 10..].iter().all(|&b| b == 9));
}

#[test]
fn a_file_grows_with_what_is_written_behind_its_end_and_is_cut() {
    let (_folder, path) = image(1000);
    let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
    backend.grow(5000, b"end").unwrap();
    assert_eq!(backend.info().size, 5003);
    backend.write_at(4000, &[1], Durability::Durable).unwrap();
    backend.cut(6000).unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[5000..], *b"end");
    backend.cut(1000).unwrap();
    assert_eq!(backend.info().size, 1000);
    assert!(backend.write_at(1000, &[1], Durability::Cached).is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1000);
}

#[test]
fn nothing_makes_the_file_longer() {
    let (_folder, path) = image(1024);
    let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
    assert!(backend.write_at(1024, &[0], Durability::Cached).is_err());
    assert!(backend.write_zeroes(0..1025, Durability::Cached).is_err());
    assert!(backend.discard(512..2048).is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1024);
}

#[test]
fn a_file_that_grew_is_as_large_as_when_it_was_last_measured() {
    let (_folder, path) = image(1024);
    let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
    let other = File::options().write(true).open(&path).unwrap();
    other.set_len(2048).unwrap();
    assert_eq!(backend.info().size, 1024);
    assert!(backend.write_at(1024, &[1], Durability::Cached).is_err());
    assert_eq!(backend.measure().unwrap().size, 2048);
    backend.write_at(1024, &[1], Durability::Cached).unwrap();
    other.set_len(512).unwrap();
    assert_eq!(backend.measure().unwrap().size, 512);
    assert!(backend.write_at(1024, &[1], Durability::Cached).is_err());
}

#[test]
fn a_file_that_shrank_is_an_error_and_not_zeros() {
    let (_folder, path) = image(8192);
    let backend = FileBackend::open(&path, Access::ReadOnly).unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(4096)
        .unwrap();
    let error = backend.read_at(4096, &mut [0; 512]).unwrap_err();
    assert_eq!(error.source.kind(), io::ErrorKind::UnexpectedEof);
    assert!(error.to_string().contains("offset 4096"), "{error}");
}

/// The kernel reports a failed write-back to the first sync only. Eight at once must all hear
/// of it, and every later one too. The full disk is a loop device on a small tmpfs.
#[test]
fn a_failed_flush_fails_for_everybody_and_for_good() {
    let Some(disk) = FullDisk::make() else {
        assert!(std::env::var_os("CI").is_none(), "no loop device in CI");
        println!("skipped: needs root and a loop device");
        return;
    };
    let backend = FileBackend::open(&disk.device, Access::ReadWrite).unwrap();
    backend
        .write_at(0, &vec![1; 8 << 20], Durability::Cached)
        .unwrap();
    std::thread::scope(|scope| {
        let flushes: Vec<_> = (0..8).map(|_| scope.spawn(|| backend.flush())).collect();
        for flush in flushes {
            assert!(flush.join().unwrap().is_err());
        }
    });
    assert!(backend.flush().is_err());
    assert!(backend.write_at(0, &[1; 512], Durability::Durable).is_err());
}

struct FullDisk {
    folder: tempfile::TempDir,
    device: PathBuf,
}

impl FullDisk {
    fn make() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_str()?;
        let run = |command: &str| {
            let output = std::process::Command::new("sh")
                .args(["-c", command])
                .output();
            let output = output.ok().filter(|output| output.status.success())?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        run(&format!("mount -t tmpfs -o size=2m scrim-test {at}"))?;
        run(&format!("truncate -s 16M {at}/image"))?;
        let device = run(&format!("losetup --find --show {at}/image"));
        let device = PathBuf::from(device.unwrap_or_default());
        let disk = Self { folder, device };
        (!disk.device.as_os_str().is_empty()).then_some(disk)
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        let (device, at) = (self.device.display(), self.folder.path().display());
        let command = format!("losetup -d {device}; umount -l {at}");
        let _ = std::process::Command::new("sh")
            .args(["-c", &command])
            .output();
    }
}

/// Reads and writes that are aligned and such that are not see each other's bytes.
#[test]
fn past_the_cache_any_range_is_read_and_written() {
    let (_folder, path) = image(64 << 10);
    let opened = FileBackend::open(&path, Access::ReadWrite).unwrap();
    assert!(matches!(
        opened.medium(),
        Medium::File {
            cached: Some(_),
            ..
        }
    ));
    let backend = match opened.past_the_cache() {
        Ok(backend) => backend,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    assert!(matches!(
        backend.medium(),
        Medium::File { cached: None, .. }
    ));
    let mut buffer = scrim_sys::memory::DataBuffer::zeroed(8192);
    for (round, offset) in [(1, 0), (2, 4096), (3, 512), (4, 8192)] {
        buffer[..4096].fill(round);
        backend
            .write_at(offset, &buffer[..4096], Durability::Cached)
            .unwrap();
        let mut odd = [0; 100];
        backend.read_at(offset + 7, &mut odd).unwrap();
        assert_eq!(odd, [round; 100]);
        backend
            .write_at(offset + 1, &[9; 3], Durability::Cached)
            .unwrap();
        backend.read_at(offset, &mut buffer[4096..]).unwrap();
        assert_eq!(buffer[4096..4101], [round, 9, 9, 9, round]);
    }
    for range in [100..200, 300..20_000, 4096..8192] {
        backend
            .write_at(0, &[5; 32 << 10], Durability::Cached)
            .unwrap();
        let (from, to) = (range.start, range.end);
        backend
            .write_zeroes(from as u64..to as u64, Durability::Cached)
            .unwrap();
        let mut all = vec![9; 32 << 10];
        backend.read_at(0, &mut all).unwrap();
        assert!(all[from..to].iter().all(|&byte| byte == 0));
        assert!(all[..from].iter().chain(&all[to..]).all(|&byte| byte == 5));
    }
    backend.flush().unwrap();
}

/// A change of a part of a block must not undo zeros.
#[test]
fn zeros_past_the_cache_wait_for_a_change_of_a_part_of_a_block() {
    let (_folder, path) = image(64 << 10);
    let opened = FileBackend::open(&path, Access::ReadWrite).unwrap();
    let backend = match opened.past_the_cache() {
        Ok(backend) => backend,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    let Medium::File {
        blocks: Some(blocks),
        ..
    } = backend.medium()
    else {
        panic!("parts of blocks are changed here");
    };
    let alone = blocks.take(0);
    std::thread::scope(|scope| {
        let (ended, has_ended) = std::sync::mpsc::channel();
        let backend = &backend;
        scope.spawn(move || {
            backend.write_zeroes(0..8192, Durability::Cached).unwrap();
            ended.send(()).unwrap();
        });
        let pause = std::time::Duration::from_millis(100);
        assert!(has_ended.recv_timeout(pause).is_err());
        drop(alone);
        has_ended.recv().unwrap();
    });
}

#[test]
fn a_second_writer_is_refused_and_two_readers_are_not() {
    let (_folder, path) = image(1024);
    let writer = FileBackend::open(&path, Access::ReadWrite).unwrap();
    let error = FileBackend::open(&path, Access::ReadWrite).err().unwrap();
    assert!(error.is_busy(), "{error}");
    assert!(FileBackend::open(&path, Access::ReadOnly).is_err());
    drop(writer);
    let _reader = FileBackend::open(&path, Access::ReadOnly).unwrap();
    let _second = FileBackend::open(&path, Access::ReadOnly).unwrap();
    assert!(FileBackend::open(&path, Access::ReadWrite).is_err());
}

/// Every call that reads or writes stays within the window, and at its place.
#[test]
fn a_window_is_all_that_is_read_and_written() {
    let (_folder, path) = image(64 << 10);
    std::fs::write(&path, vec![9; 64 << 10]).unwrap();
    let window = 4096..12_288;
    let part = FileBackend::open_window(&path, window.clone(), Access::ReadWrite).unwrap();
    assert_eq!(part.info().size, 8192);
    assert!(part.path().ends_with("disk.img#4096+8192"));
    part.write_at(0, &[1; 512], Durability::Durable).unwrap();
    part.write_at(8191, &[2], Durability::Cached).unwrap();
    part.write_zeroes(1024..2048, Durability::Cached).unwrap();
    part.discard(4096..8192).unwrap();
    part.reserve(8192).unwrap();
    let mut end = [0; 2];
    for (offset, len) in [(8191, 2), (8192, 1), (u64::MAX, 1), (0, 8193)] {
        let bytes = &mut vec![0; len][..];
        assert!(part.read_at(offset, bytes).is_err(), "{offset} {len}");
        let write = part.write_at(offset, bytes, Durability::Cached);
        assert!(write.is_err(), "{offset} {len}");
        let range = offset..offset.saturating_add(len as u64);
        if !range.is_empty() {
            assert!(part.discard(range.clone()).is_err(), "{offset} {len}");
            let zeroed = part.write_zeroes(range, Durability::Cached);
            assert!(zeroed.is_err(), "{offset} {len}");
        }
    }
    assert!(part.reserve(8193).is_err() && part.grow(8192, b"end").is_err());
    part.read_at(8190, &mut end).unwrap();
    part.cut(10).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 64 << 10);
    let outside = bytes[..4096].iter().chain(&bytes[12_288..]);
    assert!(outside.copied().all(|byte| byte == 9));
    assert_eq!((bytes[4096], bytes[4096 + 1024], bytes[5000]), (1, 0, 9));
    // The file becomes shorter, and longer again.
    let file = File::options().write(true).open(&path).unwrap();
    for (len, size) in [(5000, 904), (100, 0), (1 << 20, 8192)] {
        file.set_len(len).unwrap();
        assert_eq!(part.measure().unwrap().size, size);
    }
    drop(part);
    file.set_len(64 << 10).unwrap();
    for wrong in [0..65_537, 65_536..65_536, 65_536..65_537] {
        let refused = FileBackend::open_window(&path, wrong, Access::ReadOnly).err();
        let refused = refused.unwrap().to_string();
        assert!(refused.contains("65536 bytes"), "{refused}");
    }
}

/// Windows exclude each other by the bytes that they share; a user of the whole file excludes them all.
#[test]
fn windows_that_overlap_exclude_each_other() {
    use Access::{ReadOnly, ReadWrite};
    let (_folder, path) = image(64 << 10);
    let open = |window, access| FileBackend::open_window(&path, window, access);
    let first = open(0..4096, ReadWrite).unwrap();
    let second = open(4096..8192, ReadWrite).unwrap();
    let third = open(8192..12_288, ReadOnly).unwrap();
    let fourth = open(8192..20_000, ReadOnly).unwrap();
    for access in [ReadOnly, ReadWrite] {
        assert!(open(4095..4097, access).err().unwrap().is_busy());
        assert!(FileBackend::open(&path, access).err().unwrap().is_busy());
    }
    assert!(open(12_000..12_001, ReadWrite).err().unwrap().is_busy());
    drop((first, second));
    // Only readers are left.
    assert!(FileBackend::open(&path, ReadWrite).is_err());
    let whole = FileBackend::open(&path, ReadOnly).unwrap();
    let beside = open(30_000..40_000, ReadOnly).unwrap();
    assert!(open(40_000..41_000, ReadWrite).err().unwrap().is_busy());
    drop((third, fourth, whole, beside));
    let whole = FileBackend::open(&path, ReadWrite).unwrap();
    for access in [ReadOnly, ReadWrite] {
        assert!(open(0..512, access).err().unwrap().is_busy());
    }
    drop(whole);
    open(0..512, ReadWrite).unwrap();
}

#[test]
fn the_header_lock_is_a_flock_only_while_held() {
    let (_folder, path) = image(1024);
    let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
    let other = File::open(&path).unwrap();
    let try_shared =
        || rustix::fs::flock(&other, rustix::fs::FlockOperation::NonBlockingLockShared);
    let lock = backend.lock_header(LockKind::Write).unwrap();
    assert_eq!(try_shared(), Err(Errno::AGAIN));
    drop(lock);
    try_shared().unwrap();
}

#[test]
fn a_read_only_backend_refuses_writes() {
    let (_folder, path) = image(1024);
    let backend = FileBackend::open(&path, Access::ReadOnly).unwrap();
    assert!(backend.write_at(0, &[1], Durability::Cached).is_err());
    assert!(backend.info().read_only);
}

#[test]
fn a_folder_is_not_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let error = FileBackend::open(folder.path(), Access::ReadOnly)
        .err()
        .unwrap();
    assert!(error.to_string().contains("neither"), "{error}");
}
