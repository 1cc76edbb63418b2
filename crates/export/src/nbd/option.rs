//! Parsing of handshake options: untrusted bytes become an [`Opt`].

use super::error::ProtocolError;
use super::limits;
use crate::limits::NAME;
use scrim_nbd::wire::{IHAVEOPT, OPTION_HEADER, info, opt, rep};

/// The header of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OptionHeader {
    /// Number of the option, known or not.
    pub(super) code: u32,
    /// Bytes of data that follow.
    pub(super) len: u32,
}

impl OptionHeader {
    /// Parses an option's header.
    ///
    /// # Errors
    /// When the magic number is wrong, or more data is announced than the server skips.
    pub(super) fn parse(bytes: &[u8; OPTION_HEADER]) -> Result<Self, ProtocolError> {
        let [m0, m1, m2, m3, m4, m5, m6, m7, rest @ ..] = *bytes;
        let [c0, c1, c2, c3, l0, l1, l2, l3] = rest;
        let magic = u64::from_be_bytes([m0, m1, m2, m3, m4, m5, m6, m7]);
        let code = u32::from_be_bytes([c0, c1, c2, c3]);
        let len = u32::from_be_bytes([l0, l1, l2, l3]);
        if magic != IHAVEOPT {
            return Err(ProtocolError::OptionMagic(magic));
        }
        if len > limits::OPTION_SKIPPED {
            return Err(ProtocolError::OptionLength(len));
        }
        Ok(Self { code, len })
    }
}

/// An option with well-formed data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opt<'a> {
    /// Enter the transmission phase on this export; there is no reply that could refuse.
    ExportName(&'a str),
    Abort,
    List,
    StartTls,
    Info(InfoQuery<'a>),
    Go(InfoQuery<'a>),
    StructuredReply,
    ListMetaContext(MetaQuery<'a>),
    SetMetaContext(MetaQuery<'a>),
    Unknown,
}

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct InfoQuery<'a> {
    pub(super) export: &'a str,
    pub(super) name: bool,
    pub(super) description: bool,
    pub(super) block_size: bool,
}

/// The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MetaQuery<'a> {
    pub(super) export: &'a str,
    pub(super) queries: Vec<&'a str>,
}

/// Reason for refusing an option: a reply type and a sentence for the client's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OptionRefusal {
    pub(super) reply: u32,
    pub(super) reason: &'static str,
}

impl<'a> Opt<'a> {
    /// Parses the data of the option `code`.
    ///
    /// # Errors
    /// When a known option's data is malformed.
    pub(super) fn parse(code: u32, data: &'a [u8]) -> Result<Self, OptionRefusal> {
        match code {
            opt::EXPORT_NAME => name(data).map(Self::ExportName),
            // "A server SHOULD ignore any data sent by the client."
            opt::ABORT => Ok(Self::Abort),
            opt::LIST => without_data(data, Self::List),
            opt::STARTTLS => without_data(data, Self::StartTls),
            opt::INFO => InfoQuery::parse(data).map(Self::Info),
            opt::GO => InfoQuery::parse(data).map(Self::Go),
            opt::STRUCTURED_REPLY => without_data(data, Self::StructuredReply),
            opt::LIST_META_CONTEXT => MetaQuery::parse(data).map(Self::ListMetaContext),
            opt::SET_META_CONTEXT => MetaQuery::parse(data).map(Self::SetMetaContext),
            _ => Ok(Self::Unknown),
        }
    }
}

impl<'a> InfoQuery<'a> {
    fn parse(data: &'a [u8]) -> Result<Self, OptionRefusal> {
        let mut fields = Fields(data);
        let export = name(fields.counted().ok_or(SHORT)?)?;
        let count = fields.u16().ok_or(SHORT)?;
        let mut query = Self {
            export,
            ..Self::default()
        };
        for _ in 0..count {
            match fields.u16().ok_or(SHORT)? {
                info::NAME => query.name = true,
                info::DESCRIPTION => query.description = true,
                info::BLOCK_SIZE => query.block_size = true,
                // "The server MUST ignore any information requests it does not understand."
                _ => {}
            }
        }
        fields.end()?;
        Ok(query)
    }
}

impl<'a> MetaQuery<'a> {
    fn parse(data: &'a [u8]) -> Result<Self, OptionRefusal> {
        let mut fields = Fields(data);
        let export = name(fields.counted().ok_or(SHORT)?)?;
        let count = fields.u32().ok_or(SHORT)?;
        // Not allocated from `count`: each query takes at least four bytes of limited data.
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(name(fields.counted().ok_or(SHORT)?)?);
        }
        fields.end()?;
        Ok(Self { export, queries })
    }
}

const SHORT: OptionRefusal = OptionRefusal {
    reply: rep::ERR_INVALID,
    reason: "the option's data ends too early",
};

fn without_data<'a>(data: &[u8], option: Opt<'a>) -> Result<Opt<'a>, OptionRefusal> {
    Fields(data).end()?;
    Ok(option)
}

/// A string of the protocol: UTF-8, no NUL, at most [`NAME`] bytes.
fn name(bytes: &[u8]) -> Result<&str, OptionRefusal> {
    if bytes.len() > NAME {
        return Err(OptionRefusal {
            reply: rep::ERR_TOO_BIG,
            reason: "a string is longer than 4096 bytes",
        });
    }
    match str::from_utf8(bytes) {
        Ok(name) if !name.contains('\0') => Ok(name),
        _ => Err(OptionRefusal {
            reply: rep::ERR_INVALID,
            reason: "a string is not UTF-8 or has a NUL in it",
        }),
    }
}

