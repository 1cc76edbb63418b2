//! Records that arrived with the handshake, before the kernel received.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::RecvFlags;
use scrim_sys::kernel_tls::CryptoInfo;

use super::keys;
use crate::tls::error::TlsError;
use crate::tls::record::{Direction, HEADER, Kind, OpenFault, Opener};

/// Records that are decrypted in user space. The last one may be incomplete; the kernel continues after it.
pub(super) struct Early {
    /// Key for the kernel; its record number counts the records that were decrypted here.
    info: CryptoInfo,
    opener: Opener,
    incoming: Vec<u8>,
}

impl Early {
    /// Makes the state for `incoming`, with the key of `direction`; `None` if the cipher suite is not supported.
    pub(super) fn new(direction: Direction, incoming: Vec<u8>) -> Option<Self> {
        Some(Self {
            info: keys::info(&direction)?,
            opener: Opener::new(direction)?,
            incoming,
        })
    }

    /// Key with which the kernel continues.
    pub(super) fn info(&self) -> &CryptoInfo {
        &self.info
    }

    /// Returns whether the next record is for the kernel.
    pub(super) fn is_empty(&self) -> bool {
        self.incoming.is_empty()
    }

    /// Returns the length of the first record, after receiving its missing bytes, and not one more, since the kernel takes no
    /// bytes back. `None` if the client closes its side in the middle of the record. Does not wait.
    pub(super) fn front(
        &mut self,
        socket: BorrowedFd<'_>,
    ) -> io::Result<Result<Option<usize>, OpenFault>> {
        loop {
            let had = self.incoming.len();
            let whole = match self.opener.record_len(&self.incoming) {
                Ok(Some(len)) if len <= had => return Ok(Ok(Some(len))),
                Ok(len) => len.unwrap_or(HEADER),
                Err(fault) => return Ok(Err(fault)),
            };
            self.incoming.resize(whole, 0);
            let rest = &mut self.incoming[had..];
            let received = rustix::net::recv(socket, rest, RecvFlags::DONTWAIT);
            let len = received.map_or(0, |(_, len)| len);
            self.incoming.truncate(had + len);
            if received?.1 == 0 {
                return Ok(Ok(None));
            }
        }
    }

    /// Decrypts the first record, of `len` bytes, and appends its content to `inbox`.
    pub(super) fn open(&mut self, len: usize, inbox: &mut Vec<u8>) -> Result<Kind, OpenFault> {
        let record = &mut self.incoming[..len];
        let opened = self.opener.open(record)?;
        inbox.extend_from_slice(&record[opened.payload]);
        self.incoming.drain(..len);
        self.info.skip(1);
        Ok(opened.kind)
    }

    /// Changes to the client's next key, for the records that follow.
    pub(super) fn change_key(&mut self, next: Direction) -> Result<(), TlsError> {
        let incoming = std::mem::take(&mut self.incoming);
        *self = Self::new(next, incoming).ok_or(TlsError::Library)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::record::Sealer;
    use rustls::ConnectionTrafficSecrets;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn direction() -> Direction {
        let secrets = ConnectionTrafficSecrets::Aes256Gcm {
            key: [0x42; 32].into(),
            iv: [0x17; 12].into(),
        };
        Direction {
            sequence: 0,
            secrets,
            tls13: true,
        }
    }

    fn sealed(sealer: &mut Sealer, content: &[u8]) -> Vec<u8> {
        let layout = sealer.layout();
        let mut record = vec![0; layout.record(content.len())];
        record[layout.before..][..content.len()].copy_from_slice(content);
        sealer.seal(Kind::Data, &mut record, content.len()).unwrap();
        record
    }

    #[test]
    fn of_what_comes_in_pieces_nothing_behind_the_record_is_received() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut sealer = Sealer::new(direction(), u64::MAX).unwrap();
        let (first, second) = (sealed(&mut sealer, b"one"), sealed(&mut sealer, b"other"));
        // With the handshake came one and the second one's first bytes.
        let came = [&first[..], &second[..3]].concat();
        let mut early = Early::new(direction(), came).unwrap();
        let mut inbox = Vec::new();
        let mut take = |early: &mut Early| match early.front(ours.as_fd()).unwrap() {
            Ok(Some(len)) => early.open(len, &mut inbox).unwrap(),
            _ => panic!("no record"),
        };
        assert_eq!(take(&mut early), Kind::Data);
        for byte in &second[3..] {
            let waits = early.front(ours.as_fd()).map(drop).unwrap_err();
            assert_eq!(waits.kind(), io::ErrorKind::WouldBlock);
            theirs.write_all(&[*byte]).unwrap();
        }
        theirs.write_all(b"for the kernel").unwrap();
        drop(theirs);
        assert_eq!(take(&mut early), Kind::Data);
        assert!(early.is_empty());
        assert_eq!(inbox, b"oneother");
        let mut left = String::new();
        (&ours).read_to_string(&mut left).unwrap();
        assert_eq!(left, "for the kernel");
    }

    #[test]
    fn a_record_that_never_comes_whole_is_the_end_and_a_false_one_a_fault() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let front = |bytes: &[u8]| {
            let mut early = Early::new(direction(), bytes.to_vec()).unwrap();
            early.front(ours.as_fd()).unwrap()
        };
        assert_eq!(front(&[23, 3]), Ok(None));
        assert_eq!(front(&[23, 3, 3, 0, 40, 1]), Ok(None));
        assert_eq!(front(&[23, 9, 9, 0, 40]), Err(OpenFault::Version));
        let mut early = Early::new(direction(), vec![0; 40]).unwrap();
        early.incoming[..5].copy_from_slice(&[23, 3, 3, 0, 35]);
        assert_eq!(early.open(40, &mut Vec::new()), Err(OpenFault::Mac));
    }
}
