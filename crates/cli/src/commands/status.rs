//! `scrim status NAME`: shows the state of an open volume.

use serde::Serialize;

use crate::args::NameArgs;
use crate::error::CliError;
use crate::kernel::KernelStatus;
use crate::nbd::control::{ClusterImage, Connection, ExclusiveLock, Server, Status, Tls};
use crate::running_volume::{RunningVolume, not_open};
use crate::terminal::{print, print_json};
use crate::volume::opening::NOT_LOCKED;

pub(crate) fn run(args: &NameArgs) -> Result<(), CliError> {
    let Some(volume) = RunningVolume::find(&args.name)? else {
        if !args.json {
            // On standard output, as in cryptsetup: scripts look for it there.
            print(format!("{} is inactive.\n", args.name.as_str()).as_bytes())?;
        }
        return Err(not_open(&args.name));
    };
    match volume {
        RunningVolume::Scrim(client) => show(args, &client.status()?, describe),
        RunningVolume::Kernel(volume) => show(args, &volume.status()?, KernelStatus::describe),
    }
}

/// Prints a status as it is asked for.
fn show<T: Serialize>(
    args: &NameArgs,
    status: &T,
    describe: impl FnOnce(&T) -> String,
) -> Result<(), CliError> {
    match args.json {
        true => print_json(status),
        false => print(describe(status).as_bytes()),
    }
}

fn describe(status: &Status) -> String {
    let mut rows = rows(status);
    let place = |rows: &[(&str, String)], label| {
        let at = rows.iter().position(|(found, _)| *found == label);
        at.unwrap_or(rows.len())
    };
    if let Some(tls) = status.tls {
        let at = place(&rows, "process");
        rows.insert(at, ("tls", describe_tls(tls).to_owned()));
    }
    if let Some(metrics) = &status.metrics {
        let at = place(&rows, "process");
        rows.insert(at, ("metrics", metrics.clone()));
    }
    rows.extend(status.connections.iter().filter_map(describe_connection));
    if let Some(header) = &status.header {
        let at = place(&rows, "engine");
        rows.insert(at, ("header", header.clone()));
    }
    let servers = status.servers.iter().map(describe_server);
    let at = place(&rows, "sector size");
    rows.splice(at..at, servers.map(|server| ("connection", server)));
    let images = status.cluster_images.iter().map(describe_cluster_image);
    let at = place(&rows, "sector size");
    rows.splice(at..at, images.map(|image| ("cluster", image)));
    if !status.keys_locked {
        rows.push(("warning", NOT_LOCKED.to_owned()));
    }
    let warnings = status.warnings.iter();
    rows.extend(warnings.map(|warning| ("warning", warning.clone())));
    rows.extend(status.errors.iter().map(|error| ("error", error.clone())));
    let in_use = if status.clients > 0 {
        " and is in use"
    } else {
        ""
    };
    let mut text = format!("{} is active{in_use}.\n", status.name);
    for (label, value) in rows {
        text.push_str(&format!("  {:<13} {value}\n", format!("{label}:")));
    }
    text
}

/// Rows that are shown of every volume: label and value.
fn rows(status: &Status) -> Vec<(&'static str, String)> {
    let served = &status.served;
    let or_none = |text: String| {
        if text.is_empty() {
            "(none)".into()
        } else {
            text
        }
    };
    let either = |is: bool, then: &str, otherwise: &str| {
        let word = if is { then } else { otherwise };
        word.to_owned()
    };
    let driver = or_none(status.driver.clone());
    let paths = format!("reads {}, writes {}", status.read_path, status.write_path);
    vec![
        ("type", status.r#type.clone()),
        ("cipher", or_none(status.cipher.clone())),
        ("keysize", format!("{} bits", status.key_bits)),
        ("driver", format!("{driver}, {}", status.data_path)),
        ("data path", paths),
        ("device", status.device.clone()),
        ("engine", status.engine.clone()),
        ("sector size", status.sector_size.to_string()),
        ("offset", format!("{} sectors", status.offset_sectors)),
        ("size", format!("{} sectors", status.size_sectors)),
        ("mode", either(status.read_only, "readonly", "read/write")),
        ("flags", or_none(status.flags.join(" "))),
        ("state", state(status).to_owned()),
        (
            "tables",
            either(status.inactive_table, "LIVE & INACTIVE", "LIVE"),
        ),
        (
            "served",
            format!(
                "{} reads ({} bytes), {} writes ({} bytes), {} flushes",
                served.reads,
                served.read_bytes,
                served.writes,
                served.written_bytes,
                served.flushes
            ),
        ),
        ("clients", describe_clients(status)),
        ("address", status.address.clone()),
        (
            "process",
            match status.of_another_version() {
                None => status.pid.to_string(),
                Some(advice) => format!("{}, of Scrim {advice}", status.pid),
            },
        ),
    ]
}

fn state(status: &Status) -> &'static str {
    match (status.suspended, &*status.key) {
        (_, "forgotten") => "SUSPENDED, its key is forgotten",
        (_, "being destroyed") => "SUSPENDED, its key is being destroyed and still in memory",
        (true, _) => "SUSPENDED",
        (false, _) if status.closes_when_unused => "ACTIVE, closes when nobody uses it",
        (false, _) => "ACTIVE",
    }
}

/// Time, in milliseconds, from which a server counts as far: the answer takes longer than the work on 1 MiB of data.
const FAR_MS: f64 = 0.5;

/// The connection to a server, as a line.
fn describe_server(server: &Server) -> String {
    let now = match server.connections {
        0 => "lost, being made again".to_owned(),
        number => format!("{number} to the server"),
    };
    let tls = server.tls.as_ref().map_or(String::new(), |tls| {
        format!(", {} {}", tls.version, tls.cipher_suite)
    });
    let distance = server.round_trip_ms.map_or(String::new(), |ms| {
        let distance = if ms < FAR_MS { "near" } else { "far" };
        format!(", {distance} (answers after {ms:.2} ms)")
    });
    let lost = match server.reconnects {
        0 => String::new(),
        1 => ", lost once".to_owned(),
        times => format!(", lost {times} times"),
    };
    format!(
        "{now}{tls}{distance}{lost}, {} bytes written again, {} bytes kept until a flush",
        server.replayed_bytes, server.unflushed_bytes
    )
}

/// An image of a cluster and its lock, as a line.
fn describe_cluster_image(image: &ClusterImage) -> String {
    let lock = match image.exclusive_lock {
        ExclusiveLock::Held => "exclusive lock held",
        ExclusiveLock::Lost => {
            "exclusive lock lost to another client: close the volume and open it again"
        }
        ExclusiveLock::Unneeded => "no lock, as it is only read",
    };
    format!(
        "client.{}, {lock}, objects of {} bytes",
        image.client, image.object_size
    )
}

/// Number of clients, and of connections that are in their handshake, were turned away or gave way.
fn describe_clients(status: &Status) -> String {
    let mut text = status.clients.to_string();
    for (count, what) in [
        (status.handshaking as u64, "in their handshake"),
        (status.turned_away, "turned away"),
        (status.displaced, "dropped in their handshake"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}

fn describe_tls(tls: Tls) -> &'static str {
    if tls.client_certificates {
        "required, with a certificate of the client"
    } else {
        "required"
    }
}

/// Row that shows the TLS of a client's connection; `None` without TLS.
fn describe_connection(connection: &Connection) -> Option<(&'static str, String)> {
    let tls = connection.tls.as_ref()?;
    let Connection { peer, .. } = connection;
    Some((
        "client",
        format!("{peer}, {} {}", tls.version, tls.cipher_suite),
    ))
}
