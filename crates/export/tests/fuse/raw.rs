//! The file is a disk: its data, its size, its durability, and the calls that it refuses.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::process::Command;

use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use scrim_export::fuse::{MountOptions, PunchHole, RawFile};
use scrim_seeded::Random;
use scrim_sys::memory::DataBuffer;

use crate::common::{MIB, NAME, SIZE, Stage, pattern, tool, volume};

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
    result.unwrap_err().raw_os_error()
}

fn number(errno: Errno) -> Option<i32> {
    Some(errno.raw_os_error())
}

/// Opens the file with further flags of `open(2)`.
fn open_with(stage: &Stage, flags: OFlags) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(stage.path())
        .unwrap()
}

#[test]
fn a_folder_has_one_file_of_the_size_of_the_volume() {
    let Some(stage) = Stage::set() else { return };
    let folder = stage.path().parent().unwrap().to_owned();
    let names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, [NAME]);
    let file = std::fs::metadata(stage.path()).unwrap();
    assert_eq!((file.len(), file.mode()), (SIZE, 0o100_600));
    assert_eq!(file.uid(), rustix::process::getuid().as_raw());
    assert_eq!(std::fs::metadata(&folder).unwrap().mode(), 0o040_500);
    let state = rustix::fs::statvfs(&folder).unwrap();
    assert_eq!(state.f_blocks * state.f_frsize, SIZE);
    let missing = std::fs::metadata(folder.join("other"));
    assert_eq!(errno(missing), number(Errno::NOENT));
    let made = File::create_new(folder.join("other"));
    assert_eq!(errno(made), number(Errno::PERM));
    assert_eq!(
        errno(std::fs::remove_file(stage.path())),
        number(Errno::PERM)
    );
    let text = "user.text";
    let xattr = rustix::fs::getxattr(stage.path(), text, &mut [0u8; 8]);
    assert_eq!(xattr, Err(Errno::OPNOTSUPP));
    stage.end();
}

/// Random ranges, which are neither aligned nor short, on both sides of each other.
fn data_agrees(stage: &Stage) {
    let mut model = stage.plaintext(0, usize::try_from(SIZE).unwrap());
    let file = stage.open();
    let mut random = Random::new(7);
    for round in 0..200 {
        let len = random.index(3 << 20) >> random.index(20);
        let offset = random.below(SIZE - len as u64);
        let at = usize::try_from(offset).unwrap();
        if random.one_in(2) {
            let data = pattern(round, len);
            file.write_all_at(&data, offset).unwrap();
            model[at..at + len].copy_from_slice(&data);
        } else {
            let mut data = vec![0; len];
            file.read_exact_at(&mut data, offset).unwrap();
            assert!(data == model[at..at + len], "round {round}");
        }
    }
    file.sync_all().unwrap();
    assert!(stage.plaintext(0, model.len()) == model);
}

#[test]
fn data_agrees_with_the_volume() {
    let Some(stage) = Stage::set() else { return };
    data_agrees(&stage);
    stage.end();
}

#[test]
fn data_agrees_with_the_volume_through_the_page_cache() {
    let Some(stage) = Stage::cached() else { return };
    data_agrees(&stage);
    stage.end();
}

#[test]
fn data_in_the_page_cache_reaches_the_volume_at_the_end() {
    let Some(stage) = Stage::cached() else { return };
    let data = pattern(1, 1 << 20);
    let file = stage.open();
    file.write_all_at(&data, 4096).unwrap();
    drop(file);
    stage.mounted.unmount().unwrap();
    assert!(stage.plaintext(4096, data.len()) == data);
    stage.end();

    let Some(stage) = Stage::cached() else { return };
    let file = stage.open();
    file.write_all_at(&data, 4096).unwrap();
    let volume = std::sync::Arc::clone(&stage.volume);
    assert_eq!(stage.mounted.stop(), 0, "while the file is open");
    let mut read = vec![0; data.len()];
    volume.read(4096, &mut read).unwrap();
    assert!(read == data);
}

#[test]
fn past_the_page_cache_of_programs_too() {
    let Some(stage) = Stage::set() else { return };
    let file = open_with(&stage, OFlags::DIRECT);
    let mut buffer = DataBuffer::zeroed(1 << 20);
    buffer.copy_from_slice(&pattern(3, 1 << 20));
    file.write_all_at(&buffer, MIB).unwrap();
    assert!(stage.plaintext(MIB, 1 << 20) == *buffer);
    let mut read = DataBuffer::zeroed(1 << 20);
    file.read_exact_at(&mut read, MIB).unwrap();
    assert!(*read == *buffer);
    drop(file);
    stage.end();
}

