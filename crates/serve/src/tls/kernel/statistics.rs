//! The kernel's counters of TLS connections.

/// Open TLS connections and faults of all programs in this network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Connections whose sent records the CPU encrypts.
    pub send_software: u64,
    /// Connections whose received records the CPU decrypts.
    pub receive_software: u64,
    /// Connections whose sent records a network card encrypts.
    pub send_device: u64,
    /// Connections whose received records a network card decrypts.
    pub receive_device: u64,
    /// Records whose tag was wrong, since the namespace was made.
    pub decrypt_errors: u64,
}

impl Statistics {
    /// Reads the kernel's counters; `None` if the kernel has no TLS.
    #[must_use]
    pub fn read() -> Option<Self> {
        std::fs::read_to_string("/proc/net/tls_stat")
            .ok()
            .map(|text| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let place = match words.next() {
                Some("TlsCurrTxSw") => &mut found.send_software,
                Some("TlsCurrRxSw") => &mut found.receive_software,
                Some("TlsCurrTxDevice") => &mut found.send_device,
                Some("TlsCurrRxDevice") => &mut found.receive_device,
                Some("TlsDecryptError") => &mut found.decrypt_errors,
                _ => continue,
            };
            *place = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_told_apart_by_who_makes_their_records() {
        let text = "TlsCurrTxSw                     \t3\nTlsCurrRxSw\t2\nTlsCurrTxDevice\t1\n\
                    TlsCurrRxDevice\tx\nTlsTxSw\t99\nTlsDecryptError\t4\nTlsNew\n";
        let wanted = Statistics {
            send_software: 3,
            receive_software: 2,
            send_device: 1,
            receive_device: 0,
            decrypt_errors: 4,
        };
        assert_eq!(Statistics::parse(text), wanted);
        assert_eq!(Statistics::parse(""), Statistics::default());
    }
}
