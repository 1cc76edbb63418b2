//! Conditional requests: checks whether the content that a client has is still valid (RFC 9110, 13).

use std::time::{Duration, SystemTime};

use super::{Fields, Method};

/// An entity tag, which two answers with the same content have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Etag<'a> {
    /// Its opaque text, with the quotation marks.
    pub opaque: &'a [u8],
    /// True if the content may differ in spite of it.
    pub is_weak: bool,
}

/// Validators of the content that is there now.
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    pub etag: Etag<'a>,
    /// Time of its last change: seconds since 1970, if it is known, and known not to be in the future.
    pub modified: Option<u64>,
}

/// Result of a request's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The content is sent, or the part that was asked for.
    Send,
    /// The client has it: 304.
    NotModified,
    /// The client wants something that is no longer there: 412.
    Failed,
}

impl<'a> Etag<'a> {
    /// Reads the tag at the beginning of `text`, and what follows.
    fn split(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (is_weak, quoted) = match text.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, text),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let end = inner.iter().position(|&byte| byte == b'"')?;
        let is_clean = inner[..end].iter().all(|&byte| byte > b' ' && byte != 0x7f);
        let (opaque, rest) = quoted.split_at(end + 2);
        is_clean.then_some((Self { opaque, is_weak }, rest))
    }
}

impl Validators<'_> {
    /// Weighs the conditions in the order of RFC 9110, 13.2.2; `If-Range` belongs to the range.
    #[must_use]
    pub fn judge(&self, method: Method, fields: &Fields<'_>) -> Verdict {
        if let Some(list) = &fields.if_match {
            if !self.is_among(list, |tag| !tag.is_weak && !self.etag.is_weak) {
                return Verdict::Failed;
            }
        } else if let Some(date) = fields.if_unmodified_since.and_then(seconds)
            && self.modified.is_none_or(|modified| modified > date)
        {
            return Verdict::Failed;
        }
        let has_it = if let Some(list) = &fields.if_none_match {
            self.is_among(list, |_| true)
        } else if let Some(date) = fields.if_modified_since.and_then(seconds) {
            self.modified.is_some_and(|modified| modified <= date)
        } else {
            false
        };
        match method {
            _ if !has_it => Verdict::Send,
            Method::Get | Method::Head => Verdict::NotModified,
            Method::Options | Method::Other | Method::Unknown => Verdict::Failed,
        }
    }

    /// Checks whether a range is meant of this content: there is no `If-Range`, or it names this content, byte by byte.
    #[must_use]
    pub fn is_range_of_this(&self, if_range: Option<&[u8]>) -> bool {
        let Some(value) = if_range else { return true };
        // Where the tag is weak, so is the date: a client that compares dates would miss a change that leaves it as it
        // was.
        if self.etag.is_weak {
            return false;
        }
        match Etag::split(value) {
            Some((tag, rest)) => rest.is_empty() && tag == self.etag,
            None => seconds(value).is_some_and(|date| self.modified == Some(date)),
        }
    }

    /// Returns whether a list names this content, by a tag that `counts`. One that is malformed names nothing from
    /// there on.
    fn is_among(&self, list: &[u8], counts: impl Fn(&Etag<'_>) -> bool) -> bool {
        let mut rest = list.trim_ascii();
        if rest == b"*" {
            return true;
        }
        loop {
            while let [b',' | b' ' | b'\t', after @ ..] = rest {
                rest = after;
            }
            let Some((tag, after)) = Etag::split(rest) else {
                return false;
            };
            if tag.opaque == self.etag.opaque && counts(&tag) {
                return true;
            }
            rest = after.trim_ascii_start();
            if !rest.starts_with(b",") {
                return false;
            }
        }
    }
}

