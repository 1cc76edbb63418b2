//! A connection to a cluster, and its pools.

use std::error::Error;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;

use crate::foreign::{c_text, check};
use crate::library::{Libraries, Missing, PoolHandle, RadosHandle};

/// Settings of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// Configuration file; `None` for the one that Ceph's own programs take (`CEPH_CONF`, `/etc/ceph/ceph.conf`, …).
    pub conf: Option<&'a Path>,
    /// Name of the user, without `client.`; `None` for `admin`.
    pub id: Option<&'a str>,
    /// Time limit of connecting, and of each answer of a monitor. Requests to OSDs have no limit of ours.
    pub limit: Duration,
}

/// A failure to connect, by the step that failed.
#[derive(Debug)]
pub enum ConnectError {
    /// The library cannot be loaded.
    Library(Missing),
    /// The configuration cannot be read, or has values that librados does not take.
    Configuration(io::Error),
    /// The cluster cannot be reached, or does not let the user in.
    Cluster(io::Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(error) => error.fmt(f),
            Self::Configuration(error) => write!(f, "Ceph's configuration: {error}"),
            Self::Cluster(error) => error.fmt(f),
        }
    }
}

impl Error for ConnectError {}

/// A connection to a cluster.
pub struct Cluster {
    handle: RadosHandle,
    libraries: &'static Libraries,
}

// SAFETY: librados's handles may be used by any thread, and by several at the same time.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

impl Cluster {
    /// Connects to the cluster that the settings name.
    ///
    /// # Errors
    /// When this machine has no librbd, the configuration cannot be read, or the cluster cannot be reached.
    pub fn connect(settings: Settings<'_>) -> Result<Arc<Self>, ConnectError> {
        let libraries = Libraries::get().map_err(ConnectError::Library)?;
        let cluster = Self::create(libraries, settings.id).map_err(ConnectError::Configuration)?;
        cluster
            .configure(settings)
            .map_err(ConnectError::Configuration)?;
        // SAFETY: the handle is valid until `cluster` is dropped.
        let connected = unsafe { (libraries.rados.rados_connect)(cluster.handle) };
        check(connected).map_err(ConnectError::Cluster)?;
        Ok(Arc::new(cluster))
    }

    fn create(libraries: &'static Libraries, id: Option<&str>) -> io::Result<Self> {
        let user = c_text(format!("client.{}", id.unwrap_or("admin")))?;
        let mut handle = null_mut();
        // SAFETY: the strings end with a zero byte, and live, like the place of the handle, until the call returns.
        let created = unsafe {
            (libraries.rados.rados_create2)(&raw mut handle, c"ceph".as_ptr(), user.as_ptr(), 0)
        };
        check(created)?;
        Ok(Self { handle, libraries })
    }

    fn configure(&self, settings: Settings<'_>) -> io::Result<()> {
        let rados = &self.libraries.rados;
        let conf = match settings.conf {
            Some(path) => Some(c_text(path.as_os_str().as_bytes())?),
            None => None,
        };
        let path = conf.as_ref().map_or(null(), |path| path.as_ptr());
        // SAFETY: the handle is valid, and the path is null or a string that lives until the call returns.
        let read = check(unsafe { (rados.rados_conf_read_file)(self.handle, path) });
        match read {
            // Without a file the monitors may be named in the environment (`CEPH_ARGS`).
            Err(error) if conf.is_none() && error.kind() == io::ErrorKind::NotFound => {}
            read => read?,
        }
        // SAFETY: the handle is valid, and null means `CEPH_ARGS`.
        check(unsafe { (rados.rados_conf_parse_env)(self.handle, null()) })?;
        let seconds = settings.limit.as_secs().max(1).to_string();
        self.set(c"client_mount_timeout", &seconds)?;
        self.set(c"rados_mon_op_timeout", &seconds)?;
        // The terminal is the program's. A log file, the system's log or an admin socket that the configuration asks
        // for stay as it says; without that there are none.
        self.set(c"log_to_stderr", "false")?;
        self.set(c"err_to_stderr", "false")
    }

    fn set(&self, option: &CStr, value: &str) -> io::Result<()> {
        let value = c_text(value)?;
        // SAFETY: the handle is valid, and the strings live until the call returns.
        check(unsafe {
            (self.libraries.rados.rados_conf_set)(self.handle, option.as_ptr(), value.as_ptr())
        })
    }

    /// Returns the number by which the cluster knows this connection, as in `client.4123`.
    #[must_use]
    pub fn client(&self) -> u64 {
        // SAFETY: the handle is valid and connected.
        unsafe { (self.libraries.rados.rados_get_instance_id)(self.handle) }
    }

    /// Opens a pool, or a namespace in it.
    ///
    /// # Errors
    /// `NotFound` if the cluster has no such pool. A namespace is not checked here.
    pub fn pool(self: &Arc<Self>, name: &str, namespace: Option<&str>) -> io::Result<Arc<Pool>> {
        let rados = &self.libraries.rados;
        let (name, namespace) = (c_text(name)?, c_text(namespace.unwrap_or_default())?);
        let mut handle = null_mut();
        // SAFETY: the handle is valid and connected; the name and the place of the result live until the call returns.
        let created =
            unsafe { (rados.rados_ioctx_create)(self.handle, name.as_ptr(), &raw mut handle) };
        check(created)?;
        // SAFETY: the pool's handle was just made; the namespace lives until the call returns.
        unsafe { (rados.rados_ioctx_set_namespace)(handle, namespace.as_ptr()) };
        Ok(Arc::new(Pool {
            handle,
            cluster: Arc::clone(self),
        }))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: the handle was made by `rados_create2`, and pools, which use it, own a reference to this.
        unsafe { (self.libraries.rados.rados_shutdown)(self.handle) };
    }
}

/// A pool of a cluster, or a namespace in one.
pub struct Pool {
    handle: PoolHandle,
    cluster: Arc<Cluster>,
}

// SAFETY: the handle is not changed once the pool is made; librbd copies it for each image.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    pub(crate) fn handle(&self) -> PoolHandle {
        self.handle
    }

    pub(crate) fn libraries(&self) -> &'static Libraries {
        self.cluster.libraries
    }

    /// The connection to its cluster.
    #[must_use]
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the handle was made by `rados_ioctx_create`, and images, which use it, own a reference to this.
        unsafe { (self.cluster.libraries.rados.rados_ioctx_destroy)(self.handle) };
    }
}
