//! The work on several buffers. Whole sectors within a piece are transformed where they lie; only
//! sectors that a piece's end splits are gathered.

use std::ops::{Deref, DerefMut};

use zeroize::Zeroize;

use crate::kernels::run::{Run, UNIT_MAX};
use crate::kernels::shared::SharedSource;

/// Extra work of a call over several buffers, compared with a call over one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gathered {
    /// Sectors that were split, in the source or in the destination.
    pub sectors: usize,
    /// Bytes that were copied because of it: a sector's for gathering, and as many for scattering.
    pub bytes: usize,
}

impl Gathered {
    /// Counts `units` units that were split in the source (`from`), in the destination (`to`), in both or in
    /// neither.
    fn count(&mut self, units: usize, unit: usize, from: bool, to: bool) {
        if from || to {
            self.sectors += units;
        }
        self.bytes += units * unit * (usize::from(from) + usize::from(to));
    }
}

/// A part of a source.
pub(crate) trait Piece {
    fn size(&self) -> usize;

    /// Copies what starts at byte `at` and is as long as `destination`.
    fn copy_to(&self, at: usize, destination: &mut [u8]);

    /// Makes a run of the bytes from byte `at` on, as many as `destination` holds.
    fn run<'a>(&'a self, at: usize, unit: usize, destination: &'a mut [u8]) -> Run<'a>;
}

impl<T: Deref<Target = [u8]>> Piece for T {
    fn size(&self) -> usize {
        self.len()
    }

    fn copy_to(&self, at: usize, destination: &mut [u8]) {
        destination.copy_from_slice(&self[at..at + destination.len()]);
    }

    fn run<'a>(&'a self, at: usize, unit: usize, destination: &'a mut [u8]) -> Run<'a> {
        Run::copy(unit, &self[at..at + destination.len()], destination)
    }
}

impl Piece for SharedSource<'_> {
    fn size(&self) -> usize {
        self.len()
    }

    fn copy_to(&self, at: usize, destination: &mut [u8]) {
        self.part(at, destination.len()).copy_to(destination);
    }

    fn run<'a>(&'a self, at: usize, unit: usize, destination: &'a mut [u8]) -> Run<'a> {
        Run::shared(unit, self.part(at, destination.len()), destination)
    }
}

