//! The head of an HTTP/1 request, from bytes.
//!
//! Two programs that disagree about where a request ends let one client write another's request. So what
//! can be read in two ways is refused (RFC 9112, 11.2), and `httparse` is only asked about what has no
//! second reading.

use std::mem::MaybeUninit;

use super::request::check_target;
use super::{Authority, Fields, Method, Refusal, Request, Scheme};

/// The most fields that any limit allows.
const MOST_FIELDS: usize = 128;

/// Limits for a head.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// Bytes of the head, the empty line after it included.
    pub head: usize,
    /// Bytes of the target.
    pub target: usize,
    /// Fields; at most 128.
    pub fields: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self {
            head: 16 << 10,
            target: 8 << 10,
            fields: 100,
        }
    }
}

/// Framing of the content after a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no content.
    None,
    /// The content has this number of bytes, at least one.
    Length(u64),
    /// The content comes in chunks.
    Chunked,
}

/// A head of HTTP/1.
#[derive(Debug)]
pub struct Head<'a> {
    pub request: Request<'a>,
    /// True if it is of HTTP/1.0.
    pub is_old: bool,
    /// Bytes that it took of the buffer; content follows, or the next request.
    pub length: usize,
    /// True if the client goes on with this connection after the answer.
    pub keep_alive: bool,
    /// True if the client sends its content only after a status of 100, or waits for a while.
    pub expects_continue: bool,
    /// Framing of the content that follows.
    pub framing: Framing,
}

impl<'a> Head<'a> {
    /// Reads a head from the beginning of `bytes`; `None` if it is not complete yet.
    ///
    /// # Errors
    /// The reason for which the request is refused; the connection is closed after the answer.
    pub fn parse(bytes: &'a [u8], limits: &HeadLimits) -> Result<Option<Self>, Refusal> {
        let mut space = [const { MaybeUninit::uninit() }; MOST_FIELDS];
        let most = limits.fields.min(MOST_FIELDS);
        let mut parsed = httparse::Request::new(&mut []);
        let status = parsed
            .parse_with_uninit_headers(bytes, &mut space[..most])
            .map_err(refusal)?;
        let httparse::Status::Complete(length) = status else {
            return incomplete(bytes, limits).map(|()| None);
        };
        let (Some(name), Some(target), Some(version)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Err(Refusal::Malformed);
        };
        if target.len() > limits.target {
            return Err(Refusal::TargetTooLong);
        }
        if length > limits.head {
            return Err(Refusal::HeadTooLarge);
        }
        check_lines(&bytes[..length])?;
        if name == "CONNECT" {
            return Err(Refusal::Connect);
        }

        let mut collected = Collected::default();
        for field in &*parsed.headers {
            collected.take(field.name.as_bytes(), field.value)?;
        }
        let is_old = version == 0;
        let method = Method::named(name);
        let (origin, target) = split_target(target)?;
        let host = collected.host(is_old)?;
        let request = Request {
            method,
            method_name: name,
            target: check_target(method, target)?,
            scheme: origin.map(|(scheme, _)| scheme),
            host: origin.map(|(_, authority)| authority).or(host),
            fields: collected.fields.clone(),
        };
        Ok(Some(Self {
            request,
            is_old,
            length,
            keep_alive: !collected.close && (!is_old || collected.keep_alive),
            expects_continue: collected.expects_continue && !is_old,
            framing: collected.framing(is_old)?,
        }))
    }
}

/// Refuses a head that is too long already.
fn incomplete(bytes: &[u8], limits: &HeadLimits) -> Result<(), Refusal> {
    // Empty lines before a request are passed over.
    let start = bytes
        .iter()
        .position(|byte| !b"\r\n".contains(byte))
        .unwrap_or(0);
    let line = &bytes[start..];
    // Besides the target a line has a method and a version.
    let has_line = line
        .iter()
        .take(limits.target + 64)
        .any(|&byte| byte == b'\n');
    if !has_line && line.len() > limits.target + 64 {
        return Err(Refusal::TargetTooLong);
    }
    if bytes.len() >= limits.head {
        return Err(if has_line {
            Refusal::HeadTooLarge
        } else {
            Refusal::TargetTooLong
        });
    }
    Ok(())
}

fn refusal(error: httparse::Error) -> Refusal {
    match error {
        httparse::Error::Version => Refusal::Version,
        httparse::Error::TooManyHeaders => Refusal::HeadTooLarge,
        _ => Refusal::Malformed,
    }
}

