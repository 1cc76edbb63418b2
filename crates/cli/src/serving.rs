//! Where a volume is served and under what protection, by the options of `open`.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use scrim_export::nbd::{Address, BindError, FileError, Listener, ServerFiles, ServerTls};

use crate::args::ServingArgs;
use crate::commands::note;
use crate::control::Tls;
use crate::error::{CliError, Exit};

/// Where a volume is served, and the TLS that clients must begin, if any.
pub(crate) struct Serving {
    address: Address,
    tls: Option<ServerTls>,
}

impl Serving {
    /// Checks the options and reads the certificates; `usual` is the socket that is served on where no
    /// other address is named.
    pub(crate) fn by(args: &ServingArgs, usual: PathBuf) -> Result<Self, CliError> {
        let address = match &args.nbd {
            None => Address::Unix(usual),
            Some(Address::Unix(path)) => {
                Address::Unix(std::path::absolute(path).map_err(|error| {
                    CliError::io(format_args!("find {}", path.display()), &error)
                })?)
            }
            Some(tcp) => tcp.clone(),
        };
        let tls = match &args.tls_cert {
            None => {
                refuse_plaintext(&address, args.insecure_plaintext)?;
                None
            }
            Some(certificate) => {
                let files = files(certificate, args)?;
                let tls = ServerTls::load(&files)?;
                warn(&address, &files);
                Some(tls)
            }
        };
        Ok(Self { address, tls })
    }

    /// Begins to listen.
    pub(crate) fn listen(&self) -> Result<Listener, BindError> {
        match &self.tls {
            None => Listener::bind(&self.address),
            Some(tls) => Listener::bind_tls(&self.address, tls.clone()),
        }
    }

    /// What `status` tells of it.
    pub(crate) fn tls(&self) -> Option<Tls> {
        self.tls.as_ref().map(|tls| Tls {
            client_certificates: tls.asks_for_certificates(),
        })
    }
}

/// Refuses TCP without TLS, unless it was asked for: whoever can connect reads the plaintext.
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

/// Says what is allowed and may not be meant.
fn warn(address: &Address, files: &ServerFiles) {
    let warning = |text: fmt::Arguments| note(format_args!("scrim: warning: {text}"));
    if matches!(address, Address::Tcp(_)) && files.client_ca.is_none() {
        warning(format_args!(
            "everybody who can connect to {address} can read and write the volume; --tls-ca admits \
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
