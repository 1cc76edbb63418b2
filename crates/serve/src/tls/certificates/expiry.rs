//! The time until which a certificate is valid.

use std::fmt;
use std::time::{Duration, SystemTime};

/// The moment after which clients refuse a certificate, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry {
    year: u16,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
}

/// Tags of DER (ITU-T X.690).
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// `[0]`, which holds the version where there is one.
const VERSION: u8 = 0xA0;

impl Expiry {
    /// Validity of a certificate in DER, from when to when (RFC 5280, section 4.1); `None` if it is not a certificate.
    pub(super) fn span(certificate: &[u8]) -> Option<(Self, Self)> {
        let (certificate, _) = expect(certificate, SEQUENCE)?;
        let (mut fields, _) = expect(certificate, SEQUENCE)?;
        if let Some((_, rest)) = expect(fields, VERSION) {
            fields = rest;
        }
        // Serial number, signature algorithm, issuer.
        for tag in [INTEGER, SEQUENCE, SEQUENCE] {
            (_, fields) = expect(fields, tag)?;
        }
        let (validity, _) = expect(fields, SEQUENCE)?;
        let (tag, text, validity) = element(validity)?;
        let since = Self::parse(tag, text)?;
        let (tag, text, _) = element(validity)?;
        Some((since, Self::parse(tag, text)?))
    }

    fn parse(tag: u8, text: &[u8]) -> Option<Self> {
        let (year, rest) = match tag {
            UTC_TIME => {
                let (year, rest) = two_digits(text)?;
                let century = if year < 50 { 2000 } else { 1900 };
                (century + u16::from(year), rest)
            }
            GENERALIZED_TIME => {
                let (century, rest) = two_digits(text)?;
                let (year, rest) = two_digits(rest)?;
                (u16::from(century) * 100 + u16::from(year), rest)
            }
            _ => return None,
        };
        let (month, rest) = two_digits(rest)?;
        let (day, rest) = two_digits(rest)?;
        let (hour, rest) = two_digits(rest)?;
        let (minute, rest) = two_digits(rest)?;
        let (second, rest) = two_digits(rest)?;
        let sound = (1..=12).contains(&month) && (1..=31).contains(&day);
        (sound && rest == b"Z").then_some(Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
        })
    }

    /// Returns whether it was before `now`.
    #[must_use]
    pub fn is_before(self, now: SystemTime) -> bool {
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |now| now.as_secs());
        self.unix_seconds() < i64::try_from(now).unwrap_or(i64::MAX)
    }

    /// The same moment as the system counts time; none is before 1970.
    pub(crate) fn time(self) -> SystemTime {
        let seconds = u64::try_from(self.unix_seconds()).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn unix_seconds(self) -> i64 {
        // Years from March on, so that a leap day is a year's last.
        let (year, month) = match self.month {
            1 | 2 => (i64::from(self.year) - 1, i64::from(self.month) + 9),
            month => (i64::from(self.year), i64::from(month) - 3),
        };
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let day_of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        // 719,468 days lie between 1 March of the year 0 and 1970.
        let days = 365 * year + leap_days + day_of_year - 719_468;
        let hours = days * 24 + i64::from(self.hour);
        (hours * 60 + i64::from(self.minute)) * 60 + i64::from(self.second)
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            year,
            month,
            day,
            hour,
            minute,
            ..
        } = self;
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
    }
}

/// The content of the element that `der` begins with, which must have this tag, and what is behind it.
fn expect(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    match element(der)? {
        (found, content, rest) if found == tag => Some((content, rest)),
        _ => None,
    }
}

/// Tag and content of the first element of `der`, and what is behind it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = der.split_first_chunk()?;
    let (len, rest) = match first {
        0..=0x7F => (usize::from(first), rest),
        0x81 => {
            let (&[len], rest) = rest.split_first_chunk()?;
            (usize::from(len), rest)
        }
        0x82 => {
            let (&len, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(len)), rest)
        }
        // Longer than any certificate that a client takes.
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((tag, content, rest))
}

fn two_digits(text: &[u8]) -> Option<(u8, &[u8])> {
    let (&[tens, ones], rest) = text.split_first_chunk()?;
    let digit = |byte: u8| byte.is_ascii_digit().then(|| byte - b'0');
    Some((digit(tens)? * 10 + digit(ones)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_what_the_calendar_says() {
        // As `date -u -d … +%s` tells them.
        for (tag, text, seconds) in [
            (UTC_TIME, "700101000000Z", 0),
            (UTC_TIME, "491231235959Z", 2_524_607_999),
            (UTC_TIME, "240229120000Z", 1_709_208_000),
            (GENERALIZED_TIME, "20500101000000Z", 2_524_608_000),
            (GENERALIZED_TIME, "21000301000000Z", 4_107_542_400),
        ] {
            let expiry = Expiry::parse(tag, text.as_bytes()).unwrap();
            assert_eq!(expiry.unix_seconds(), seconds, "{text}");
            let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
            assert!(!expiry.is_before(moment));
            assert!(expiry.is_before(moment + Duration::from_secs(1)));
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "491231235959",
            "491331235959Z",
            "4912312359Z",
            "49123123595aZ",
        ] {
            assert_eq!(Expiry::parse(UTC_TIME, text.as_bytes()), None, "{text}");
        }
    }
}
