//! Volumes in the middle of a reencryption by cryptsetup: named, with their progress, and left alone.

use scrim_luks::{Digest, Header, Segment, SegmentKind, SegmentLength};

use crate::error::{CliError, Exit};

/// Prefix of the requirement that cryptsetup sets for the time of a reencryption, in each version of it.
const REQUIREMENT: &str = "online-reencrypt";
/// Flag of the segment that describes the layout at the end.
const FINAL: &str = "backup-final";

/// Refuses a volume that is being reencrypted. Its data are on a device of `data_len` bytes, if that is known.
pub(crate) fn refuse(header: &Header, data_len: Option<u64>, image: &str) -> Result<(), CliError> {
    let mut requirements = header.requirements().iter();
    if !requirements.any(|requirement| requirement.starts_with(REQUIREMENT)) {
        return Ok(());
    }
    let percent = data_len.and_then(|len| percent_done(header.segments(), header.digests(), len));
    let progress = match percent {
        Some(percent) => format!(", {percent} % of it are done"),
        None => String::new(),
    };
    Err(CliError::new(
        Exit::WrongDevice,
        format!(
            "{image}: cryptsetup is reencrypting the volume{progress}: finish that with `cryptsetup reencrypt \
             --resume-only {image}`, then open it here"
        ),
    ))
}

/// The share of the data that has its final form already.
fn percent_done(segments: &[Segment], digests: &[Digest], device_len: u64) -> Option<u64> {
    let is_final = |segment: &&Segment| segment.flags.iter().any(|flag| flag == FINAL);
    let aim = segments.iter().find(is_final)?;
    let key = |segment: &Segment| {
        let mut digests = digests.iter();
        digests
            .find(|digest| digest.segments.contains(&segment.id))
            .map(|digest| digest.id)
    };
    let is_done = |segment: &&Segment| {
        let same_kind = match (&segment.kind, &aim.kind) {
            (SegmentKind::Crypt(_), SegmentKind::Crypt(_)) => true,
            (one, other) => one == other,
        };
        same_kind && key(segment) == key(aim)
    };
    let bytes = |segment: &Segment| match segment.length {
        SegmentLength::Fixed(bytes) => bytes,
        SegmentLength::Dynamic => device_len.saturating_sub(segment.offset),
    };
    let now = || segments.iter().filter(|segment| !segment.is_backup());
    let sum = |bytes: u64, more: u64| bytes.saturating_add(more);
    let all = now().map(bytes).fold(0, sum);
    let done = now().filter(is_done).map(bytes).fold(0, sum);
    u64::try_from(u128::from(done) * 100 / u128::from(all.max(1))).ok()
}

#[cfg(test)]
mod tests {
    use scrim_luks::CryptSegment;

    use super::*;

    fn segment(id: u8, offset: u64, length: SegmentLength, flag: Option<&str>) -> Segment {
        Segment {
            id,
            offset,
            length,
            flags: flag.iter().map(|flag| (*flag).to_owned()).collect(),
            kind: SegmentKind::Crypt(CryptSegment {
                cipher: "aes-xts-plain64".to_owned(),
                iv_tweak: 0,
                sector_size: 512,
                integrity: None,
            }),
        }
    }

    fn digest(id: u8, segments: &[u8]) -> Digest {
        Digest {
            id,
            hash: "sha256".to_owned(),
            iterations: 1000,
            salt: Vec::new(),
            value: Vec::new(),
            keyslots: Vec::new(),
            segments: segments.to_vec(),
        }
    }

    #[test]
    fn progress_is_the_share_of_the_final_key() {
        // A quarter from the start has the new key.
        let segments = [
            segment(0, 1000, SegmentLength::Fixed(250), None),
            segment(1, 1250, SegmentLength::Dynamic, None),
            segment(2, 1000, SegmentLength::Dynamic, Some("backup-previous")),
            segment(3, 1000, SegmentLength::Dynamic, Some(FINAL)),
        ];
        let digests = [digest(0, &[1, 2]), digest(1, &[0, 3])];
        assert_eq!(percent_done(&segments, &digests, 2000), Some(25));
        // Decryption: what is done has no digest.
        let mut segments = segments;
        for id in [0, 3] {
            segments[id].kind = SegmentKind::Other("linear".to_owned());
        }
        assert_eq!(
            percent_done(&segments, &[digest(0, &[1, 2])], 2000),
            Some(25)
        );
        assert_eq!(percent_done(&segments[..3], &digests, 2000), None);
        assert_eq!(percent_done(&segments[3..], &digests, 0), Some(0));
    }
}
