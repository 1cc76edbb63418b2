//! Status and figures of an open volume.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use scrim_export::ClientStatus;
use scrim_export::nbd::Protection;
use scrim_sys::memory::{Locking, SecretBytes, locking};
use scrim_volume::{CryptSpec, Direction, KeyState, Line, TargetSpec};

use super::OpenVolume;
use crate::cipher::self_tests;
use crate::error::CliError;
use crate::mount::Served;
use crate::nbd::control::{
    Answer, ClusterImage, Connection, Figures, Protected, Server as ServerStatus, Status,
};
use crate::nbd::metrics::Metrics;
use crate::storage::device_names::path_of;
use crate::storage::{ServerState, Storage};
use crate::terminal::kept_warnings;

impl OpenVolume {
    pub(super) fn status(&self) -> Answer {
        let json = serde_json::to_vec(&self.describe())
            .map_err(|error| CliError::io("write the status", &error.into()))?;
        Ok(SecretBytes::copied_from(&json))
    }

    pub(super) fn statistics(&self) -> Answer {
        let json = serde_json::to_vec(&Figures::of(&self.name, &self.volume))
            .map_err(|error| CliError::io("write the statistics", &error.into()))?;
        Ok(SecretBytes::copied_from(&json))
    }

    pub(super) fn describe(&self) -> Status {
        let mapping = self.volume.mapping();
        // With other data the volume is not the one that its header describes.
        let (r#type, uuid, header) = match self.has_other_data.load(Ordering::Relaxed) {
            false => (&*self.r#type, &*self.uuid, self.header.clone()),
            true => ("TABLE", "", None),
        };
        let lines = mapping.table().lines();
        let crypt = lines.iter().find_map(crypt_target);
        let device = lines.iter().find_map(|line| line.target.device());
        let device = device.map(|name| path_of(name).display().to_string());
        let server = self.server.status();
        let key = self.volume.key_state();
        let is_served = |client: &&ClientStatus| client.export.is_some();
        let connections: Vec<_> = (server.clients.iter().filter(is_served))
            .map(connection)
            .collect();
        Status {
            name: self.name.as_str().to_owned(),
            r#type: r#type.to_owned(),
            uuid: uuid.to_owned(),
            cipher: crypt.map(|c| c.cipher.to_string()).unwrap_or_default(),
            key_bits: crypt.map_or(0, |c| c.key.len() * 8),
            driver: mapping.driver().unwrap_or_default().to_owned(),
            data_path: mapping.path().to_string(),
            read_path: mapping.path_of(Direction::Read).to_string(),
            write_path: mapping.path_of(Direction::Write).to_string(),
            suspended: self.volume.is_suspended(),
            closes_when_unused: self.closes_when_unused.load(Ordering::Relaxed),
            key_forgotten: key != KeyState::Held,
            key: match key {
                KeyState::Held => "held",
                KeyState::BeingDestroyed => "being destroyed",
                KeyState::Forgotten => "forgotten",
            }
            .to_owned(),
            inactive_table: self.volume.has_inactive_table(),
            engine: self.engine.to_string(),
            device: device.unwrap_or_default(),
            header,
            sector_size: self.volume.block_size(),
            offset_sectors: crypt.map_or(0, |c| c.offset),
            size_sectors: self.volume.size() / 512,
            read_only: self.volume.is_read_only(),
            flags: crypt
                .map(|c| c.options.flags())
                .unwrap_or_default()
                .into_iter()
                .map(str::to_owned)
                .collect(),
            keys_locked: locking() == Locking::Complete,
            warnings: warnings(),
            address: self.addresses.first().cloned().unwrap_or_default(),
            tls: self.tls,
            metrics: self.metrics.as_ref().map(Metrics::uri),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            clients: connections.len(),
            handshaking: server.clients.len() - connections.len(),
            turned_away: server.turned_away,
            displaced: server.displaced,
            connections,
            served: Served::of(&server.traffic),
            mounts: self.mounts.statuses(),
            servers: self.servers(),
            cluster_images: self.cluster_images(),
            errors: server
                .events
                .iter()
                .map(|e| e.incident.to_string())
                .collect(),
        }
    }
}

impl OpenVolume {
    /// The servers that have its devices.
    fn servers(&self) -> Vec<ServerStatus> {
        let remote = |storage: &Arc<Storage>| {
            let Some(ServerState::Nbd(status)) = storage.server_state() else {
                return None;
            };
            Some(ServerStatus {
                address: storage.path().display().to_string(),
                connections: status.connections,
                tls: status.protection.map(protected),
                round_trip_ms: status.round_trip.map(|time| time.as_secs_f64() * 1e3),
                reconnects: status.reconnects,
                replayed_bytes: status.replayed_bytes,
                unflushed_bytes: status.unflushed_bytes,
            })
        };
        self.devices.now().iter().filter_map(remote).collect()
    }

    /// Those of its devices that are images of a cluster.
    fn cluster_images(&self) -> Vec<ClusterImage> {
        let of_cluster = |storage: &Arc<Storage>| {
            let Some(ServerState::Ceph(status)) = storage.server_state() else {
                return None;
            };
            Some(ClusterImage {
                image: storage.path().display().to_string(),
                client: status.client,
                exclusive_lock: status.lock.into(),
                object_size: status.object_size,
            })
        };
        self.devices.now().iter().filter_map(of_cluster).collect()
    }
}

fn connection(client: &ClientStatus) -> Connection {
    Connection {
        peer: client.peer.to_string(),
        tls: client.tls.map(protected),
    }
}

fn protected(tls: Protection) -> Protected {
    Protected {
        version: tls.version.to_owned(),
        cipher_suite: tls.suite.to_owned(),
    }
}

fn crypt_target(line: &Line) -> Option<&CryptSpec> {
    match &line.target {
        TargetSpec::Crypt(crypt) => Some(crypt),
        TargetSpec::Linear(_) | TargetSpec::Zero | TargetSpec::Error => None,
    }
}

/// Faults of the ciphers, and the latest other warnings of this process.
fn warnings() -> Vec<String> {
    let mut warnings = self_tests::failures();
    for warning in kept_warnings() {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}
