//! Configuration of `scrim serve`: the options of the command line on top of a file.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use scrim_serve::config::{
    CertificateConfig, Config, LogConfig, MountConfig, SiteConfig, VolumeConfig, VolumeRoot,
};
use scrim_volume::DataPath;

use crate::args::{ServeArgs, ServeVolumeArgs};
use crate::error::CliError;
use crate::terminal::note;

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
    if let Some((root, mounts)) = args.roots.split_first() {
        let volume = volume(&args.volume);
        let mounts = mounts.iter().map(|root| mount(root, args, &volume));
        config.sites = vec![SiteConfig {
            root: root.clone(),
            mounts: mounts.collect::<Result<_, _>>()?,
            key_file: args.volume.key_file.clone(),
            volume,
            listings: Some(true),
            ..SiteConfig::default()
        }];
    }
    if args.no_listings {
        for site in &mut config.sites {
            site.listings = Some(false);
        }
    }
    for (index, site) in config.sites.iter().enumerate() {
        warn_of_nothing_to_show(site).map_err(in_site(args, &config, index))?;
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
    if args.ticket_keys.is_some() {
        config.tls.ticket_keys.clone_from(&args.ticket_keys);
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

/// Puts the configuration file before the message of an error, unless the setting came from an option of the command
/// line.
pub(super) fn in_file(args: &ServeArgs, is_option: bool) -> impl Fn(CliError) -> CliError {
    let file = args.config.as_ref().filter(|_| !is_option);
    move |error| match file {
        Some(file) => error.within(file.display()),
        None => error,
    }
}

/// Puts the configuration file and one of its sites before the message of an error, unless the sites came from the
/// command line.
pub(super) fn in_site(
    args: &ServeArgs,
    config: &Config,
    index: usize,
) -> impl Fn(CliError) -> CliError {
    let title = config.site_title(index);
    move |error| match args.roots.is_empty() {
        true => in_file(args, false)(error.within(&title)),
        false => error,
    }
}

/// Settings for opening volumes, by the options.
fn volume(args: &ServeVolumeArgs) -> VolumeConfig {
    let data_path = args.data_path.map(|path| DataPath::from(path).to_string());
    VolumeConfig {
        keyfile_offset: args.keyfile_offset,
        keyfile_size: args.keyfile_size,
        key_slot: args.key_slot,
        header: args.header.clone(),
        data_path,
    }
}

/// A ROOT that says below which path it is served.
fn mount(said: &Path, args: &ServeArgs, volume: &VolumeConfig) -> Result<MountConfig, CliError> {
    let bytes = said.as_os_str().as_bytes();
    let wrong = || {
        CliError::usage(format!(
            "{}: a second ROOT says below which path it is served: {}",
            said.display(),
            match said.to_str().filter(|said| said.contains('=')) {
                Some(said) => format!("/{said}"),
                None => format!("/PATH={}", said.display()),
            }
        ))
    };
    let at = bytes.iter().position(|&byte| byte == b'=');
    let (at, root) = bytes.split_at(at.filter(|_| bytes.starts_with(b"/")).ok_or_else(wrong)?);
    if root.len() < 2 {
        return Err(wrong());
    }
    Ok(MountConfig {
        at: String::from_utf8(at.to_vec()).map_err(|_| wrong())?,
        root: OsStr::from_bytes(&root[1..]).into(),
        key_file: args.volume.key_file.clone(),
        volume: volume.clone(),
    })
}

/// Warns if clients of a site get an error at its first address, as folders are only listed where that is configured.
fn warn_of_nothing_to_show(site: &SiteConfig) -> Result<(), CliError> {
    if site.listings.is_some() || !site.root.is_dir() {
        return Ok(());
    }
    let settings = site
        .settings()
        .map_err(|error| CliError::usage(error.to_string()))?;
    let is_there = |name: &String| site.root.join(name).exists();
    if !settings.index.iter().any(is_there) {
        note(format_args!(
            "scrim: warning: {} has no {}, and folders are not listed, so that clients find nothing there; set \
             listings = true, or false",
            site.root.display(),
            settings.index.join(" or ")
        ));
    }
    Ok(())
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

/// Refuses a configuration that would expose more than its user may expect.
fn check(config: &Config, args: &ServeArgs) -> Result<(), CliError> {
    if config.sites.is_empty() {
        let nothing =
            "there is nothing to serve: name a folder, or give the configuration a [[site]]";
        return Err(in_file(args, false)(CliError::usage(nothing)));
    }
    let of_plain = in_file(args, !args.plain_http.is_empty());
    let mut plain = config.plain_http.iter();
    if let Some(address) = plain.find(|at| !at.ip().is_loopback() && !args.insecure_plaintext) {
        return Err(of_plain(CliError::usage(format!(
            "--plain-http {address}: others could read and change what is served there; leave it to \
             --listen, send its clients on by --redirect-http, or allow it (--insecure-plaintext)"
        ))));
    }
    let mut plain = config.plain_http.iter();
    let has_users = config.sites.iter().any(|site| site.users.is_some());
    if let Some(address) = plain.find(|at| has_users && !at.ip().is_loopback()) {
        return Err(of_plain(CliError::usage(format!(
            "plain-http {address}: a [[site]] has users, whose passwords others could read there; use redirect-http \
             for that address, or a loopback address"
        ))));
    }
    let has_options =
        !args.roots.is_empty() || !args.certificate.is_empty() || args.ticket_keys.is_some();
    refuse_served_keys(config).map_err(in_file(args, has_options))?;
    match config.status {
        Some(address) if !address.ip().is_loopback() => {
            let error = CliError::usage(format!(
                "--status {address} could be reached from other machines, without protection; use a \
                 loopback address such as 127.0.0.1:9180"
            ));
            Err(in_file(args, args.status.is_some())(error))
        }
        _ => Ok(()),
    }
}

/// Refuses a key, or data from which a key could be guessed, in a folder that is served: any client could fetch it.
fn refuse_served_keys(config: &Config) -> Result<(), CliError> {
    let sites = &config.sites;
    let roots: Vec<_> = sites.iter().flat_map(SiteConfig::roots).collect();
    let of_tls = config.tls.certificates.iter().map(|files| &files.key);
    let of_tickets = config.tls.ticket_keys.iter();
    let of_volumes = sites.iter().flat_map(|site| {
        let mounts = site.mounts.iter().flat_map(|mount| &mount.key_file);
        site.key_file.iter().chain(mounts)
    });
    let of_headers = sites.iter().flat_map(|site| {
        let mounts = site.mounts.iter().map(|mount| &mount.volume);
        let all = std::iter::once(&site.volume).chain(mounts);
        all.filter_map(|volume| volume.header.clone())
    });
    let images = roots
        .iter()
        .filter_map(|root| Some(VolumeRoot::of(root)?.image));
    for (key, what) in (of_tls.map(|key| (key.clone(), "a private key")))
        .chain(of_tickets.map(|keys| (keys.clone(), "a file of ticket keys")))
        .chain(of_volumes.map(|key| (key.clone(), "the key of a volume")))
        .chain(of_headers.map(|header| (header, "the header of a volume, with its key slots,")))
        .chain(images.map(|image| (image, "the image of a volume, with its key slots,")))
    {
        let Ok(whole) = key.canonicalize() else {
            continue;
        };
        let holds = |root: &&&std::path::PathBuf| {
            root.canonicalize()
                .is_ok_and(|root| whole.starts_with(root))
        };
        if let Some(root) = roots.iter().find(holds) {
            return Err(CliError::usage(format!(
                "{} is {what} in the folder that is served, {}: move it elsewhere",
                key.display(),
                root.display()
            )));
        }
    }
    Ok(())
}
