//! The bytes that one call transforms.

use super::shared::SharedSource;

/// The bytes that one call transforms: whole data units, in place or from one buffer to another of
/// the same length. Only this module makes one, after checks that kernels rely on.
pub(crate) struct Run<'a> {
    unit: usize,
    units: usize,
    data: Data<'a>,
}

pub(crate) enum Data<'a> {
    InPlace(&'a mut [u8]),
    /// The borrow checker keeps the two apart: they never overlap.
    Copy {
        source: &'a [u8],
        destination: &'a mut [u8],
    },
    /// To be encrypted, each byte of the source is read once.
    Shared {
        source: SharedSource<'a>,
        destination: &'a mut [u8],
    },
}

impl Data<'_> {
    /// Length in bytes.
    ///
    /// # Panics
    /// When source and destination have different lengths.
    pub(crate) fn len(&self) -> usize {
        let [len, other] = match self {
            Self::InPlace(data) => [data.len(); 2],
            Self::Copy {
                source,
                destination,
            } => [source.len(), destination.len()],
            Self::Shared {
                source,
                destination,
            } => [source.len(), destination.len()],
        };
        assert!(
            len == other,
            "a source of {len} bytes for a destination of {other}"
        );
        len
    }
}

/// The largest data unit, in bytes.
pub(crate) const UNIT_MAX: usize = 4096;

impl<'a> Run<'a> {
    /// `unit` is the length of a data unit in bytes.
    ///
    /// # Panics
    /// When `data` is not whole units.
    pub(crate) fn in_place(unit: usize, data: &'a mut [u8]) -> Self {
        Self {
            unit,
            units: units(unit, data.len(), data.len()),
            data: Data::InPlace(data),
        }
    }

    /// `unit` is the length of a data unit in bytes.
    ///
    /// # Panics
    /// When `source` is not whole units or `destination` of another length.
    pub(crate) fn copy(unit: usize, source: &'a [u8], destination: &'a mut [u8]) -> Self {
        Self {
            unit,
            units: units(unit, source.len(), destination.len()),
            data: Data::Copy {
                source,
                destination,
            },
        }
    }

    /// Like [`Run::copy`], from memory that others may change meanwhile.
    ///
    /// # Panics
    /// When `source` is not whole units or `destination` of another length.
    pub(crate) fn shared(unit: usize, source: SharedSource<'a>, destination: &'a mut [u8]) -> Self {
        Self {
            unit,
            units: units(unit, source.len(), destination.len()),
            data: Data::Shared {
                source,
                destination,
            },
        }
    }

    /// Length of a data unit in bytes: a multiple of 16, at most [`UNIT_MAX`].
    pub(crate) fn unit(&self) -> usize {
        self.unit
    }

    /// Number of data units.
    pub(crate) fn units(&self) -> usize {
        self.units
    }

    pub(crate) fn into_data(self) -> Data<'a> {
        self.data
    }
}

/// Hands the run to `transform` in pieces of `units` data units, in their place at the destination.
pub(super) fn piecewise(run: Run<'_>, units: usize, transform: impl FnMut(&mut [u8])) {
    let piece = run.unit() * units;
    pieces(run.into_data(), piece, transform);
}

/// Hands data to `transform` in pieces of `piece` bytes, and at last what is left, in their place at the destination,
/// which is as long as the source.
pub(super) fn pieces(data: Data<'_>, piece: usize, mut transform: impl FnMut(&mut [u8])) {
    match data {
        Data::InPlace(data) => data.chunks_mut(piece).for_each(transform),
        Data::Copy {
            source,
            destination,
        } => {
            for (source, destination) in source.chunks(piece).zip(destination.chunks_mut(piece)) {
                destination.copy_from_slice(source);
                transform(destination);
            }
        }
        Data::Shared {
            source,
            destination,
        } => {
            for (at, destination) in (0..).step_by(piece).zip(destination.chunks_mut(piece)) {
                source.part(at, destination.len()).copy_to(destination);
                transform(destination);
            }
        }
    }
}

/// Number of data units of `unit` bytes, after checks on which kernels, unsafe ones among them,
/// rely.
fn units(unit: usize, source: usize, destination: usize) -> usize {
    assert!(
        unit.is_multiple_of(16) && (16..=UNIT_MAX).contains(&unit),
        "a data unit of {unit} bytes"
    );
    // Sectors are powers of two, and a division would take long beside a call for one sector.
    let (units, rest) = if unit.is_power_of_two() {
        (source >> unit.trailing_zeros(), source & (unit - 1))
    } else {
        (source / unit, source % unit)
    };
    assert!(
        rest == 0,
        "a run of {source} bytes is not whole sectors of {unit}"
    );
    assert!(
        source == destination,
        "a source of {source} bytes for a destination of {destination}"
    );
    units
}
