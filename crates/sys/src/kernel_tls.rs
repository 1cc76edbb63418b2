//! TLS records made and opened by the kernel: `Documentation/networking/tls.rst`.
//!
//! A TCP socket is attached once, then each direction is given its key. From then on plain bytes go in and come
//! out, and records of other kinds than data by control messages. Neither step can be undone: a connection that
//! the kernel cannot go on with must end.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

use zeroize::Zeroizing;

use crate::tcp::set;

/// The version of TLS that records are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Tls12,
    Tls13,
}

/// Cipher that seals the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl Cipher {
    /// Returns the number of bytes of its key.
    #[must_use]
    pub fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }
}

/// Direction of one of a connection's two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Key for sent data.
    Send,
    /// Key for received data.
    Receive,
}

/// Bytes of an IV, in all ciphers.
pub const IV: usize = 12;

/// Most plaintext in a record, bytes.
pub const RECORD: usize = 16 << 10;

/// Most bytes of any of the kernel's structures with a key.
const INFO_MAX: usize = size_of::<libc::tls12_crypto_info_aes_gcm_256>();
const _: () = assert!(INFO_MAX == size_of::<libc::tls12_crypto_info_chacha20_poly1305>());
const _: () = assert!(INFO_MAX > size_of::<libc::tls12_crypto_info_aes_gcm_128>());

/// A key as the kernel takes it: `struct tls12_crypto_info_…`. Wiped when it is dropped.
pub struct CryptoInfo {
    bytes: Zeroizing<[u8; INFO_MAX]>,
    len: usize,
}

impl CryptoInfo {
    /// Takes a key, its IV, and the number of the next record. `None` when the key has another length
    /// than its cipher's.
    ///
    /// AES-GCM in TLS 1.2 sends a part of each nonce, and there are two ways to make it: rustls, as TLS 1.3
    /// does, combines IV and number bit by bit, the kernel counts up from the IV. So the kernel starts
    /// behind every nonce that was used for the `sequence` records before, and none is used twice.
    #[must_use]
    pub fn new(
        version: Version,
        cipher: Cipher,
        key: &[u8],
        iv: &[u8; IV],
        sequence: u64,
    ) -> Option<Self> {
        if key.len() != cipher.key_len() {
            return None;
        }
        let mut info = Self {
            bytes: Zeroizing::new([0; INFO_MAX]),
            len: 0,
        };
        let version = match version {
            Version::Tls12 => libc::TLS_1_2_VERSION,
            Version::Tls13 => libc::TLS_1_3_VERSION,
        };
        let number = match cipher {
            Cipher::Aes128Gcm => libc::TLS_CIPHER_AES_GCM_128,
            Cipher::Aes256Gcm => libc::TLS_CIPHER_AES_GCM_256,
            Cipher::ChaCha20Poly1305 => libc::TLS_CIPHER_CHACHA20_POLY1305,
        };
        info.put(&version.to_ne_bytes());
        info.put(&number.to_ne_bytes());
        let (salt, rest) = iv.split_first_chunk::<4>()?;
        let rest = *rest.first_chunk::<8>()?;
        match (cipher, version) {
            (Cipher::ChaCha20Poly1305, _) => {
                info.put(iv);
                info.put(key);
            }
            (_, libc::TLS_1_2_VERSION) => {
                info.put(&behind(u64::from_be_bytes(rest), sequence).to_be_bytes());
                info.put(key);
                info.put(salt);
            }
            _ => {
                info.put(&rest);
                info.put(key);
                info.put(salt);
            }
        }
        info.put(&sequence.to_be_bytes());
        Some(info)
    }

