//! LUKS1 has other users: qemu's block driver and nbdkit's filter read and write the same payload.

use crate::support::{Place, assert_same, have, noise};
use crate::volume::{Case, Image, LUKS1, PAYLOAD};

const QEMU: [&str; 4] = ["cryptsetup", "nbdcopy", "qemu-img", "qemu-io"];
const NBDKIT: [&str; 3] = ["cryptsetup", "nbdcopy", "nbdkit"];

/// qemu's words for `disk.img` and its passphrase.
const SECRET: &str = "secret,id=sec0,file=key";
const OPTIONS: &str = "driver=luks,key-secret=sec0,file.driver=file,file.filename=disk.img";

fn qemu_reads(place: &Place) -> Vec<u8> {
    let convert = ["convert", "--object", SECRET, "--image-opts", OPTIONS];
    place.run(
        "qemu-img",
        [&convert[..], &["-O", "raw", "by-qemu"]].concat(),
    );
    std::fs::read(place.path("by-qemu")).unwrap()
}

fn qemu_writes(place: &Place, bytes: &[u8]) {
    place.write("for-qemu", bytes);
    let convert = ["convert", "-n", "-f", "raw", "for-qemu", "--object", SECRET];
    place.run(
        "qemu-img",
        [&convert[..], &["--target-image-opts", OPTIONS]].concat(),
    );
}

/// Runs a command on nbdkit's plaintext of `disk.img`.
fn with_nbdkit(place: &Place, command: &str) {
    let luks = ["--filter=luks", "disk.img", "passphrase=+key"];
    let args = [&["-U", "-", "file"], &luks[..], &["--run", command]];
    place.run("nbdkit", args.concat());
}

/// All of [`LUKS1`] whose header is where the peers look for it, and the older ciphers that they
/// know too, from either maker.
fn images(ciphers: &[(&'static str, u32)]) -> Vec<Image> {
    let older = ciphers.iter().map(|&(cipher, key_bits)| Case {
        cipher,
        key_bits,
        ..LUKS1[0]
    });
    let cases: Vec<_> = LUKS1
        .into_iter()
        .filter(|case| !case.detached)
        .chain(older)
        .collect();
    let cases = || cases.iter().copied();
    let ours = cases().map(Image::in_memory_by_scrim);
    let theirs = cases().map(Image::in_memory_by_cryptsetup);
    ours.chain(theirs).collect()
}

#[test]
fn qemu_reads_and_writes_the_same_payload() {
    if !have(&QEMU) {
        return;
    }
    let ciphers = [
        ("aes-cbc-essiv:sha256", 256),
        ("aes-cbc-plain64", 256),
        ("aes-cbc-plain", 128),
        ("aes-ctr-plain64", 256),
    ];
    for (seed, image) in (1..).zip(images(&ciphers)) {
        let what = format!("{:?}", image.case);
        let written = image.fill_with_noise(seed);
        assert_same(&qemu_reads(&image.place), &written, &what);

        let theirs = noise(PAYLOAD, seed + 10);
        qemu_writes(&image.place, &theirs);
        assert_same(&image.read(), &theirs, &what);
    }
}

/// Ciphers that `cryptsetup` leaves to the kernel, and qemu computes itself.
#[test]
fn qemu_reads_and_writes_other_ciphers() {
    if !have(&QEMU) {
        return;
    }
    let ciphers = [
        ("serpent-xts-plain64", 512),
        ("serpent-cbc-essiv:sha256", 256),
        ("twofish-xts-plain64", 256),
        ("twofish-cbc-plain64", 256),
    ];
    for (seed, (cipher, key_bits)) in (1..).zip(ciphers) {
        let image = Image::in_memory_by_scrim(Case {
            cipher,
            key_bits,
            ..LUKS1[0]
        });
        let written = image.fill_with_noise(seed);
        assert_same(&qemu_reads(&image.place), &written, cipher);

        let theirs = noise(PAYLOAD, seed + 10);
        qemu_writes(&image.place, &theirs);
        assert_same(&image.read(), &theirs, cipher);
    }
}

/// Writes of qemu's own sizes and places, not a whole image.
#[test]
fn what_qemu_io_wrote_is_where_it_should_be() {
    if !have(&QEMU) {
        return;
    }
    let image = Image::in_memory_by_cryptsetup(LUKS1[1]);
    let mut expected = image.fill_with_noise(3);
    let writes = [(0, 512, 1), (4096 - 512, 1024, 2), (PAYLOAD - 512, 512, 3)];
    for (offset, len, pattern) in writes {
        let command = format!("write -P {pattern} {offset} {len}");
        let args = ["--object", SECRET, "--image-opts", OPTIONS, "-c", &command];
        image.place.run("qemu-io", args);
        expected[offset..offset + len].fill(pattern);
    }
    assert_same(&image.read(), &expected, "qemu-io");
}

#[test]
fn nbdkit_reads_and_writes_the_same_payload() {
    if !have(&NBDKIT) {
        return;
    }
    for (seed, image) in (1..).zip(images(&[("aes-cbc-plain64", 128)])) {
        let what = format!("{:?}", image.case);
        let place = &image.place;
        let written = image.fill_with_noise(seed);
        let _ = std::fs::remove_file(place.path("by-nbdkit"));
        with_nbdkit(place, "nbdcopy \"$uri\" by-nbdkit");
        let read = std::fs::read(place.path("by-nbdkit")).unwrap();
        assert_same(&read, &written, &what);

        let theirs = noise(PAYLOAD, seed + 20);
        place.write("for-nbdkit", &theirs);
        with_nbdkit(place, "nbdcopy --flush for-nbdkit \"$uri\"");
        assert_same(&image.read(), &theirs, &what);
    }
}
