//! Compression of one file by the library for its coding.

use std::io::{self, BufRead, IoSliceMut, Read, Write};

use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::GzEncoder;
use zeroize::Zeroize;

use super::results::Outcome;
use crate::files::{OpenFile, ReadMode};
use crate::http::Coding;

/// Length in bytes of the parts in which a file is read.
const PART: usize = 64 << 10;

/// Level of gzip: higher levels take several times as long and save a few percent.
const GZIP_LEVEL: u32 = 6;

/// Level of zstd. Its window has at most 2 MiB; clients need to accept no more than 8 MiB (RFC 9659).
const ZSTD_LEVEL: i32 = 6;

/// Quality of brotli, and the logarithm of its window's length in bytes. Higher qualities are for files that are
/// compressed once and for all.
const BROTLI_QUALITY: i32 = 5;
const BROTLI_WINDOW: i32 = 20;

/// Compresses a file; waits for the disk. A result that saves less than a sixteenth of the file is not kept.
pub(crate) fn compress(file: &OpenFile, coding: Coding) -> Outcome {
    let Ok(size) = usize::try_from(file.size()) else {
        return Outcome::Failed;
    };
    let mut output = Output {
        bytes: Vec::with_capacity(size - size / 16),
        is_full: false,
    };
    let done = encode(file, coding, &mut output);
    // Plaintext of a volume stays in memory only as the result, which is erased when it is dropped.
    let is_secret = file.in_volume().is_some();
    let outcome = match done {
        _ if output.is_full => Outcome::NotSmaller,
        Ok(()) if matches!(file.has_changed(), Ok(false)) => {
            if !is_secret {
                output.bytes.shrink_to_fit();
                return Outcome::Smaller(output.bytes);
            }
            Outcome::Smaller(output.bytes.as_slice().to_vec())
        }
        _ => Outcome::Failed,
    };
    if is_secret {
        output.bytes.zeroize();
    }
    outcome
}

fn encode(file: &OpenFile, coding: Coding, output: &mut Output) -> io::Result<()> {
    let mut reader = Reader::new(file);
    match coding {
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(output, Compression::new(GZIP_LEVEL));
            reader.feed(&mut encoder)?;
            encoder.finish()?;
        }
        Coding::Zstandard => {
            let mut encoder = zstd::Encoder::new(output, ZSTD_LEVEL)?;
            encoder.set_pledged_src_size(Some(file.size()))?;
            reader.feed(&mut encoder)?;
            encoder.finish()?;
        }
        Coding::Brotli => {
            let params = BrotliEncoderParams {
                quality: BROTLI_QUALITY,
                lgwin: BROTLI_WINDOW,
                size_hint: usize::try_from(file.size()).unwrap_or(0),
                ..BrotliEncoderParams::default()
            };
            brotli::BrotliCompress(&mut reader, output, &params)?;
        }
    }
    Ok(())
}

/// Reads a file from its start to its end, which is where it was when the file was opened.
struct Reader<'a> {
    file: &'a OpenFile,
    /// Offset in bytes of the part that is read next.
    offset: u64,
    part: Vec<u8>,
    /// Bytes of `part` that are read, and those of them that are consumed.
    filled: usize,
    consumed: usize,
}

impl<'a> Reader<'a> {
    fn new(file: &'a OpenFile) -> Self {
        Self {
            file,
            offset: 0,
            part: vec![0; PART],
            filled: 0,
            consumed: 0,
        }
    }

    /// Writes all of the file to the encoder.
    fn feed(&mut self, encoder: &mut dyn Write) -> io::Result<()> {
        loop {
            let part = self.fill_buf()?;
            let len = part.len();
            if len == 0 {
                return Ok(());
            }
            encoder.write_all(part)?;
            self.consume(len);
        }
    }
}

impl BufRead for Reader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.consumed == self.filled && self.offset < self.file.size() {
            let left = self.file.size() - self.offset;
            let wanted = usize::try_from(left).map_or(PART, |left| left.min(PART));
            let mut place = [IoSliceMut::new(&mut self.part[..wanted])];
            let read = self.file.read_at(&mut place, self.offset, ReadMode::Wait)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            (self.filled, self.consumed) = (read, 0);
            self.offset += read as u64;
        }
        Ok(&self.part[self.consumed..self.filled])
    }

    fn consume(&mut self, len: usize) {
        self.consumed += len;
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if self.file.in_volume().is_some() {
            self.part.zeroize();
        }
    }
}

/// Compressed bytes, up to the capacity of the buffer.
struct Output {
    bytes: Vec<u8>,
    /// True if more was written than fits.
    is_full: bool,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_full || bytes.len() > self.bytes.capacity() - self.bytes.len() {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::path::Path;

    use scrim_seeded::Random;

    use super::*;

    fn open(path: &Path) -> OpenFile {
        let file = std::os::fd::OwnedFd::from(fs::File::open(path).unwrap());
        let stat = rustix::fs::fstat(&file).unwrap();
        OpenFile::new(file, stat)
    }

    fn decompress(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        let read = match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain),
            Coding::Zstandard => {
                let mut decoder = zstd::Decoder::new(bytes).unwrap();
                decoder.read_to_end(&mut plain)
            }
            Coding::Brotli => brotli::Decompressor::new(bytes, PART).read_to_end(&mut plain),
        };
        read.unwrap();
        plain
    }

    #[test]
    fn each_coding_gives_the_file_back() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        for len in [1024, PART, 3 * PART + 17] {
            let text: Vec<u8> = (0..len)
                .map(|at| b"some text\n"[(at * at / 7) % 10])
                .collect();
            fs::write(&path, &text).unwrap();
            for coding in Coding::ALL {
                let Outcome::Smaller(bytes) = compress(&open(&path), coding) else {
                    panic!("{coding:?} of {len}");
                };
                assert!(bytes.len() < len, "{coding:?} of {len}");
                assert_eq!(decompress(coding, &bytes), text, "{coding:?} of {len}");
            }
        }
    }

    #[test]
    fn noise_is_not_kept_and_a_changed_file_fails() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let mut noise = vec![0; 2 * PART];
        Random::new(1).fill(&mut noise);
        for coding in Coding::ALL {
            fs::write(&path, &noise).unwrap();
            let file = open(&path);
            assert!(
                matches!(compress(&file, coding), Outcome::NotSmaller),
                "{coding:?}"
            );
            fs::write(&path, "short").unwrap();
            assert!(
                matches!(compress(&file, coding), Outcome::Failed),
                "{coding:?}"
            );
        }
    }
}
