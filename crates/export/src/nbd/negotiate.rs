//! The handshake phase: fixed newstyle negotiation (specification, section "Fixed newstyle
//! negotiation").
//!
//! With TLS the server is in the mode that the specification calls FORCEDTLS: before
//! `NBD_OPT_STARTTLS` every other option but `NBD_OPT_ABORT` is refused, so that nothing is agreed or
//! told in plaintext. Nothing crosses the line either: bytes that a client has sent behind
//! `NBD_OPT_STARTTLS`, before it can know the answer, end the connection. They may be an attacker's.

use std::sync::Arc;

use scrim_volume::queue::Settled;

use super::error::{ClientEnd, Entry, Incident, ProtocolError};
use super::limits;
use super::option::{InfoQuery, MetaQuery, Opt, OptionHeader, OptionRefusal};
use super::request::Terms;
use crate::export::Export;
use crate::link::{End, Link, Wait};
use scrim_nbd::tls::ServerTls;
use scrim_nbd::wire::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, EXPORT_NAME_PADDING, IHAVEOPT, NBDMAGIC, OPTION_HEADER,
    OPTION_REPLY_MAGIC, client, handshake, info, opt, rep,
};

/// Proof that nothing is in flight: in the handshake there is no queue yet.
const SETTLED: Settled<'static> = Settled::WITHOUT_QUEUE;

/// Length of the greeting, in bytes: two magic numbers and the flags.
const GREETING_LEN: usize = 8 + 8 + 2;

/// The bytes that a server sends first.
pub(super) const GREETING: [u8; GREETING_LEN] = {
    let flags = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
    let mut greeting = [0; GREETING_LEN];
    let (magics, rest) = greeting.split_at_mut(16);
    let (first, second) = magics.split_at_mut(8);
    first.copy_from_slice(&NBDMAGIC.to_be_bytes());
    second.copy_from_slice(&IHAVEOPT.to_be_bytes());
    rest.copy_from_slice(&flags.to_be_bytes());
    greeting
};

/// Brings a client that has been greeted to the transmission phase: on which export, and on what terms.
pub(super) fn negotiate(
    link: &mut Link,
    exports: &[Arc<Export>],
    tls: Option<&ServerTls>,
    entry: &Entry,
) -> Result<(Arc<Export>, Terms), ClientEnd> {
    let mut handshake = Handshake {
        link,
        exports,
        tls,
        entry,
        fixed: false,
        no_zeroes: false,
        structured: false,
        allocation: None,
    };
    handshake.greet()?;
    for _ in 0..limits::OPTIONS {
        if let Some(agreed) = handshake.option()? {
            return Ok(agreed);
        }
    }
    Err(ProtocolError::TooManyOptions.into())
}

struct Handshake<'a> {
    link: &'a mut Link,
    exports: &'a [Arc<Export>],
    /// The server's side of TLS, if TLS is required.
    tls: Option<&'a ServerTls>,
    /// The client's place among those that are served.
    entry: &'a Entry,
    /// True if the client knows that options can be refused.
    fixed: bool,
    no_zeroes: bool,
    structured: bool,
    /// The export for which the last `NBD_OPT_SET_META_CONTEXT` selected `base:allocation`.
    allocation: Option<Arc<Export>>,
}

