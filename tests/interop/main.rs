//! Scrim against real programs: cryptsetup, qemu, nbdkit, libnbd's tools, fio, e2fsprogs and an
//! independent implementation of the ciphers, both ways, on small volumes that are cheap to unlock; and what
//! the world does to a volume: damage, full disks, vanished files, signals, other users.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, its helpers too"
)]

mod advise;
mod as_cryptsetup;
mod bench_fileserver;
mod bench_paths;
mod bench_serve;
mod bench_storage;
mod benchmark;
mod block_device;
#[path = "../support/certificates.rs"]
mod certificates;
mod cipher_uses;
mod ciphers;
mod clients;
mod cryptsetup_to_scrim;
mod damage;
mod doctor;
mod engines;
mod exchange;
mod files;
mod filesystem;
mod headers;
mod hostile_header;
mod in_place;
mod keys;
mod killed;
mod luks1_peers;
mod manual;
mod mount;
mod mount_faults;
mod mount_load;
mod mount_raw;
mod mount_readonly;
mod mount_silent;
mod mount_use;
mod newer;
mod no_root;
mod object_store;
mod options;
mod pack;
mod partitions;
mod parts;
mod production;
mod rbd;
mod refusals;
mod remote;
mod remote_network;
mod remote_tls;
mod resize;
#[path = "../support/schema.rs"]
mod schema;
mod scrim_to_cryptsetup;
mod secrets;
mod sequences;
mod serve_access;
mod serve_accessible;
mod serve_acme;
mod serve_archives;
mod serve_browser;
mod serve_compressed;
mod serve_conformance;
mod serve_curl;
mod serve_files;
mod serve_floods;
mod serve_many;
mod serve_offload;
mod serve_openssl;
mod serve_running;
mod serve_sites;
mod serve_tickets;
mod serve_volume;
#[path = "../support/server.rs"]
mod server;
mod shortage;
mod signatures;
mod snapshot;
#[allow(
    dead_code,
    reason = "shared by several test programs, each using a part"
)]
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod tls;
#[path = "../support/tls_client.rs"]
mod tls_client;
mod tokens;
mod transfer;
mod transfer_storage;
mod unaligned;
mod volume;
mod while_open;
