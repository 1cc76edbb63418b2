//! A key that seals and opens tickets.

use std::mem;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, rand};
use zeroize::Zeroizing;

/// Length of the secret that a key is derived from, in bytes.
pub(super) const SECRET_LEN: usize = 32;
/// Longest ticket, in bytes. rustls puts a host's name, a protocol's name and a secret into it: some 700 bytes at most.
pub(super) const TICKET_MAX: usize = 2048;

const NAME_LEN: usize = 16;
/// Bytes of a ticket before its sealed part.
const HEAD_LEN: usize = NAME_LEN + NONCE_LEN;
const TAG_LEN: usize = 16;
/// Bytes of the time in the sealed part.
const TIME_LEN: usize = 8;

/// A key that seals and opens tickets, with the name by which tickets refer to it.
///
/// A ticket is the key's name, a nonce, and the sealed time of its making with the session. Many servers choose nonces at
/// random for one key and know nothing of each other's, so two tickets may get the same one. By AES-GCM that would
/// disclose the key that authenticates; by AES-GCM-SIV (RFC 8452) it shows at most that two tickets are equal.
///
/// AWS-LC wipes what it derives from the key when it frees it.
pub(super) struct Key {
    name: [u8; NAME_LEN],
    sealing: LessSafeKey,
}

/// A length of output of HKDF.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Key {
    pub(super) fn derive(secret: &[u8; SECRET_LEN]) -> Result<Self, Unspecified> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"scrim session tickets 1");
        let derived = salt.extract(secret);
        let mut name = [0; NAME_LEN];
        let expanded = derived.expand(&[b"name"], Length(NAME_LEN))?;
        expanded.fill(&mut name)?;
        let mut key = Zeroizing::new([0; 32]);
        let expanded = derived.expand(&[b"AES-256-GCM-SIV"], Length(key.len()))?;
        expanded.fill(&mut *key)?;
        let sealing = LessSafeKey::new(UnboundKey::new(&AES_256_GCM_SIV, &*key)?);
        Ok(Self { name, sealing })
    }

    /// Name of the key: it stands in each ticket, and reveals nothing of the key.
    pub(super) fn name(&self) -> &[u8; NAME_LEN] {
        &self.name
    }

    /// Seals a session that is in a ticket made at `time`, in seconds since 1970.
    pub(super) fn seal(&self, time: u64, session: &[u8]) -> Option<Vec<u8>> {
        let len = HEAD_LEN + TIME_LEN + session.len() + TAG_LEN;
        if len > TICKET_MAX {
            return None;
        }
        // It has the session in the clear until it is sealed.
        let mut ticket = Zeroizing::new(Vec::with_capacity(len));
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        ticket.extend(self.name);
        ticket.extend(nonce);
        ticket.extend(time.to_be_bytes());
        ticket.extend(session);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let (head, sealed) = ticket.split_at_mut(HEAD_LEN);
        let tag =
            self.sealing
                .seal_in_place_separate_tag(nonce, Aad::from(&head[..NAME_LEN]), sealed);
        ticket.extend(tag.ok()?.as_ref());
        Some(mem::take(&mut *ticket))
    }

    /// Opens a ticket of this key: the time of its making, and the session.
    pub(super) fn open(&self, ticket: &[u8]) -> Option<(u64, Vec<u8>)> {
        let (name, rest) = ticket.split_first_chunk::<NAME_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let mut opened = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self
            .sealing
            .open_in_place(nonce, Aad::from(name), &mut opened);
        let (time, session) = opened.ok()?.split_first_chunk()?;
        Some((u64::from_be_bytes(*time), session.to_vec()))
    }
}

/// Returns the name of the key that a ticket was made by; `None` if it is no ticket of this form.
pub(super) fn name_in(ticket: &[u8]) -> Option<&[u8; NAME_LEN]> {
    ticket.first_chunk().filter(|_| ticket.len() <= TICKET_MAX)
}
