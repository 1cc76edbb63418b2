//! Many connections that ask for one file, from one thread.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use super::connection::{Connection, Tls};
use super::error::WebError;
use super::expected::Expected;
use super::head::Head;
use super::silence::Silence;
use super::trust::Trust;
use super::url::Url;

/// Bytes that are received at a time.
const BUFFER: usize = 512 << 10;
/// Events that are taken at a time.
const EVENTS: usize = 64;
/// Time for which a file that was written just now has a weak tag at most, and the interval of looks at it.
const SETTLING: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_millis(250);

/// Answers that a crowd was given.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// Number of whole answers.
    pub answers: u64,
    /// Bytes of the file, over all answers.
    pub bytes: u64,
    /// Time from the first request to the end of the last answer.
    pub wall: Duration,
}

/// Times that answers took.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<u32>);

/// Connections to one server, each with at most one request in flight. Answers are told apart by their length
/// alone, head and all.
pub struct Crowd {
    server: String,
    askers: Vec<Asker>,
    epoll: OwnedFd,
    buffer: Vec<u8>,
    events: Vec<epoll::Event>,
    /// Bytes of the file.
    file: u64,
}

struct Asker {
    socket: TcpStream,
    tls: Option<Tls>,
    request: Vec<u8>,
    /// Bytes of a whole answer without TLS.
    answer: u64,
    expected: Expected,
    due: Instant,
}

impl Crowd {
    /// Makes `count` connections. On the first the file was downloaded once, on the others a `short` one of the
    /// same server, so that nothing of the handshake is in flight any more. Under TLS 1.3 only.
    ///
    /// # Errors
    /// When the server does not serve them.
    pub fn gather(
        url: &Url,
        short: &Url,
        trust: Option<&Trust>,
        count: usize,
    ) -> Result<Self, WebError> {
        let server = url.authority();
        let failed = || WebError::socket("watch connections to it", &server);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| failed()(e.into()))?;
        let mut known: Option<Head> = None;
        let mut askers = Vec::with_capacity(count);
        for index in 0..count {
            let mut connection = Connection::open(url, trust)?;
            let versions = connection.protection().map(|found| found.version);
            if versions.is_some_and(|version| version != "TLSv1.3") {
                return Err(WebError::answer(&server, "it does not speak TLS 1.3"));
            }
            let head = match &known {
                None => settled(&mut connection, url)?,
                Some(head) => {
                    connection.download(short, &mut |_| {})?;
                    head.clone()
                }
            };
            let (_, socket, tls) = connection.into_parts()?;
            socket.set_nonblocking(true).map_err(failed())?;
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&epoll, &socket, data, epoll::EventFlags::IN)
                .map_err(|error| failed()(error.into()))?;
            askers.push(Asker {
                socket,
                tls,
                request: url.request(),
                answer: head.bytes as u64 + head.length,
                expected: Expected::default(),
                due: Instant::now(),
            });
            known = Some(head);
        }
        Ok(Self {
            server,
            askers,
            epoll,
            buffer: vec![0; BUFFER],
            events: Vec::with_capacity(EVENTS),
            file: known.map_or(0, |head| head.length),
        })
    }

    /// Sends the next request on each connection as soon as its answer is whole, for `time`. Answers in flight
    /// then are waited for, so that only whole answers are counted.
    ///
    /// # Errors
    /// When the server fails, or answers another number of bytes.
    pub fn ask_again_and_again(&mut self, time: Duration) -> Result<Tally, WebError> {
        let start = Instant::now();
        let mut under_way = 0;
        for index in 0..self.askers.len() {
            self.ask(index, start)?;
            under_way += 1;
        }
        let (mut answers, mut ended, mut silence) = (0, start, Silence::new(start));
        while under_way > 0 {
            // No client sleeps: on one machine it is the server's processor that wakes the client's, and in a
            // virtual machine that is more than half of what a file costs it. Over a network it is not.
            let ready = self.wait()?;
            ended = Instant::now();
            silence.look(ready > 0, ended, &self.server)?;
            for place in 0..ready {
                let index = self.ready_at(place);
                if !self.take(index)? {
                    continue;
                }
                answers += 1;
                if ended - start < time {
                    self.ask(index, ended)?;
                } else {
                    under_way -= 1;
                }
            }
        }
        Ok(Tally {
            answers,
            bytes: answers * self.file,
            wall: ended - start,
        })
    }

    /// Sends `rate` requests a second for `time`, whether the server keeps up or not: one that is due while all
    /// connections are busy waits for the next that is free, and its time counts from when it was due. In
    /// between, this thread does `meanwhile`.
    ///
    /// # Errors
    /// When the server fails, or answers another number of bytes; and those of `meanwhile`.
    pub fn ask_at(
        &mut self,
        rate: f64,
        time: Duration,
        meanwhile: &mut dyn FnMut(Instant) -> io::Result<()>,
    ) -> Result<Latencies, WebError> {
        let apart = Duration::from_secs_f64(1.0 / rate.max(0.001));
        let start = Instant::now();
        let (mut next, mut silence) = (start, Silence::new(start));
        let mut waiting: VecDeque<Instant> = VecDeque::new();
        let mut free: VecDeque<usize> = (0..self.askers.len()).collect();
        let mut nanos = Vec::new();
        loop {
            let now = Instant::now();
            while next <= now && next - start < time {
                waiting.push_back(next);
                next += apart;
            }
            while let Some(&due) = waiting.front()
                && let Some(index) = free.pop_front()
            {
                waiting.pop_front();
                self.ask(index, due)?;
            }
            if next - start >= time && free.len() == self.askers.len() {
                return Ok(Latencies::of(nanos));
            }
            meanwhile(now).map_err(WebError::socket("stay slow", &self.server))?;
            // No client sleeps: the time of a wake-up is not the server's.
            let ready = self.wait()?;
            let now = Instant::now();
            let is_owed_nothing = free.len() == self.askers.len();
            silence.look(ready > 0 || is_owed_nothing, now, &self.server)?;
            for place in 0..ready {
                let index = self.ready_at(place);
                if self.take(index)? {
                    let took = Instant::now() - self.askers[index].due;
                    nanos.push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
                    free.push_back(index);
                }
            }
        }
    }

    /// Number of connections on which something has come, without waiting.
    fn wait(&mut self) -> Result<usize, WebError> {
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, Some(&Timespec::default())) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(WebError::socket("wait for it", &self.server)(error.into())),
        }
    }

    fn ready_at(&self, place: usize) -> usize {
        let data = self.events.get(place).map_or(0, |event| event.data.u64());
        usize::try_from(data).unwrap_or(0)
    }

    fn ask(&mut self, index: usize, due: Instant) -> Result<(), WebError> {
        let server = &self.server;
        let asker = &mut self.askers[index];
        asker.due = due;
        asker.expected.plain = asker.answer;
        let sealed = match &mut asker.tls {
            Some(tls) => tls.seal(&asker.request, server)?,
            None => &asker.request,
        };
        // Nothing else is on its way to the server, so there is room for a request.
        let sent = asker.socket.write_all(sealed);
        sent.map_err(WebError::socket("send a request", server))
    }

    /// Takes what has come for one connection; returns whether its answer is whole.
    fn take(&mut self, index: usize) -> Result<bool, WebError> {
        let asker = &mut self.askers[index];
        let got = match asker.socket.read(&mut self.buffer) {
            Ok(0) => {
                let text = "it ended the connection before its answer was whole";
                return Err(WebError::answer(&self.server, text));
            }
            Ok(got) => got,
            Err(error)
                if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted]
                    .contains(&error.kind()) =>
            {
                return Ok(false);
            }
            Err(error) => {
                return Err(WebError::socket("receive an answer", &self.server)(error));
            }
        };
        let came = &self.buffer[..got];
        let whole = match asker.tls {
            None => asker.expected.take_plain(got as u64),
            Some(_) => asker.expected.take_records(came),
        };
        whole.ok_or_else(|| {
            let text = "an answer differs in length from the first one";
            WebError::answer(&self.server, text)
        })
    }
}

