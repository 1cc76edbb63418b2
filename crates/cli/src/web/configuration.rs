//! The options of the command line on top of a file.

use std::fs;

use scrim_serve::config::{CertificateConfig, Config, LogConfig, SiteConfig};

use crate::args::ServeArgs;
use crate::error::CliError;

/// The options of the command line as a configuration, on top of a file's.
pub(crate) fn configuration(args: &ServeArgs) -> Result<Config, CliError> {
    let mut config = match &args.config {
        Some(path) => {
            let text = fs::read_to_string(path)
                .map_err(|error| CliError::io(format_args!("read {}", path.display()), &error))?;
            let folder = path.parent().unwrap_or(path);
            Config::parse(&text, folder)
                .map_err(|error| CliError::usage(error.to_string()).within(path.display()))?
        }
        None => Config::default(),
    };
    if let Some(root) = &args.root {
        config.sites = vec![SiteConfig {
            root: root.clone(),
            listings: !args.no_listings,
            ..SiteConfig::default()
        }];
    }
    override_places(&mut config, args);
    if args.certificate.len() != args.key.len() {
        return Err(CliError::usage(
            "each --certificate needs its --key, in the same order",
        ));
    }
    if !args.certificate.is_empty() {
        let pairs = args.certificate.iter().zip(&args.key);
        config.tls.certificates = pairs
            .map(|(chain, key)| CertificateConfig {
                chain: chain.clone(),
                key: key.clone(),
            })
            .collect();
    }
    if args.tls_suite.is_some() {
        config.tls.suite.clone_from(&args.tls_suite);
    }
    if args.no_http2 {
        config.tls.http2 = Some(false);
    }
    if let Some(offload) = args.tls_offload {
        config.tls.offload = offload.into();
    }
    if let Some(file) = &args.access_log {
        config.access_log = Some(LogConfig {
            file: file.clone(),
            format: args.access_log_format.into(),
        });
    }
    if let Some(threads) = args.threads {
        config.threads = Some(threads.into());
    }
    check(&config, args)?;
    Ok(config)
}

fn override_places(config: &mut Config, args: &ServeArgs) {
    for (given, place) in [
        (&args.listen, &mut config.listen),
        (&args.plain_http, &mut config.plain_http),
        (&args.redirect_http, &mut config.redirect_http),
    ] {
        if !given.is_empty() {
            place.clone_from(given);
        }
    }
    config.status = args.status.or(config.status);
}

/// Refuses what would show more than its user may think of.
fn check(config: &Config, args: &ServeArgs) -> Result<(), CliError> {
    if config.sites.is_empty() {
        return Err(CliError::usage(
            "there is nothing to serve: name a folder, or give the configuration a [[site]]",
        ));
    }
    let mut plain = config.plain_http.iter();
    if let Some(address) = plain.find(|at| !at.ip().is_loopback() && !args.insecure_plaintext) {
        return Err(CliError::usage(format!(
            "--plain-http {address}: others could read and change what is served there; leave it to \
             --listen, send its clients on by --redirect-http, or allow it (--insecure-plaintext)"
        )));
    }
    refuse_served_keys(config)?;
    match config.status {
        Some(address) if !address.ip().is_loopback() => Err(CliError::usage(format!(
            "--status {address} could be reached from other machines, without protection; use a \
             loopback address such as 127.0.0.1:9180"
        ))),
        _ => Ok(()),
    }
}

/// Refuses a private key in a folder that is served: everybody could fetch it.
fn refuse_served_keys(config: &Config) -> Result<(), CliError> {
    for certificate in &config.tls.certificates {
        let Ok(key) = certificate.key.canonicalize() else {
            continue;
        };
        let holds = |site: &&SiteConfig| {
            site.root
                .canonicalize()
                .is_ok_and(|root| key.starts_with(root))
        };
        if let Some(site) = config.sites.iter().find(holds) {
            return Err(CliError::usage(format!(
                "{} is a private key in the folder that is served, {}: move it elsewhere",
                certificate.key.display(),
                site.root.display()
            )));
        }
    }
    Ok(())
}
