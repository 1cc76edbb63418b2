//! A target of a mapping, as in device mapper: a range of the volume, and what serves it.

use std::ops::Range;
use std::sync::Arc;

use scrim_backend::{Backend, Durability, Medium};
use scrim_crypt::{Geometry, SectorCipher};

use crate::crypt_target::{Cold, CryptTarget};
use crate::data_path::DataPath;
use crate::error::{OpenError, VolumeError};
use crate::path::CryptPath;
use crate::range_lock::RangeLock;
use crate::stats::{Record, Stage};
use crate::table::{CryptSpec, Line, SECTOR, TargetSpec};

/// A target at work. Its requests count from its start, in bytes, and are in range: the mapping has checked them.
pub(crate) struct Target {
    /// Range of the volume, in bytes. The last target of a mapping ends where the volume does.
    pub(crate) range: Range<u64>,
    kind: Kind,
}

enum Kind {
    Crypt(Box<CryptPath>),
    Linear {
        backend: Arc<dyn Backend>,
        /// Start of the target on the backend, in bytes.
        start: u64,
    },
    Zero,
    Error,
}

impl Target {
    /// Starts the target of a table's line on its backend.
    ///
    /// # Errors
    /// When the target passes the backend's end, or a cipher or key does not fit.
    pub(crate) fn start(
        line: &Line,
        path: DataPath,
        backend: Option<Arc<dyn Backend>>,
    ) -> Result<Self, OpenError> {
        let kind = match (&line.target, backend) {
            (TargetSpec::Zero, _) => Kind::Zero,
            (TargetSpec::Crypt(spec), Some(backend)) => {
                let start = fit(line, &spec.device, spec.offset, &*backend)?;
                let target = crypt_target(spec, backend, start)?;
                let started = CryptPath::start(target, path, &spec.options);
                Kind::Crypt(Box::new(started.map_err(OpenError::Queues)?))
            }
            (TargetSpec::Linear(spec), Some(backend)) => Kind::Linear {
                start: fit(line, &spec.device, spec.offset, &*backend)?,
                backend,
            },
            (TargetSpec::Error | TargetSpec::Crypt(_) | TargetSpec::Linear(_), _) => Kind::Error,
        };
        Ok(Self {
            range: line.start * SECTOR..(line.start + line.len) * SECTOR,
            kind,
        })
    }

    /// Makes a target of the same range that fails every request.
    pub(crate) fn failing(&self) -> Self {
        Self {
            range: self.range.clone(),
            kind: Kind::Error,
        }
    }

    /// Carries out a read: by its data path, on its storage, or without any.
    pub(crate) fn map_read(
        &self,
        offset: u64,
        buffer: &mut [u8],
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        match &self.kind {
            Kind::Crypt(crypt) => crypt.route_read(offset, buffer, record),
            Kind::Linear { backend, start } => {
                let result = backend.read_at(start + offset, buffer);
                record.trace.mark(Stage::Backend);
                Ok(result?)
            }
            Kind::Zero => {
                buffer.fill(0);
                Ok(())
            }
            Kind::Error => Err(VolumeError::ErrorTarget { offset }),
        }
    }

    /// Carries out a write, as [`map_read`](Self::map_read) does a read. `data` may hold ciphertext afterwards.
    pub(crate) fn map_write(
        &self,
        offset: u64,
        data: &mut [u8],
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        match &self.kind {
            Kind::Crypt(crypt) => crypt.route_write(offset, data, durability, record),
            Kind::Linear { backend, start } => {
                let result = backend.write_at(start + offset, data, durability);
                record.trace.mark(Stage::Backend);
                Ok(result?)
            }
            Kind::Zero => Ok(()),
            Kind::Error => Err(VolumeError::ErrorTarget { offset }),
        }
    }

    /// Makes `range` read as zeros.
    pub(crate) fn map_zeros(
        &self,
        range: Range<u64>,
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        match &self.kind {
            Kind::Crypt(crypt) => crypt
                .target
                .write_encrypted_zeros(range, durability, record),
            Kind::Linear { backend, start } => {
                Ok(backend.write_zeroes(start + range.start..start + range.end, durability)?)
            }
            Kind::Zero => Ok(()),
            Kind::Error => Err(VolumeError::ErrorTarget {
                offset: range.start,
            }),
        }
    }