/// Every line of a head ends in CR LF, and neither stands anywhere else; `httparse` takes a bare LF.
fn check_lines(head: &[u8]) -> Result<(), Refusal> {
    // Without a way out in the middle, the compiler looks at many bytes at once.
    let is_torn = |pair: &[u8]| (pair[0] == b'\r') != (pair[1] == b'\n');
    let torn = head
        .windows(2)
        .fold(false, |torn, pair| torn | is_torn(pair));
    if torn || head.first() == Some(&b'\n') {
        return Err(Refusal::LineEnding);
    }
    Ok(())
}

/// Turns a request of a later version of HTTP/1, with which `bytes` begin, into one of HTTP/1.1 (RFC 9110, 2.5);
/// returns whether it was one. [`Head::parse`] refuses it as it is.
pub fn as_newest_known(bytes: &mut [u8]) -> bool {
    // Empty lines before a request are passed over.
    let start = bytes.iter().position(|byte| !b"\r\n".contains(byte));
    let line = bytes.get_mut(start.unwrap_or(0)..).unwrap_or_default();
    let version = line.splitn_mut(3, |&byte| byte == b' ').nth(2);
    match version {
        Some(
            [
                b'H',
                b'T',
                b'T',
                b'P',
                b'/',
                b'1',
                b'.',
                minor @ b'2'..=b'9',
                ..,
            ],
        ) => {
            *minor = b'1';
            true
        }
        _ => false,
    }
}

/// Scheme and authority before the path of an absolute target.
type TargetOrigin<'a> = (Scheme, &'a str);

/// Takes scheme and authority off an absolute target.
fn split_target(target: &str) -> Result<(Option<TargetOrigin<'_>>, &str), Refusal> {
    if target.starts_with(['/', '*']) {
        return Ok((None, target));
    }
    let (scheme, rest) = target.split_once("://").ok_or(Refusal::Target)?;
    let scheme = Scheme::named(scheme)?;
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    Authority::parse(authority)?;
    Ok((Some((scheme, authority)), target))
}

/// Values of a head's fields, as they are collected.
#[derive(Default)]
struct Collected<'a> {
    fields: Fields<'a>,
    host: Option<&'a [u8]>,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl<'a> Collected<'a> {
    fn take(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), Refusal> {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        match name.len() {
            4 if is("host") => match self.host.replace(value) {
                None => Ok(()),
                Some(_) => Err(Refusal::Host),
            },
            6 if is("expect") => self.expect(value),
            10 if is("connection") => {
                self.connection(value);
                Ok(())
            }
            14 if is("content-length") => match self.length.replace(content_length(value)?) {
                None => Ok(()),
                Some(_) => Err(Refusal::ContentLength),
            },
            17 if is("transfer-encoding") => self.transfer_encoding(value),
            _ => self.fields.take(name, value),
        }
    }

    fn expect(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Refusal::Expectation);
        }
        self.expects_continue = true;
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        let mut codings = value.rsplit(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
        if self.chunked || !codings.next().is_some_and(is_chunked) {
            return Err(Refusal::TransferEncoding);
        }
        self.chunked = true;
        let mut others = codings.peekable();
        if others.peek().is_none() {
            return Ok(());
        }
        Err(
            if others.any(|coding| coding.is_empty() || is_chunked(coding)) {
                Refusal::TransferEncoding
            } else {
                Refusal::UnknownCoding
            },
        )
    }

    fn host(&self, is_old: bool) -> Result<Option<&'a str>, Refusal> {
        let Some(host) = self.host else {
            return if is_old { Ok(None) } else { Err(Refusal::Host) };
        };
        let host = std::str::from_utf8(host).map_err(|_| Refusal::Host)?;
        Authority::parse(host)?;
        Ok(Some(host))
    }

    fn framing(&self, is_old: bool) -> Result<Framing, Refusal> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(Refusal::ContentLength),
            // HTTP/1.0 has no chunks (RFC 9112, 6.1).
            (true, None) if is_old => Err(Refusal::TransferEncoding),
            (true, None) => Ok(Framing::Chunked),
            (false, None | Some(0)) => Ok(Framing::None),
            (false, Some(length)) => Ok(Framing::Length(length)),
        }
    }
}

/// Parses a length: digits and nothing else.
fn content_length(value: &[u8]) -> Result<u64, Refusal> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Refusal::ContentLength);
    }
    std::str::from_utf8(value)
        .ok()
        .and_then(|digits| digits.parse().ok())
        .ok_or(Refusal::ContentTooLarge)
}

#[cfg(test)]
mod tests;
