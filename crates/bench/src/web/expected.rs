//! Recognizes the end of an answer by the lengths of what comes.

/// Bytes of a TLS record's header; the last two are the length of the rest.
const RECORD_HEADER: usize = 5;
/// The type of records with data, of TLS 1.3 with anything.
const DATA: u8 = 23;
/// Bytes that TLS 1.3 adds to data: its type and the tag.
const ADDED: u64 = 17;

/// Bytes that are still to come of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expected {
    /// Bytes of the answer without TLS.
    pub(super) plain: u64,
    /// Bytes of the record at hand.
    of_record: u64,
    /// The start of the next one's header.
    header: [u8; RECORD_HEADER],
    have: usize,
}

impl Expected {
    /// Checks whether that was all; `None` if it was too much.
    pub(super) fn take_plain(&mut self, count: u64) -> Option<bool> {
        self.plain = self.plain.checked_sub(count)?;
        Some(self.plain == 0)
    }

    /// The same, of records.
    pub(super) fn take_records(&mut self, mut came: &[u8]) -> Option<bool> {
        while !came.is_empty() {
            if self.of_record > 0 {
                let some = came
                    .len()
                    .min(usize::try_from(self.of_record).unwrap_or(usize::MAX));
                self.of_record -= some as u64;
                came = &came[some..];
                continue;
            }
            let some = came.len().min(RECORD_HEADER - self.have);
            self.header[self.have..self.have + some].copy_from_slice(&came[..some]);
            self.have += some;
            came = &came[some..];
            if self.have == RECORD_HEADER {
                let [kind, _, _, high, low] = self.header;
                let length = u64::from(u16::from_be_bytes([high, low]));
                if kind != DATA {
                    return None;
                }
                self.plain = self.plain.checked_sub(length.checked_sub(ADDED)?)?;
                self.of_record = length;
                self.have = 0;
            }
        }
        Some(self.plain == 0 && self.of_record == 0 && self.have == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_say_how_much_they_carry() {
        let record = |kind: u8, plain: u16| {
            let length = plain + 17;
            let mut bytes = vec![kind, 3, 3];
            bytes.extend(length.to_be_bytes());
            bytes.resize(5 + usize::from(length), 0);
            bytes
        };
        let expecting = |plain| Expected {
            plain,
            ..Expected::default()
        };
        let both = [record(DATA, 300), record(DATA, 5)].concat();
        for piece in [1, 3, 5, 7, 1000] {
            let mut expected = expecting(305);
            let whole: Vec<_> = both
                .chunks(piece)
                .map(|bytes| expected.take_records(bytes).unwrap())
                .collect();
            assert_eq!(whole.iter().filter(|whole| **whole).count(), 1, "{piece}");
            assert!(whole.last().unwrap());
        }
        assert_eq!(expecting(304).take_records(&both), None);
        assert_eq!(expecting(306).take_records(&both), Some(false));
        assert_eq!(expecting(9).take_records(&record(21, 2)), None);
        assert_eq!(expecting(9).take_records(&[DATA, 3, 3, 0, 16]), None);
        assert_eq!(expecting(4).take_plain(5), None);
    }
}
