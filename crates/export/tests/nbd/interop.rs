//! The clients that people use: libnbd's tools, qemu's, fio.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use crate::common::*;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The standard output of a tool that must succeed; `None` when it is missing.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = tool(program, arguments)?;
    let Output { status, stdout, .. } = &output;
    let stderr = text(&output.stderr);
    assert!(
        status.success(),
        "{program} {arguments:?}: {}{stderr}",
        text(stdout)
    );
    Some(text(stdout))
}

/// The path of a new file of `len` random bytes.
fn random_file(directory: &Path, len: usize) -> String {
    let path = directory.join("source");
    fs::write(&path, pattern(42, len)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn nbdinfo_shows_what_is_served() {
    let backend = Counting::new(8 * MIB);
    let table = crypt_table(8 * MIB, "2 allow_discards sector_size:4096");
    let served = Served::new(volume(&table, &backend));
    let uri = served.uri();
    let Some(json) = output("nbdinfo", &["--json", &uri]) else {
        return;
    };
    for expected in [
        "\"protocol\": \"newstyle-fixed\"",
        "\"structured\": true",
        "\"export-size\": 8388608",
        "\"is_read_only\": false",
        "\"can_cache\": true",
        "\"can_df\": true",
        "\"can_fast_zero\": true",
        "\"can_flush\": true",
        "\"can_fua\": true",
        "\"can_multi_conn\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"block_size_minimum\": 1",
        "\"block_size_preferred\": 4096",
        "\"block_size_maximum\": 33554432",
        "\"base:allocation\"",
    ] {
        assert!(json.contains(expected), "{expected} is not in {json}");
    }
    let list = output("nbdinfo", &["--list", "--json", &uri]).unwrap();
    assert!(list.contains("\"export-name\": \"disk\""), "{list}");
    assert!(
        list.contains("\"description\": \"the export disk\""),
        "{list}"
    );
    let map = output("nbdinfo", &["--map", &uri]).unwrap();
    let words: Vec<&str> = map.split_whitespace().collect();
    assert_eq!(words, ["0", "8388608", "0", "data"]);
    let named = served.server.addresses()[0].uri("disk");
    let size = output("nbdinfo", &["--size", &named]).unwrap();
    assert_eq!(size.trim(), "8388608");
    let unknown = served.server.addresses()[0].uri("other");
    let failed = tool("nbdinfo", &[&unknown]).unwrap();
    assert!(!failed.status.success());
    let said = text(&failed.stderr);
    assert!(said.contains("No such file or directory"), "{said}");
    assert!(served.server.status().events.is_empty());
}

#[test]
fn nbdcopy_copies_there_and_back_over_several_connections() {
    let served = Served::new(crypt_volume(32 * MIB).0);
    let source = random_file(served.directory.path(), 32 << 20);
    let back = served.directory.path().join("back");
    let back = back.to_str().unwrap();
    let uri = served.uri();
    let there = ["--connections=4", "--flush", &source, &uri];
    if output("nbdcopy", &there).is_none() {
        return;
    }
    output("nbdcopy", &["--connections=4", &uri, back]).unwrap();
    assert!(fs::read(&source).unwrap() == fs::read(back).unwrap());
    let status = served.server.status();
    assert!(status.accepted >= 4, "{status:?}");
    assert!(status.traffic.flush.requests >= 1);
    assert!(status.events.is_empty());
}

#[test]
fn qemu_img_and_qemu_io_work() {
    let backend = Counting::new(32 * MIB);
    let table = crypt_table(32 * MIB, "1 allow_discards");
    let served = Served::new(volume(&table, &backend));
    // The zeros at its end travel as NBD_CMD_WRITE_ZEROES.
    let source = random_file(served.directory.path(), 20_000_000);
    File::options()
        .write(true)
        .open(&source)
        .unwrap()
        .set_len(32 * MIB)
        .unwrap();
    let uri = served.uri();
    let Some(info) = output("qemu-img", &["info", &uri]) else {
        return;
    };
    assert!(info.contains("virtual size: 32 MiB"), "{info}");
    let convert = ["convert", "-n", "-f", "raw", "-O", "raw", &source, &uri];
    output("qemu-img", &convert).unwrap();
    let compare = ["compare", "-f", "raw", "-F", "raw", &source, &uri];
    assert!(output("qemu-img", &compare).unwrap().contains("identical"));
    assert!(served.server.status().traffic.write_zeroes.bytes > 0);
    let map = output("qemu-img", &["map", "-f", "raw", "--output=json", &uri]).unwrap();
    assert!(map.contains("\"zero\": false, \"data\": true"), "{map}");
    let bench = [
        "bench", "-c", "2000", "-d", "16", "-s", "4096", "-w", "-f", "raw",
    ];
    output(
        "qemu-img",
        &[&bench[..], &["--flush-interval=100", &uri]].concat(),
    )
    .unwrap();
    for command in [
        "write -P 7 512 1M",
        "write -f -P 8 3 100",
        "write -z 1M 2M",
        "discard 16M 1M",
        "flush",
        "aio_write -P 9 4M 16M",
    ] {
        output("qemu-io", &["-f", "raw", "-c", command, &uri]).unwrap();
    }
    // Fast zeroing is refused, and without -n it is done the slow way.
    let fast = ["-f", "raw", "-c", "write -z -n 8M 4096", &uri];
    let said = text(&tool("qemu-io", &fast).unwrap().stdout);
    assert!(said.contains("Operation not supported"), "{said}");
    let checks = [
        "read -P 8 3 100",
        "read -P 0 1048576 2M",
        "read -P 9 4M 16M",
        "read -P 7 524288 200",
    ];
    for command in checks {
        let said = output("qemu-io", &["-f", "raw", "-c", command, &uri]).unwrap();
        assert!(!said.contains("verification failed"), "{command}: {said}");
    }
    assert!(served.server.status().events.is_empty());
}

#[test]
fn qemu_reports_errors_of_the_volume() {
    let backend = Counting::new(4 * MIB);
    let table = "0 2048 linear memory 0\n2048 2048 error\n4096 2048 linear memory 2048";
    let served = Served::new(volume(table, &backend));
    let uri = served.uri();
    let read = |range: &str| {
        let command = format!("read {range}");
        tool("qemu-io", &["-f", "raw", "-c", &command, &uri])
    };
    let Some(good) = read("0 1M") else {
        return;
    };
    assert!(good.status.success());
    for range in ["1M 512", "0 3M"] {
        let said = text(&read(range).unwrap().stdout);
        assert!(said.contains("read failed: Input/output error"), "{said}");
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    let served = Served::new(crypt_volume(16 * MIB).0);
    let uri = format!("--uri={}", served.uri());
    for (depth, size) in [
        ("1", "--bs=4k"),
        ("32", "--bsrange=512-64k"),
        ("4", "--bs=1m"),
    ] {
        let depth = format!("--iodepth={depth}");
        let arguments = [
            "--name=verify",
            "--ioengine=nbd",
            &uri,
            "--rw=randwrite",
            "--verify=crc32c",
            "--size=16m",
            &depth,
            size,
        ];
        let mut command = Command::new("fio");
        command.current_dir(served.directory.path());
        if tool("fio", &["--enghelp=nbd"]).is_none() {
            return;
        }
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert!(served.server.status().events.is_empty());
}

/// libnbd's shell, with its own checks of what clients may send switched off.
#[test]
fn libnbd_agrees_on_every_command_and_error() {
    let backend = Counting::new(4 * MIB);
    let table = crypt_table(4 * MIB, "1 allow_discards");
    let served = Served::new(volume(&table, &backend));
    let script = served.directory.path().join("script.py");
    fs::write(&script, LIBNBD_SCRIPT).unwrap();
    let arguments = [script.to_str().unwrap(), &served.uri()];
    // The module belongs to the system's interpreter, which may not be the first on the path.
    let available = tool("/usr/bin/python3", &["-c", "import nbd"]);
    match available {
        Some(output) if output.status.success() => {}
        _ => {
            assert!(
                std::env::var_os("CI").is_none(),
                "python3-libnbd is missing"
            );
            println!("skipped: python3-libnbd is missing");
            return;
        }
    }
    let said = output("/usr/bin/python3", &arguments).unwrap();
    assert_eq!(said.trim(), "done");
}

const LIBNBD_SCRIPT: &str = r#"
import errno, nbd, sys

def refused(code, call, *arguments):
    try:
        call(*arguments)
    except nbd.Error as error:
        assert error.errnum == code, error
    else:
        raise AssertionError("not refused")

for structured in (True, False):
    h = nbd.NBD()
    h.set_request_structured_replies(structured)
    h.set_strict_mode(0)
    if structured:
        h.add_meta_context("base:allocation")
    h.connect_uri(sys.argv[1])
    assert h.get_structured_replies_negotiated() == structured
    size = h.get_size()
    data = bytes(range(256)) * 4096
    h.pwrite(data, 77)
    assert h.pread(len(data), 77) == data
    h.pwrite(data[:512], 0, nbd.CMD_FLAG_FUA)
    h.flush()
    h.zero(1000, 500, nbd.CMD_FLAG_NO_HOLE)
    assert h.pread(1000, 500) == bytes(1000)
    h.trim(4096, 8192)
    h.cache(size, 0)
    refused(errno.ENOTSUP, h.zero, 4096, 0, nbd.CMD_FLAG_FAST_ZERO)
    refused(errno.EINVAL, h.pread, 512, size)
    refused(errno.ENOSPC, h.pwrite, data, size - 512)
    refused(errno.ENOSPC, h.zero, 512, size)
    refused(errno.EINVAL, h.trim, 512, size)
    refused(errno.EINVAL, h.cache, 512, size)
    refused(errno.EINVAL, h.pread, 512, 0, 1 << 9)
    if structured:
        assert h.pread(len(data), 99, nbd.CMD_FLAG_DF) == h.pread(len(data), 99)
        chunks = []
        def chunk(part, offset, status, error):
            chunks.append((offset, len(part), status))
        h.pread_structured(3 << 20, 0, chunk)
        # As many as the server likes, in any order.
        end = 0
        for offset, length, status in sorted(chunks):
            assert (offset, status) == (end, nbd.READ_DATA), chunks
            end += length
        assert end == 3 << 20, chunks
        extents = []
        def extent(context, offset, entries, error):
            extents.append((context, offset, entries))
        h.block_status(size, 0, extent)
        assert extents == [("base:allocation", 0, [size, 0])], extents
        refused(errno.EINVAL, h.block_status, 512, size, extent)
    h.shutdown()
print("done")
"#;

/// A filesystem made through a copy of the image survives the way to the volume and back.
#[test]
fn a_filesystem_survives() {
    let served = Served::new(crypt_volume(32 * MIB).0);
    let directory = served.directory.path();
    let image = directory.join("ext4");
    fs::write(&image, vec![0; 32 << 20]).unwrap();
    let files = directory.join("files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("one"), pattern(1, 3_000_000)).unwrap();
    let (image, files) = (image.to_str().unwrap(), files.to_str().unwrap());
    if output("mke2fs", &["-q", "-t", "ext4", "-d", files, image]).is_none() {
        return;
    }
    let uri = served.uri();
    if output("nbdcopy", &["--flush", image, &uri]).is_none() {
        return;
    }
    let back = directory.join("back");
    let back = back.to_str().unwrap();
    output("nbdcopy", &[&uri, back]).unwrap();
    output("e2fsck", &["-fn", back]).unwrap();
    let out = directory.join("out");
    let dump = format!("dump /one {}", out.display());
    output("debugfs", &["-R", &dump, back]).unwrap();
    assert!(fs::read(out).unwrap() == pattern(1, 3_000_000));
    assert!(Arc::new(served).server.status().events.is_empty());
}