/// Downloads a file; again while its tag is a weak one, which will become shorter.
fn settled(connection: &mut Connection, url: &Url) -> Result<Head, WebError> {
    let start = Instant::now();
    loop {
        let head = connection.download(url, &mut |_| {})?;
        if !head.has_weak_tag || start.elapsed() >= SETTLING {
            return Ok(head);
        }
        thread::sleep(LOOK);
    }
}

impl Latencies {
    fn of(mut nanos: Vec<u32>) -> Self {
        nanos.sort_unstable();
        Self(nanos)
    }

    /// Number of answers that were timed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the most that `part` of the answers took, in µs.
    #[must_use]
    pub fn quantile(&self, part: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and an index"
        )]
        let index = ((last as f64) * part).ceil() as usize;
        let found = self.0.get(index.min(last));
        found.map_or(0.0, |&nanos| f64::from(nanos) / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::tests::{answer, server};
    use super::*;

    #[test]
    fn a_crowd_counts_whole_answers() {
        let url = server(answer(&[1; 10_000]), 4);
        let mut crowd = Crowd::gather(&url, &url, None, 4).unwrap();
        for _ in 0..2 {
            let tally = crowd
                .ask_again_and_again(Duration::from_millis(20))
                .unwrap();
            assert!(tally.answers >= 4);
            assert_eq!(tally.bytes, tally.answers * 10_000);
        }
    }

    #[test]
    fn requests_are_made_when_they_are_due() {
        let url = server(answer(&[1; 100]), 2);
        let mut crowd = Crowd::gather(&url, &url, None, 2).unwrap();
        let mut turns = 0;
        let latencies = crowd
            .ask_at(1000.0, Duration::from_millis(50), &mut |_| {
                turns += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(latencies.count(), 50);
        assert!(turns > 0 && latencies.quantile(0.5) <= latencies.quantile(0.99));
        assert_eq!(Latencies::default().quantile(0.5), 0.0);
    }

    #[test]
    fn a_server_that_leaves_is_an_error() {
        let url = server(answer(b"x"), 1);
        let mut crowd = Crowd::gather(&url, &url, None, 1).unwrap();
        crowd.askers[0].answer -= 1;
        let error = crowd.ask_again_and_again(Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("differs in length"), "{error}");
    }
}
