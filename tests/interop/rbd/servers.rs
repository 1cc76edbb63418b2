//! Servers of files in snapshots of the cluster.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::time::Duration;

use super::Ceph;
use crate::serve_many::check_download;
use crate::server::{Server, Site, field};
use crate::support::{assert_same, have, have_rare, noise, scrim};

/// MiB of the file that is downloaded through HAProxy, unless the variable says otherwise.
const DOWNLOAD_MIB: u64 = 64;
const DOWNLOAD_VARIABLE: &str = "SCRIM_DOWNLOAD_MIB";

/// Packs a version of a site into a volume of `mib` MiB, writes it over the one before, and takes a snapshot.
fn publish(ceph: &Ceph, site: &Site, image: &str, version: &str, mib: u64) {
    site.place.write("tree/version", version);
    let pack = format!(
        "pack tree site.img --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --size {mib}M --batch-mode"
    );
    site.place.scrim(pack.split_whitespace());
    let to = format!("rbd:pool/{image}:conf={}/ceph.conf", ceph.folder.display());
    let words = ["convert", "-n", "-f", "raw", "-O", "raw", "site.img", &to];
    site.place.run("qemu-img", words);
    std::fs::remove_file(site.place.path("site.img")).unwrap();
    ceph.rbd(&format!("snap create --no-progress pool/{image}@{version}"));
}

/// Removes an image with its versions.
fn remove(ceph: &Ceph, image: &str) {
    ceph.rbd(&format!("snap purge --no-progress pool/{image}"));
    ceph.rbd(&format!("rm --no-progress pool/{image}"));
}

#[test]
fn servers_with_the_same_snapshot_have_the_same_tags_and_go_on_to_the_next_one() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["mke2fs", "qemu-img", "curl"]) {
        return;
    }
    let site = Site::new();
    site.place.write("key", "open sesame");
    std::fs::create_dir(site.place.path("tree")).unwrap();
    let content = noise(4 << 20, 7);
    site.place.write("tree/big", &content);
    ceph.rbd("create --size 40M pool/site");
    publish(&ceph, &site, "site", "v42", 40);
    let configure = |version: &str| {
        let image = ceph.name(&format!("site@{version}"));
        site.configure(
            "health = '127.0.0.1:0'",
            &format!("[[site]]\nroot = '{image}#/'\nkey-file = 'key'\n"),
        );
    };
    configure("v42");
    let servers = ["one", "two"].map(|name| {
        let mut command = site.place.service(scrim());
        let command = command.args(["serve", "--config", "serve.toml"]);
        Server::start_as(name, &site, command)
    });
    let tags = |name| {
        let heads = servers.each_ref().map(|server| {
            let heads = server.curl(&["--head", &server.url("big")]);
            field(&heads, name).map(str::to_owned).expect(name)
        });
        assert_eq!(heads[0], heads[1], "{name}");
        heads[0].clone()
    };
    tags("last-modified");
    let before = tags("etag");
    publish(&ceph, &site, "site", "v43", 40);
    for server in &servers {
        let output = server.try_curl(&[&server.url("big")]);
        assert_same(
            &output.stdout,
            &content,
            "the old version, which is not the image's any more",
        );
        assert_eq!(server.curl(&[&server.url("version")]), "v42");
    }
    configure("v43");
    for server in &servers {
        server.reload();
        assert_eq!(server.curl(&[&server.url("version")]), "v43");
        assert_eq!(server.curl(&[&server.urls[1]]), "ready\n");
    }
    assert_ne!(tags("etag"), before);
    servers.into_iter().for_each(Server::stop);
    remove(&ceph, "site");
}

/// Writes a file of which every second MiB is a hole, and returns its hash.
fn write_half(site: &Site, seed: u64, mib: u64) -> String {
    let mut file = File::create(site.place.path("tree/big")).unwrap();
    file.set_len(mib << 20).unwrap();
    for number in (0..mib).step_by(2) {
        file.seek(SeekFrom::Start(number << 20)).unwrap();
        file.write_all(&noise(1 << 20, seed + number)).unwrap();
    }
    let line = site.place.run("sha256sum", ["tree/big"]);
    line.split(' ').next().unwrap().to_owned()
}

#[test]
fn a_download_from_a_cluster_outlives_its_servers_and_a_new_version() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["mke2fs", "qemu-img", "curl"]) || !have_rare(&["haproxy"], "haproxy") {
        return;
    }
    let chosen = std::env::var(DOWNLOAD_VARIABLE);
    let mib = chosen.map_or(DOWNLOAD_MIB, |mib| mib.parse().unwrap());
    let size = mib + mib / 16 + 48;
    let site = Site::new();
    site.place.write("key", "open sesame");
    std::fs::create_dir(site.place.path("tree")).unwrap();
    ceph.rbd(&format!("create --size {size}M pool/long"));
    let hashes = [("v42", 1 << 32), ("v43", 1 << 33)].map(|(version, seed)| {
        let hash = write_half(&site, seed, mib);
        publish(&ceph, &site, "long", version, size);
        hash
    });
    std::fs::remove_dir_all(site.place.path("tree")).unwrap();
    let images = ["v42", "v43"].map(|version| ceph.name(&format!("long@{version}")));
    check_download(
        &site,
        images.each_ref().map(String::as_str),
        hashes.each_ref().map(String::as_str),
        Duration::from_millis(mib * 8),
    );
    remove(&ceph, "long");
}
