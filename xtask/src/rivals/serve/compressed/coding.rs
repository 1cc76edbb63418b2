//! Codings that are compared: their levels, and the directives of nginx.

/// A coding of HTTP that both servers have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Brotli,
}

impl Coding {
    /// Name of the coding in fields of HTTP and in the configuration of `scrim serve`.
    pub(super) fn token(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
        }
    }

    /// Program that unpacks an answer.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "brotli",
        }
    }

    /// Level that Scrim uses.
    pub(super) const fn level(self) -> u32 {
        match self {
            Self::Gzip => 6,
            Self::Brotli => 5,
        }
    }

    /// Directives of nginx that compress at `level`, with Scrim's window.
    pub(super) fn directives(self, level: u32) -> String {
        match self {
            Self::Gzip => format!("gzip on;\n    gzip_comp_level {level};"),
            Self::Brotli => {
                format!("brotli on;\n    brotli_comp_level {level};\n    brotli_window 1m;")
            }
        }
    }
}
