//! NBD under TLS with the clients that people use: libnbd's tools and fio, which have GnuTLS, and QEMU's.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::certificates::Authority;
use crate::support::{Background, Place, assert_same, have, may, noise, wait_until};
use crate::volume::{Image, PAYLOAD, USUAL};

/// Bytes of the volume.
const SIZE: usize = 48 << 20;

/// A volume, and certificates in `tls`.
fn image() -> Image {
    let image = Image::made_by_scrim(USUAL);
    let end = image.case.default_offset() + SIZE;
    let file = std::fs::File::options()
        .write(true)
        .open(image.place.path("disk.img"));
    file.unwrap().set_len(end as u64).unwrap();
    Authority::new().fill(&image.place.path("tls"));
    image
}

/// The address with what libnbd needs to know beside it.
fn with_certificates(uri: &str, directory: &Path) -> String {
    let mark = if uri.contains('?') { '&' } else { '?' };
    format!("{uri}{mark}tls-certificates={}", directory.display())
}

/// QEMU's words for certificates, and for the server at a TCP address.
fn qemu_words(uri: &str, directory: &Path, priority: &str) -> [String; 3] {
    let address = uri.strip_prefix("nbds://").unwrap().trim_end_matches('/');
    let (host, port) = address.rsplit_once(':').unwrap();
    let directory = directory.display();
    let mut object = format!("tls-creds-x509,id=tls,endpoint=client,dir={directory}");
    if !priority.is_empty() {
        object += &format!(",priority={priority}");
    }
    let device = format!("driver=nbd,host={host},port={port},tls-creds=tls");
    [object, "--image-opts".to_owned(), device]
}

