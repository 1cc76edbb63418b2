//! The process that serves is killed in the midst of writes, again and again: what it has acknowledged
//! is there when the volume is opened again.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::support::{Background, Place, noise, scrim};
use crate::volume::{Image, LUKS1, PAYLOAD, USUAL};

/// Number of times that the process is killed.
const KILLS: usize = 50;
/// Bytes that one write does not tear: a page of the file.
pub(crate) const BLOCK: usize = 4096;
const BLOCKS: usize = PAYLOAD / BLOCK;
/// Largest number of blocks of one write.
const MOST: usize = 32;

/// A plain NBD client: one request at a time, by simple replies.
pub(crate) struct Client(UnixStream);

/// The commands, by their numbers on the wire.
#[derive(Clone, Copy)]
pub(crate) enum Command {
    Read = 0,
    Write = 1,
    Flush = 3,
}

impl Client {
    pub(crate) fn connect(place: &Place) -> Self {
        Self::connect_to(&place.path("run/scrim/secret.nbd"), PAYLOAD)
    }

    /// Connects to a volume of `size` bytes.
    pub(crate) fn connect_to(socket: &Path, size: usize) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        // Fixed newstyle without padding, then the export with the empty name.
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        assert_eq!(export[..8], (size as u64).to_be_bytes());
        Self(stream)
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn ask(
        &mut self,
        command: Command,
        offset: u64,
        len: usize,
        data: &[u8],
    ) -> io::Result<()> {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend([0, 0, 0, command as u8]);
        request.extend(7u64.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(u32::try_from(len).unwrap().to_be_bytes());
        request.extend(data);
        self.0.write_all(&request)?;
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply)?;
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "an error");
        Ok(())
    }

    fn read_all(&mut self) -> Vec<u8> {
        self.read(0, PAYLOAD)
    }

    pub(crate) fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        self.ask(Command::Read, offset, len, &[]).unwrap();
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }
}

/// Expected content of each block: the number that it is filled with.
struct Model {
    /// Numbers of the writes that were acknowledged last.
    blocks: Vec<u64>,
    /// The number of the write that had no answer, and its blocks.
    unanswered: Option<(u64, std::ops::Range<usize>)>,
    /// The number of the last write.
    last: u64,
}

impl Model {
    /// Compares with the bytes read, and takes over the outcome of the write without an answer.
    fn check(&mut self, bytes: &[u8], turn: usize) {
        for (at, block) in bytes.chunks_exact(BLOCK).enumerate() {
            let found = u64::from_le_bytes(block[..8].try_into().unwrap());
            let whole = found.to_le_bytes().repeat(BLOCK / 8);
            assert!(block == whole, "block {at} is torn after {turn} kills");
            let in_flight = self.unanswered.as_ref();
            let may_be_new =
                in_flight.is_some_and(|(number, range)| *number == found && range.contains(&at));
            assert!(
                found == self.blocks[at] || may_be_new,
                "block {at} after {turn} kills: {found}, acknowledged: {}",
                self.blocks[at]
            );
            self.blocks[at] = found;
        }
        self.unanswered = None;
    }

    /// Writes at random places, with a flush now and then, until there is no answer; returns how
    /// many there were.
    fn write_until_killed(&mut self, client: &mut Client, seed: u64) -> usize {
        let choices = noise(1 << 20, seed);
        for (turn, choice) in choices.chunks_exact(4).enumerate() {
            let start = usize::from(u16::from_le_bytes([choice[0], choice[1]])) % BLOCKS;
            let end = (start + 1 + usize::from(choice[2]) % MOST).min(BLOCKS);
            self.last += 1;
            let data = self.last.to_le_bytes().repeat((end - start) * BLOCK / 8);
            self.unanswered = Some((self.last, start..end));
            let offset = (start * BLOCK) as u64;
            if client
                .ask(Command::Write, offset, data.len(), &data)
                .is_err()
            {
                return turn;
            }
            self.blocks[start..end].fill(self.last);
            self.unanswered = None;
            if choice[3] < 16 && client.ask(Command::Flush, 0, 0, &[]).is_err() {
                return turn;
            }
        }
        panic!("never killed");
    }
}

fn check_kills(image: &Image) {
    let place = &image.place;
    image.fill(&vec![0; PAYLOAD]);
    let mut model = Model {
        blocks: vec![0; BLOCKS],
        unanswered: None,
        last: 0,
    };
    let mut answers = 0;
    for (turn, delay) in noise(KILLS, 9).into_iter().enumerate() {
        let mut command = place.command(scrim());
        command.args(["open", "disk.img", "secret", "-d", "key", "--foreground"]);
        let mut server = Background::start(command.stdout(Stdio::piped()));
        let mut address = String::new();
        let stdout = server.0.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut address).unwrap();
        let mut client = Client::connect(place);
        model.check(&client.read_all(), turn);
        answers += std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(200 * u64::from(delay)));
                server.0.kill().unwrap();
            });
            model.write_until_killed(&mut client, turn as u64)
        });
        server.0.wait().unwrap();
    }
    assert!(answers > KILLS, "only {answers} writes were answered");
    let uri = image.open_with("key", "reading", &["--readonly"]);
    place.copy_out(&uri);
    model.check(&std::fs::read(place.path("copied-out")).unwrap(), KILLS);
    place.close("reading");
}

#[test]
fn what_was_acknowledged_outlives_the_process() {
    if !crate::support::have(&["nbdcopy"]) {
        return;
    }
    // The second has eight encryption sectors in a page.
    for case in [USUAL, LUKS1[1]] {
        check_kills(&Image::made_by_scrim(case));
    }
}