#[test]
fn the_file_ends_where_the_volume_does() {
    let Some(stage) = Stage::set() else { return };
    let file = stage.open();
    let data = pattern(2, 8192);
    assert_eq!(file.write_at(&data, SIZE - 4096).unwrap(), 4096);
    assert_eq!(stage.plaintext(SIZE - 4096, 4096), data[..4096]);
    assert_eq!(errno(file.write_at(&data, SIZE)), number(Errno::NOSPC));
    assert_eq!(file.read_at(&mut [0; 100], SIZE - 10).unwrap(), 10);
    assert_eq!(file.read_at(&mut [0; 100], SIZE).unwrap(), 0);
    assert_eq!(file.metadata().unwrap().len(), SIZE);
    assert_eq!(seek(&file, SeekFrom::Data(4096)), Ok(4096));
    assert_eq!(seek(&file, SeekFrom::Hole(4096)), Ok(SIZE));
    assert_eq!(seek(&file, SeekFrom::Data(SIZE)), Err(Errno::NXIO));
    drop(file);
    stage.end();
}

#[test]
fn its_size_mode_and_owner_cannot_be_changed() {
    for set in [Stage::set, Stage::cached] {
        let Some(stage) = set() else { return };
        let file = stage.open();
        assert_eq!(errno(file.set_len(SIZE - 1)), number(Errno::PERM));
        assert_eq!(errno(file.set_len(SIZE + 1)), number(Errno::PERM));
        file.set_len(SIZE).unwrap();
        let emptied = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(stage.path());
        assert_eq!(errno(emptied), number(Errno::PERM));
        let changed = rustix::fs::chmod(stage.path(), 0o644.into());
        assert_eq!(changed, Err(Errno::PERM));
        rustix::fs::chmod(stage.path(), 0o600.into()).unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000);
        file.set_modified(time).unwrap();
        assert_eq!(file.metadata().unwrap().mtime(), 1000);
        assert_eq!(file.metadata().unwrap().len(), SIZE);
        drop(file);
        stage.end();
    }
}

#[test]
fn a_resized_volume_is_a_resized_file() {
    let Some(stage) = Stage::set() else { return };
    stage.volume.resize(SIZE / 2).unwrap();
    // The kernel asks for the attributes again at an open.
    let file = stage.open();
    let past = file.write_at(&[1; 512], SIZE / 2);
    assert_eq!(errno(past), number(Errno::NOSPC));
    file.set_len(SIZE / 2).unwrap();
    drop(file);
    stage.end();
}

#[test]
fn what_is_synced_is_durable_and_nothing_else() {
    let Some(stage) = Stage::set() else { return };
    let counts = || stage.backend.counts();
    let file = stage.open();
    file.write_all_at(&[1; 4096], 0).unwrap();
    drop(file);
    assert_eq!(counts(), [0, 0, 0], "a close makes nothing durable");
    let file = stage.open();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    assert_eq!(counts(), [2, 0, 0]);
    for flags in [OFlags::DSYNC, OFlags::SYNC, OFlags::SYNC | OFlags::DIRECT] {
        let before = counts();
        let file = open_with(&stage, flags);
        let mut data = DataBuffer::zeroed(4096);
        data.fill(2);
        file.write_all_at(&data, 8192).unwrap();
        let [flushes, durable, _] = counts();
        assert!(flushes + durable > before[0] + before[1], "{flags:?}");
    }
    drop(file);
    stage.end();
}

#[test]
fn synced_data_in_the_page_cache_is_durable() {
    for flags in [OFlags::empty(), OFlags::DSYNC] {
        let Some(stage) = Stage::cached() else { return };
        let file = open_with(&stage, flags);
        let data = pattern(9, 10_000);
        file.write_all_at(&data, 100).unwrap();
        if flags.is_empty() {
            file.sync_data().unwrap();
        }
        assert!(stage.plaintext(100, data.len()) == data);
        assert!(stage.backend.counts()[0] > 0);
        drop(file);
        stage.end();
    }
}

