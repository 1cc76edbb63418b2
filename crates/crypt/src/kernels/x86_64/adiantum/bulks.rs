//! The bulks of data units, to which blocks of key streams are XORed one after the other.

/// Bytes of a block of the key stream.
pub(super) const BLOCK: usize = 64;

/// Bulks of data units that follow each other, with what is left of them.
pub(super) struct Bulks<'a> {
    /// Data from the next block on.
    data: &'a mut [u8],
    /// Bytes of a bulk, at least 16, and how many of them the current one has left.
    bulk: usize,
    left: usize,
}

impl<'a> Bulks<'a> {
    #[inline(always)]
    pub(super) fn new(data: &'a mut [u8], bulk: usize) -> Self {
        Self {
            data,
            bulk,
            left: bulk,
        }
    }

    /// The next `N` blocks, if they are whole and of the same data unit.
    #[inline(always)]
    pub(super) fn next_blocks<const N: usize>(&mut self) -> Option<&'a mut [[u8; BLOCK]; N]> {
        self.go_on();
        if self.left < N * BLOCK {
            return None;
        }
        self.left -= N * BLOCK;
        let taken = self.data.split_off_mut(..N * BLOCK)?;
        taken.as_chunks_mut().0.try_into().ok()
    }

    /// The next block, or what there is of it: 16, 32, 48 or 64 bytes; `None` after the last.
    #[inline(always)]
    pub(super) fn next_piece(&mut self) -> Option<&'a mut [u8]> {
        self.go_on();
        let taken = self.data.split_off_mut(..self.left.min(BLOCK))?;
        self.left -= taken.len();
        Some(taken)
    }

    /// Skips the end of a data unit that has no bulk left.
    #[inline(always)]
    fn go_on(&mut self) {
        if self.left == 0 {
            // After the last data unit there is nothing left.
            let _end = self.data.split_off_mut(..16);
            self.left = self.bulk;
        }
    }
}
