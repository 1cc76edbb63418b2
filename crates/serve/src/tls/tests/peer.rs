//! Clients: rustls's own, and one that seals its own records and may say anything.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

use crate::tls::record::{Direction, Kind, Opener, Sealer};
use crate::tls::{
    Certificate, CertificateSet, Certificates, Handshake, Session, Settings, Suite, Tickets,
    TlsError,
};

/// One suite of each kind, for a certificate with ECDSA.
pub(super) const SUITES: [&str; 6] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// A server with a certificate of its own, and what a client needs to believe it.
pub(super) struct World {
    pub(super) certificates: Arc<Certificates>,
    pub(super) server: Arc<ServerConfig>,
    pub(super) roots: Arc<RootCertStore>,
}

pub(super) fn world() -> World {
    world_with(&Settings::default())
}

pub(super) fn only(suite: &str) -> World {
    world_with(&Settings {
        only: Some(suite.parse::<Suite>().unwrap()),
        ..Settings::default()
    })
}

pub(super) fn world_with(settings: &Settings) -> World {
    let names = ["files.example".to_owned()];
    let certificate = Certificate::self_signed(&names).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.chain()[0].clone()).unwrap();
    let certificates = Certificates::new(CertificateSet::new(&[certificate]));
    let tickets = Arc::new(Tickets::new(None).unwrap());
    World {
        server: settings.build(Arc::clone(&certificates), tickets).unwrap(),
        certificates,
        roots: Arc::new(roots),
    }
}

impl World {
    /// A client as browsers are: it prefers the hybrid key exchange.
    pub(super) fn client(&self) -> ClientConfig {
        let provider = CryptoProvider {
            kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519],
            ..aws_lc_rs::default_provider()
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .unwrap()
            .with_root_certificates(Arc::clone(&self.roots))
            .with_no_client_auth();
        config.enable_secret_extraction = true;
        config
    }

    pub(super) fn connect(&self) -> Pair {
        self.connect_as(Arc::new(self.client()), u64::MAX)
    }

    pub(super) fn connect_as(&self, config: Arc<ClientConfig>, records_max: u64) -> Pair {
        let mut client = ClientConnection::new(config, name("files.example")).unwrap();
        let (established, incoming) = self.perform_handshake(&mut client).unwrap();
        let session = Session::with_records_max(established, records_max).unwrap();
        Pair {
            client,
            session,
            incoming,
        }
    }

    /// A handshake with a client; what it leaves, and what it has left in the buffer.
    pub(super) fn perform_handshake(
        &self,
        client: &mut ClientConnection,
    ) -> Result<(crate::tls::Established, Vec<u8>), TlsError> {
        let mut server = Handshake::new(Arc::clone(&self.server)).unwrap();
        let mut incoming = Vec::new();
        loop {
            while client.wants_write() {
                client.write_tls(&mut incoming).unwrap();
            }
            let mut outgoing = Vec::new();
            let progress = server.advance(&mut incoming, &mut outgoing);
            feed(client, &outgoing);
            let progress = progress?;
            incoming.drain(..progress.taken);
            if progress.done {
                return Ok((server.finish().unwrap(), incoming));
            }
        }
    }
}

pub(super) fn name(name: &'static str) -> ServerName<'static> {
    ServerName::try_from(name).unwrap()
}

/// Gives a client what the server sent. What it does not like, it tells the server.
pub(super) fn feed(client: &mut ClientConnection, mut records: &[u8]) {
    while !records.is_empty() {
        client.read_tls(&mut records).unwrap();
        if client.process_new_packets().is_err() {
            return;
        }
    }
}

/// A connection after its handshake.
pub(super) struct Pair {
    pub(super) client: ClientConnection,
    pub(super) session: Session,
    pub(super) incoming: Vec<u8>,
}

/// A client that seals its own records.
pub(super) struct Rogue {
    pub(super) sealer: Sealer,
    pub(super) opener: Opener,
    pub(super) session: Session,
}

impl Rogue {
    pub(super) fn new(suite: &str) -> Self {
        let world = only(suite);
        let config = Arc::new(world.client());
        let mut client = UnbufferedClientConnection::new(config, name("files.example")).unwrap();
        let mut server = Handshake::new(Arc::clone(&world.server)).unwrap();
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        let mut done = false;
        while !drive(&mut client, &mut to_client, &mut to_server) || !done {
            let progress = server.advance(&mut to_server, &mut to_client).unwrap();
            to_server.drain(..progress.taken);
            done = progress.done;
        }
        let (secrets, _) = client.dangerous_into_kernel_connection().unwrap();
        let established = server.finish().unwrap();
        let tls13 = established.facts.tls13();
        let direction = |(sequence, secrets)| Direction {
            sequence,
            secrets,
            tls13,
        };
        Self {
            sealer: Sealer::new(direction(secrets.tx), u64::MAX).unwrap(),
            opener: Opener::new(direction(secrets.rx)).unwrap(),
            session: Session::new(established).unwrap(),
        }
    }

    /// A record of the client's.
    pub(super) fn record(&mut self, kind: Kind, payload: &[u8]) -> Vec<u8> {
        let layout = self.sealer.layout();
        let mut record = vec![0; layout.record(payload.len())];
        record[layout.before..layout.before + payload.len()].copy_from_slice(payload);
        self.sealer.seal(kind, &mut record, payload.len()).unwrap();
        record
    }

    /// Hands the server a record, and returns its result.
    pub(super) fn say(
        &mut self,
        kind: Kind,
        payload: &[u8],
    ) -> Result<crate::tls::Opened, TlsError> {
        let mut record = self.record(kind, payload);
        self.session.open(&mut record)
    }

    /// Opens all that the server has sent.
    pub(super) fn hear(&mut self, mut records: &mut [u8]) -> Vec<(Kind, Vec<u8>)> {
        let mut heard = Vec::new();
        while let Some(len) = self.opener.record_len(records).unwrap() {
            let (record, rest) = records.split_at_mut(len);
            let opened = self.opener.open(record).unwrap();
            heard.push((opened.kind, record[opened.payload].to_vec()));
            records = rest;
        }
        heard
    }
}

/// Goes on with a client's handshake; whether it is over, tickets taken.
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
                let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) else {
                    panic!("nothing to encode");
                };
                let start = outgoing.len();
                outgoing.resize(start + needed.required_size, 0);
                data.encode(&mut outgoing[start..]).unwrap();
                None
            }
            ConnectionState::TransmitTlsData(data) => {
                data.done();
                None
            }
            ConnectionState::WriteTraffic(_) => Some(true),
            ConnectionState::BlockedHandshake => Some(false),
            state => panic!("{state:?}"),
        };
        incoming.drain(..discard);
        if let Some(over) = over {
            return over;
        }
    }
}
