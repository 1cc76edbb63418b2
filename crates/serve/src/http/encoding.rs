//! Codings of content that a client takes (RFC 9110, 12.5.3).

/// A coding of content that stands beside a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    Brotli,
    Zstandard,
    Gzip,
}

impl Coding {
    /// All codings; if a client likes several equally, the first of them is chosen.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstandard, Self::Gzip];

    /// Its name in `Content-Encoding`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstandard => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// Extension of the name of a file whose content has this coding.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstandard => ".zst",
            Self::Gzip => ".gz",
        }
    }
}

/// Weight of each coding for a client, in thousandths; zero for one that it does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acceptable {
    codings: [u16; 3],
    identity: u16,
}

impl Acceptable {
    /// Reads `Accept-Encoding`. Malformed parts of it are passed over.
    #[must_use]
    pub fn parse(value: Option<&[u8]>) -> Self {
        // A client without the field may take all codings, but most such clients know none.
        let mut codings = [None; 3];
        let (mut identity, mut rest) = (None, None);
        for element in value.unwrap_or_default().split(|&byte| byte == b',') {
            let mut parts = element.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let Some(weight) = parts.next().map_or(Some(1000), weight) else {
                continue;
            };
            let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
            let slot = match name {
                b"*" => &mut rest,
                _ if is("identity") => &mut identity,
                _ if is("br") => &mut codings[0],
                _ if is("zstd") => &mut codings[1],
                _ if is("gzip") || is("x-gzip") => &mut codings[2],
                _ => continue,
            };
            *slot = Some(weight);
        }
        Self {
            codings: codings.map(|weight| weight.or(rest).unwrap_or(0)),
            // Content as it is is taken unless it is refused, but what is named is liked better.
            identity: identity.or(rest).unwrap_or(1),
        }
    }

    /// Chooses the coding to send among those that are there, of which earlier ones are preferred: `None` stands for
    /// the content as it is.
    ///
    /// Content as it is is sent even to a client that refuses it, if nothing else suits the client. The alternative is
    /// 406 (RFC 9110, 12.4.1), and no client can do more with that; nginx and Apache send the file too.
    pub fn choose(&self, there: impl IntoIterator<Item = Coding>) -> Option<Coding> {
        let mut best = None;
        let mut most = 0;
        for coding in there {
            let weight = self.weight(coding);
            if weight > most {
                (best, most) = (Some(coding), weight);
            }
        }
        // A tie goes to what is smaller.
        best.filter(|_| most >= self.identity)
    }

    fn weight(&self, coding: Coding) -> u16 {
        let [brotli, zstandard, gzip] = self.codings;
        match coding {
            Coding::Brotli => brotli,
            Coding::Zstandard => zstandard,
            Coding::Gzip => gzip,
        }
    }
}

/// A weight such as `q=0.25`, in thousandths.
fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', whole, fraction @ ..] = parameter else {
        return None;
    };
    let digits = match fraction {
        [] => &[],
        [b'.', digits @ ..] if digits.len() <= 3 => digits,
        _ => return None,
    };
    let mut thousandths = 0;
    for at in 0..3 {
        let digit = digits.get(at).unwrap_or(&b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        thousandths = 10 * thousandths + u16::from(digit - b'0');
    }
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Coding] = &Coding::ALL;
    const BR: Option<Coding> = Some(Coding::Brotli);
    const ZSTD: Option<Coding> = Some(Coding::Zstandard);
    const GZIP: Option<Coding> = Some(Coding::Gzip);

    #[test]
    fn what_the_client_likes_best_is_chosen_of_what_is_there() {
        for (value, there, chosen) in [
            (None, ALL, None),
            (Some(""), ALL, None),
            (Some("gzip, deflate, br, zstd"), ALL, BR),
            (Some("gzip, deflate, br, zstd"), &ALL[1..], ZSTD),
            (Some("gzip, deflate, br, zstd"), &ALL[2..], GZIP),
            (Some("gzip, deflate, br, zstd"), &[], None),
            (Some("GZIP"), ALL, GZIP),
            (Some("x-gzip"), ALL, GZIP),
            (Some("gzip;q=0.9, br;q=0.8"), ALL, GZIP),
            (Some("gzip ; q=0.001"), ALL, GZIP),
            (Some("gzip;q=0"), ALL, None),
            (Some("gzip;q=0.000, *"), ALL, BR),
            (Some("*"), &[], None),
            (Some("identity, gzip;q=0.5"), ALL, None),
            (Some("identity;q=0.5, gzip;q=0.5"), ALL, GZIP),
            (Some("identity;q=0, gzip;q=0.1"), ALL, GZIP),
            (Some("*;q=0, identity"), ALL, None),
            // Nothing that is there is acceptable.
            (Some("identity;q=0"), ALL, None),
            (Some("*;q=0"), ALL, None),
            (Some("*;q=0, br"), &[], None),
            (Some("deflate, compress"), ALL, None),
            // Malformed elements are ignored.
            (Some("gzip;q=2, gzip;q=0.1234, gzip;level=9"), ALL, None),
            (Some("gzip;q=, gzip;q=., gzip;q=0.a, gzip;q=1.1"), ALL, None),
            (
                Some("gzip, br, zstd"),
                &[Coding::Zstandard, Coding::Brotli],
                ZSTD,
            ),
            (Some("gzip;q=1.000"), ALL, GZIP),
            (Some("gzip;q=1."), ALL, GZIP),
        ] {
            let acceptable = Acceptable::parse(value.map(str::as_bytes));
            assert_eq!(
                acceptable.choose(there.iter().copied()),
                chosen,
                "{value:?} of {there:?}"
            );
        }
    }
}
