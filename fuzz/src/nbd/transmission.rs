//! Answers of a server to requests, and a model of the data (the protocol's section "Transmission
//! phase").

use super::{Fields, SIZE};

/// Bytes of a request header.
pub const REQUEST: usize = 28;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;

/// Most requests of one session, and most bytes that one of them carries here.
const REQUESTS: usize = 24;
const PAYLOAD: usize = 384 << 10;

/// One request as the fuzzer made it, with the payload that its header announces.
pub struct Request {
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    len: u32,
    payload: Vec<u8>,
}

/// Features that the handshake agreed on.
#[derive(Clone, Copy)]
pub struct Terms {
    /// True if there are structured replies, and `base:allocation`.
    pub structured: bool,
    /// True if discards are allowed.
    pub trim: bool,
}

/// A session from the fuzzer's bytes: the requests that the server must answer, and all that is
/// sent. A header that announces data is followed by as many bytes. The session ends with the first header
/// that is invalid, that disconnects, or that announces more bytes than are sent.
pub fn session(mut headers: &[u8]) -> (Vec<Request>, Vec<u8>) {
    let (mut requests, mut sent) = (Vec::new(), Vec::new());
    while requests.len() < REQUESTS {
        let Some((header, rest)) = headers.split_at_checked(REQUEST) else {
            sent.extend(headers);
            break;
        };
        headers = rest;
        sent.extend(header);
        let Some(mut request) = Request::parse(header) else {
            sent.extend(headers);
            break;
        };
        if request.kind == DISC {
            sent.extend(headers);
            break;
        }
        if request.kind == WRITE {
            let len = request.len as usize;
            let seed = request.cookie.to_le_bytes();
            request.payload = seed.into_iter().cycle().take(len.min(PAYLOAD)).collect();
            sent.extend(&request.payload);
            if len > PAYLOAD {
                break;
            }
        }
        requests.push(request);
    }
    (requests, sent)
}

impl Request {
    fn parse(header: &[u8]) -> Option<Self> {
        let mut fields = Fields(header);
        (fields.u32()? == REQUEST_MAGIC).then_some(())?;
        Some(Self {
            flags: fields.u16()?,
            kind: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            len: fields.u32()?,
            payload: Vec::new(),
        })
    }

    /// Range of bytes that the request covers, if it lies within the volume.
    fn range(&self) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(self.offset).ok()?;
        let end = start.checked_add(self.len as usize)?;
        (end <= SIZE).then_some(start..end)
    }

    /// Returns whether every server that offers the same features must accept the request.
    fn is_plain(&self, terms: Terms) -> bool {
        let within = self.range().is_some() && self.len > 0;
        self.flags == 0
            && match self.kind {
                READ | WRITE | CACHE | WRITE_ZEROES => within,
                FLUSH => self.offset == 0 && self.len == 0,
                TRIM => within && terms.trim,
                BLOCK_STATUS => within && terms.structured,
                _ => false,
            }
    }
}

/// Bytes of a volume; `None` where a discard leaves the content undefined.
pub struct Model(Vec<Option<u8>>);

impl Model {
    /// A volume full of zeros.
    pub fn zeros() -> Self {
        Self(vec![Some(0); SIZE])
    }

    /// Checks the answers, one for each request in their order, and the data in them.
    pub fn check(&mut self, requests: &[Request], received: &[u8], terms: Terms) {
        let mut received = Fields(received);
        for request in requests {
            let error = if terms.structured {
                self.structured(request, &mut received)
            } else {
                self.simple(request, &mut received)
            };
            let plain = request.is_plain(terms);
            assert!(error.is_none() || !plain, "refused with {error:?}");
            match error {
                Some(error) => assert!([1, 12, 22, 28, 95].contains(&error), "error {error}"),
                None => self.apply(request),
            }
        }
        assert!(received.0.is_empty(), "{} bytes too many", received.0.len());
    }

    /// Takes one simple reply; returns its error.
    fn simple(&self, request: &Request, received: &mut Fields<'_>) -> Option<u32> {
        if received.0.starts_with(&CHUNK_MAGIC.to_be_bytes()) {
            panic!("a structured reply that nobody asked for");
        }
        assert_eq!(
            received.u32(),
            Some(SIMPLE_MAGIC),
            "every request is answered"
        );
        let error = received.u32().filter(|error| *error != 0);
        assert_eq!(received.u64(), Some(request.cookie));
        if request.kind == READ && error.is_none() {
            let data = received.bytes(request.len as usize).expect("the data");
            self.compare(request.offset, data);
        }
        error
    }

    /// Takes one structured reply, or a simple one where that is allowed; returns its error.
    fn structured(&self, request: &Request, received: &mut Fields<'_>) -> Option<u32> {
        if request.kind != READ && received.0.starts_with(&SIMPLE_MAGIC.to_be_bytes()) {
            return self.simple(request, received);
        }
        let (mut error, mut told) = (None, 0);
        loop {
            assert_eq!(
                received.u32(),
                Some(CHUNK_MAGIC),
                "every request is answered"
            );
            let flags = received.u16().expect("flags");
            let kind = received.u16().expect("a type");
            assert_eq!(received.u64(), Some(request.cookie));
            let len = received.u32().expect("a length") as usize;
            let mut payload = Fields(received.bytes(len).expect("a payload"));
            match kind {
                0 => assert!(payload.0.is_empty() && flags == 1),
                1 => {
                    let offset = payload.u64().expect("an offset");
                    self.compare(offset, payload.0);
                    told += payload.0.len();
                }
                5 => {
                    assert_eq!(request.kind, BLOCK_STATUS);
                    assert_eq!(payload.u32(), Some(1), "the context's number");
                    assert_eq!(payload.u32(), Some(request.len));
                    assert_eq!(payload.u32(), Some(0), "data, for all anyone knows");
                }
                0x8001 | 0x8002 => error = payload.u32(),
                other => panic!("a chunk of type {other}"),
            }
            if flags & 1 != 0 {
                break;
            }
        }
        if request.kind == READ && error.is_none() {
            assert_eq!(told, request.len as usize, "all data is told");
        }
        error
    }

    fn compare(&self, offset: u64, data: &[u8]) {
        let start = usize::try_from(offset).expect("within the volume");
        let known = self
            .0
            .get(start..start + data.len())
            .expect("within the volume");
        let same = known
            .iter()
            .zip(data)
            .all(|(known, byte)| known.is_none_or(|known| known == *byte));
        assert!(same, "other data than was written");
    }

    fn apply(&mut self, request: &Request) {
        if request.kind == FLUSH {
            return;
        }
        let range = request
            .range()
            .expect("what was done lies within the volume");
        let bytes = &mut self.0[range];
        match request.kind {
            WRITE => bytes
                .iter_mut()
                .zip(&request.payload)
                .for_each(|(to, from)| *to = Some(*from)),
            WRITE_ZEROES => bytes.fill(Some(0)),
            TRIM => bytes.fill(None),
            _ => {}
        }
    }
}