/// Transforms all `pieces` in place, as if they were one buffer of data units of `unit` bytes. `transform`
/// gets how many units come before a run, and the run.
///
/// # Panics
/// When the pieces together are not whole units.
pub(crate) fn in_place<P: DerefMut<Target = [u8]>>(
    unit: usize,
    pieces: &mut [P],
    mut transform: impl FnMut(usize, Run<'_>),
) -> Gathered {
    let units = whole_units(unit, total(pieces));
    let mut gathered = Gathered::default();
    let mut bounce = None;
    let mut here = Cursor::default();
    let mut done = 0;
    while done < units {
        let next = here.look(pieces, unit, units - done);
        let bytes = next.units * unit;
        if next.split {
            let bounce = Bounce::part(&mut bounce, bytes);
            here.clone().gather(pieces, bounce);
            transform(done, Run::in_place(unit, bounce));
            here.scatter(pieces, bounce);
            gathered.count(next.units, unit, true, true);
        } else {
            transform(done, Run::in_place(unit, here.take_mut(pieces, bytes)));
        }
        done += next.units;
    }
    gathered
}

/// As [`in_place`], from the pieces of `source` to those of `destination`.
///
/// # Panics
/// When the pieces of `source` together are not whole units, or not as long as those of
/// `destination`.
pub(crate) fn copy<S: Piece, D: DerefMut<Target = [u8]>>(
    unit: usize,
    source: &[S],
    destination: &mut [D],
    mut transform: impl FnMut(usize, Run<'_>),
) -> Gathered {
    let (from, to) = (total(source), total(destination));
    assert!(
        from == to,
        "a source of {from} bytes for a destination of {to}"
    );
    let units = whole_units(unit, from);
    let mut gathered = Gathered::default();
    let mut bounce = None;
    let (mut here, mut there) = (Cursor::default(), Cursor::default());
    let mut done = 0;
    while done < units {
        let from = here.look(source, unit, units - done);
        let to = there.look(destination, unit, units - done);
        let units = from.units.min(to.units);
        let bytes = units * unit;
        match (from.split, to.split) {
            (false, false) => {
                let (piece, at) = here.take(source, bytes);
                let destination = there.take_mut(destination, bytes);
                transform(done, piece.run(at, unit, destination));
            }
            (false, true) => {
                let bounce = Bounce::part(&mut bounce, bytes);
                let (piece, at) = here.take(source, bytes);
                transform(done, piece.run(at, unit, bounce));
                there.scatter(destination, bounce);
            }
            (true, false) => {
                let bounce = Bounce::part(&mut bounce, bytes);
                here.gather(source, bounce);
                let destination = there.take_mut(destination, bytes);
                transform(done, Run::copy(unit, bounce, destination));
            }
            (true, true) => {
                let bounce = Bounce::part(&mut bounce, bytes);
                here.gather(source, bounce);
                transform(done, Run::in_place(unit, bounce));
                there.scatter(destination, bounce);
            }
        }
        gathered.count(units, unit, from.split, to.split);
        done += units;
    }
    gathered
}

/// Length of all pieces together, in bytes. Pieces of a source may be the same memory, so that the sum
/// may be more than there is memory.
fn total<P: Piece>(pieces: &[P]) -> u128 {
    pieces.iter().map(|piece| piece.size() as u128).sum()
}

fn whole_units(unit: usize, bytes: u128) -> usize {
    let units = bytes / unit as u128;
    assert!(
        units * unit as u128 == bytes,
        "pieces of {bytes} bytes are not whole sectors of {unit}"
    );
    usize::try_from(units).unwrap_or(usize::MAX)
}

/// A place in a list of pieces.
#[derive(Clone, Default)]
struct Cursor {
    piece: usize,
    /// Bytes before it in that piece.
    at: usize,
}

/// The next units in a list of pieces.
struct Next {
    /// Number of units: at least 1.
    units: usize,
    /// True if the ends of pieces split each of them; otherwise all lie in one piece.
    split: bool,
}

impl Cursor {
    /// The next units that are treated alike, `limit` at most and of split ones no more than a
    /// [`Bounce`] holds. There is at least one more.
    fn look<P: Piece>(&mut self, pieces: &[P], unit: usize, limit: usize) -> Next {
        let whole = self.left_of_piece(pieces) / unit;
        if whole > 0 {
            return Next {
                units: whole.min(limit),
                split: false,
            };
        }
        let mut end = self.clone();
        end.skip(pieces, unit);
        let mut units = 1;
        while units < limit.min(Bounce::SIZE / unit) && end.left_of_piece(pieces) < unit {
            end.skip(pieces, unit);
            units += 1;
        }
        Next { units, split: true }
    }

    /// Number of bytes of a piece that are left here. Goes on to the next piece at the end of one.
    fn left_of_piece<P: Piece>(&mut self, pieces: &[P]) -> usize {
        while let Some(piece) = pieces.get(self.piece) {
            let left = piece.size().saturating_sub(self.at);
            if left > 0 {
                return left;
            }
            self.piece += 1;
            self.at = 0;
        }
        0
    }

    /// Goes on by `bytes`, through any number of pieces.
    fn skip<P: Piece>(&mut self, pieces: &[P], mut bytes: usize) {
        while bytes > 0 {
            let step = self.step(pieces, bytes);
            self.at += step;
            bytes -= step;
        }
    }

    /// Number of the next `bytes` that are in the piece here: at least one, since the sum of all was
    /// checked.
    fn step<P: Piece>(&mut self, pieces: &[P], bytes: usize) -> usize {
        let step = self.left_of_piece(pieces).min(bytes);
        assert!(step > 0, "the pieces have become shorter");
        step
    }

    /// The piece of the next `bytes`, which are all in one, and where in it they are.
    fn take<'a, P: Piece>(&mut self, pieces: &'a [P], bytes: usize) -> (&'a P, usize) {
        let at = self.at;
        self.at += bytes;
        (&pieces[self.piece], at)
    }

    /// The next `bytes`, which are all in one piece.
    fn take_mut<'a, P>(&mut self, pieces: &'a mut [P], bytes: usize) -> &'a mut [u8]
    where
        P: DerefMut<Target = [u8]>,
    {
        let at = self.at;
        self.at += bytes;
        &mut pieces[self.piece][at..at + bytes]
    }

    /// Fills `buffer` from the pieces.
    fn gather<P: Piece>(&mut self, pieces: &[P], mut buffer: &mut [u8]) {
        while !buffer.is_empty() {
            let step = self.step(pieces, buffer.len());
            let (part, rest) = buffer.split_at_mut(step);
            pieces[self.piece].copy_to(self.at, part);
            self.at += step;
            buffer = rest;
        }
    }

    /// Spreads `buffer` over the pieces.
    fn scatter<P>(&mut self, pieces: &mut [P], mut buffer: &[u8])
    where
        P: DerefMut<Target = [u8]>,
    {
        while !buffer.is_empty() {
            let step = self.step(pieces, buffer.len());
            let (part, rest) = buffer.split_at(step);
            self.take_mut(pieces, step).copy_from_slice(part);
            buffer = rest;
        }
    }
}