    /// Counts `records` records as opened already, by another reader, for a key to receive by.
    pub fn skip(&mut self, records: u64) {
        let at = self.len - size_of::<u64>();
        if let Some(number) = self.bytes[at..].first_chunk_mut() {
            let next = u64::from_be_bytes(*number).saturating_add(records);
            *number = next.to_be_bytes();
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// The first number, counting up, that none of `iv ^ 0`, …, `iv ^ (used - 1)` is, nor one that comes soon
/// after: they all lie in one block of a power of two, and it is the one behind that.
fn behind(iv: u64, used: u64) -> u64 {
    match used.checked_sub(1) {
        None => iv,
        Some(last) => {
            let block = u64::MAX.checked_shr(last.leading_zeros()).unwrap_or(0);
            (iv | block).wrapping_add(1)
        }
    }
}

/// Makes a connected socket one for TLS. Its bytes stay plain until a direction is given its key.
///
/// # Errors
/// `NotFound` when the kernel has no TLS, or not now: its module is not loaded, and this process may not have
/// it loaded. `NotConnected` when the connection is not established. Else as `tcp(7)`.
pub fn attach(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls\0")
}

/// Gives a direction its key, or, where the kernel can change it, the next one.
///
/// # Errors
/// `ResourceBusy` when the direction has a key and the kernel cannot change it; `InvalidInput`, or
/// [`NotFound`](io::ErrorKind::NotFound), when it does not know the version or the cipher.
pub fn install(socket: BorrowedFd<'_>, direction: Direction, info: &CryptoInfo) -> io::Result<()> {
    let name = match direction {
        Direction::Send => libc::TLS_TX,
        Direction::Receive => libc::TLS_RX,
    };
    set(socket, libc::SOL_TLS, name, &info.bytes[..info.len])
}

/// Bytes of a control message with one byte, and of it with what comes behind it.
// SAFETY: it only computes.
const CONTROL_LEN: usize = unsafe { libc::CMSG_LEN(1) } as usize;
// SAFETY: as above.
const CONTROL: usize = unsafe { libc::CMSG_SPACE(1) } as usize;

/// Buffer for one, aligned as its header has to be.
#[repr(C)]
union Control {
    header: libc::cmsghdr,
    bytes: [u8; CONTROL],
}

/// A message of `parts`, with room for a control message. Both must outlive it.
fn message(parts: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all zeros are a valid, empty msghdr.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = parts;
    message.msg_iovlen = 1;
    message.msg_control = std::ptr::from_mut(control).cast();
    // The field's type differs between C libraries.
    message.msg_controllen = CONTROL as _;
    message
}

/// Sends one record of another kind than data, such as an alert (21) or a message of the handshake protocol (22),
/// behind all that was sent before. Does not wait. Returns the number of bytes sent, which is all of them for a
/// message as short as these.
///
/// # Errors
/// `WouldBlock` when the socket's buffer is full; else as `sendmsg(2)`.
pub fn send_control(socket: BorrowedFd<'_>, kind: u8, content: &[u8]) -> io::Result<usize> {
    let mut control = Control {
        bytes: [0; CONTROL],
    };
    let mut part = libc::iovec {
        iov_base: content.as_ptr().cast_mut().cast(),
        iov_len: content.len(),
    };
    let message = message(&mut part, &mut control);
    // SAFETY: `message` has room for one control message of a byte, aligned, so its first header and the data
    // behind it lie in `control`; nothing else refers to that.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = libc::TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = CONTROL_LEN as _;
        libc::CMSG_DATA(header).write(kind);
    }
    // SAFETY: descriptor, content and control message are borrowed for the call, which reads them only.
    let sent = unsafe {
        libc::sendmsg(
            socket.as_raw_fd(),
            &raw const message,
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Outcome of one call of [`receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The kind of its record, as in the header; none at the end of the stream, and for bytes of a socket
    /// that has no key to receive by.
    pub kind: Option<u8>,
    /// Number of bytes received.
    pub len: usize,
}

/// Receives the next bytes: data, or one record of another kind, never both together. Appends them to `into`, at
/// most as many as it has capacity for. Does not wait.
///
/// # Errors
/// `WouldBlock` when nothing has come. `EBADMSG` when a record was changed on the way, `EMSGSIZE` and `EINVAL`
/// when it is not a valid record, `EKEYEXPIRED` while the kernel waits for the next key; else as `recvmsg(2)`.
pub fn receive(socket: BorrowedFd<'_>, into: &mut Vec<u8>) -> io::Result<Received> {
    let mut control = Control {
        bytes: [0; CONTROL],
    };
    let room = into.spare_capacity_mut();
    let mut part = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    let mut message = message(&mut part, &mut control);
    // SAFETY: the kernel writes at most `iov_len` bytes to the vector's free room, and at most
    // `msg_controllen` to `control`.
    let received = unsafe {
        libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut message,
            libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC,
        )
    };
    let len = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: `len` bytes behind the vector's own were written just now.
    unsafe { into.set_len(into.len() + len) };
    #[allow(clippy::unnecessary_cast, reason = "u32 in musl")]
    // SAFETY: the kernel has set `msg_controllen` to what it wrote to `control`; CMSG_FIRSTHDR gives a header
    // only if a whole one lies there, and the byte behind it is read only if `cmsg_len` has it.
    let kind = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_ours = |header: &libc::cmsghdr| {
            header.cmsg_level == libc::SOL_TLS
                && header.cmsg_type == libc::TLS_GET_RECORD_TYPE
                && header.cmsg_len as usize >= CONTROL_LEN
        };
        match header.as_ref() {
            Some(found) if is_ours(found) => Some(libc::CMSG_DATA(header).read()),
            _ => None,
        }
    };
    Ok(Received { kind, len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn bytes(version: Version, cipher: Cipher, sequence: u64) -> Vec<u8> {
        let key = vec![0xAA; cipher.key_len()];
        let iv = [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0x0F];
        let info = CryptoInfo::new(version, cipher, &key, &iv, sequence).unwrap();
        info.bytes[..info.len].to_vec()
    }

    #[test]
    fn a_key_lies_as_the_kernel_reads_it() {
        let [low, high] = 51u16.to_ne_bytes();
        let [old, new] = [0x0303u16, 0x0304].map(u16::to_ne_bytes);
        let expected = [
            &new[..],
            &[low, high],
            &[0, 0, 0, 0, 0, 0, 0, 0x0F],
            &[0xAA; 16],
            &[1, 2, 3, 4],
            &[0, 0, 0, 0, 0, 0, 0, 2],
        ]
        .concat();
        assert_eq!(bytes(Version::Tls13, Cipher::Aes128Gcm, 2), expected);
        let (key, iv) = ([0xAA; 16], [0; IV]);
        let mut info = CryptoInfo::new(Version::Tls13, Cipher::Aes128Gcm, &key, &iv, 254).unwrap();
        info.skip(3);
        assert_eq!(info.bytes[info.len - 8..info.len], [0, 0, 0, 0, 0, 0, 1, 1]);
        let chacha = bytes(Version::Tls12, Cipher::ChaCha20Poly1305, 1);
        assert_eq!(chacha.len(), 56);
        assert_eq!((&chacha[..2], &chacha[4..8]), (&old[..], &[1, 2, 3, 4][..]));
        assert_eq!(bytes(Version::Tls13, Cipher::Aes256Gcm, 0).len(), 56);
        assert!(
            CryptoInfo::new(Version::Tls13, Cipher::Aes256Gcm, &[0; 16], &[0; 12], 0).is_none()
        );
    }

    #[test]
    fn the_kernel_counts_from_behind_the_nonces_that_were_used() {
        for iv in [0, 1, 2, 7, 0x0F, 0x1234_5678, u64::MAX - 1, u64::MAX] {
            for used in 0..40u64 {
                let first = behind(iv, used);
                for nonce in (0..used).map(|number| iv ^ number) {
                    // How many records later it would come again.
                    assert!(nonce.wrapping_sub(first) > 1 << 60, "{iv} {used}");
                }
            }
        }
        assert_eq!(behind(5, 0), 5);
        let start = |sequence| bytes(Version::Tls12, Cipher::Aes128Gcm, sequence)[4..12].to_vec();
        assert_eq!(start(0), [0, 0, 0, 0, 0, 0, 0, 0x0F]);
        assert_eq!(start(1), [0, 0, 0, 0, 0, 0, 0, 0x10]);
        assert_eq!(start(17), [0, 0, 0, 0, 0, 0, 0, 0x20]);
    }

    #[test]
    fn what_comes_without_tls_has_no_kind() {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut into = Vec::with_capacity(8);
        let error = receive(other.as_fd(), &mut into).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        std::io::Write::write_all(&mut &one, b"0123456789").unwrap();
        into.push(b'-');
        let received = receive(other.as_fd(), &mut into).unwrap();
        assert_eq!((received.kind, received.len), (None, 7));
        assert_eq!(into, b"-0123456");
        drop(one);
        into.clear();
        let _ = receive(other.as_fd(), &mut into).unwrap();
        assert_eq!(receive(other.as_fd(), &mut into).unwrap().len, 0);
    }
}
