//! Answers of a server to a greeting and options (the protocol's section "Fixed newstyle
//! negotiation").

use super::Fields;

const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
const REPLY: u64 = 0x0003_e889_0455_65a9;
const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const GO: u32 = 7;
const ACK: u32 = 1;
const ERROR: u32 = 1 << 31;

/// An option as a client sends it.
pub fn option(code: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = IHAVEOPT.to_be_bytes().to_vec();
    bytes.extend(code.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The data of `NBD_OPT_GO` and `NBD_OPT_INFO`.
pub fn query(export: &str, information: &[u16]) -> Vec<u8> {
    let mut data = counted(export);
    data.extend(u16::try_from(information.len()).unwrap_or(0).to_be_bytes());
    data.extend(information.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// The data of the options about metadata contexts.
pub fn contexts(export: &str, names: &[&str]) -> Vec<u8> {
    let mut data = counted(export);
    data.extend(u32::try_from(names.len()).unwrap_or(0).to_be_bytes());
    data.extend(names.iter().flat_map(|name| counted(name)));
    data
}

fn counted(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).unwrap_or(0);
    [&len.to_be_bytes(), text.as_bytes()].concat()
}

/// Checks every reply against the options that were sent. Returns the bytes received after the handshake
/// if it led to the transmission phase.
///
/// Each option that arrived whole is answered by replies that name it, of which the last one is an
/// acknowledgement or an error, before the next option is. Only breaches of the protocol are
/// answered by closing.
pub fn check<'a>(sent: &[u8], received: &'a [u8]) -> Option<&'a [u8]> {
    let (mut sent, mut received) = (Fields(sent), Fields(received));
    assert_eq!(received.bytes(16), Some(&b"NBDMAGICIHAVEOPT"[..]));
    assert_eq!(received.u16(), Some(3), "fixed newstyle, no zeroes");
    let flags = sent.u32()?;
    if flags & !3 != 0 {
        assert!(received.0.is_empty());
        return None;
    }
    for _ in 0..256 {
        let Some((code, data)) = next_option(&mut sent) else {
            assert!(received.0.is_empty(), "an answer to nothing");
            return None;
        };
        if code == EXPORT_NAME {
            // The server can only refuse it by closing the connection.
            let known = matches!(data, b"" | b"plain" | b"large");
            assert_eq!(received.0.is_empty(), !known);
            if !known {
                return None;
            }
            received.bytes(10).expect("size and flags");
            if flags & 2 == 0 {
                assert_eq!(received.bytes(124), Some(&[0; 124][..]));
            }
            return Some(received.0);
        }
        let last = replies(code, &mut received);
        if code == ABORT && last == ACK {
            assert!(received.0.is_empty());
            return None;
        }
        if code == GO && last == ACK {
            return Some(received.0);
        }
    }
    assert!(received.0.is_empty(), "more options than are allowed");
    None
}

/// The next option that arrived whole, within the limits.
fn next_option<'a>(sent: &mut Fields<'a>) -> Option<(u32, &'a [u8])> {
    let (magic, code, len) = (sent.u64()?, sent.u32()?, sent.u32()?);
    if magic != IHAVEOPT || len > 1 << 20 {
        return None;
    }
    Some((code, sent.bytes(len as usize)?))
}

/// Takes all replies to one option; returns the type of the last one.
fn replies(code: u32, received: &mut Fields<'_>) -> u32 {
    loop {
        assert_eq!(received.u64(), Some(REPLY), "option {code} is answered");
        assert_eq!(received.u32(), Some(code));
        let kind = received.u32().expect("a reply type");
        let len = received.u32().expect("a length");
        let payload = received.bytes(len as usize).expect("a payload");
        if kind & ERROR != 0 {
            let reason = std::str::from_utf8(payload);
            assert!(!reason.expect("a reason is text").is_empty());
        } else if kind == ACK {
            assert!(payload.is_empty());
        }
        if kind & ERROR != 0 || kind == ACK {
            return kind;
        }
    }
}