/// Where split sectors are transformed: 16 of 512 bytes, which modes that want several at once get, or
/// two of 4096. It holds plaintext, and is wiped.
#[repr(align(64))]
struct Bounce([u8; Self::SIZE]);

impl Bounce {
    const SIZE: usize = 2 * UNIT_MAX;

    /// The first `bytes` of it. It is made when first needed: most requests split no sector.
    fn part(bounce: &mut Option<Self>, bytes: usize) -> &mut [u8] {
        let bounce = bounce.get_or_insert_with(|| Self([0; Self::SIZE]));
        &mut bounce.0[..bytes]
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// With a cipher of a few lines; `tests/vectored.rs` has the real ones.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::run::Data;

    const UNIT: usize = 32;

    /// Byte that depends on the number of the unit and on the position in it.
    fn mask(unit: usize, at: usize) -> u8 {
        (unit * 37 + at * 5 + 1).to_le_bytes()[0]
    }

    fn transform(before: usize, run: Run<'_>) {
        let whole = |data: &mut [u8]| {
            for (unit, data) in data.chunks_exact_mut(UNIT).enumerate() {
                for (at, byte) in data.iter_mut().enumerate() {
                    *byte ^= mask(before + unit, at);
                }
            }
        };
        match run.into_data() {
            Data::InPlace(data) => whole(data),
            Data::Copy {
                source,
                destination,
            } => {
                destination.copy_from_slice(source);
                whole(destination);
            }
            Data::Shared {
                source,
                destination,
            } => {
                source.copy_to(destination);
                whole(destination);
            }
        }
    }

    fn transformed(units: usize) -> Vec<u8> {
        (0..units * UNIT)
            .map(|at| mask(at / UNIT, at % UNIT))
            .collect()
    }

    /// Zeros in pieces of these lengths.
    fn pieces(lens: &[usize]) -> Vec<Vec<u8>> {
        lens.iter().map(|len| vec![0; *len]).collect()
    }

    fn check_in_place(lens: &[usize]) -> Gathered {
        let mut pieces = pieces(lens);
        let gathered = in_place(UNIT, &mut pieces, transform);
        let bytes = pieces.concat();
        assert_eq!(bytes, transformed(bytes.len() / UNIT), "{lens:?}");
        gathered
    }

    fn check_copy(from: &[usize], to: &[usize]) -> Gathered {
        let (source, mut destination) = (pieces(from), pieces(to));
        let gathered = copy(UNIT, &source, &mut destination, transform);
        let bytes = destination.concat();
        assert_eq!(bytes, transformed(bytes.len() / UNIT), "{from:?} to {to:?}");
        assert!(source.concat().iter().all(|byte| *byte == 0));
        gathered
    }

    const WHOLE: Gathered = Gathered {
        sectors: 0,
        bytes: 0,
    };

    fn gathered(sectors: usize, copies: usize) -> Gathered {
        Gathered {
            sectors,
            bytes: sectors * UNIT * copies,
        }
    }

    #[test]
    fn whole_sectors_are_not_gathered() {
        assert_eq!(check_in_place(&[]), WHOLE);
        assert_eq!(check_in_place(&[0, 0]), WHOLE);
        assert_eq!(check_in_place(&[6 * UNIT]), WHOLE);
        assert_eq!(check_in_place(&[0, 2 * UNIT, 0, UNIT, 0]), WHOLE);
        assert_eq!(check_copy(&[], &[0]), WHOLE);
        assert_eq!(check_copy(&[UNIT, 2 * UNIT], &[2 * UNIT, UNIT]), WHOLE);
        assert_eq!(check_copy(&[3 * UNIT], &[0, UNIT, UNIT, UNIT]), WHOLE);
    }

    #[test]
    fn only_split_sectors_are_gathered() {
        assert_eq!(check_in_place(&[UNIT + 1, 3 * UNIT - 1]), gathered(1, 2));
        assert_eq!(check_in_place(&[1, 4 * UNIT - 2, 1]), gathered(2, 2));
        assert_eq!(check_in_place(&[1; 3 * UNIT]), gathered(3, 2));
        let lens = [UNIT, 5, 0, 7, 2 * UNIT - 12, 2 * UNIT];
        assert_eq!(check_in_place(&lens), gathered(1, 2));
    }

    #[test]
    fn a_split_on_one_side_is_copied_once() {
        assert_eq!(check_copy(&[7, 2 * UNIT - 7], &[2 * UNIT]), gathered(1, 1));
        assert_eq!(check_copy(&[2 * UNIT], &[7, 2 * UNIT - 7]), gathered(1, 1));
        let there = [2 * UNIT - 9, UNIT + 9];
        let both = Gathered {
            sectors: 2,
            bytes: 2 * UNIT,
        };
        assert_eq!(check_copy(&[7, 3 * UNIT - 7], &there), both);
        let same = [7, 3 * UNIT - 7];
        assert_eq!(check_copy(&same, &[9, 3 * UNIT - 9]), gathered(1, 2));
    }

    /// Two cuts anywhere, on either side.
    #[test]
    fn every_split_in_three() {
        let bytes = 3 * UNIT;
        for first in 0..=bytes {
            for second in first..=bytes {
                let lens = [first, second - first, bytes - second];
                check_in_place(&lens);
                check_copy(&lens, &[UNIT / 2, bytes - UNIT / 2]);
                check_copy(&[UNIT / 2, bytes - UNIT / 2], &lens);
            }
        }
    }

    /// More split units than a bounce buffer holds.
    #[test]
    fn long_requests_of_small_pieces() {
        let bytes = 2 * Bounce::SIZE + UNIT;
        let lens = vec![11; bytes / 11]
            .into_iter()
            .chain([bytes % 11])
            .collect::<Vec<_>>();
        assert_eq!(check_in_place(&lens).sectors, bytes / UNIT);
        assert_eq!(check_copy(&lens, &[bytes]).sectors, bytes / UNIT);
    }

    #[test]
    fn pieces_of_a_source_may_be_the_same_memory() {
        let piece = [0; UNIT + 5];
        let source = vec![&piece[..]; UNIT];
        let mut destination = vec![0; piece.len() * UNIT];
        copy(UNIT, &source, &mut [&mut destination[..]], transform);
        assert_eq!(destination, transformed(piece.len()));
    }

    #[test]
    #[should_panic(expected = "pieces of 33 bytes are not whole sectors of 32")]
    fn parts_of_sectors_are_no_request() {
        check_in_place(&[30, 3]);
    }

    #[test]
    #[should_panic(expected = "a source of 64 bytes for a destination of 32")]
    fn source_and_destination_are_equally_long() {
        check_copy(&[UNIT, UNIT], &[UNIT]);
    }
}
