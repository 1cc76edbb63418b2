//! Opening of an image: its pool, its lock, and the image that it is a clone of.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use scrim_rbd::{Image, Mode, Parent, Pool, Watcher, feature};

use super::advice::{NO_IMAGE, NO_POOL, NO_SNAPSHOT, of_image};
use super::name::RbdName;
use crate::{BackendError, Operation};

/// Bytes at the start of an image that are read to recognize a LUKS header: those up to the end of its UUID.
const HEADER_LEN: usize = UUID.end;
/// Place of the UUID in a LUKS header, of both versions.
const UUID: std::ops::Range<usize> = 168..208;
const MAGIC: &[u8] = b"LUKS\xba\xbe";

/// Returns the pool, or the namespace in it.
pub(super) fn pool(
    cluster: &Arc<scrim_rbd::Cluster>,
    name: &RbdName,
) -> Result<Arc<Pool>, BackendError> {
    let place = name.to_string();
    let opened = cluster.pool(&name.pool, name.namespace.as_deref());
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            missing(&place, format!("there is no pool {}", name.pool), NO_POOL)
        }
        _ => of_image(Operation::Open, &place, error),
    })
}

/// Opens an image without taking its lock.
pub(super) fn image(pool: &Arc<Pool>, name: &RbdName, mode: Mode) -> Result<Image, BackendError> {
    let place = name.to_string();
    let snapshot = name.snapshot.as_deref();
    match Image::open(pool, &name.image, snapshot, mode) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened.map_err(|error| of_image(Operation::Open, &place, error)),
    }
    let without_snapshot = || Image::open(pool, &name.image, None, Mode::ReadOnly);
    match snapshot {
        Some(snapshot) if without_snapshot().is_ok() => Err(missing(
            &place,
            format!("the image has no snapshot {snapshot}"),
            NO_SNAPSHOT,
        )),
        _ => {
            let (pool, image) = (&name.pool, &name.image);
            let text = match &name.namespace {
                Some(namespace) => {
                    format!("namespace {namespace} of pool {pool} has no image {image}")
                }
                None => format!("pool {pool} has no image {image}"),
            };
            Err(missing(&place, text, NO_IMAGE))
        }
    }
}

fn missing(place: &str, text: String, advice: &'static str) -> BackendError {
    let error = io::Error::new(io::ErrorKind::NotFound, text);
    BackendError::new(Operation::Open, place, error).with_hint(advice)
}

/// Takes the exclusive lock of an image. An owner that lives is refused by name.
pub(super) fn lock(image: &Image, name: &RbdName) -> Result<(), BackendError> {
    let place = name.to_string();
    let fail = |error| of_image(Operation::Lock, &place, error);
    if image.features().map_err(fail)? & feature::EXCLUSIVE_LOCK == 0 {
        let text = format!(
            "the image has no exclusive lock, so a second writer could not be kept away; turn it on with `rbd feature \
             enable {} exclusive-lock`",
            name.spec()
        );
        let error = io::Error::new(io::ErrorKind::Unsupported, text);
        return Err(BackendError::new(Operation::Lock, &place, error));
    }
    let owners = image.lock_owners().map_err(fail)?;
    let watchers = image.watchers().map_err(fail)?;
    let of_owner = |owner: &String| watchers.iter().find(|watcher| watcher.address == *owner);
    if let Some(Watcher { address, client }) = owners.iter().find_map(of_owner) {
        let owner = format!("client.{client} at {}", address.escape_debug());
        return Err(held(&place, &owner));
    }
    image.acquire_lock().map_err(|error| {
        let number = error.raw_os_error().map(Errno::from_raw_os_error);
        match number {
            Some(Errno::ROFS | Errno::BUSY | Errno::AGAIN) => held(&place, "another client"),
            _ => of_image(Operation::Lock, &place, error),
        }
    })
}

fn held(place: &str, owner: &str) -> BackendError {
    let text = format!(
        "{owner} has its exclusive lock (a client that has died is forgotten after 30 seconds); close it there"
    );
    let error = io::Error::new(io::ErrorKind::ResourceBusy, text);
    BackendError::new(Operation::Lock, place, error).without_hint()
}

/// The LUKS volume that an image is a clone of.
pub(super) struct LuksParent {
    /// The snapshot, as Ceph's programs name it.
    pub(super) name: String,
    /// UUID of its header.
    pub(super) uuid: [u8; UUID.end - UUID.start],
}

/// Returns the volume that an image is a clone of; `None` if it is no clone, or its parent has no LUKS header.
pub(super) fn luks_parent(image: &Image) -> io::Result<Option<LuksParent>> {
    let Some(parent) = image.parent()? else {
        return Ok(None);
    };
    let namespace = Some(parent.namespace.as_str()).filter(|name| !name.is_empty());
    let pool = image.pool().cluster().pool(&parent.pool, namespace)?;
    let uuid = luks_uuid(&Image::open_parent(&pool, &parent)?)?;
    Ok(uuid.map(|uuid| LuksParent {
        name: shown(&parent),
        uuid,
    }))
}

fn shown(parent: &Parent) -> String {
    let Parent {
        pool,
        namespace,
        image,
        snapshot,
        ..
    } = parent;
    let slash = if namespace.is_empty() { "" } else { "/" };
    let name = format!("{pool}/{namespace}{slash}{image}@{snapshot}");
    name.escape_debug().to_string()
}

/// Returns the UUID of the LUKS header at the start of an image; `None` without a header.
pub(super) fn luks_uuid(image: &Image) -> io::Result<Option<[u8; UUID.end - UUID.start]>> {
    let mut start = [0; HEADER_LEN];
    if image.stat()?.size < HEADER_LEN as u64 {
        return Ok(None);
    }
    image.read_at(0, &mut start)?;
    let mut uuid = [0; UUID.end - UUID.start];
    uuid.copy_from_slice(&start[UUID]);
    Ok(start.starts_with(MAGIC).then_some(uuid))
}
