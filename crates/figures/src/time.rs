//! Seconds since 1970 as a date that people read.

/// A date and a time without seconds, such as `2026-11-22 15:30`, in UTC; `None` for years that have not four digits.
#[must_use]
pub fn minutes(seconds: i64) -> Option<String> {
    let (day, of_day) = day(seconds)?;
    Some(format!(
        "{day} {:02}:{:02}",
        of_day / 3600,
        of_day / 60 % 60
    ))
}

/// A date and a time as in ISO 8601, such as `2026-11-22T15:30:59Z`; `None` for years that have not four digits.
#[must_use]
pub fn iso(seconds: i64) -> Option<String> {
    let (day, of_day) = day(seconds)?;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    Some(format!("{day}T{hour:02}:{minute:02}:{second:02}Z"))
}

/// The date, and the seconds of the day that have passed.
fn day(seconds: i64) -> Option<(String, i64)> {
    let (year, month, day) = date(seconds.div_euclid(86_400));
    let is_shown = (0..=9999).contains(&year);
    is_shown.then(|| {
        (
            format!("{year:04}-{month:02}-{day:02}"),
            seconds.rem_euclid(86_400),
        )
    })
}

/// Year, month and day of a day since 1970, in years that begin with March so that leap days come last.
fn date(days: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let days = days.saturating_add(719_468);
    let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + 400 * era + i64::from(month <= 2), month, of_month)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (-1, "1969-12-31 23:59"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (1_795_361_400, "2026-11-22 15:30"),
            (253_402_300_799, "9999-12-31 23:59"),
        ] {
            assert_eq!(minutes(seconds).as_deref(), Some(text));
        }
        assert_eq!(iso(951_782_399).as_deref(), Some("2000-02-28T23:59:59Z"));
        assert_eq!(iso(-1).as_deref(), Some("1969-12-31T23:59:59Z"));
        assert_eq!(minutes(253_402_300_800), None);
        assert_eq!(minutes(i64::MAX), None);
        assert_eq!(minutes(i64::MIN), None);
    }

    #[test]
    fn every_day_is_that_of_a_library() {
        for day in 0..60_000_u32 {
            let (year, month, of_month) = date(i64::from(day));
            let time = UNIX_EPOCH + Duration::from_secs(u64::from(day) * 86_400);
            let text = httpdate::fmt_http_date(time);
            let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
            let at = usize::try_from(month - 1).expect("a month") * 3;
            let wanted = format!(", {of_month:02} {} {year} ", &months[at..at + 3]);
            assert!(text.contains(&wanted), "{text} is not {wanted}");
        }
    }
}
