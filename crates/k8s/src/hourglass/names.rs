//! Names of child objects and values of labels, which are deterministic and legal for any name that an object may have. Owns these formulas.

use orlop_core::name::{sha256_hex, short63};

/// The longest DNS label.
const LABEL: usize = 63;
/// The longest object name that is taken over into names of children other than Pods and Services.
const VERBATIM: usize = 230;
/// Hexadecimal digits of a hash in a name, with their dash.
const HASHED: usize = 9;

/// `<prefix>-<name>` as a DNS-1035 label of so many characters at most.
fn label(prefix: &str, name: &str, limit: usize) -> String {
    let whole = format!("{prefix}-{name}");
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if whole.len() <= limit && whole.chars().all(legal) && !whole.ends_with('-') {
        return whole;
    }
    let head: String = whole.chars().map(|c| if legal(c) { c } else { '-' }).take(limit - HASHED).collect();
    format!("{}-{}", head.trim_end_matches('-'), sha256_hex(name.as_bytes(), 8))
}

/// A Service or Pod: `<prefix>-<name>` as a DNS-1035 label.
#[must_use]
pub fn service(prefix: &str, name: &str) -> String {
    label(prefix, name, LABEL)
}

/// The pod of an incarnation of a performer: that of its Service for the first one, with a hash of uid and number after.
#[must_use]
pub fn incarnation(name: &str, uid: &str, number: u32) -> String {
    if number <= 1 {
        return service("performer", name);
    }
    let hash = sha256_hex(format!("{uid}/{number}").as_bytes(), HASHED - 1);
    format!("{}-{hash}", label("performer", name, LABEL - HASHED))
}

/// What names of other children begin with.
#[must_use]
pub fn base(name: &str) -> String {
    if name.len() <= VERBATIM {
        return name.to_owned();
    }
    let head: String = name.chars().take(VERBATIM - HASHED).collect();
    format!("{}-{}", head.trim_end_matches(['-', '.']), sha256_hex(name.as_bytes(), 8))
}

/// The name of an object as the value of a label.
#[must_use]
pub fn label_value(name: &str) -> String {
    short63(name)
}

/// The address of a service as the value of a label; none where nothing of it is legal.
#[must_use]
pub(crate) fn address_value(address: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let lower = address.to_lowercase();
    let text: String = lower.chars().map(|c| if legal(c) { c } else { '-' }).take(LABEL).collect();
    let text = text.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{dns1123_label, dns1123_subdomain, label_value as legal_value};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_names_are_taken_over_and_long_ones_are_cut_and_hashed() {
        assert_eq!(service("performer", "avs"), "performer-avs");
        insta::assert_snapshot!(service("performer", "a.b"), @"performer-a-b-2e7336dc");
        let long = "x".repeat(60);
        assert_eq!(service("executor", &long).len(), 63);
        assert_eq!(incarnation("avs", "u", 1), "performer-avs");
        insta::assert_snapshot!(incarnation("avs", "u", 2), @"performer-avs-bfcf0795");
        assert_eq!(incarnation(&long, "u", 2).len(), 63);
        assert_eq!((base("n"), base(&long.repeat(4)).len()), ("n".to_owned(), 230));
    }

    #[test]
    fn addresses_become_legal_label_values_or_none() {
        assert_eq!(address_value("0xABcd").as_deref(), Some("0xabcd"));
        assert_eq!(address_value("  Ä/x!").as_deref(), Some("x"));
        assert_eq!(address_value("///"), None);
    }

    proptest! {
        #[test]
        fn every_name_is_legal_and_a_function_of_its_object(
            name in "[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?", uid in "[0-9a-f-]{1,36}", number in 1_u32..9,
        ) {
            let names = [service("performer", &name), service("executor", &name), incarnation(&name, &uid, number)];
            for made in &names {
                prop_assert!(dns1123_label(made).is_ok() && made.starts_with(|c: char| c.is_ascii_lowercase()), "{made}");
            }
            prop_assert_ne!(incarnation(&name, &uid, number), incarnation(&name, &uid, number + 1));
            // Names of objects may have empty parts here that an API server refuses.
            if dns1123_subdomain(&name).is_ok() {
                let made = format!("performer-{}-0123456789", base(&name));
                prop_assert!(dns1123_subdomain(&made).is_ok(), "{}", made);
            }
            prop_assert!(legal_value(&label_value(&name)).is_ok());
        }

        #[test]
        fn any_address_gives_a_legal_label_or_none(address in "\\PC{0,200}") {
            if let Some(value) = address_value(&address) {
                prop_assert!(legal_value(&value).is_ok(), "{value}");
            }
        }
    }
}
