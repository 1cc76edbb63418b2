//! The address at which a volume is served, and its TLS, by the options of `open`.

use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use scrim_export::nbd::{Address, FileError, ServerFiles, ServerTls};
use scrim_export::{BindError, Listener};

use crate::args::ServingArgs;
use crate::error::{CliError, Exit};
use crate::nbd::control::Tls;
use crate::nbd::metrics::MetricsListener;
use crate::terminal::note;

/// The sockets of a volume, and the TLS that clients must begin, if any.
pub(crate) struct Serving {
    door: Door,
    tls: Option<ServerTls>,
    metrics: Option<MetricsListener>,
}

/// Sockets that clients connect to.
enum Door {
    /// An address to listen on.
    At(Address),
    /// Sockets that a service manager listens on; at least one.
    Open(Vec<Listener>),
}

impl Serving {
    /// Checks the options and reads the certificates. Sockets that were `handed_on` are used in place of our own;
    /// `usual` is the path of the socket if the options name no address.
    pub(crate) fn by(
        args: &ServingArgs,
        handed_on: Vec<OwnedFd>,
        usual: PathBuf,
    ) -> Result<Self, CliError> {
        let metrics = args.metrics.map(MetricsListener::bind).transpose()?;
        if !handed_on.is_empty() {
            return Self::on(handed_on, args, metrics);
        }
        let address = match &args.nbd {
            None => Address::Unix(usual),
            Some(Address::Unix(path)) => {
                Address::Unix(std::path::absolute(path).map_err(|error| {
                    CliError::io(format_args!("find {}", path.display()), &error)
                })?)
            }
            Some(tcp) => tcp.clone(),
        };
        let tls = tls(args)?;
        check(&address, args, tls.as_ref())?;
        Ok(Self {
            door: Door::At(address),
            tls: tls.map(|(tls, _)| tls),
            metrics,
        })
    }

    /// A socket for this user's own commands.
    pub(crate) fn privately(usual: PathBuf) -> Self {
        Self {
            door: Door::At(Address::Unix(usual)),
            tls: None,
            metrics: None,
        }
    }

    fn on(
        handed_on: Vec<OwnedFd>,
        args: &ServingArgs,
        metrics: Option<MetricsListener>,
    ) -> Result<Self, CliError> {
        if args.nbd.is_some() {
            return Err(CliError::usage(
                "--nbd conflicts with sockets that a service manager passes (LISTEN_FDS); leave out one of them",
            ));
        }
        let tls = tls(args)?;
        let protection = tls.as_ref().map(|(tls, _)| tls.clone());
        let inherit = |socket| -> Result<Listener, CliError> {
            let listener = Listener::inherited(socket, protection.clone())?;
            check(listener.address(), args, tls.as_ref())?;
            Ok(listener)
        };
        let listeners = handed_on.into_iter().map(inherit);
        Ok(Self {
            door: Door::Open(listeners.collect::<Result<_, _>>()?),
            tls: protection,
            metrics,
        })
    }

    /// Takes out the listener for figures, if they are to be served.
    pub(crate) fn take_metrics(&mut self) -> Option<MetricsListener> {
        self.metrics.take()
    }

    pub(crate) fn listen(self) -> Result<Vec<Listener>, BindError> {
        match (self.door, self.tls) {
            (Door::Open(listeners), _) => Ok(listeners),
            (Door::At(address), None) => Ok(vec![Listener::bind(&address)?]),
            (Door::At(address), Some(tls)) => Ok(vec![Listener::bind_tls(&address, tls)?]),
        }
    }

    /// TLS of the address, as `status` shows it.
    pub(crate) fn tls(&self) -> Option<Tls> {
        self.tls.as_ref().map(|tls| Tls {
            client_certificates: tls.asks_for_certificates(),
        })
    }
}

/// The certificate that the options name, and its files.
fn tls(args: &ServingArgs) -> Result<Option<(ServerTls, ServerFiles)>, CliError> {
    let Some(certificate) = &args.tls_cert else {
        return Ok(None);
    };
    let files = files(certificate, args)?;
    Ok(Some((ServerTls::load(&files)?, files)))
}

/// Checks whether a volume may be served at an address with this protection.
fn check(
    address: &Address,
    args: &ServingArgs,
    tls: Option<&(ServerTls, ServerFiles)>,
) -> Result<(), CliError> {
    match tls {
        None => refuse_plaintext(address, args.insecure_plaintext),
        Some((_, files)) => {
            warn(address, files);
            Ok(())
        }
    }
}

/// Refuses TCP without TLS, unless it was asked for: any client that can connect reads the plaintext.
fn refuse_plaintext(address: &Address, insecure: bool) -> Result<(), CliError> {
    match address {
        Address::Tcp(_) if !insecure => Err(CliError::usage(format!(
            "{address}: others can connect to TCP and would read the plaintext; give a certificate \
             (--tls-cert and --tls-key), or allow it for all users of this machine \
             (--insecure-plaintext)"
        ))),
        _ => Ok(()),
    }
}

/// The files that the options name.
fn files(certificate: &Path, args: &ServingArgs) -> Result<ServerFiles, CliError> {
    let shown = certificate.display();
    let mut files = if certificate.is_dir() {
        if args.tls_key.is_some() {
            return Err(CliError::usage(format!(
                "{shown} is a directory, whose key is server-key.pem; leave --tls-key out, or name the \
                 certificate"
            )));
        }
        ServerFiles::in_directory(certificate)
    } else {
        let Some(key) = args.tls_key.clone() else {
            if !certificate.exists() {
                return Err(CliError::new(
                    Exit::WrongDevice,
                    format!(
                        "{shown} does not exist; name a directory or a file with the certificate"
                    ),
                ));
            }
            return Err(CliError::usage(format!(
                "{shown} needs its private key; name it with --tls-key"
            )));
        };
        ServerFiles {
            certificate: certificate.to_owned(),
            key,
            client_ca: None,
        }
    };
    if args.tls_ca.is_some() {
        files.client_ca.clone_from(&args.tls_ca);
    }
    Ok(files)
}

/// Warns of what is allowed but may not be intended.
fn warn(address: &Address, files: &ServerFiles) {
    let warning = |text: fmt::Arguments| note(format_args!("scrim: warning: {text}"));
    if matches!(address, Address::Tcp(_)) && files.client_ca.is_none() {
        warning(format_args!(
            "anyone who can connect to {address} can read and write the volume; --tls-ca admits \
             only clients with a certificate"
        ));
    }
    if std::fs::metadata(&files.key).is_ok_and(|key| key.mode() & 0o004 != 0) {
        warning(format_args!(
            "{}: other users can read the private key; take the permission away (chmod o-r)",
            files.key.display()
        ));
    }
}

impl From<FileError> for CliError {
    fn from(error: FileError) -> Self {
        Self::new(Exit::WrongDevice, error.to_string())
    }
}
