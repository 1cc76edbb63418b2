//! An open volume at work: its NBD server, its control socket, its end.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scrim_export::nbd::{
    BindError, ClientStatus, Export, InheritedError, Limits, Protection, Server, StartError,
};
use scrim_sys::memory::{Locking, SecretBytes, locking};
use scrim_volume::queue::Engine;
use scrim_volume::{CryptTarget, Keys, Line, ResizeError, Target, Volume};

use crate::commands::note;
use crate::commands::resize::sectors_when_opened_now;
use crate::control::{
    Answer, Connection, ControlSocket, Protected, Request, Served, Server as ServerStatus, Status,
    Tls,
};
use crate::device::path_of;
use crate::error::{CliError, Exit};
use crate::notify::Manager;
use crate::runtime::VolumeName;
use crate::self_tests;
use crate::serving::Serving;
use crate::signals::{Asked, Hangup, Signals};
use crate::storage::Storage;

/// How long clients may take to finish what they have asked for when the volume is closed.
const DRAIN: Duration = Duration::from_secs(10);

/// How long a client that has gone may take to be seen to have gone, on a busy machine.
const DEPARTURE: Duration = Duration::from_secs(1);

/// Where a volume came from.
pub(crate) struct Origin {
    /// `LUKS1`, `LUKS2` or `TABLE`.
    pub(crate) r#type: String,
    pub(crate) uuid: String,
    /// The detached header, if any.
    pub(crate) header: Option<String>,
    /// What its devices are.
    pub(crate) storage: Vec<Arc<Storage>>,
}

/// A volume that is being served.
pub(crate) struct Service {
    control: ControlSocket,
    signals: Signals,
    open: OpenVolume,
}

struct OpenVolume {
    name: VolumeName,
    volume: Arc<Volume>,
    engine: Engine,
    origin: Origin,
    /// The URIs of the plaintext device.
    addresses: Vec<String>,
    tls: Option<Tls>,
    server: Server,
}

impl Service {
    /// Takes the volume's name by its control socket, and starts to serve.
    pub(crate) fn start(
        name: VolumeName,
        volume: Volume,
        engine: Engine,
        origin: Origin,
        serving: Serving,
        control: PathBuf,
        hangup: Hangup,
    ) -> Result<Self, CliError> {
        let control = ControlSocket::bind(control)?;
        let volume = Arc::new(volume);
        let tls = serving.tls();
        let listeners = serving.listen()?;
        let addresses: Vec<_> = listeners.iter().map(|listener| listener.uri("")).collect();
        // Before anybody hears of an address, and may ask for the end.
        let signals = Signals::listen(hangup)?;
        let export = Export {
            name: name.as_str().to_owned(),
            description: origin.r#type.clone(),
            engine,
            volume: Arc::clone(&volume),
        };
        let server = Server::start(vec![export], listeners, Limits::default())?;
        let open = OpenVolume {
            name,
            volume,
            engine,
            origin,
            addresses,
            tls,
            server,
        };
        Ok(Self {
            control,
            signals,
            open,
        })
    }

    /// The URIs of the plaintext device, one for each socket.
    pub(crate) fn addresses(&self) -> &[String] {
        &self.open.addresses
    }

    /// Serves until somebody closes the volume or the process is asked to end.
    pub(crate) fn run(self, manager: &Manager) -> Result<(), CliError> {
        let Self {
            control,
            signals,
            open,
        } = self;
        open.announce(manager);
        let caller = loop {
            if let Some(caller) = control.serve(&signals, |request| open.answer(request)) {
                break Some(caller);
            }
            match signals.take() {
                Asked::ToEnd => break None,
                Asked::ToReload => {
                    open.reload();
                    open.announce(manager);
                }
                Asked::Nothing => {}
            }
        };
        manager.stopping();
        let closed = while_answering(&control, &open.name.clone(), || open.finish())?;
        // The name is free and the storage unlocked before anybody hears that it is closed.
        drop(control);
        match caller {
            None => closed,
            Some(caller) => {
                let answer = closed.map(|()| SecretBytes::zeroed(0));
                caller.answer(&answer);
                answer.map(drop)
            }
        }
    }
}

/// Does the last of the work while everybody who asks is told of it.
fn while_answering<T>(
    control: &ControlSocket,
    name: &VolumeName,
    work: impl FnOnce() -> T,
) -> Result<T, CliError> {
    let (done, finished) =
        UnixStream::pair().map_err(|error| CliError::io("close the volume in order", &error))?;
    Ok(std::thread::scope(|scope| {
        scope.spawn(move || {
            control.serve(&finished, |_| {
                let message = format!("{} is being closed; wait for it to end", name.as_str());
                Some(Err(CliError::new(Exit::Busy, message)))
            })
        });
        let result = work();
        drop(done);
        result
    }))
}

impl OpenVolume {
    /// The answer to a request; `None` to one that closes the volume.
    fn answer(&self, request: Request) -> Option<Answer> {
        let table = |keys| Ok(self.volume.table_text(keys));
        match request {
            Request::Status => Some(self.status()),
            Request::Table => Some(table(Keys::Masked)),
            Request::TableWithKeys => Some(table(Keys::Shown)),
            Request::Resize(sectors) => Some(self.resize(sectors)),
            Request::CloseForced => None,
            Request::Close => match self.clients_after_a_moment() {
                0 => None,
                clients => Some(Err(self.in_use(clients))),
            },
        }
    }

