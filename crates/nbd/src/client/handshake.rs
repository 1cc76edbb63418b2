//! The fixed newstyle handshake, from the first byte to the export.
//!
//! It reads and writes whatever stream the caller makes of the connection; limits of time are up to the caller.
//! An encrypted connection begins between [`greet`] and [`go`], after [`start_tls`].

use std::io::{Read, Write};

use scrim_foreign::Foreign;

use super::HandshakeError;
use crate::wire::{
    EXPORT_NAME_PADDING, IHAVEOPT, NBDMAGIC, OLDSTYLE_MAGIC, OPTION_HEADER, OPTION_REPLY_MAGIC,
    client, flag, handshake, info, opt, rep,
};

/// Longest option reply that is read, in bytes: a string of the specification and what stands around it.
const REPLY_MAX: usize = 4096 + 64;
/// Most replies to one option that are read: one for each kind of information, and some more.
const REPLIES_MAX: usize = 32;
/// Most characters of a server's message that are shown.
const MESSAGE_MAX: usize = 200;
/// The largest minimum block size that the specification allows, in bytes.
const MINIMUM_MAX: u32 = 64 << 10;

/// The server's greeting, before it is asked for anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// True if it answers options.
    fixed_newstyle: bool,
    no_zeroes: bool,
    /// True if TLS has begun since. What came before may be an attacker's.
    secured: bool,
}

/// An export, as the server describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// Size in bytes; at most `i64::MAX`.
    pub size: u64,
    /// Transmission flags of the export ([`flag`]).
    pub flags: u16,
    /// Block sizes, if the server named them.
    pub blocks: Option<BlockSizes>,
}

/// A server's block sizes, which fit each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Requests are multiples of it, in bytes: a power of two of at most 64 KiB.
    pub minimum: u32,
    /// No request has more data, in bytes: a multiple of the minimum, or without a limit.
    pub maximum: u32,
}

/// Receives the greeting and answers it.
///
/// # Errors
/// When the connection fails, or the other side is not a server that is understood.
pub fn greet(stream: &mut (impl Read + Write)) -> Result<Greeting, HandshakeError> {
    if u64::from_be_bytes(receive(stream)?) != NBDMAGIC {
        return Err(HandshakeError::NotNbd);
    }
    match u64::from_be_bytes(receive(stream)?) {
        IHAVEOPT => {}
        OLDSTYLE_MAGIC => return Err(HandshakeError::Oldstyle),
        _ => return Err(HandshakeError::NotNbd),
    }
    let flags = u16::from_be_bytes(receive(stream)?);
    let greeting = Greeting {
        fixed_newstyle: flags & handshake::FIXED_NEWSTYLE != 0,
        no_zeroes: flags & handshake::NO_ZEROES != 0,
        secured: false,
    };
    let mut answer = 0;
    if greeting.fixed_newstyle {
        answer |= client::FIXED_NEWSTYLE;
    }
    if greeting.no_zeroes {
        answer |= client::NO_ZEROES;
    }
    stream.write_all(&answer.to_be_bytes())?;
    Ok(greeting)
}

/// Asks for TLS by `NBD_OPT_STARTTLS`. The server agrees and says nothing more before the client has begun TLS:
/// bytes in plaintext that follow its agreement are not trusted. [`go`] comes next, within TLS.
///
/// # Errors
/// When the connection fails, the server breaks the protocol or has no TLS.
pub fn start_tls(
    stream: &mut (impl Read + Write),
    greeting: Greeting,
) -> Result<Greeting, HandshakeError> {
    if !greeting.fixed_newstyle {
        let message = String::new();
        return Err(HandshakeError::NoTls { message });
    }
    send_option(stream, opt::STARTTLS, &[])?;
    match option_reply(stream, opt::STARTTLS)? {
        (rep::ACK, data) if data.is_empty() => Ok(Greeting {
            secured: true,
            ..greeting
        }),
        (reply, data) if reply & rep::ERROR != 0 => {
            let message = shown(&data);
            Err(HandshakeError::NoTls { message })
        }
        _ => Err(HandshakeError::Protocol("an option has an unknown reply")),
    }
}

/// Asks for an export by `NBD_OPT_GO`. A server that does not know this option and has no TLS is asked by
/// `NBD_OPT_EXPORT_NAME`, whose reply depends on options that were negotiated in plaintext. Once the server has agreed,
/// requests may be sent.
///
/// # Errors
/// When the connection fails, the server breaks the protocol or refuses the export.
pub fn go(
    stream: &mut (impl Read + Write),
    greeting: Greeting,
    name: &str,
) -> Result<Export, HandshakeError> {
    if greeting.fixed_newstyle
        && let Some(export) = opt_go(stream, name)?
    {
        return Ok(export);
    }
    if greeting.secured {
        return Err(HandshakeError::Protocol(
            "it has TLS, and does not know NBD_OPT_GO",
        ));
    }
    opt_export_name(stream, greeting, name)
}

