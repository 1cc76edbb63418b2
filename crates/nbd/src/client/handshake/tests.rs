use super::*;

/// A connection whose other side has said everything beforehand.
struct Said<'a> {
    server: &'a [u8],
    client: Vec<u8>,
}

impl Read for Said<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.server.read(buffer)
    }
}

impl Write for Said<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.client.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The whole handshake for the export "e", and what the client has said.
fn shake(server: &[u8]) -> (Result<Export, HandshakeError>, Vec<u8>) {
    let mut stream = Said {
        server,
        client: Vec::new(),
    };
    let export = greet(&mut stream).and_then(|greeting| go(&mut stream, greeting, "e"));
    (export, stream.client)
}

fn greeting(flags: u16) -> Vec<u8> {
    let mut bytes = NBDMAGIC.to_be_bytes().to_vec();
    bytes.extend(IHAVEOPT.to_be_bytes());
    bytes.extend(flags.to_be_bytes());
    bytes
}

fn reply(kind: u32, data: &[u8]) -> Vec<u8> {
    reply_to(opt::GO, kind, data)
}

fn reply_to(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

fn described(size: u64, flags: u16) -> Vec<u8> {
    let mut data = info::EXPORT.to_be_bytes().to_vec();
    data.extend(size.to_be_bytes());
    data.extend(flags.to_be_bytes());
    reply(rep::INFO, &data)
}

fn blocks(minimum: u32, maximum: u32) -> Vec<u8> {
    let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
    for size in [minimum, 4096, maximum] {
        data.extend(size.to_be_bytes());
    }
    reply(rep::INFO, &data)
}

fn said(error: Result<Export, HandshakeError>) -> String {
    error.unwrap_err().to_string()
}

const BOTH: u16 = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;

#[test]
fn a_modern_server_is_asked_once() {
    let name = reply(rep::INFO, &[0, 1, b'e']);
    let server = [
        greeting(BOTH),
        name,
        described(1 << 20, 0x3),
        blocks(512, 1 << 25),
        reply(rep::ACK, &[]),
    ];
    let (export, client) = shake(&server.concat());
    let export = export.unwrap();
    assert_eq!((export.size, export.flags), (1 << 20, 3));
    let sizes = BlockSizes {
        minimum: 512,
        maximum: 1 << 25,
    };
    assert_eq!(export.blocks, Some(sizes));
    let mut expected = vec![0, 0, 0, 3];
    expected.extend(b"IHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x01e\0\x01\0\x03");
    assert_eq!(client, expected);
}

#[test]
fn an_old_server_is_asked_the_old_way() {
    let answer = [&7u64.to_be_bytes()[..], &[0, 1]].concat();
    let padding = vec![0; EXPORT_NAME_PADDING];
    // One that knows no options, one that does not know this option, one that leaves the zeros out.
    let unknown = reply(rep::ERR_UNSUP, b"what?");
    for server in [
        [greeting(0), answer.clone(), padding.clone()].concat(),
        [
            greeting(handshake::FIXED_NEWSTYLE),
            unknown.clone(),
            answer.clone(),
            padding,
        ]
        .concat(),
        [greeting(BOTH), unknown, answer].concat(),
    ] {
        let (export, client) = shake(&server);
        assert_eq!(export.unwrap().size, 7);
        assert!(client.ends_with(b"IHAVEOPT\0\0\0\x01\0\0\0\x01e"));
    }
}

#[test]
fn what_is_refused_says_why() {
    let refused = |kind, message| said(shake(&[greeting(BOTH), reply(kind, message)].concat()).0);
    assert!(refused(rep::ERR_UNKNOWN, b"").contains("no export of this name"));
    assert!(refused(rep::ERR_TLS_REQD, b"").contains("write nbds"));
    let long = refused(
        rep::ERR_POLICY,
        &[b"not \x1b[31mtoday\n".as_slice(), &[b'x'; 4000]].concat(),
    );
    assert!(
        long.contains("(it says: not \\u{1b}[31mtoday\\nxxx"),
        "{long}"
    );
    assert!(long.len() < 300, "{long}");
}

#[test]
fn what_breaks_the_protocol_is_an_error() {
    let mut wrong_option = reply(rep::ACK, &[]);
    wrong_option[11] = 6;
    let long = [
        &OPTION_REPLY_MAGIC.to_be_bytes()[..],
        &[0, 0, 0, 7, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xff],
    ]
    .concat();
    for (server, expected) in [
        (b"SSH-2.0-OpenSSH_9.2p1".to_vec(), "no NBD server"),
        ([NBDMAGIC.to_be_bytes(); 2].concat(), "no NBD server"),
        (
            [NBDMAGIC.to_be_bytes(), OLDSTYLE_MAGIC.to_be_bytes()].concat(),
            "before 2011",
        ),
        ([greeting(BOTH), vec![0; 8]].concat(), "no option reply"),
        ([greeting(BOTH), wrong_option].concat(), "another option"),
        (
            [greeting(BOTH), reply(rep::SERVER, &[])].concat(),
            "unknown reply",
        ),
        (
            [greeting(BOTH), reply(rep::ACK, &[])].concat(),
            "without its size",
        ),
        ([greeting(BOTH), long].concat(), "too long"),
        (
            [greeting(BOTH), reply(rep::INFO, &[])].concat(),
            "malformed",
        ),
        (
            [greeting(BOTH), reply(rep::INFO, &[0, 0, 1])].concat(),
            "malformed",
        ),
        (
            [greeting(BOTH), reply(rep::INFO, &[0, 3, 1])].concat(),
            "malformed",
        ),
        (
            [greeting(BOTH), described(1 << 63, 1), reply(rep::ACK, &[])].concat(),
            "that large",
        ),
        (
            [greeting(BOTH), reply(rep::INFO, &[0, 9]).repeat(40)].concat(),
            "without end",
        ),
    ] {
        let said = said(shake(&server).0);
        assert!(said.contains(expected), "{said}");
    }
    for (minimum, maximum) in [
        (0, 1 << 20),
        (768, 1 << 20),
        (1 << 17, 1 << 20),
        (4096, 6144),
        (4096, 512),
    ] {
        let said = said(shake(&[greeting(BOTH), blocks(minimum, maximum)].concat()).0);
        assert!(said.contains("contradict"), "{said}");
    }
}

#[test]
fn an_end_at_any_byte_is_an_error() {
    let whole = [
        greeting(BOTH),
        described(1 << 20, 1),
        blocks(1, u32::MAX),
        reply(rep::ACK, &[]),
    ]
    .concat();
    shake(&whole).0.unwrap();
    for len in 0..whole.len() {
        let said = said(shake(&whole[..len]).0);
        assert!(said.contains("closed the connection"), "{len}: {said}");
    }
}

#[test]
fn flags_without_the_first_one_mean_nothing() {
    let server = [greeting(BOTH), described(512, 0xfffe), reply(rep::ACK, &[])];
    assert_eq!(shake(&server.concat()).0.unwrap().flags, 0);
}

/// The handshake under TLS, which this server takes for granted.
fn shake_secured(server: &[u8]) -> (Result<Export, HandshakeError>, Vec<u8>) {
    let mut stream = Said {
        server,
        client: Vec::new(),
    };
    let export = greet(&mut stream)
        .and_then(|greeting| start_tls(&mut stream, greeting))
        .and_then(|greeting| go(&mut stream, greeting, "e"));
    (export, stream.client)
}

#[test]
fn tls_comes_before_everything_else() {
    let agreed = reply_to(opt::STARTTLS, rep::ACK, &[]);
    let rest = [described(512, 1), reply(rep::ACK, &[])].concat();
    let server = [greeting(BOTH), agreed.clone(), rest].concat();
    let (export, client) = shake_secured(&server);
    assert_eq!(export.unwrap().size, 512);
    let mut expected = vec![0, 0, 0, 3];
    expected.extend(b"IHAVEOPT\0\0\0\x05\0\0\0\0");
    expected.extend(b"IHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x01e\0\x01\0\x03");
    assert_eq!(client, expected);
    // What was agreed in the clear counts for nothing: not even how the old way ends.
    let old = [
        greeting(BOTH),
        agreed,
        reply(rep::ERR_UNSUP, &[]),
        vec![0; 10],
    ];
    let (refused, client) = shake_secured(&old.concat());
    assert!(said(refused).contains("NBD_OPT_GO"));
    assert_eq!(client, expected);
}

#[test]
fn a_server_without_tls_hears_nothing_more() {
    let starttls = |kind, data| reply_to(opt::STARTTLS, kind, data);
    for (server, expected) in [
        (greeting(0), "does not offer"),
        (greeting(handshake::NO_ZEROES), "does not offer"),
        (
            [greeting(BOTH), starttls(rep::ERR_UNSUP, b"")].concat(),
            "does not offer",
        ),
        (
            [greeting(BOTH), starttls(rep::ERR_POLICY, b"not\nhere")].concat(),
            "(it says: not\\nhere)",
        ),
        (
            [greeting(BOTH), starttls(rep::ACK, b"x")].concat(),
            "unknown reply",
        ),
        (
            [greeting(BOTH), starttls(rep::INFO, b"")].concat(),
            "unknown reply",
        ),
        (
            [greeting(BOTH), reply(rep::ACK, b"")].concat(),
            "another option",
        ),
        (
            [greeting(BOTH), starttls(rep::ACK, b"")[..19].to_vec()].concat(),
            "closed the connection",
        ),
    ] {
        let (refused, client) = shake_secured(&server);
        let said = said(refused);
        assert!(said.contains(expected), "{said}");
        assert!(!client.ends_with(b"e\0\x01\0\x03"), "the export's name");
    }
}
