//! A TLS client in the test's own process, for what no program would send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::server::{Server, Site};

/// First bytes of an HTTP/2 client: the preface, and settings that change nothing.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A TLS connection to the server.
pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Clients that believe a site's authority and want one protocol.
pub(crate) fn config(site: &Site, protocol: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(site.authority.pem().as_bytes());
    roots.add(authority.unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Arc::new(config)
}

/// Connects. The handshake comes with the first bytes that are sent.
pub(crate) fn connect(server: &Server, config: &Arc<ClientConfig>) -> Tls {
    let socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    socket.set_nodelay(true).unwrap();
    let timeout = Some(Duration::from_secs(60));
    socket.set_read_timeout(timeout).unwrap();
    socket.set_write_timeout(timeout).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    StreamOwned::new(session, socket)
}

/// Sends, and returns what comes until the server ends the connection, whichever way.
pub(crate) fn exchange(tls: &mut (impl Read + Write), sent: &[u8]) -> Vec<u8> {
    tls.write_all(sent).unwrap();
    tls.flush().unwrap();
    let mut got = Vec::new();
    let _ = tls.read_to_end(&mut got);
    got
}

/// A frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The fields of `GET /` at localhost.
pub(crate) fn get_fields() -> Vec<u8> {
    let mut fields = vec![0x82, 0x87, 0x84, 0x41, 9];
    fields.extend(b"localhost");
    fields
}