/// An HTTP date, in seconds since 1970.
fn seconds(date: &[u8]) -> Option<u64> {
    let time = httpdate::parse_http_date(std::str::from_utf8(date).ok()?).ok()?;
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    Some(since.unwrap_or(Duration::ZERO).as_secs())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    const NOW: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &[u8] = b"Sunday, 06-Nov-94 08:49:38 GMT";

    fn content(is_weak: bool) -> Validators<'static> {
        Validators {
            etag: Etag {
                opaque: b"\"a\"",
                is_weak,
            },
            modified: Some(784_111_777),
        }
    }

    fn list(value: &'static str) -> Option<Cow<'static, [u8]>> {
        Some(Cow::Borrowed(value.as_bytes()))
    }

    #[test]
    fn a_list_of_tags_names_content_weakly_in_if_none_match_and_strongly_in_if_match() {
        for (value, none_match, strong, weak) in [
            ("\"a\"", true, true, false),
            ("W/\"a\"", true, false, false),
            ("\"b\"", false, false, false),
            ("\"b\", \"a\"", true, true, false),
            ("\"b\",W/\"c\" ,, \"a\"", true, true, false),
            ("*", true, true, true),
            (" * ", true, true, true),
            ("\"a", false, false, false),
            ("a", false, false, false),
            ("\"b\" \"a\"", false, false, false),
            ("\"b\", *", false, false, false),
            ("\"x,\", \"a\"", true, true, false),
            ("w/\"a\"", false, false, false),
            ("", false, false, false),
        ] {
            let fields = Fields {
                if_none_match: list(value),
                ..Fields::default()
            };
            for is_weak in [false, true] {
                let verdict = content(is_weak).judge(Method::Get, &fields);
                assert_eq!(verdict == Verdict::NotModified, none_match, "{value}");
            }
            let fields = Fields {
                if_match: list(value),
                ..Fields::default()
            };
            let holds = |is_weak| content(is_weak).judge(Method::Get, &fields) == Verdict::Send;
            assert_eq!((holds(false), holds(true)), (strong, weak), "{value}");
        }
    }

    #[test]
    fn dates_count_where_there_is_no_tag() {
        let judge = |fields: &Fields<'_>| content(false).judge(Method::Get, fields);
        for (date, since, unmodified) in [
            (NOW, Verdict::NotModified, Verdict::Send),
            (AFTER, Verdict::NotModified, Verdict::Send),
            (BEFORE, Verdict::Send, Verdict::Failed),
            (b"yesterday".as_slice(), Verdict::Send, Verdict::Send),
            (b"\xff".as_slice(), Verdict::Send, Verdict::Send),
        ] {
            let mut fields = Fields {
                if_modified_since: Some(date),
                ..Fields::default()
            };
            assert_eq!(judge(&fields), since);
            fields.if_none_match = list("\"b\"");
            assert_eq!(judge(&fields), Verdict::Send);
            let mut fields = Fields {
                if_unmodified_since: Some(date),
                ..Fields::default()
            };
            assert_eq!(judge(&fields), unmodified);
            fields.if_match = list("\"a\"");
            assert_eq!(judge(&fields), Verdict::Send);
        }
    }

    #[test]
    fn a_condition_that_fails_goes_before_one_that_is_met() {
        let fields = Fields {
            if_match: list("\"b\""),
            if_none_match: list("\"a\""),
            ..Fields::default()
        };
        assert_eq!(content(false).judge(Method::Get, &fields), Verdict::Failed);
    }

    #[test]
    fn a_range_is_of_this_content_only_if_it_is_the_same_to_the_byte() {
        for (value, is_this) in [
            (b"\"a\"".as_slice(), true),
            (b"W/\"a\"", false),
            (b"\"b\"", false),
            (b"\"a\", \"b\"", false),
            (NOW, true),
            (BEFORE, false),
            (AFTER, false),
            (b"*", false),
            (b"", false),
        ] {
            assert_eq!(content(false).is_range_of_this(Some(value)), is_this);
            assert!(!content(true).is_range_of_this(Some(value)));
        }
        assert!(content(true).is_range_of_this(None));
    }

    #[test]
    fn content_without_a_time_of_change_has_none_to_compare() {
        let content = Validators {
            modified: None,
            ..content(false)
        };
        let fields = Fields {
            if_modified_since: Some(AFTER),
            ..Fields::default()
        };
        assert_eq!(content.judge(Method::Get, &fields), Verdict::Send);
        assert!(!content.is_range_of_this(Some(NOW)));
    }
}
