//! A TLS client of the HTTPS server that has completed its handshake, and then may send anything under the
//! right key.

use std::sync::{Arc, OnceLock};

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305};
use aws_lc_rs::aead::{LessSafeKey, Nonce, UnboundKey};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError};
use rustls::{ClientConfig, ConnectionTrafficSecrets, RootCertStore, ServerConfig};
use scrim_serve::tls::record::{Direction, Opener};
use scrim_serve::tls::{
    Certificate, CertificateSet, Certificates, Handshake, Session, Settings, Suite, Tickets,
};

/// The suites for a certificate with ECDSA, one of each kind and version.
const SUITES: [&str; 6] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
];

struct World {
    servers: Vec<Arc<ServerConfig>>,
    client: Arc<ClientConfig>,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let certificate = Certificate::self_signed(&[]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.chain()[0].clone()).unwrap();
        let certificates = Certificates::new(CertificateSet::new(&[certificate]));
        let mut client = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.enable_secret_extraction = true;
        let server = |only| {
            let http2 = true;
            let settings = Settings { only, http2 };
            let tickets = Arc::new(Tickets::new(None).unwrap());
            settings.build(Arc::clone(&certificates), tickets).unwrap()
        };
        let mut servers = vec![server(None)];
        servers.extend(SUITES.map(|name| server(Some(name.parse::<Suite>().unwrap()))));
        World {
            servers,
            client: Arc::new(client),
        }
    })
}

/// A server that offers all suites.
#[must_use]
pub fn server() -> Arc<ServerConfig> {
    Arc::clone(&world().servers[0])
}

/// Key with which a client seals records; it does not use the code that is fuzzed.
struct Key {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
    explicit: bool,
}

impl Key {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets), tls13: bool) -> Self {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => unreachable!("another suite"),
        };
        Self {
            key: LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).unwrap()),
            iv: iv.as_ref().try_into().unwrap(),
            sequence,
            explicit: !tls13 && !std::ptr::eq(algorithm, &CHACHA20_POLY1305),
        }
    }
}

/// A client, and the session of its server.
pub struct Client {
    key: Key,
    kernel: KernelConnection<ClientConnectionData>,
    tls13: bool,
    /// Opens the server's records.
    pub opener: Opener,
    /// The server's side of the connection.
    pub session: Session,
}

impl Client {
    /// Makes a handshake with a suite that `choice` selects; each key of the server seals at most
    /// `records_max` records of data.
    #[must_use]
    pub fn connect(choice: u8, records_max: u64) -> Self {
        let server = &world().servers[1 + usize::from(choice) % SUITES.len()];
        let name = ServerName::try_from("localhost").unwrap();
        let mut client =
            UnbufferedClientConnection::new(Arc::clone(&world().client), name).unwrap();
        let mut server = Handshake::new(Arc::clone(server)).unwrap();
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        let mut done = false;
        while !drive(&mut client, &mut to_client, &mut to_server) || !done {
            let progress = server.advance(&mut to_server, &mut to_client).unwrap();
            to_server.drain(..progress.taken);
            done = progress.done;
        }
        let (secrets, kernel) = client.dangerous_into_kernel_connection().unwrap();
        let established = server.finish().unwrap();
        let tls13 = established.facts.tls13();
        let (sequence, receiving) = secrets.rx;
        Self {
            key: Key::new(secrets.tx, tls13),
            kernel,
            tls13,
            opener: opener(sequence, receiving, tls13),
            session: Session::with_records_max(established, records_max).unwrap(),
        }
    }

    /// Returns true for TLS 1.3, false for TLS 1.2.
    #[must_use]
    pub fn tls13(&self) -> bool {
        self.tls13
    }

    /// A record of this kind with this inside: in TLS 1.3 that ends with the kind and zeros.
    #[must_use]
    pub fn record(&mut self, kind: u8, inside: &[u8]) -> Vec<u8> {
        let key = &mut self.key;
        let mut nonce = key.iv;
        for (byte, count) in nonce[4..].iter_mut().zip(key.sequence.to_be_bytes()) {
            *byte ^= count;
        }
        let explicit = if key.explicit { &nonce[4..] } else { &[] };
        let len = u16::try_from(explicit.len() + inside.len() + 16).unwrap();
        let [high, low] = len.to_be_bytes();
        let header = [kind, 3, 3, high, low];
        let mut data = header.to_vec();
        if !self.tls13 {
            let len = u16::try_from(inside.len()).unwrap().to_be_bytes();
            data = [&key.sequence.to_be_bytes()[..], &[kind, 3, 3], &len].concat();
        }
        let mut body = inside.to_vec();
        let once = Nonce::assume_unique_for_key(nonce);
        key.key
            .seal_in_place_append_tag(once, Aad::from(data), &mut body)
            .unwrap();
        key.sequence += 1;
        [&header[..], explicit, &body].concat()
    }

    /// Switches to the client's next key, as after a KeyUpdate that it has sent.
    pub fn next_key(&mut self) {
        self.key = Key::new(self.kernel.update_tx_secret().unwrap(), true);
    }

    /// Switches to the server's next key, after a KeyUpdate that it has sent.
    pub fn next_key_of_server(&mut self) {
        let (sequence, secrets) = self.kernel.update_rx_secret().unwrap();
        self.opener = opener(sequence, secrets, true);
    }
}

fn opener(sequence: u64, secrets: ConnectionTrafficSecrets, tls13: bool) -> Opener {
    let direction = Direction {
        sequence,
        secrets,
        tls13,
    };
    Opener::new(direction).unwrap()
}

/// Continues a client's handshake; returns true once it is complete and the tickets are taken.
fn drive(
    client: &mut UnbufferedClientConnection,
    incoming: &mut Vec<u8>,
    outgoing: &mut Vec<u8>,
) -> bool {
    loop {
        let status = client.process_tls_records(incoming);
        let discard = status.discard;
        let over = match status.state.unwrap() {
            ConnectionState::EncodeTlsData(mut data) => {
                if let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) {
                    let start = outgoing.len();
                    outgoing.resize(start + needed.required_size, 0);
                    data.encode(&mut outgoing[start..]).unwrap();
                }
                None
            }
            ConnectionState::TransmitTlsData(data) => {
                data.done();
                None
            }
            ConnectionState::WriteTraffic(_) => Some(true),
            _ => Some(false),
        };
        incoming.drain(..discard);
        if let Some(over) = over {
            return over;
        }
    }
}