#[test]
fn zeros_are_written_and_holes_are_refused() {
    let Some(stage) = Stage::set() else { return };
    let file = stage.open();
    let data = pattern(4, 64 << 10);
    file.write_all_at(&data, 0).unwrap();
    let keep = FallocateFlags::KEEP_SIZE;
    let allocate = |flags, offset, len| fallocate(&file, flags, offset, len);
    allocate(FallocateFlags::ZERO_RANGE, 1000, 10_000).unwrap();
    allocate(FallocateFlags::ZERO_RANGE | keep, 20_000, 100).unwrap();
    let mut expected = data.clone();
    expected[1000..11_000].fill(0);
    expected[20_000..20_100].fill(0);
    assert!(stage.plaintext(0, data.len()) == expected);

    let punched = allocate(FallocateFlags::PUNCH_HOLE | keep, 0, 4096);
    assert_eq!(punched, Err(Errno::OPNOTSUPP));
    allocate(FallocateFlags::empty(), 0, SIZE).unwrap();
    allocate(keep, 0, 2 * SIZE).unwrap();
    assert_eq!(
        allocate(FallocateFlags::empty(), 0, SIZE + 1),
        Err(Errno::NOSPC)
    );
    let collapsed = allocate(FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(collapsed, Err(Errno::OPNOTSUPP));
    assert!(stage.plaintext(0, data.len()) == expected);
    assert_eq!(stage.backend.counts()[2], 0);
    drop(file);
    stage.end();
}

#[test]
fn holes_are_discards_only_where_both_sides_allow_it() {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for (table, holes, allowed) in [
        ("1 allow_discards", PunchHole::Discard, true),
        ("1 allow_discards", PunchHole::Refuse, false),
        ("", PunchHole::Discard, false),
    ] {
        let Some(stage) = Stage::with(table, holes, &MountOptions::default()) else {
            return;
        };
        let file = stage.open();
        file.write_all_at(&pattern(5, 32 << 10), 0).unwrap();
        let punched = fallocate(&file, hole, 4096, 8192);
        if allowed {
            assert_eq!(punched, Ok(()));
            assert!(stage.backend.counts()[2] > 0);
            assert_eq!(stage.mounted.traffic().trim.bytes, 8192);
            assert_eq!(fallocate(&file, hole, SIZE, 4096), Err(Errno::NOSPC));
        } else {
            assert_eq!(punched, Err(Errno::OPNOTSUPP));
            assert_eq!(stage.backend.counts()[2], 0);
        }
        let kept = pattern(5, 32 << 10);
        assert!(stage.plaintext(0, 4096) == kept[..4096]);
        assert!(stage.plaintext(12_288, 4096) == kept[12_288..16_384]);
        drop(file);
        stage.end();
    }
}

#[test]
fn a_read_only_mount_is_not_written() {
    let options = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let Some(stage) = Stage::with("", PunchHole::Refuse, &options) else {
        return;
    };
    let opened = OpenOptions::new().write(true).open(stage.path());
    assert_eq!(errno(opened), number(Errno::ROFS));
    let mut data = vec![0; 4096];
    let file = File::open(stage.path()).unwrap();
    file.read_exact_at(&mut data, 0).unwrap();
    assert!(data == stage.plaintext(0, 4096));
    drop(file);
    stage.end();
}

/// Python maps the file, shared and writable, as drivers of disk images do.
const MAP: &str = "
import mmap, sys
with open(sys.argv[1], 'r+b') as file:
    with mmap.mmap(file.fileno(), 1 << 20, offset=1 << 20) as memory:
        assert memory[5000:5003] == b'old'
        memory[5000:5003] = b'new'
        memory.flush()
";

#[test]
fn the_file_can_be_mapped() {
    for set in [Stage::set, Stage::cached] {
        let Some(stage) = set() else { return };
        let file = stage.open();
        file.write_all_at(b"old", MIB + 5000).unwrap();
        drop(file);
        let mut python = Command::new("python3");
        python.args(["-c", MAP]).arg(stage.path());
        let Some(output) = tool(&mut python) else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("[Errno 19]") {
            // Before Linux 6.6 a file past the page cache is mapped only for reading.
            println!("skipped: this kernel maps no file past its page cache");
        } else {
            assert!(output.status.success(), "{said}");
            assert_eq!(stage.plaintext(MIB + 5000, 3), b"new");
        }
        stage.end();
    }
}

#[test]
fn a_file_needs_a_name() {
    let long = "x".repeat(256);
    for name in ["", ".", "..", "a/b", "a\0b", &long] {
        let (volume, _) = volume("");
        let error = RawFile::new(volume, name).err().map(|e| e.to_string());
        assert!(error.is_some_and(|error| error.contains("choose 1 to 255")));
    }
}
