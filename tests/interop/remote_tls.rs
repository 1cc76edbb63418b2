//! Volumes on real NBD servers under TLS by GnuTLS: nbdkit, qemu-nbd and qemu-storage-daemon. Which of their
//! certificates are trusted, and which are not.

use rcgen::ExtendedKeyUsagePurpose as Purpose;

use crate::certificates::Authority;
use crate::remote::{
    format, free_port, full_cycle_on, kill_under_load, said, scrim, serve, unformatted,
};
use crate::support::{Place, have, succeeded};
use crate::volume::{Image, PAYLOAD};

/// An image, and certificates in `tls`.
fn image(payload: usize) -> Image {
    let image = unformatted(payload);
    Authority::new().fill(&image.place.path("tls"));
    image
}

/// Address at which nbdkit serves under TLS, on the socket `server`.
const SOCKET: &str = "nbds+unix:///?socket=server&tls-certificates=tls";

const NBDKIT: &str = "nbdkit -f -U server --tls=require --tls-certificates=tls";

/// A folder with some of the files of another.
fn folder(place: &Place, name: &str, from: &str, files: &[&str]) {
    std::fs::create_dir_all(place.path(name)).unwrap();
    for file in files {
        std::fs::copy(place.path(from).join(file), place.path(name).join(file)).unwrap();
    }
}

fn refused(place: &Place, uri: &str) -> String {
    let output = scrim(place, &format!("dump {uri}"));
    assert_eq!(output.status.code(), Some(4), "{uri}: {}", said(&output));
    said(&output)
}

#[test]
fn a_volume_lives_on_nbdkit_under_tls() {
    if !have(&["nbdkit", "nbdinfo", "nbdcopy", "cryptsetup"]) {
        return;
    }
    let server = format!("{NBDKIT} --tls-verify-peer file disk.img");
    full_cycle_on(&image(PAYLOAD), &server, SOCKET);
    let port = free_port();
    let server = format!(
        "nbdkit -f -i 127.0.0.1 -p {port} --tls=require --tls-certificates=tls \
         --filter=multi-conn file disk.img multi-conn-mode=disable"
    );
    let uri = format!("nbds://127.0.0.1:{port}/?tls-certificates=tls");
    full_cycle_on(&image(PAYLOAD), &server, &uri);
}

#[test]
fn a_volume_lives_on_qemu_under_tls() {
    let programs = [
        "qemu-nbd",
        "qemu-storage-daemon",
        "nbdinfo",
        "nbdcopy",
        "cryptsetup",
    ];
    if !have(&programs) {
        return;
    }
    let port = free_port();
    let uri = format!("nbds://127.0.0.1:{port}/e?tls-certificates=tls");
    for priority in ["NORMAL", "NORMAL:-VERS-ALL:+VERS-TLS1.2"] {
        let server = format!(
            "qemu-nbd --persistent --shared 8 --format raw -b 127.0.0.1 -p {port} -x e \
             --object tls-creds-x509,id=tls,endpoint=server,dir=tls,verify-peer=yes,priority={priority} \
             --tls-creds tls disk.img"
        );
        full_cycle_on(&image(PAYLOAD), &server, &uri);
    }
    let server = format!(
        "qemu-storage-daemon --blockdev file,node-name=disk,filename=disk.img \
         --object tls-creds-x509,id=tls,endpoint=server,dir=tls,verify-peer=yes \
         --nbd-server addr.type=inet,addr.host=127.0.0.1,addr.port={port},tls-creds=tls \
         --export nbd,id=e,node-name=disk,name=e,writable=on"
    );
    full_cycle_on(&image(PAYLOAD), &server, &uri);
}

#[test]
fn a_server_under_tls_that_is_killed_under_load_costs_nothing() {
    if have(&["nbdkit", "nbdinfo", "fio", "cryptsetup"]) {
        let options = "--tls=require --tls-certificates=tls --tls-verify-peer";
        kill_under_load(&image(16 << 20), options, SOCKET);
    }
}

#[test]
fn a_server_that_is_not_the_one_that_is_meant_is_refused() {
    if !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    let image = image(PAYLOAD);
    let place = &image.place;
    Authority::new().fill(&place.path("strangers"));
    let running = serve(place, &format!("{NBDKIT} file disk.img"), SOCKET);
    format(place, SOCKET);
    let wrong_name = format!("{SOCKET}&tls-hostname=example.org");
    let said_of_it = refused(place, &wrong_name);
    assert!(said_of_it.contains("subjectAltName"), "{said_of_it}");
    let strangers = SOCKET.replace("=tls", "=strangers");
    let said_of_it = refused(place, &strangers);
    assert!(said_of_it.contains("another CA"), "{said_of_it}");
    let nobody = SOCKET.replace("&tls-certificates=tls", "");
    let said_of_it = refused(place, &nobody);
    assert!(
        said_of_it.contains("tls-certificates=FOLDER"),
        "{said_of_it}"
    );
    // The server refuses connections without TLS, and the message says so.
    let plain = nobody.replace("nbds", "nbd");
    let said_of_it = refused(place, &plain);
    assert!(said_of_it.contains("write nbds"), "{said_of_it}");
    // A client that is told to accept any certificate prints a warning.
    let output = scrim(place, &format!("dump {wrong_name}&tls-verify-peer=0"));
    succeeded("dump", &output);
    assert!(
        said(&output).contains("scrim: warning: "),
        "{}",
        said(&output)
    );
    drop(running);

    let authority = Authority::new();
    folder(place, "expired", "tls", &[]);
    let (certificate, key) = authority.sign(&["localhost"], Purpose::ServerAuth, 2002);
    for (name, text) in [
        ("ca-cert.pem", authority.pem()),
        ("server-cert.pem", certificate),
        ("server-key.pem", key),
    ] {
        std::fs::write(place.path("expired").join(name), text).unwrap();
    }
    std::fs::remove_file(place.path("server")).unwrap();
    let unverified = "nbds+unix:///?socket=server&tls-certificates=expired&tls-verify-peer=false";
    let server = NBDKIT.replace("=tls", "=expired") + " file disk.img";
    let _running = serve(place, &server, unverified);
    let said_of_it = refused(place, &SOCKET.replace("=tls", "=expired"));
    assert!(said_of_it.contains("set the clock"), "{said_of_it}");
}

#[test]
fn a_server_that_asks_for_a_certificate_says_so() {
    if !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    let image = image(PAYLOAD);
    let place = &image.place;
    folder(place, "nobody", "tls", &["ca-cert.pem"]);
    let server = format!("{NBDKIT} --tls-verify-peer file disk.img");
    let _running = serve(place, &server, SOCKET);
    let said_of_it = refused(place, &SOCKET.replace("=tls", "=nobody"));
    assert!(said_of_it.contains("certificate"), "{said_of_it}");
}

#[test]
fn a_server_without_tls_is_not_used_without_it() {
    if !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    let image = image(PAYLOAD);
    let place = &image.place;
    let plain = "nbd+unix:///?socket=server";
    let _running = serve(place, "nbdkit -f -U server file disk.img", plain);
    let said_of_it = refused(place, SOCKET);
    assert!(
        said_of_it.contains("does not offer an encrypted connection"),
        "{said_of_it}"
    );
    let said_of_it = refused(place, &format!("{plain}&tls-certificates=tls"));
    assert!(said_of_it.contains("write nbds"), "{said_of_it}");
}
