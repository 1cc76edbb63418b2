//! NBD URIs of listening sockets.

use crate::listener::Listener;

impl Listener {
    /// The NBD URI by which clients reach `export` here; an empty name is the default export.
    #[must_use]
    pub fn uri(&self, export: &str) -> String {
        match self.tls() {
            None => self.address().uri(export),
            Some(_) => self.address().tls_uri(export),
        }
    }
}
