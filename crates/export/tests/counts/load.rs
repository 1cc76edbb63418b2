//! Requests of one kind, a fixed number of them at a time.

use crate::common::{READ, WRITE, request};
use crate::stage::{SIZE, Stage};

/// Bytes before the payload of a request.
pub(crate) const REQUEST: u64 = 28;
/// Bytes before the data of a structured reply.
pub(crate) const DATA_CHUNK: u64 = 28;
/// Bytes of a reply without data.
pub(crate) const LAST_CHUNK: u64 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) writes: bool,
    /// Bytes of a request.
    pub(crate) len: u64,
    /// Requests at a time.
    pub(crate) depth: u64,
    /// Number of all requests.
    pub(crate) requests: u64,
}

pub(crate) const LOADS: [Load; 6] = [
    load("read4k_qd1", false, 4 << 10, 1, 256),
    load("write4k_qd1", true, 4 << 10, 1, 256),
    load("read4k_qd32", false, 4 << 10, 32, 1024),
    load("write4k_qd32", true, 4 << 10, 32, 1024),
    load("read1m", false, 1 << 20, 1, 16),
    load("write1m", true, 1 << 20, 1, 16),
];

const fn load(name: &'static str, writes: bool, len: u64, depth: u64, requests: u64) -> Load {
    Load {
        name,
        writes,
        len,
        depth,
        requests,
    }
}

impl Load {
    pub(crate) fn bytes(&self) -> u64 {
        self.requests * self.len
    }

    /// Sends the requests of a batch at once, receives all replies, and so on.
    pub(crate) fn run(&self, stage: &mut Stage) {
        let len = u32::try_from(self.len).unwrap();
        let payload = vec![0x5a; usize::try_from(self.len).unwrap()];
        for batch in 0..self.requests / self.depth {
            let mut bytes = Vec::new();
            for cookie in 0..self.depth {
                // The requests are some way apart, each a whole number of sectors.
                let offset = (batch * self.depth + cookie) * 7 * self.len % (SIZE - self.len);
                let kind = if self.writes { WRITE } else { READ };
                let offset = offset / self.len * self.len;
                bytes.extend(request(0, kind, cookie, offset, len));
                if self.writes {
                    bytes.extend(&payload);
                }
            }
            stage.client.send(&bytes);
            if self.writes {
                for _ in 0..self.depth {
                    assert_eq!(stage.client.chunk().kind, 0);
                }
            } else {
                stage.client.reads_in_any_order(self.depth, payload.len());
            }
        }
    }
}