/// Takes fields off the front of a byte string.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A 32-bit length and as many bytes.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn end(self) -> Result<(), OptionRefusal> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(OptionRefusal {
                reply: rep::ERR_INVALID,
                reason: "the option carries more data than it should",
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Vec<u8> {
        let mut bytes = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend(text.bytes());
        bytes
    }

    fn info_data(export: &str, kinds: &[u16]) -> Vec<u8> {
        let mut data = counted(export);
        data.extend(u16::try_from(kinds.len()).unwrap().to_be_bytes());
        data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
        data
    }

    fn meta_data(export: &str, queries: &[&str]) -> Vec<u8> {
        let mut data = counted(export);
        data.extend(u32::try_from(queries.len()).unwrap().to_be_bytes());
        data.extend(queries.iter().flat_map(|query| counted(query)));
        data
    }

    #[test]
    fn headers_parse() {
        let header = |magic: u64, len: u32| {
            let mut bytes = magic.to_be_bytes().to_vec();
            bytes.extend(opt::GO.to_be_bytes());
            bytes.extend(len.to_be_bytes());
            OptionHeader::parse(&bytes.try_into().unwrap())
        };
        let code = opt::GO;
        let most = limits::OPTION_SKIPPED;
        assert_eq!(header(IHAVEOPT, most), Ok(OptionHeader { code, len: most }));
        assert_eq!(header(7, 0), Err(ProtocolError::OptionMagic(7)));
        assert_eq!(
            header(IHAVEOPT, u32::MAX),
            Err(ProtocolError::OptionLength(u32::MAX))
        );
    }

    #[test]
    fn each_option_parses() {
        let query = InfoQuery {
            export: "näme",
            name: true,
            description: false,
            block_size: true,
        };
        let data = info_data("näme", &[info::BLOCK_SIZE, 777, info::NAME]);
        assert_eq!(Opt::parse(opt::GO, &data), Ok(Opt::Go(query)));
        assert_eq!(Opt::parse(opt::INFO, &data), Ok(Opt::Info(query)));
        let data = meta_data("", &["base:", "x:y"]);
        let query = MetaQuery {
            export: "",
            queries: vec!["base:", "x:y"],
        };
        assert_eq!(
            Opt::parse(opt::SET_META_CONTEXT, &data),
            Ok(Opt::SetMetaContext(query.clone()))
        );
        assert_eq!(
            Opt::parse(opt::LIST_META_CONTEXT, &data),
            Ok(Opt::ListMetaContext(query))
        );
        assert_eq!(Opt::parse(opt::EXPORT_NAME, b"x"), Ok(Opt::ExportName("x")));
        assert_eq!(Opt::parse(opt::ABORT, b"ignored"), Ok(Opt::Abort));
        assert_eq!(Opt::parse(opt::LIST, b""), Ok(Opt::List));
        assert_eq!(Opt::parse(opt::STARTTLS, b""), Ok(Opt::StartTls));
        assert_eq!(
            Opt::parse(opt::STRUCTURED_REPLY, b""),
            Ok(Opt::StructuredReply)
        );
        assert_eq!(Opt::parse(4, b"anything"), Ok(Opt::Unknown));
        assert_eq!(Opt::parse(u32::MAX, b""), Ok(Opt::Unknown));
    }

    /// Every proper prefix of well-formed data, and well-formed data with one byte more, is
    /// refused, not misread.
    #[test]
    fn every_truncation_is_refused() {
        let info = info_data("disk", &[info::NAME, info::BLOCK_SIZE]);
        let meta = meta_data("disk", &["base:allocation", "", "qemu:"]);
        for (code, data) in [
            (opt::GO, &info),
            (opt::INFO, &info),
            (opt::SET_META_CONTEXT, &meta),
            (opt::LIST_META_CONTEXT, &meta),
        ] {
            assert!(Opt::parse(code, data).is_ok());
            for len in 0..data.len() {
                let refusal = Opt::parse(code, &data[..len]).unwrap_err();
                assert_eq!(refusal.reply, rep::ERR_INVALID, "{code} cut to {len}");
            }
            let mut longer = data.clone();
            longer.push(0);
            assert!(Opt::parse(code, &longer).is_err());
        }
        for code in [opt::LIST, opt::STARTTLS, opt::STRUCTURED_REPLY] {
            assert!(Opt::parse(code, b"x").is_err());
        }
    }

    #[test]
    fn lying_lengths_are_refused() {
        let mut data = info_data("disk", &[]);
        for len in [5, 6, 7, 0x7fff_ffff, u32::MAX] {
            data[..4].copy_from_slice(&len.to_be_bytes());
            assert!(Opt::parse(opt::GO, &data).is_err(), "{len}");
        }
        let mut data = counted("disk");
        data.extend(u32::MAX.to_be_bytes());
        assert_eq!(Opt::parse(opt::SET_META_CONTEXT, &data), Err(SHORT));
    }

    #[test]
    fn names_are_utf8_without_nul_and_not_too_long() {
        let error = |name: &[u8]| Opt::parse(opt::EXPORT_NAME, name).unwrap_err().reply;
        assert_eq!(error(b"\xff"), rep::ERR_INVALID);
        assert_eq!(error(b"a\0b"), rep::ERR_INVALID);
        assert_eq!(error(&[b'x'; NAME + 1]), rep::ERR_TOO_BIG);
        assert!(Opt::parse(opt::EXPORT_NAME, &[b'x'; NAME]).is_ok());
    }
}
