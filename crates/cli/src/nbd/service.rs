//! An open volume that is being served: its NBD server, its control socket, and how it is closed.

mod describe;
mod exchange;
mod holding;
mod mounting;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scrim_export::limits::Limits;
use scrim_export::nbd::Server;
use scrim_export::{BindError, Export, InheritedError, Listener, StartError};
use scrim_sys::memory::SecretBytes;
use scrim_volume::queue::Engine;
use scrim_volume::{Keys, ResizeError, Volume};

use crate::args::{IoEngine, VolumeName};
use crate::cipher::self_tests::warn_of_failed_self_tests;
use crate::error::{CliError, Exit};
use crate::luks::kernel_key::DueLink;
use crate::mount::{MountRequest, MountStatus};
use crate::nbd::control::{Answer, ControlSocket, Figures, Request, Tls};
use crate::nbd::device_size::sectors_when_opened_now;
use crate::nbd::hold::Hold;
use crate::nbd::metrics::{Metrics, MetricsListener};
use crate::nbd::mounts::Mounts;
use crate::nbd::prometheus;
use crate::nbd::serving::Serving;
use crate::process::service_manager::Manager;
use crate::process::signals::{Asked, Hangup, Signals};
use crate::terminal::note;
use crate::volume::devices::Devices;
use crate::volume::opening::{Opened, Origin, engine, warn_of_unlocked_keys};

/// Time for clients to finish their requests when the volume is closed.
const DRAIN: Duration = Duration::from_secs(10);

/// Answer to a deferred close of a volume that is in use.
const DEFERRED: &[u8] = b"in use";

/// Pause between two looks at whether mounts have ended by themselves, and clients have left.
const LOOK: Duration = Duration::from_millis(500);

/// Time that may pass on a busy machine until a client that has disconnected is seen to be gone.
const DEPARTURE: Duration = Duration::from_secs(1);

/// A volume's name and addresses, taken before anything is changed or served.
struct Bound {
    control: ControlSocket,
    tls: Option<Tls>,
    metrics: Option<MetricsListener>,
    listeners: Vec<Listener>,
    signals: Signals,
}

impl Bound {
    /// Takes the volume's name by its control socket, and begins to listen.
    fn bind(control: PathBuf, mut serving: Serving, hangup: Hangup) -> Result<Self, CliError> {
        Ok(Self {
            control: ControlSocket::bind(control)?,
            tls: serving.tls(),
            metrics: serving.take_metrics(),
            listeners: serving.listen()?,
            // Before any process learns of an address and may ask this one to end.
            signals: Signals::listen(hangup)?,
        })
    }
}

/// A volume that is being served.
pub(crate) struct Service {
    control: ControlSocket,
    signals: Signals,
    open: OpenVolume,
}

/// An open volume. One thread changes it; another one may show its state meanwhile.
struct OpenVolume {
    name: VolumeName,
    volume: Arc<Volume>,
    engine: Engine,
    /// `LUKS1`, `LUKS2` or `TABLE`.
    r#type: String,
    uuid: String,
    header: Option<String>,
    devices: Devices,
    /// True if the table decrypts to other data than the table that the volume was opened with.
    has_other_data: AtomicBool,
    /// True if the loaded table would decrypt to other data.
    loads_other_data: AtomicBool,
    /// The URIs of the plaintext device.
    addresses: Vec<String>,
    tls: Option<Tls>,
    server: Server,
    metrics: Option<Metrics>,
    mounts: Mounts,
    /// True if the volume is closed when the last mount has ended and no client is connected.
    ends_with_mounts: AtomicBool,
    /// True if a command has closed the volume, which waits for its users to leave.
    closes_when_unused: AtomicBool,
    /// Hold for a snapshot, while there is one.
    hold: Mutex<Option<Hold>>,
}

impl Service {
    /// Begins to serve an open volume, whose header is changed where that is due.
    pub(crate) fn open(
        name: VolumeName,
        opened: Opened,
        io_engine: IoEngine,
        control: PathBuf,
        serving: Serving,
        hangup: Hangup,
    ) -> Result<Self, CliError> {
        warn_of_unlocked_keys();
        warn_of_failed_self_tests();
        let Opened {
            volume,
            origin,
            update,
            link,
        } = opened;
        let engine = engine(io_engine, &volume);
        let bound = Bound::bind(control, serving, hangup)?;
        let linked = link.map(DueLink::put).transpose()?;
        // If the volume cannot be served, its header is not changed.
        if let Some(update) = update {
            update.carry_out()?;
        }
        let service = Self::start(name, volume, engine, origin, bound)?;
        if let Some(linked) = linked {
            linked.keep();
        }
        Ok(service)
    }

