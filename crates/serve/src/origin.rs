//! Hosts that a connection may request.

use std::rc::Rc;
use std::sync::Arc;

use rustls::pki_types;

use crate::http::{Authority, Request, Scheme};
use crate::site::Misdirection;
use crate::sites::Sites;
use crate::tls::ServerName;

/// Kind of a connection, which decides about the hosts that it may request.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// A connection without TLS, at an address that other machines reach.
    Plain,
    /// A connection without TLS, at a loopback address. Only loopback and configured names are answered, against DNS
    /// rebinding: a foreign page whose name resolves to loopback must not read what is served here.
    Loopback,
    /// A connection with TLS, without a server name (SNI).
    Secure,
    /// A connection with TLS, for this server name.
    Named(Rc<ServerName>),
}

impl Origin {
    /// Fails for a request that belongs to another connection, or to none.
    pub(crate) fn check(&self, request: &Request<'_>, sites: &Sites) -> Result<(), Misdirection> {
        if request.scheme == Some(Scheme::Https) && matches!(self, Self::Plain | Self::Loopback) {
            return Err(Misdirection::NotSecure);
        }
        let Some(host) = request.host else {
            return Ok(());
        };
        let Ok(authority) = Authority::parse(host) else {
            return Err(Misdirection::Unknown);
        };
        match self {
            Self::Plain | Self::Secure => Ok(()),
            Self::Loopback if authority.is_loopback() || sites.names(host) => Ok(()),
            Self::Loopback => Err(Misdirection::Unknown),
            Self::Named(asked) => match asked.may_ask_for(authority.name, sites) {
                true => Ok(()),
                false => Err(Misdirection::OtherConnection),
            },
        }
    }
}

impl ServerName {
    /// Returns whether a connection for this server name may request `host`: it is the same host, or of the same site, or
    /// the certificate is valid for it (RFC 9110, 7.4).
    fn may_ask_for(&self, host: &str, sites: &Sites) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        if host.eq_ignore_ascii_case(&self.name) {
            return true;
        }
        let (own, other) = (sites.site(Some(&self.name)), sites.site(Some(host)));
        if let (Some(own), Some(other)) = (own, other)
            && Arc::ptr_eq(own, other)
        {
            return true;
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let certificate = self.certificate.cert.first();
        let certificate = certificate.and_then(|der| webpki::EndEntityCert::try_from(der).ok());
        match (certificate, pki_types::ServerName::try_from(bare)) {
            (Some(certificate), Ok(name)) => {
                certificate.verify_is_valid_for_subject_name(&name).is_ok()
            }
            _ => false,
        }
    }
}