    /// Discards the whole sectors within `range`.
    pub(crate) fn map_discard(&self, range: Range<u64>) -> Result<(), VolumeError> {
        if matches!(self.kind, Kind::Error) {
            return Err(VolumeError::ErrorTarget {
                offset: range.start,
            });
        }
        let Some((backend, start)) = self.storage() else {
            return Ok(());
        };
        let unit = self.unit() as u64;
        let first = range.start.next_multiple_of(unit);
        let end = range.end / unit * unit;
        if first < end {
            backend.discard(start + first..start + end)?;
        }
        Ok(())
    }

    /// Returns its crypt target with the data paths to it, if it is one.
    pub(crate) fn crypt(&self) -> Option<&CryptPath> {
        match &self.kind {
            Kind::Crypt(crypt) => Some(crypt),
            Kind::Linear { .. } | Kind::Zero | Kind::Error => None,
        }
    }

    /// Returns its storage, and its start there, in bytes.
    pub(crate) fn storage(&self) -> Option<(&dyn Backend, u64)> {
        match &self.kind {
            Kind::Crypt(crypt) => Some((&*crypt.target.backend, crypt.target.start)),
            Kind::Linear { backend, start } => Some((&**backend, *start)),
            Kind::Zero | Kind::Error => None,
        }
    }

    /// Returns the unit, in bytes, of ranges for [`encrypt`](Self::encrypt) and [`decrypt`](Self::decrypt).
    pub(crate) fn unit(&self) -> usize {
        self.crypt().map_or(1, |crypt| crypt.target.sector_size)
    }

    /// Encrypts plaintext for `offset`.
    pub(crate) fn encrypt(&self, offset: u64, from: &[u8], to: &mut [u8]) {
        match self.crypt() {
            Some(CryptPath { target, .. }) => target.cipher.encrypt(target.iv(offset), from, to),
            None => to.copy_from_slice(from),
        }
    }

    /// Decrypts the ciphertext of `offset`.
    pub(crate) fn decrypt(&self, offset: u64, from: &[u8], to: &mut [u8]) {
        match self.crypt() {
            Some(CryptPath { target, .. }) => target.cipher.decrypt(target.iv(offset), from, to),
            None => to.copy_from_slice(from),
        }
    }

    /// Returns the locks that keep changes of parts of sectors apart from other requests, where such changes are made.
    pub(crate) fn locks(&self) -> Option<&RangeLock> {
        self.crypt().map(|crypt| &crypt.target.locks)
    }

    /// Returns the driver of its cipher.
    pub(crate) fn driver(&self) -> Option<&'static str> {
        let cipher = |crypt: &CryptPath| crypt.target.cipher.implementation().driver;
        self.crypt().map(cipher)
    }

    /// Returns the unit that a write should be a multiple of, in bytes.
    pub(crate) fn block_size(&self) -> usize {
        self.crypt().map_or(512, |crypt| crypt.target.sector_size)
    }
}

fn crypt_target(
    spec: &CryptSpec,
    backend: Arc<dyn Backend>,
    start: u64,
) -> Result<CryptTarget, OpenError> {
    let options = &spec.options;
    let geometry = Geometry {
        sector_size: options.sector_size,
        iv_large_sectors: options.iv_large_sectors,
    };
    let cipher = SectorCipher::new(&spec.cipher, spec.key.expose(), geometry)?;
    Ok(CryptTarget {
        cipher,
        backend,
        start,
        first_iv: spec.iv_offset,
        sector_size: geometry.sector_size.bytes(),
        geometry,
        locks: RangeLock::new(),
        cold: Cold::default(),
        asynchronous: spec.cipher.is_asynchronous(),
    })
}

/// Returns the place where a target starts on its backend, in bytes, if all of it lies within.
fn fit(line: &Line, device: &str, offset: u64, backend: &dyn Backend) -> Result<u64, OpenError> {
    let size = backend.info().size;
    let end = offset
        .checked_add(line.len)
        .and_then(|end| end.checked_mul(SECTOR));
    if let Medium::File {
        alignment,
        start: first,
        ..
    } = backend.medium()
    {
        let unit = match &line.target {
            TargetSpec::Crypt(crypt) => crypt.options.sector_size.bytes() as u64,
            _ => SECTOR,
        };
        let start = offset.saturating_mul(SECTOR).saturating_add(first);
        if !unit.is_multiple_of(alignment) || !start.is_multiple_of(alignment) {
            return Err(OpenError::Blocks {
                device: device.to_owned(),
                block: alignment,
            });
        }
    }
    match end {
        Some(end) if end <= size => Ok(offset * SECTOR),
        _ => Err(OpenError::DeviceTooSmall {
            device: device.to_owned(),
            needs: end.unwrap_or(u64::MAX),
            size,
        }),
    }
}