    fn announce(&self, manager: &Manager) {
        manager.serving(self.volume.size() / 512, &self.addresses.join(" "));
    }

    /// Makes the volume as long as its device has become, as `scrim resize` does.
    fn reload(&self) {
        let name = self.name.as_str();
        let before = self.volume.size() / 512;
        let resized = sectors_when_opened_now(&self.describe())
            .and_then(|sectors| self.resize(sectors).map(|_| sectors));
        match resized {
            Ok(after) if after == before => {
                note(format_args!("scrim: {name}: it has {before} sectors still"));
            }
            Ok(after) => note(format_args!(
                "scrim: {name}: it had {before} sectors and has {after} now"
            )),
            Err(error) => note(format_args!(
                "scrim: warning: {error}; {name} keeps its {before} sectors"
            )),
        }
    }

    fn resize(&self, sectors: u64) -> Answer {
        match self.volume.resize(sectors.saturating_mul(512)) {
            Ok(()) => Ok(SecretBytes::zeroed(0)),
            Err(error) => {
                let exit = match &error {
                    ResizeError::Backend(_) => Exit::WrongDevice,
                    _ => Exit::Usage,
                };
                Err(CliError::new(
                    exit,
                    format!("{}: {error}", self.name.as_str()),
                ))
            }
        }
    }

    /// The clients that are connected, and stay so: one that has just ended, as the command before
    /// in a script, may not have been seen to go.
    fn clients_after_a_moment(&self) -> usize {
        let moment_ends = Instant::now() + DEPARTURE;
        while self.server.clients() > 0 && Instant::now() < moment_ends {
            std::thread::sleep(DEPARTURE / 200);
        }
        self.server.clients()
    }

    fn in_use(&self, clients: usize) -> CliError {
        let name = self.name.as_str();
        CliError::new(
            Exit::Busy,
            format!(
                "{name} is in use (clients connected: {clients}); disconnect them, or close it \
                 with --force"
            ),
        )
    }

    /// Lets requests in flight end, then makes everything durable and lets go of it.
    fn finish(self) -> Result<(), CliError> {
        let stopped = self.server.stop(DRAIN);
        if stopped.cut_off > 0 {
            note(format_args!(
                "scrim: warning: {} connections were cut off after {} s",
                stopped.cut_off,
                DRAIN.as_secs()
            ));
        }
        if self.volume.is_read_only() {
            return Ok(());
        }
        self.volume
            .flush()
            .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()))
    }

    fn status(&self) -> Answer {
        let json = serde_json::to_vec(&self.describe())
            .map_err(|error| CliError::io("write the status", &error.into()))?;
        Ok(SecretBytes::copied_from(&json))
    }

    fn describe(&self) -> Status {
        let mapping = self.volume.mapping();
        let lines = mapping.table().lines();
        let crypt = lines.iter().find_map(crypt_target);
        let device = lines.iter().find_map(|line| line.target.device());
        let device = device.map(|name| path_of(name).display().to_string());
        let server = self.server.status();
        let traffic = &server.traffic;
        Status {
            name: self.name.as_str().to_owned(),
            r#type: self.origin.r#type.clone(),
            uuid: self.origin.uuid.clone(),
            cipher: crypt.map(|c| c.cipher.to_string()).unwrap_or_default(),
            key_bits: crypt.map_or(0, |c| c.key.len() * 8),
            driver: mapping.driver().unwrap_or_default().to_owned(),
            data_path: mapping.path().to_string(),
            engine: self.engine.to_string(),
            device: device.unwrap_or_default(),
            header: self.origin.header.clone(),
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
            warnings: self_tests::failures(),
            address: self.addresses.first().cloned().unwrap_or_default(),
            tls: self.tls,
            connections: server.clients.iter().map(connection).collect(),
            pid: std::process::id(),
            clients: server.clients.len(),
            served: Served {
                reads: traffic.read.requests,
                read_bytes: traffic.read.bytes,
                writes: traffic.write.requests,
                written_bytes: traffic.write.bytes,
                flushes: traffic.flush.requests,
            },
            servers: self.servers(),
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
            let status = storage.remote_status()?;
            Some(ServerStatus {
                address: storage.path().display().to_string(),
                connections: status.connections,
                tls: status.protection.map(protected),
                reconnects: status.reconnects,
                replayed_bytes: status.replayed_bytes,
                unflushed_bytes: status.unflushed_bytes,
            })
        };
        self.origin.storage.iter().filter_map(remote).collect()
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

fn crypt_target(line: &Line) -> Option<&CryptTarget> {
    match &line.target {
        Target::Crypt(crypt) => Some(crypt),
        Target::Linear(_) | Target::Zero | Target::Error => None,
    }
}

impl From<BindError> for CliError {
    fn from(error: BindError) -> Self {
        use scrim_export::nbd::BindErrorKind as Kind;
        let exit = match error.kind {
            Kind::InUse => Exit::Busy,
            Kind::NotLoopback => Exit::Usage,
            _ => Exit::WrongDevice,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<InheritedError> for CliError {
    fn from(error: InheritedError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        Self::new(Exit::WrongDevice, error.to_string())
    }
}