impl Handshake<'_> {
    /// Takes the answer to the [greeting](GREETING).
    fn greet(&mut self) -> Result<(), ClientEnd> {
        let flags = u32::from_be_bytes(self.receive()?);
        if flags & !(client::FIXED_NEWSTYLE | client::NO_ZEROES) != 0 {
            return Err(ProtocolError::ClientFlags(flags).into());
        }
        self.fixed = flags & client::FIXED_NEWSTYLE != 0;
        self.no_zeroes = flags & client::NO_ZEROES != 0;
        Ok(())
    }

    /// Answers one option; the result when it ends the handshake.
    fn option(&mut self) -> Result<Option<(Arc<Export>, Terms)>, ClientEnd> {
        let header = OptionHeader::parse(&self.receive::<OPTION_HEADER>()?)?;
        let code = header.code;
        if self.is_too_early(code) {
            self.link.skip(header.len, Wait::Idle, SETTLED)?;
            if code == opt::EXPORT_NAME {
                return Err(ProtocolError::Plaintext.into());
            }
            self.reply(code, rep::ERR_TLS_REQD, &[b"this server asks for TLS"])?;
            return Ok(None);
        }
        if header.len > limits::OPTION_DATA {
            self.link.skip(header.len, Wait::Idle, SETTLED)?;
            if code == opt::EXPORT_NAME {
                return Err(ProtocolError::UnknownExport.into());
            }
            self.reply(code, rep::ERR_TOO_BIG, &[b"the option's data is too long"])?;
            return Ok(None);
        }
        let len = header.len as usize;
        self.link.require(len, Wait::Idle, SETTLED)?;
        let data = self.link.inbox.take(len).to_vec();
        match Opt::parse(code, &data) {
            Ok(Opt::ExportName(name)) => return self.export_name(name).map(Some),
            Err(_) if code == opt::EXPORT_NAME => {
                return Err(ProtocolError::UnknownExport.into());
            }
            Err(refusal) => {
                // A failed selection deselects.
                if code == opt::SET_META_CONTEXT {
                    self.allocation = None;
                }
                self.refuse(code, refusal)?;
            }
            Ok(Opt::Go(query)) => {
                if let Some(export) = self.info(code, &query)? {
                    return Ok(Some(self.agree(export)));
                }
            }
            Ok(Opt::Info(query)) => {
                self.info(code, &query)?;
            }
            Ok(Opt::Abort) => {
                self.reply(code, rep::ACK, &[])?;
                return Err(End::Gone.into());
            }
            Ok(Opt::List) => self.list(code)?,
            Ok(Opt::StructuredReply) => {
                self.structured = true;
                self.reply(code, rep::ACK, &[])?;
            }
            Ok(Opt::ListMetaContext(query)) => self.list_meta_context(code, &query)?,
            Ok(Opt::SetMetaContext(query)) => self.set_meta_context(code, &query)?,
            Ok(Opt::StartTls) => self.start_tls(code)?,
            Ok(Opt::Unknown) => self.reply(code, rep::ERR_UNSUP, &[b"unknown option"])?,
        }
        Ok(None)
    }

    /// Returns whether an option has to wait for TLS.
    fn is_too_early(&self, code: u32) -> bool {
        let waits = !matches!(code, opt::STARTTLS | opt::ABORT);
        self.tls.is_some() && !self.link.is_secure() && waits
    }

    /// `NBD_OPT_STARTTLS`: what was agreed before is forgotten.
    fn start_tls(&mut self, code: u32) -> Result<(), ClientEnd> {
        if self.link.is_secure() {
            return Ok(self.reply(code, rep::ERR_INVALID, &[b"TLS is there already"])?);
        }
        let Some(tls) = self.tls.filter(|_| self.fixed) else {
            let reason = b"this server has no certificate, and serves without TLS";
            return Ok(self.reply(code, rep::ERR_POLICY, &[reason])?);
        };
        if self.link.inbox.len() > 0 {
            return Err(ProtocolError::BeforeTls.into());
        }
        self.structured = false;
        self.allocation = None;
        self.reply(code, rep::ACK, &[])?;
        Ok(self.link.start_tls(tls, SETTLED)?)
    }

    fn export_name(&mut self, name: &str) -> Result<(Arc<Export>, Terms), ClientEnd> {
        let export = self.find(name).ok_or(ProtocolError::UnknownExport)?;
        if self.take_place(&export).is_err() {
            // This option has no error reply.
            return Err(End::Gone.into());
        }
        let outbox = &mut self.link.outbox;
        outbox.put(&export.size().to_be_bytes());
        outbox.put(&export.flags(self.structured).to_be_bytes());
        if !self.no_zeroes {
            outbox.put(&[0; EXPORT_NAME_PADDING]);
        }
        self.link.send(SETTLED)?;
        Ok(self.agree(export))
    }

    fn list(&mut self, code: u32) -> Result<(), End> {
        for export in self.exports {
            let name = export.name.as_bytes();
            let len = u32::try_from(name.len()).unwrap_or(0).to_be_bytes();
            let description = export.description.as_bytes();
            self.reply(code, rep::SERVER, &[&len, name, description])?;
        }
        self.reply(code, rep::ACK, &[])
    }

    /// Answers `NBD_OPT_INFO` and `NBD_OPT_GO`; the export, if there is one of that name.
    fn info(&mut self, code: u32, query: &InfoQuery<'_>) -> Result<Option<Arc<Export>>, End> {
        let Some(export) = self.find(query.export) else {
            self.reply(
                code,
                rep::ERR_UNKNOWN,
                &[b"there is no export of this name"],
            )?;
            return Ok(None);
        };
        if code == opt::GO
            && let Err(refusal) = self.take_place(&export)
        {
            let reason = refusal.to_string();
            self.reply(code, rep::ERR_POLICY, &[reason.as_bytes()])?;
            return Ok(None);
        }
        let size = export.size().to_be_bytes();
        let flags = export.flags(self.structured).to_be_bytes();
        self.information(code, info::EXPORT, &[&size, &flags])?;
        if query.name {
            self.information(code, info::NAME, &[export.name.as_bytes()])?;
        }
        if query.description && !export.description.is_empty() {
            self.information(code, info::DESCRIPTION, &[export.description.as_bytes()])?;
        }
        if query.block_size {
            let [minimum, preferred, maximum] = export.block_sizes().map(u32::to_be_bytes);
            self.information(code, info::BLOCK_SIZE, &[&minimum, &preferred, &maximum])?;
        }
        self.reply(code, rep::ACK, &[])?;
        self.link.send(SETTLED)?;
        Ok(Some(export))
    }

    fn take_place(&self, export: &Export) -> Result<(), Incident> {
        self.entry.take_place(&export.name, self.link.protection())
    }

    fn list_meta_context(&mut self, code: u32, query: &MetaQuery<'_>) -> Result<(), End> {
        let asked = |query: &&str| *query == BASE_ALLOCATION || *query == "base:";
        if self.meta_export(code, query)?.is_some() {
            if query.queries.is_empty() || query.queries.iter().any(asked) {
                self.meta_context(code, 0)?;
            }
            self.reply(code, rep::ACK, &[])?;
        }
        Ok(())
    }

    fn set_meta_context(&mut self, code: u32, query: &MetaQuery<'_>) -> Result<(), End> {
        self.allocation = None;
        if let Some(export) = self.meta_export(code, query)? {
            if query.queries.contains(&BASE_ALLOCATION) {
                self.allocation = Some(export);
                self.meta_context(code, BASE_ALLOCATION_ID)?;
            }
            self.reply(code, rep::ACK, &[])?;
        }
        Ok(())
    }

    /// The export that a metadata option is about; if there is no such export, the client has been
    /// told.
    fn meta_export(
        &mut self,
        code: u32,
        query: &MetaQuery<'_>,
    ) -> Result<Option<Arc<Export>>, End> {
        if !self.structured {
            let reason = b"metadata contexts need structured replies: negotiate them first";
            self.reply(code, rep::ERR_INVALID, &[reason])?;
            return Ok(None);
        }
        let export = self.find(query.export);
        if export.is_none() {
            self.reply(
                code,
                rep::ERR_UNKNOWN,
                &[b"there is no export of this name"],
            )?;
        }
        Ok(export)
    }

    fn meta_context(&mut self, code: u32, id: u32) -> Result<(), End> {
        let payload: [&[u8]; 2] = [&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()];
        self.reply(code, rep::META_CONTEXT, &payload)
    }

    fn information(&mut self, code: u32, kind: u16, fields: &[&[u8]]) -> Result<(), End> {
        let kind = kind.to_be_bytes();
        let payload: Vec<&[u8]> = std::iter::once(kind.as_slice())
            .chain(fields.iter().copied())
            .collect();
        self.reply(code, rep::INFO, &payload)
    }

    fn refuse(&mut self, code: u32, refusal: OptionRefusal) -> Result<(), End> {
        self.reply(code, refusal.reply, &[refusal.reason.as_bytes()])
    }

    /// Queues one reply to an option; it is sent before the next option is waited for. Names and
    /// descriptions are limited ([`NAME`](crate::limits::NAME)), so any reply fits the outbox.
    fn reply(&mut self, code: u32, kind: u32, payload: &[&[u8]]) -> Result<(), End> {
        let len: usize = payload.iter().map(|part| part.len()).sum();
        self.link.reserve(OPTION_HEADER + 4 + len, SETTLED)?;
        let outbox = &mut self.link.outbox;
        outbox.put(&OPTION_REPLY_MAGIC.to_be_bytes());
        outbox.put(&code.to_be_bytes());
        outbox.put(&kind.to_be_bytes());
        outbox.put(&u32::try_from(len).unwrap_or(0).to_be_bytes());
        for part in payload {
            outbox.put(part);
        }
        Ok(())
    }

    fn receive<const N: usize>(&mut self) -> Result<[u8; N], End> {
        self.link.require(N, Wait::Idle, SETTLED)?;
        let received = self.link.inbox.first().copied().ok_or(End::Gone)?;
        self.link.inbox.take(N);
        Ok(received)
    }

    /// The export of this name; the first one serves the empty name too.
    fn find(&self, name: &str) -> Option<Arc<Export>> {
        let named = self.exports.iter().find(|export| export.name == name);
        let default = || self.exports.first().filter(|_| name.is_empty());
        named.or_else(default).map(Arc::clone)
    }

    fn agree(&self, export: Arc<Export>) -> (Arc<Export>, Terms) {
        let selected = self.allocation.as_ref();
        let terms = Terms {
            size: export.size(),
            read_only: export.volume.is_read_only(),
            trim: export.volume.allows_discard(),
            structured: self.structured,
            allocation: selected.is_some_and(|selected| Arc::ptr_eq(selected, &export)),
        };
        (export, terms)
    }
}