    fn start(
        name: VolumeName,
        volume: Volume,
        engine: Engine,
        origin: Origin,
        bound: Bound,
    ) -> Result<Self, CliError> {
        let Bound {
            control,
            tls,
            metrics: serving_metrics,
            listeners,
            signals,
        } = bound;
        let volume = Arc::new(volume);
        let addresses: Vec<_> = listeners.iter().map(|listener| listener.uri("")).collect();
        let export = Export {
            name: name.as_str().to_owned(),
            description: origin.r#type.clone(),
            engine,
            volume: Arc::clone(&volume),
        };
        let mounts = Mounts::none(&name);
        let server = Server::start(vec![export], listeners, Limits::default())?;
        let metrics = match serving_metrics {
            Some(listener) => {
                let (name, volume) = (name.clone(), Arc::clone(&volume));
                let page = move || prometheus::text(&Figures::of(&name, &volume));
                Some(listener.serve(page)?)
            }
            None => None,
        };
        let open = OpenVolume {
            name,
            volume,
            engine,
            r#type: origin.r#type,
            uuid: origin.uuid,
            header: origin.header,
            devices: origin.devices,
            has_other_data: AtomicBool::new(false),
            loads_other_data: AtomicBool::new(false),
            addresses,
            tls,
            server,
            metrics,
            mounts,
            ends_with_mounts: AtomicBool::new(false),
            closes_when_unused: AtomicBool::new(false),
            hold: Mutex::default(),
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

    /// Mounts the volume, which is closed when it is unmounted.
    ///
    /// # Errors
    /// If it cannot be mounted, the volume is closed again.
    pub(crate) fn mount(self, request: &MountRequest) -> Result<(Self, MountStatus), CliError> {
        match self.open.mount(&self.control, request) {
            Ok(status) => {
                self.open.ends_with_mounts.store(true, Ordering::Relaxed);
                Ok((self, status))
            }
            Err(error) => {
                if let Err(also) = self.open.finish() {
                    note(format_args!("scrim: warning: {also}"));
                }
                Err(error)
            }
        }
    }

    /// Serves until a command closes the volume or the process is asked to end.
    pub(crate) fn run(self, manager: &Manager) -> Result<(), CliError> {
        let Self {
            control,
            signals,
            open,
        } = self;
        open.announce(manager);
        let caller = loop {
            if let Some(caller) = control.serve(
                &signals,
                || open.next_look(),
                |request, body| open.answer(&control, request, body),
            ) {
                break Some(caller);
            }
            open.end_hold_if_due();
            open.mounts.reap(&open.name);
            match signals.take() {
                Asked::ToEnd => break None,
                Asked::ToReload => {
                    open.reload();
                    open.announce(manager);
                }
                Asked::Nothing | Asked::ToSetDraining(_) => {}
            }
            if open.is_done() {
                break None;
            }
        };
        manager.stopping();
        let name = open.name.clone();
        let is_closed = |_, _: &SecretBytes| Some(Err(busy(&name, "closed")));
        let closed = while_answering(&control, is_closed, || open.finish())?;
        // The name is free and the storage unlocked before the command hears that the volume is closed.
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

/// Does work that may take long, while another thread answers the clients of the control socket.
fn while_answering<T>(
    control: &ControlSocket,
    answer: impl FnMut(Request, &SecretBytes) -> Option<Answer> + Send,
    work: impl FnOnce() -> T,
) -> Result<T, CliError> {
    let (done, finished) =
        UnixStream::pair().map_err(|error| CliError::io("answer other commands", &error))?;
    Ok(std::thread::scope(|scope| {
        scope.spawn(move || control.serve(&finished, || None, answer));
        let result = work();
        drop(done);
        result
    }))
}

/// The error of a command to a volume that carries out another one, which may take long.
fn busy(name: &VolumeName, what: &str) -> CliError {
    let message = format!(
        "{} is being {what}; wait for it to end, and give the command again",
        name.as_str()
    );
    CliError::new(Exit::Busy, message)
}

impl OpenVolume {
    /// The answer to a request that only shows the state; `None` to others.
    fn show(&self, request: &Request) -> Option<Answer> {
        let table = |keys| Ok(self.volume.table_text(keys));
        Some(match request {
            Request::Status => self.status(),
            Request::Statistics => self.statistics(),
            Request::Table => table(Keys::Masked),
            Request::TableWithKeys => match self.volume.is_key_forgotten() {
                true => Err(self.key_is_forgotten()),
                false => table(Keys::Shown),
            },
            Request::InactiveTable => self.inactive_table(Keys::Masked),
            Request::InactiveTableWithKeys => self.inactive_table(Keys::Shown),
            _ => return None,
        })
    }

    /// The answer to a request; `None` to one that closes the volume.
    fn answer(
        &self,
        control: &ControlSocket,
        request: Request,
        body: &SecretBytes,
    ) -> Option<Answer> {
        if let Some(answer) = self.answer_while_held(&request) {
            return Some(answer);
        }
        Some(match request {
            Request::Hold(seconds) => self.hold(Duration::from_secs(seconds.into())),
            Request::Release => self.release(),
            Request::Suspend => self.suspend(),
            Request::Forget => self.forget(),
            Request::Resume => self.resume(),
            Request::ResumeWithKey { .. } => self.resume_with_key(body),
            Request::Clear => self.clear(),
            Request::Reload { change, .. } => self.load(body, change),
            Request::Refresh(flags, path) => self.refresh(flags, path),
            Request::ReadHeader { offset, len } => self.read_header(offset, len),
            Request::Resize(sectors) => self.resize(sectors),
            Request::Mount { .. } => self.mount_as_asked(control, body),
            Request::Umount { .. } => match self.unmount(body) {
                Ok(_) if self.is_to_end() && self.clients_after_a_moment() == 0 => return None,
                answer => answer,
            },
            Request::CloseForced => return None,
            Request::CloseDeferred => {
                self.closes_when_unused.store(true, Ordering::Relaxed);
                if self.is_to_end() && self.clients_after_a_moment() == 0 {
                    return None;
                }
                Ok(SecretBytes::copied_from(DEFERRED))
            }
            Request::CancelDeferred => {
                self.closes_when_unused.store(false, Ordering::Relaxed);
                Ok(SecretBytes::zeroed(0))
            }
            Request::Close => match (self.refuse_if_mounted(), self.clients_after_a_moment()) {
                (Err(error), _) => Err(error),
                (Ok(()), 0) => return None,
                (Ok(()), clients) => Err(self.in_use(clients)),
            },
            Request::Status
            | Request::Statistics
            | Request::Table
            | Request::TableWithKeys
            | Request::InactiveTable
            | Request::InactiveTableWithKeys => return self.show(&request),
        })
    }

    /// Time until the next look at whether mounts or a hold have ended, or clients have left a volume that ends with them.
    fn next_look(&self) -> Option<Duration> {
        let is_watched = self.ends_when_unused() || !self.mounts.is_empty() || self.is_held();
        is_watched.then_some(LOOK)
    }

    /// Returns whether the volume is to be closed once nobody uses it: opened to be mounted, or closed while in use.
    fn ends_when_unused(&self) -> bool {
        let closes = self.closes_when_unused.load(Ordering::Relaxed);
        closes || self.ends_with_mounts.load(Ordering::Relaxed)
    }

    /// Returns whether the volume is to be closed now, as nobody uses it any more.
    fn is_done(&self) -> bool {
        self.is_to_end() && self.server.clients() == 0
    }

    /// Returns whether the volume is to be closed as soon as no client is connected.
    fn is_to_end(&self) -> bool {
        self.ends_when_unused() && self.mounts.is_empty()
    }

    fn announce(&self, manager: &Manager) {
        manager.serving(self.volume.size() / 512, &self.addresses.join(" "));
    }

    /// Resizes the volume to match its device, as `scrim resize` does.
    fn reload(&self) {
        let name = self.name.as_str();
        let before = self.volume.size() / 512;
        let resized = sectors_when_opened_now(&self.describe())
            .and_then(|sectors| self.resize(sectors).map(|_| sectors));
        match resized {
            Ok(after) if after == before => {
                note(format_args!("scrim: {name}: it still has {before} sectors"));
            }
            Ok(after) => note(format_args!(
                "scrim: {name}: it had {before} sectors and now has {after}"
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
                    ResizeError::Loaded | ResizeError::KeyForgotten => Exit::Busy,
                    _ => Exit::Usage,
                };
                Err(CliError::new(
                    exit,
                    format!("{}: {error}", self.name.as_str()),
                ))
            }
        }
    }

    /// Number of clients that are connected and stay so. A client that has just ended, such as the previous command of
    /// a script, gets a moment to be seen to disconnect.
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

    /// Lets requests in flight end, then makes everything durable and closes the storage.
    fn finish(self) -> Result<(), CliError> {
        if self.end_hold() {
            self.note_lost_hold("it is being closed");
        }
        // Requests that are held can end only by being carried out, on the table that they were made for.
        let now = self.volume.statistics();
        let held = now.read.in_flight + now.write.in_flight;
        if self.volume.give_up() {
            if held > 0 {
                note(format_args!(
                    "scrim: warning: {}: its key is forgotten, so the reads and writes that are held fail ({held})",
                    self.name.as_str()
                ));
            }
        } else {
            self.volume.clear();
            self.volume.resume(DRAIN)?;
        }
        // A file system is written now, so that nothing of it may be held.
        self.mounts.end();
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
}

impl From<BindError> for CliError {
    fn from(error: BindError) -> Self {
        use scrim_export::BindErrorKind as Kind;
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
