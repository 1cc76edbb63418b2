//! Failures to obtain a certificate.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use instant_acme::{Error, Problem};
use scrim_foreign::Foreign;

/// Longest text of an authority that is passed on, characters.
const TEXT_MAX: usize = 400;

/// Failure of an order.
#[derive(Debug)]
pub enum Fault {
    /// The folder for the account and the certificate cannot be used.
    State(StateError),
    /// The system's root certificates, for the authority's own certificate, cannot be read.
    Roots(io::Error),
    /// The configured file of root certificates cannot be used.
    RootFile(PathBuf),
    /// The authority refused a request, or could not be reached.
    Authority(Box<Error>),
    /// The authority could not validate a name.
    Challenge {
        name: String,
        /// Problem that the authority reports.
        problem: Problem,
    },
    /// The authority does not offer the challenge TLS-ALPN-01 for this name.
    NoTlsAlpn(String),
    /// The authority rejected an order without a reason.
    Order,
    /// The key or the certificate request cannot be made.
    Make(rcgen::Error),
    /// The authority sent a certificate that cannot be used for these names and this key.
    Unusable,
    /// The order took longer than this.
    TooLong(Duration),
}

/// A file or folder of the state that cannot be used.
#[derive(Debug)]
pub struct StateError {
    /// Operation that was tried.
    pub operation: &'static str,
    /// File or folder that it was tried with.
    pub path: PathBuf,
    /// Error of the operating system.
    pub source: io::Error,
}

impl Fault {
    /// Returns whether the authority knows nothing of the account that is stored.
    pub(super) fn is_unknown_account(&self) -> bool {
        self.kind() == Some("accountDoesNotExist")
    }

    /// Returns whether the authority has been asked too often.
    pub(super) fn is_rate_limit(&self) -> bool {
        self.kind() == Some("rateLimited")
    }

    /// The kind of problem, by the last word of its URN (RFC 8555, section 6.7).
    fn kind(&self) -> Option<&str> {
        match self {
            Self::Authority(error) => match &**error {
                Error::Api(problem) => problem.r#type.as_deref()?.rsplit(':').next(),
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Authority(Box::new(error))
    }
}

impl From<rcgen::Error> for Fault {
    fn from(error: rcgen::Error) -> Self {
        Self::Make(error)
    }
}

impl From<StateError> for Fault {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(error) => error.fmt(f),
            Self::Roots(error) => write!(
                f,
                "the system's trusted root certificates cannot be read ({error}); install ca-certificates, \
                 or name a file with the root of the directory's own certificate (ca)"
            ),
            Self::RootFile(path) => write!(
                f,
                "{} cannot be read, or has no certificate in PEM; name the root of the directory's \
                 own certificate (ca)",
                path.display()
            ),
            Self::Authority(error) => match &**error {
                Error::Api(problem) => {
                    write!(
                        f,
                        "the authority refused the request: {}",
                        problem_text(problem)
                    )
                }
                error => write!(f, "the authority cannot be asked: {}", clean(error)),
            },
            Self::Challenge { name, problem } => write!(
                f,
                "the authority did not find this server under {name}: {}; its name must lead here, \
                 and its port 443 to where HTTPS is served",
                problem_text(problem)
            ),
            Self::NoTlsAlpn(name) => write!(
                f,
                "the authority does not offer the challenge tls-alpn-01 for {name}; use another directory, or \
                 name files with a certificate"
            ),
            Self::Order => f.write_str(
                "the authority rejected the order without a reason; see its own log or status page",
            ),
            Self::Make(error) => write!(
                f,
                "the key or the certificate request cannot be made: {error}"
            ),
            Self::Unusable => f.write_str(
                "the authority sent a certificate that cannot be used for these names and this key",
            ),
            Self::TooLong(limit) => {
                write!(f, "the order was not complete within {} s", limit.as_secs())
            }
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::State(error) => Some(error),
            Self::Roots(error) => Some(error),
            Self::Authority(error) => Some(error),
            Self::Challenge { problem, .. } => Some(problem),
            Self::Make(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operation,
            path,
            source,
        } = self;
        write!(
            f,
            "cannot {operation} {}: {source}; name a folder for ACME (state) that is this user's alone",
            path.display()
        )
    }
}

impl std::error::Error for StateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

fn problem_text(problem: &Problem) -> String {
    let reasons = problem.subproblems.iter();
    let mut text = clean(problem.detail.as_deref().unwrap_or("no reason given"));
    for reason in reasons.filter_map(|sub| sub.detail.as_deref()).take(3) {
        text += "; ";
        text += &clean(reason);
    }
    match problem.r#type.as_deref() {
        Some(kind) => format!("{text} ({})", clean(kind)),
        None => text,
    }
}

/// Text from an authority, made fit for a terminal or a log: one line of limited length.
fn clean(text: impl fmt::Display) -> String {
    Foreign::new(text.to_string()).shortened(TEXT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str, detail: &str) -> Problem {
        let text = serde_json::json!({ "type": kind, "detail": detail }).to_string();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_an_authority_says_is_one_line_that_ends() {
        let problem = problem(
            "urn:x",
            &format!("\x1b[31mred\nline {}", "x".repeat(10_000)),
        );
        let fault = Fault::Challenge {
            name: "a.example".to_owned(),
            problem,
        };
        let text = fault.to_string();
        assert!(!text.contains(char::is_control), "{text}");
        assert!(text.len() < 1000, "{text}");
        assert!(text.contains("a.example"));
    }

    #[test]
    fn kinds_of_problems_are_known_by_their_last_word() {
        let of = |kind| Fault::from(Error::Api(problem(kind, "")));
        assert!(of("urn:ietf:params:acme:error:rateLimited").is_rate_limit());
        assert!(of("urn:ietf:params:acme:error:accountDoesNotExist").is_unknown_account());
        assert!(!of("urn:ietf:params:acme:error:malformed").is_rate_limit());
        assert!(!Fault::Order.is_unknown_account());
    }
}
