//! Lists of the addresses that a site admits.

use std::collections::HashMap;
use std::net::IpAddr;

use super::prefix::{Family, Prefix};

/// Lists of prefixes that are allowed and denied. The longest prefix that has an address decides. An address without
/// one is admitted, unless there is a list of allowed ones.
#[derive(Debug, Clone, Default)]
pub struct AddressRules {
    /// Rules by family and length of their prefixes; the longest come first.
    rules: Vec<Rules>,
    /// True if something is allowed, and thus other addresses are not.
    allows_some: bool,
}

/// Rules whose prefixes have the same length.
#[derive(Debug, Clone)]
struct Rules {
    family: Family,
    length: u8,
    /// True by prefix if it is allowed.
    allowed: HashMap<u128, bool>,
}

impl AddressRules {
    /// Makes rules of the lists.
    ///
    /// # Errors
    /// The first prefix that both lists have.
    pub fn new(allow: &[Prefix], deny: &[Prefix]) -> Result<Self, Prefix> {
        let mut rules: Vec<Rules> = Vec::new();
        let allow = allow.iter().map(|prefix| (prefix, true));
        for (prefix, is_allowed) in allow.chain(deny.iter().map(|prefix| (prefix, false))) {
            let Prefix {
                family,
                bits,
                length,
            } = *prefix;
            let of_length = |rules: &Rules| (rules.family, rules.length) == (family, length);
            let place = rules.iter().position(of_length).unwrap_or_else(|| {
                rules.push(Rules {
                    family,
                    length,
                    allowed: HashMap::new(),
                });
                rules.len() - 1
            });
            let former = rules[place].allowed.insert(bits, is_allowed);
            if former == Some(!is_allowed) {
                return Err(*prefix);
            }
        }
        rules.sort_by_key(|rules| std::cmp::Reverse(rules.length));
        let allows_some =
            (rules.iter()).any(|rules| rules.allowed.values().any(|&allowed| allowed));
        Ok(Self { rules, allows_some })
    }

    /// Returns whether all addresses are admitted.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns whether an address is admitted. This takes one look-up for each length of prefixes.
    pub(crate) fn admit(&self, address: IpAddr) -> bool {
        let (family, bits) = Family::of(address);
        let of_family = self.rules.iter().filter(|rules| rules.family == family);
        let mut found = of_family.filter_map(|rules| {
            let prefix = bits & family.mask(rules.length);
            rules.allowed.get(&prefix).copied()
        });
        found.next().unwrap_or(!self.allows_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(prefixes: &[&str]) -> Vec<Prefix> {
        let parsed = prefixes.iter().map(|text| (*text).to_owned().try_into());
        parsed.collect::<Result<_, _>>().expect("prefixes")
    }

    fn admitted(allow: &[&str], deny: &[&str], address: &str) -> bool {
        let rules = AddressRules::new(&list(allow), &list(deny)).expect("rules");
        rules.admit(address.parse().expect("an address"))
    }

    #[test]
    fn without_an_allowed_prefix_all_but_the_denied_are_admitted() {
        let deny = ["10.0.0.0/8", "2001:db8::/32"];
        for (address, is_admitted) in [
            ("10.1.2.3", false),
            ("::ffff:10.1.2.3", false),
            ("11.0.0.0", true),
            ("2001:db8:7::1", false),
            ("2001:db9::1", true),
            // The same bits in the other family.
            ("::a01:203", true),
        ] {
            assert_eq!(admitted(&[], &deny, address), is_admitted, "{address}");
        }
    }

    #[test]
    fn with_an_allowed_prefix_only_such_addresses_are_admitted() {
        let allow = ["10.0.0.0/8", "fd00::/8"];
        for (address, is_admitted) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("192.0.2.1", false),
            ("fd12::1", true),
            ("fe80::1", false),
            ("::1", false),
        ] {
            assert_eq!(admitted(&allow, &[], address), is_admitted, "{address}");
        }
        // An allowed prefix of one family admits nothing of the other.
        assert!(!admitted(&["0.0.0.0/0"], &[], "2001:db8::1"));
        assert!(!admitted(&["::/0"], &[], "192.0.2.1"));
    }

    #[test]
    fn the_longest_prefix_decides() {
        let (allow, deny) = (["10.0.0.0/8", "10.1.2.3"], ["10.1.0.0/16", "0.0.0.0/0"]);
        for (address, is_admitted) in [
            ("10.2.0.1", true),
            ("10.1.0.1", false),
            ("10.1.2.3", true),
            ("192.0.2.1", false),
        ] {
            assert_eq!(admitted(&allow, &deny, address), is_admitted, "{address}");
        }
    }

    #[test]
    fn a_prefix_in_both_lists_is_refused() {
        let both = list(&["10.0.0.0/8"]);
        let refused = AddressRules::new(&both, &list(&["::/0", "10.0.0.0/8"]));
        assert_eq!(refused.err(), Some(both[0]));
        assert!(AddressRules::new(&[both[0], both[0]], &[]).is_ok());
    }
}
