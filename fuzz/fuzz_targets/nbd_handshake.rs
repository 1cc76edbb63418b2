//! The input is all that a client sends from its greeting on.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use scrim_fuzz::nbd::{Host, handshake};

fuzz_target!(|sent: &[u8]| {
    static HOST: OnceLock<Host> = OnceLock::new();
    let received = HOST.get_or_init(Host::new).answer(sent);
    handshake::check(sent, &received);
});
