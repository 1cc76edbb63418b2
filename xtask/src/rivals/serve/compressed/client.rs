//! A client that accepts one coding: one connection of plain HTTP, one request after another.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::coding::Coding;
use crate::error::{Doing, Error};

/// Time after which a server that sends nothing has failed.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
    coding: Coding,
}

/// An answer whose content is compressed.
pub(super) struct Answer {
    /// The content as it was sent, without the framing of chunks.
    pub(super) body: Vec<u8>,
    /// Bytes of the head, the content and its framing.
    pub(super) sent: usize,
}

impl Client {
    pub(super) fn open(port: u16, coding: Coding) -> Result<Self, Error> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let connect = || {
            let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Ok(BufReader::with_capacity(64 << 10, stream))
        };
        let stream = std::io::Result::doing(connect(), || format!("connect to {address}"))?;
        Ok(Self {
            stream,
            address,
            coding,
        })
    }

    /// Requests a file; fails unless the answer is compressed with the client's coding.
    pub(super) fn get(&mut self, name: &str) -> Result<Answer, Error> {
        let address = self.address;
        self.ask(name)
            .doing(|| format!("request {name} of {address}"))?
            .ok_or_else(|| {
                let token = self.coding.token();
                let said = format!("does not compress {name} with {token}");
                Error::program(address.to_string(), said)
            })
    }

    fn ask(&mut self, name: &str) -> std::io::Result<Option<Answer>> {
        let token = self.coding.token();
        let request =
            format!("GET /{name} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: {token}\r\n\r\n");
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut sent = 0;
        let (mut is_compressed, mut length) = (false, None);
        loop {
            let line = self.line(&mut sent)?;
            let field = line.to_ascii_lowercase();
            if let Some(value) = field.strip_prefix("content-length:") {
                length = value.trim().parse().ok();
            }
            if let Some(value) = field.strip_prefix("content-encoding:") {
                is_compressed |= value.trim() == token;
            }
            if line.is_empty() {
                break;
            }
        }
        if !is_compressed {
            return Ok(None);
        }
        let mut body = Vec::new();
        match length {
            Some(length) => self.part(length, &mut body, &mut sent)?,
            None => loop {
                let line = self.line(&mut sent)?;
                let length = usize::from_str_radix(&line, 16).map_err(std::io::Error::other)?;
                self.part(length, &mut body, &mut sent)?;
                self.line(&mut sent)?;
                if length == 0 {
                    break;
                }
            },
        }
        Ok(Some(Answer { body, sent }))
    }

    fn line(&mut self, sent: &mut usize) -> std::io::Result<String> {
        let mut line = String::new();
        let length = self.stream.read_line(&mut line)?;
        if length == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        *sent += length;
        Ok(line.trim_end().to_owned())
    }

    fn part(&mut self, length: usize, body: &mut Vec<u8>, sent: &mut usize) -> std::io::Result<()> {
        let start = body.len();
        body.resize(start + length, 0);
        *sent += length;
        self.stream.read_exact(&mut body[start..])
    }
}
