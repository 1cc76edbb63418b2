//! Options of the NBD server of a volume: its address and TLS.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use scrim_export::nbd::Address;

#[derive(Args)]
pub(crate) struct ServingArgs {
    /// Listen on unix:PATH or tcp:IP:PORT (default: a private unix socket)
    #[arg(long, value_name = "ADDR")]
    pub(crate) nbd: Option<Address>,
    /// Require TLS, with the certificate chain in FILE (PEM), or with server-cert.pem, server-key.pem and,
    /// if it exists, ca-cert.pem in a directory, as for QEMU and nbdkit
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Require a client certificate that is signed by a CA in FILE (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Allow TCP without TLS on a loopback address, where every user of this machine can connect
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) insecure_plaintext: bool,
    /// Serve the figures of `stats` for Prometheus at http://IP:PORT/metrics, on a loopback address, where
    /// every user of this machine can read them
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
}
