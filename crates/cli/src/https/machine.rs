//! Addresses and names by which other machines reach this one.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Scope of a global address in `/proc/net/if_inet6` (`IPV6_ADDR_ANY` in the kernel's `net/ipv6.h`).
const GLOBAL: &str = "00";

/// Addresses of this machine's interfaces, without loopback and link-local ones: those of IPv4 first.
pub(crate) fn addresses() -> Vec<IpAddr> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let of_4 = in_fib_trie(&read("/proc/net/fib_trie"));
    let of_6 = in_if_inet6(&read("/proc/net/if_inet6"));
    let of_4 = of_4.into_iter().map(IpAddr::V4);
    of_4.chain(of_6.into_iter().map(IpAddr::V6)).collect()
}

/// Names for a certificate by which machines on the same network may call this one: its own name, with `.local` too
/// (RFC 6762), and its addresses.
pub(crate) fn names() -> Vec<String> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    let is_of_dns = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    let mut names = Vec::new();
    if !name.is_empty() && name.chars().all(is_of_dns) {
        let first = name.split('.').next().unwrap_or_default();
        names.extend([name.to_string(), format!("{first}.local")]);
    }
    names.extend(addresses().iter().map(ToString::to_string));
    names
}

/// Local addresses in `/proc/net/fib_trie`: each follows a line with `|--`, and the next line says what it is.
fn in_fib_trie(text: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) =
                last.filter(|a: &Ipv4Addr| !a.is_loopback() && !a.is_link_local())
            && !found.contains(&address)
        {
            // The table "main" repeats those of the table "local".
            found.push(address);
        }
    }
    found
}

/// Global addresses in `/proc/net/if_inet6`: 32 hexadecimal digits, index, length of the prefix, scope, flags, interface.
fn in_if_inet6(text: &str) -> Vec<Ipv6Addr> {
    let address = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[digits, _, _, GLOBAL, ..] = words.as_slice() else {
            return None;
        };
        u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from)
    };
    text.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::{in_fib_trie, in_if_inet6};

    #[test]
    fn only_addresses_that_others_reach_are_found() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n           \
                    |-- 127.0.0.1\n              /32 host LOCAL\n           |-- 192.0.2.2\n              \
                    /32 host LOCAL\n        |-- 192.0.2.255\n           /32 link BROADCAST\n           \
                    |-- 169.254.0.1\n              /32 host LOCAL\nLocal:\n           |-- 192.0.2.2\n              \
                    /32 host LOCAL\n";
        let found: Vec<_> = in_fib_trie(trie).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.2"]);
        let text = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    20010db8000000000000000000000002 04 40 00 82     eth0\n\
                    fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n";
        let found: Vec<_> = in_if_inet6(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["2001:db8::2"]);
        assert!(in_if_inet6("x\n\u{e4} 1 2 00").is_empty());
    }
}
