//! HTTPS to an authority: one request a connection, in bounded time and memory.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{HOST, RETRY_AFTER, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::fault::Fault;

/// Time for one request, from the look-up of the name to the last byte of the answer.
const REQUEST_TIME: Duration = Duration::from_secs(60);
/// Longest answer, bytes; a chain of certificates has some thousand.
const ANSWER_MAX: usize = 256 << 10;
/// Longest file with roots, bytes.
const ROOTS_MAX: u64 = 4 << 20;
/// Name in `User-Agent`; the library adds its own.
const AGENT: &str = concat!("scrim/", env!("CARGO_PKG_VERSION"), " ");

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A client that checks the authority's certificate by `roots`.
#[derive(Clone)]
pub(super) struct Client {
    tls: TlsConnector,
    retry_after: RetryAfter,
}

/// Time until which an authority does not want to be asked again, if it has named one.
#[derive(Clone, Default)]
pub(super) struct RetryAfter(Arc<Mutex<Option<SystemTime>>>);

impl RetryAfter {
    /// Takes the time that is left until then. The next failure sets it anew.
    pub(super) fn take(&self, now: SystemTime) -> Option<Duration> {
        let until = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        until?.duration_since(now).ok()
    }

    fn set(&self, headers: &HeaderMap, now: SystemTime) {
        let text = headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok());
        if let Some(until) = text.and_then(|text| moment(text.trim(), now)) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
    }
}

/// Parses `Retry-After`: seconds from now on, or a date.
fn moment(text: &str, now: SystemTime) -> Option<SystemTime> {
    match text.parse::<u32>() {
        Ok(seconds) => now.checked_add(Duration::from_secs(seconds.into())),
        Err(_) => httpdate::parse_http_date(text).ok(),
    }
}

impl Client {
    /// Trusts the roots in the file `ca`, or the system's.
    pub(super) fn new(ca: Option<&Path>) -> Result<Self, Fault> {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::Roots(io::Error::other(error)))?
            .with_root_certificates(match ca {
                Some(path) => roots_in(path).ok_or_else(|| Fault::RootFile(path.to_owned()))?,
                None => roots_of_the_system()?,
            })
            .with_no_client_auth();
        Ok(Self {
            tls: Arc::new(config).into(),
            retry_after: RetryAfter::default(),
        })
    }

    /// Pause that the authority asks for.
    pub(super) fn retry_after(&self) -> RetryAfter {
        self.retry_after.clone()
    }
}

fn roots_in(path: &Path) -> Option<RootCertStore> {
    let mut text = Vec::new();
    let file = File::open(path).ok()?;
    file.take(ROOTS_MAX).read_to_end(&mut text).ok()?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        roots.add(certificate.ok()?).ok()?;
    }
    (!roots.is_empty()).then_some(roots)
}

fn roots_of_the_system() -> Result<RootCertStore, Fault> {
    let mut found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some of them may be old and useless; the others suffice.
    roots.add_parsable_certificates(found.certs);
    match roots.is_empty() {
        false => Ok(roots),
        true => Err(Fault::Roots(match found.errors.pop() {
            Some(error) => io::Error::other(error),
            None => io::ErrorKind::NotFound.into(),
        })),
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let answer = tokio::time::timeout(REQUEST_TIME, exchange(&client.tls, request))
                .await
                .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
                .map_err(Error::Other)?;
            let (parts, body) = answer.into_parts();
            if parts.status.is_client_error() || parts.status.is_server_error() {
                client.retry_after.set(&parts.headers, SystemTime::now());
            }
            let body = Box::new(body);
            Ok(BytesResponse { parts, body })
        })
    }
}

/// Ends the task that carries a connection, once the connection is not needed any more.
struct Carried(JoinHandle<()>);

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn exchange(
    tls: &TlsConnector,
    request: Request<BodyWrapper<Bytes>>,
) -> Result<Response<Bytes>, Failure> {
    let (host, port) = place(request.uri())?;
    let name = ServerName::try_from(host.clone())?;
    let socket = TcpStream::connect((host.as_str(), port)).await?;
    let stream = tls.connect(name, socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let _carried = Carried(tokio::spawn(async move {
        let _ = connection.await;
    }));
    let answer = sender.send_request(addressed(request)?).await?;
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_MAX).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

/// Host and port of a URL: only of HTTPS, whatever an authority names.
fn place(url: &Uri) -> Result<(String, u16), Failure> {
    let host = url.host().filter(|_| url.scheme_str() == Some("https"));
    let host = host.ok_or_else(|| format!("{url:?} is no URL that begins with https://"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok((host.to_owned(), url.port_u16().unwrap_or(443)))
}

/// Makes a request as it is sent to a server: its path alone, and the host in a field.
fn addressed<B>(mut request: Request<B>) -> Result<Request<B>, Failure> {
    let url = std::mem::take(request.uri_mut());
    let authority = url.authority().ok_or("a URL without a host")?;
    let host = HeaderValue::from_str(authority.as_str())?;
    let agent = request.headers().get(USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok()).unwrap_or("");
    let agent = HeaderValue::from_str(&format!("{AGENT}{agent}"))?;
    request.headers_mut().insert(USER_AGENT, agent);
    request.headers_mut().insert(HOST, host);
    let path = url.path_and_query().map_or("/", PathAndQuery::as_str);
    *request.uri_mut() = path.parse()?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_gone_to() {
        let of = |url: &str| place(&url.parse().unwrap()).ok();
        assert_eq!(of("https://ca.lan/x"), Some(("ca.lan".to_owned(), 443)));
        assert_eq!(of("https://[::1]:14000/"), Some(("::1".to_owned(), 14000)));
        assert_eq!(of("http://ca.lan/x"), None);
        assert_eq!(of("/x"), None);
    }

    #[test]
    fn a_request_names_its_host_in_a_field_and_its_path_in_the_line() {
        let request = Request::get("https://ca.lan:9000/dir?x=1")
            .body(())
            .unwrap();
        let request = addressed(request).unwrap();
        assert_eq!(request.uri(), "/dir?x=1");
        assert_eq!(request.headers()[HOST], "ca.lan:9000");
        let agent = request.headers()[USER_AGENT].to_str().unwrap();
        assert!(agent.starts_with("scrim/"), "{agent}");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let hear = |text: &'static str| {
            let retry_after = RetryAfter::default();
            let headers = [(RETRY_AFTER, HeaderValue::from_static(text))];
            retry_after.set(&headers.into_iter().collect(), now);
            retry_after.take(now)
        };
        assert_eq!(hear("120"), Some(Duration::from_secs(120)));
        let date = "Sun, 09 Sep 2001 01:47:40 GMT";
        assert_eq!(hear(date), Some(Duration::from_secs(60)));
        for nothing in ["", "soon", "-1", "Sat, 01 Jan 2000 00:00:00 GMT"] {
            assert_eq!(hear(nothing), None, "{nothing}");
        }
    }
}