/// Asks by `NBD_OPT_GO`; `None` when the server does not know the option.
fn opt_go(stream: &mut (impl Read + Write), name: &str) -> Result<Option<Export>, HandshakeError> {
    let mut data = Vec::with_capacity(name.len() + 8);
    data.extend(length(name.len())?.to_be_bytes());
    data.extend(name.as_bytes());
    data.extend(1u16.to_be_bytes());
    data.extend(info::BLOCK_SIZE.to_be_bytes());
    send_option(stream, opt::GO, &data)?;
    let (mut export, mut blocks) = (None, None);
    for _ in 0..REPLIES_MAX {
        let (kind, data) = option_reply(stream, opt::GO)?;
        match kind {
            rep::INFO => match information(&data)? {
                Information::Export(size, flags) => export = Some((size, flags)),
                Information::Blocks(sizes) => blocks = Some(sizes),
                Information::Other => {}
            },
            rep::ACK => {
                let (size, flags) = export.ok_or(HandshakeError::Protocol(
                    "it agreed on an export without its size",
                ))?;
                return Ok(Some(self::export(size, flags, blocks)?));
            }
            rep::ERR_UNSUP => return Ok(None),
            reply if reply & rep::ERROR != 0 => {
                let message = shown(&data);
                return Err(HandshakeError::Refused { reply, message });
            }
            _ => return Err(HandshakeError::Protocol("an option has an unknown reply")),
        }
    }
    Err(HandshakeError::Protocol(
        "an option has replies without end",
    ))
}

fn opt_export_name(
    stream: &mut (impl Read + Write),
    greeting: Greeting,
    name: &str,
) -> Result<Export, HandshakeError> {
    send_option(stream, opt::EXPORT_NAME, name.as_bytes())?;
    let size = u64::from_be_bytes(receive(stream)?);
    let flags = u16::from_be_bytes(receive(stream)?);
    if !greeting.no_zeroes {
        receive::<EXPORT_NAME_PADDING>(stream)?;
    }
    export(size, flags, None)
}

fn export(size: u64, flags: u16, blocks: Option<BlockSizes>) -> Result<Export, HandshakeError> {
    if i64::try_from(size).is_err() {
        return Err(HandshakeError::Protocol("no export can be that large"));
    }
    // Without the first one the others mean nothing.
    let flags = if flags & flag::HAS_FLAGS == 0 {
        0
    } else {
        flags
    };
    Ok(Export {
        size,
        flags,
        blocks,
    })
}

fn send_option(stream: &mut impl Write, option: u32, data: &[u8]) -> Result<(), HandshakeError> {
    let mut bytes = Vec::with_capacity(OPTION_HEADER + data.len());
    bytes.extend(IHAVEOPT.to_be_bytes());
    bytes.extend(option.to_be_bytes());
    bytes.extend(length(data.len())?.to_be_bytes());
    bytes.extend(data);
    Ok(stream.write_all(&bytes)?)
}

fn length(len: usize) -> Result<u32, HandshakeError> {
    u32::try_from(len).map_err(|_| HandshakeError::Protocol("the export's name is too long"))
}

/// One reply to an option: its type and its data.
fn option_reply(stream: &mut impl Read, option: u32) -> Result<(u32, Vec<u8>), HandshakeError> {
    if u64::from_be_bytes(receive(stream)?) != OPTION_REPLY_MAGIC {
        return Err(HandshakeError::Protocol(
            "no option reply where one has to be",
        ));
    }
    if u32::from_be_bytes(receive(stream)?) != option {
        return Err(HandshakeError::Protocol("a reply to another option"));
    }
    let kind = u32::from_be_bytes(receive(stream)?);
    let len = u32::from_be_bytes(receive(stream)?);
    let len = usize::try_from(len).ok().filter(|len| *len <= REPLY_MAX);
    let len = len.ok_or(HandshakeError::Protocol("an option reply is too long"))?;
    let mut data = vec![0; len];
    stream.read_exact(&mut data)?;
    Ok((kind, data))
}

fn receive<const N: usize>(stream: &mut impl Read) -> Result<[u8; N], HandshakeError> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

enum Information {
    Export(u64, u16),
    Blocks(BlockSizes),
    Other,
}

fn information(data: &[u8]) -> Result<Information, HandshakeError> {
    let malformed = HandshakeError::Protocol("malformed information about the export");
    let Some((kind, rest)) = data.split_first_chunk() else {
        return Err(malformed);
    };
    match u16::from_be_bytes(*kind) {
        info::EXPORT => {
            let Ok([s0, s1, s2, s3, s4, s5, s6, s7, f0, f1]) = <[u8; 10]>::try_from(rest) else {
                return Err(malformed);
            };
            let size = u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
            Ok(Information::Export(size, u16::from_be_bytes([f0, f1])))
        }
        info::BLOCK_SIZE => {
            let Ok([m0, m1, m2, m3, _, _, _, _, x0, x1, x2, x3]) = <[u8; 12]>::try_from(rest)
            else {
                return Err(malformed);
            };
            let minimum = u32::from_be_bytes([m0, m1, m2, m3]);
            let maximum = u32::from_be_bytes([x0, x1, x2, x3]);
            Ok(Information::Blocks(block_sizes(minimum, maximum)?))
        }
        _ => Ok(Information::Other),
    }
}

fn block_sizes(minimum: u32, maximum: u32) -> Result<BlockSizes, HandshakeError> {
    let good_minimum = minimum.is_power_of_two() && minimum <= MINIMUM_MAX;
    let good_maximum = maximum == u32::MAX
        || (good_minimum && maximum >= minimum && maximum.is_multiple_of(minimum));
    if good_minimum && good_maximum {
        Ok(BlockSizes { minimum, maximum })
    } else {
        Err(HandshakeError::Protocol(
            "its block sizes contradict each other",
        ))
    }
}

/// A server's message as one harmless line.
fn shown(message: &[u8]) -> String {
    Foreign::new(message.trim_ascii()).shortened(MESSAGE_MAX)
}

#[cfg(test)]
mod tests;