fn qemu_io(place: &Place, words: &[String; 3], commands: &[&str]) -> Output {
    let mut command = place.command("qemu-io");
    command.arg("--object").args(words);
    for line in commands {
        command.args(["-c", line]);
    }
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn libnbd_copies_there_and_back_over_several_connections() {
    if !have(&["nbdcopy", "nbdinfo"]) {
        return;
    }
    let image = image();
    let place = &image.place;
    let bytes = noise(SIZE, 1);
    let source = place.write("source", &bytes);
    let source = source.to_str().unwrap();
    for (address, scheme) in [
        ("tcp:127.0.0.1:0", "nbds://127.0.0.1:"),
        ("tcp:[::1]:0", "nbds://[::1]:"),
        ("unix:own.sock", "nbds+unix:///?socket="),
    ] {
        let uri = image.open_with("key", "secret", &["--nbd", address, "--tls-cert", "tls"]);
        assert!(uri.starts_with(scheme), "{uri}");
        let uri = with_certificates(&uri, &place.path("tls"));
        let info = place.run("nbdinfo", [&uri]);
        assert!(info.contains("newstyle-fixed with TLS"), "{info}");
        let largest = ["--connections=4", "--flush", "--request-size=33554432"];
        place.run("nbdcopy", [&largest[..], &[source, &uri]].concat());
        place.run("nbdcopy", ["--connections=4", &uri, "back"]);
        let back = std::fs::read(place.path("back")).unwrap();
        assert_same(&back, &bytes, address);
        let status = place.scrim(["status", "secret"]);
        assert!(!status.contains("error:"), "{status}");
        place.close("secret");
    }
}

#[test]
fn fio_checks_what_it_writes() {
    let user = ["--user", "--map-user=1000", "--map-group=1000"];
    let mut probe = Command::new("unshare");
    probe.args(user).arg("true");
    if !have(&["fio", "unshare"]) || !may("to be another user in a namespace", &mut probe) {
        return;
    }
    let image = image();
    let place = &image.place;
    let more = ["--nbd", "tcp:127.0.0.1:0", "--tls-cert", "tls"];
    let uri = image.open_with("key", "secret", &more);
    // It takes no certificates by its address, and libnbd looks for them at home, but not at root's.
    let home = place.path("home/.pki");
    std::fs::create_dir_all(&home).unwrap();
    std::os::unix::fs::symlink(place.path("tls"), home.join("libnbd")).unwrap();
    let line = format!(
        "fio --name=verify --ioengine=nbd --uri={uri} --rw=randwrite --numjobs=4 --size=4M \
         --offset_increment=4M --bsrange=4k-128k --blockalign=4k --iodepth=8 --verify=crc32c \
         --verify_fatal=1 --verify_state_save=0 --do_verify=1"
    );
    let mut fio = place.command("unshare");
    fio.args(user).args(line.split_whitespace());
    let output = fio.env("HOME", place.path("home")).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let status = place.scrim(["status", "secret"]);
    assert!(!status.contains(" 0 writes"), "{status}");
    place.close("secret");
}

#[test]
fn qemu_reads_and_writes_in_both_versions_and_status_tells_which() {
    if !have(&["qemu-io", "qemu-img"]) {
        return;
    }
    let image = image();
    let place = &image.place;
    let more = ["--nbd", "tcp:127.0.0.1:0", "--tls-cert", "tls"];
    let uri = image.open_with("key", "secret", &more);
    for (priority, protection) in [
        ("", "TLSv1.3 TLS_AES_128_GCM_SHA256"),
        (
            "NORMAL:-VERS-ALL:+VERS-TLS1.2",
            "TLSv1.2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ),
        (
            "NORMAL:-AES-128-GCM:-AES-256-GCM",
            "TLSv1.3 TLS_CHACHA20_POLY1305_SHA256",
        ),
    ] {
        let words = qemu_words(&uri, &place.path("tls"), priority);
        let commands = [
            "write -P 7 0 32M",
            "read -P 7 0 32M",
            "write -P 9 1k 5k",
            "flush",
        ];
        let output = qemu_io(place, &words, &commands);
        assert!(output.status.success(), "{priority}: {}", said(&output));
        assert!(!said(&output).contains("failed"), "{}", said(&output));
        let mut client = place.command("qemu-io");
        client.arg("--object").args(&words);
        client.stdin(Stdio::piped()).stdout(Stdio::null());
        let _client = Background::start(&mut client);
        wait_until(protection, || {
            let status = place.scrim(["status", "secret"]);
            status.contains(&format!(", {protection}\n"))
        });
    }
    let words = qemu_words(&uri, &place.path("tls"), "");
    let mut convert = vec!["convert", "-O", "raw", "--object"];
    convert.extend(words.iter().map(String::as_str));
    convert.push("copy");
    place.run("qemu-img", convert);
    let copy = std::fs::read(place.path("copy")).unwrap();
    assert_eq!(copy.len(), SIZE);
    assert_same(&copy[1024..6144], &[9; 5120], "written last");
    assert_same(&copy[6144..PAYLOAD], &vec![7; PAYLOAD - 6144], "before");
    place.scrim(["close", "--force", "secret"]);
}

#[test]
fn clients_without_the_right_certificate_are_refused_and_status_says_why() {
    if !have(&["nbdinfo", "qemu-io"]) {
        return;
    }
    let image = image();
    let place = &image.place;
    Authority::new().fill(&place.path("strangers"));
    // The files of a client that trusts the server and has no certificate of its own.
    std::fs::create_dir(place.path("nobody")).unwrap();
    std::fs::copy(
        place.path("tls/ca-cert.pem"),
        place.path("nobody/ca-cert.pem"),
    )
    .unwrap();
    std::fs::create_dir(place.path("impostor")).unwrap();
    std::fs::copy(
        place.path("tls/ca-cert.pem"),
        place.path("impostor/ca-cert.pem"),
    )
    .unwrap();
    for name in ["client-cert.pem", "client-key.pem"] {
        std::fs::copy(
            place.path("strangers").join(name),
            place.path("impostor").join(name),
        )
        .unwrap();
    }
    let more = ["--nbd", "tcp:127.0.0.1:0", "--tls-cert", "tls"];
    let uri = image.open_with("key", "secret", &more);
    let errors = || {
        let status = place.scrim(["status", "secret"]);
        status.matches("error:").count()
    };
    for (directory, reason) in [
        ("nobody", Some("peer sent no certificates")),
        // It has one, and does not show it where that CA is not asked for.
        ("impostor", Some("peer sent no certificates")),
        // The client does not trust the server, and disconnects.
        ("strangers", None),
    ] {
        let words = qemu_words(&uri, &place.path(directory), "");
        let output = qemu_io(place, &words, &["read 0 4k"]);
        assert!(!output.status.success(), "{directory}: {}", said(&output));
        let before = errors();
        let uri = with_certificates(&uri, &place.path(directory));
        let output = place.run_with_input("nbdinfo", [&uri], b"");
        assert!(!output.status.success(), "{directory}: {}", said(&output));
        if let Some(reason) = reason {
            wait_until("the refusal is noted", || errors() > before);
            let status = place.scrim(["status", "secret"]);
            assert!(status.contains(reason), "{directory}: {status}");
        }
    }
    let uri = with_certificates(&uri, &place.path("tls"));
    place.run("nbdinfo", [&uri]);
    place.close("secret");
}

#[test]
fn clients_without_tls_are_told_that_it_is_required() {
    if !have(&["nbdinfo", "qemu-img"]) {
        return;
    }
    let image = image();
    let place = &image.place;
    let more = ["--nbd", "tcp:127.0.0.1:0", "--tls-cert", "tls"];
    let uri = image.open_with("key", "secret", &more);
    let plain = uri.replace("nbds://", "nbd://");
    let output = place.run_with_input("nbdinfo", [&plain], b"");
    assert!(!output.status.success(), "{}", said(&output));
    let output = place.run_with_input("qemu-img", ["info", &plain], b"");
    assert!(!output.status.success());
    assert!(
        said(&output).contains("TLS negotiation required"),
        "{}",
        said(&output)
    );
    place.close("secret");
    // The other way round: a client that wants TLS from a server without it.
    let uri = image.open_with("key", "secret", &[]);
    let wanted = uri.replace("nbd+unix", "nbds+unix");
    let wanted = with_certificates(&wanted, &place.path("tls"));
    let output = place.run_with_input("nbdinfo", [&wanted], b"");
    assert!(!output.status.success(), "{}", said(&output));
    place.close("secret");
}

/// Without --tls-ca any client may come, which is said; a directory's CA counts as one.
#[test]
fn a_server_without_a_ca_admits_every_client_and_warns() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let image = image();
    let place = &image.place;
    let line = "open disk.img secret -d key --nbd tcp:127.0.0.1:0 --tls-cert tls/server-cert.pem \
                --tls-key tls/server-key.pem";
    let output = place.run_with_input("scrim", line.split_whitespace(), b"");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("anyone who can connect"));
    let uri = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    std::fs::create_dir(place.path("nobody")).unwrap();
    std::fs::copy(
        place.path("tls/ca-cert.pem"),
        place.path("nobody/ca-cert.pem"),
    )
    .unwrap();
    place.run("nbdinfo", [with_certificates(&uri, &place.path("nobody"))]);
    place.close("secret");
}
