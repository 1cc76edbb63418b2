//! The first byte of the input says what is negotiated; request headers follow.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use scrim_fuzz::nbd::handshake::{self, contexts, option, query};
use scrim_fuzz::nbd::transmission::{Model, Terms, session};
use scrim_fuzz::nbd::{Host, NAMES, SIZE};
use scrim_volume::Durability;

fuzz_target!(|input: &[u8]| {
    let Some((choice, headers)) = input.split_first() else {
        return;
    };
    static HOST: OnceLock<Host> = OnceLock::new();
    let host = HOST.get_or_init(Host::new);
    let export = usize::from(choice >> 1 & 1);
    let terms = Terms {
        structured: choice & 1 != 0,
        trim: export == 1,
    };
    let zeroed = host.volumes[export].write_zeroes(0, SIZE as u64, Durability::Cached);
    zeroed.expect("memory can be written");

    let mut sent = 3u32.to_be_bytes().to_vec();
    if terms.structured {
        sent.extend(option(8, b""));
        sent.extend(option(10, &contexts(NAMES[export], &["base:allocation"])));
    }
    sent.extend(option(7, &query(NAMES[export], &[])));
    let (requests, data) = session(headers);
    sent.extend(data);

    let received = host.answer(&sent);
    let replies = handshake::check(&sent, &received).expect("the handshake is right");
    Model::zeros().check(&requests, replies, terms);
});
