//! Devices of models that no table knows, by their exact names. Owns what such a name may be, how labels and claims spell it, and
//! when a device has it; never guesses at what a name means.

use std::collections::BTreeSet;

use super::Vendor;
use crate::id::{Rule, label_value, text_id};
use crate::named::Named as _;

text_id! {
    /// The exact name of a device, without its maker's before it: 1 to 128 printable characters of ASCII.
    pub struct DeviceName(|text: &str| NAME.check(text));
}

const NAME: Rule = Rule {
    what: "GPU name",
    max: 128,
    inner: |ch| ch.is_ascii_graphic() || ch == ' ',
    edge: |ch| ch.is_ascii_alphanumeric() || matches!(ch, ')' | ']' | '+'),
    allowed: "printable characters of ASCII",
    edges: "a letter, digit, `)`, `]` or `+`",
    separator: None,
};

/// What separates the words of a name.
const SEPARATORS: [char; 3] = ['-', '_', ' '];

/// A name without its maker's before it, which makes it no other name.
pub(super) fn without_maker(text: &str) -> &str {
    let Some((first, rest)) = text.split_once(SEPARATORS) else { return text };
    let is_maker = Vendor::from_name(&first.to_ascii_lowercase()).is_some();
    let rest = rest.trim_start_matches(SEPARATORS);
    if is_maker && !rest.is_empty() { rest } else { text }
}

/// The words of a name, whatever separates them.
fn words(name: &str) -> impl Iterator<Item = &str> + Clone {
    name.split(SEPARATORS).filter(|word| !word.is_empty())
}

/// The name in a name as lists of PCI ids have it, `GA100 [A100 PCIe 80GB]`, where it is that of one product.
fn listed(name: &str) -> &str {
    let inner = name.split_once(" [").and_then(|(_, rest)| rest.strip_suffix(']'));
    inner.filter(|inner| !inner.contains('/')).unwrap_or(name)
}

impl DeviceName {
    /// Whether a device of a vendor bears this name: letter by letter, its maker's name before it and separators of words aside.
    #[must_use]
    pub fn is_of(&self, vendor: Vendor, device: &str) -> bool {
        let same = |device: &str| {
            let mut rest = words(device).peekable();
            words(self.as_str()).eq(rest.clone())
                || rest.next_if(|first| first.eq_ignore_ascii_case(vendor.as_str())).is_some()
                    && words(self.as_str()).eq(rest)
        };
        same(device) || same(listed(device))
    }

    /// The values that a label of the vendor's product has for it; none where no label can.
    #[must_use]
    pub(in crate::hardware) fn label_values(&self, vendor: Vendor) -> BTreeSet<String> {
        let (blank, maker) = match vendor {
            Vendor::Nvidia => ("-", Some("NVIDIA-")),
            Vendor::Amd => ("_", Some("AMD_")),
            Vendor::Intel => ("_", None),
        };
        let bare = self.as_str().replace(' ', blank);
        let with_maker = maker.map(|maker| format!("{maker}{bare}"));
        [Some(bare), with_maker].into_iter().flatten().filter(|value| label_value(value).is_ok()).collect()
    }

    /// What the driver of a vendor may call it in claims: as it is given, or as the label that is given was made from.
    #[must_use]
    pub(in crate::hardware) fn claim_names(&self, vendor: Vendor) -> BTreeSet<String> {
        let given = self.as_str();
        let bare = match vendor {
            Vendor::Nvidia => BTreeSet::from([given.to_owned(), given.replace(['-', '_'], " ")]),
            Vendor::Amd => BTreeSet::from([given.replace(' ', "_")]),
            Vendor::Intel => BTreeSet::from([given.to_owned(), given.replace('_', " ")]),
        };
        let with_maker = |name: &String| match vendor {
            Vendor::Nvidia => Some(format!("NVIDIA {name}")),
            Vendor::Amd => Some(format!("AMD_{name}")),
            Vendor::Intel => None,
        };
        let makers: Vec<String> = bare.iter().filter_map(with_maker).collect();
        bare.into_iter().chain(makers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_bears_a_name_letter_by_letter() {
        let name: DeviceName = "RTX 5880 Ada".parse().unwrap();
        for device in ["RTX 5880 Ada", "NVIDIA RTX 5880 Ada", "NVIDIA-RTX-5880-Ada", "AD102GL [RTX 5880 Ada]"] {
            assert!(name.is_of(Vendor::Nvidia, device), "{device}");
        }
        for device in
            ["RTX 5880", "RTX 5880 Ada 2", "rtx 5880 ada", "AMD RTX 5880 Ada", "AD102GL [RTX 5880 Ada/5890]", ""]
        {
            assert!(!name.is_of(Vendor::Nvidia, device), "{device}");
        }
    }

    #[test]
    fn labels_and_claims_spell_a_name_as_their_writers_do() {
        let name = |text: &str| text.parse::<DeviceName>().unwrap();
        let labels = |text, vendor| name(text).label_values(vendor).into_iter().collect::<Vec<_>>().join(", ");
        assert_eq!(labels("RTX 5880 Ada", Vendor::Nvidia), "NVIDIA-RTX-5880-Ada, RTX-5880-Ada");
        assert_eq!(labels("Instinct MI400X", Vendor::Amd), "AMD_Instinct_MI400X, Instinct_MI400X");
        assert_eq!(labels("Max 1750", Vendor::Intel), "Max_1750");
        assert_eq!(labels("Foo (2 Tile)", Vendor::Nvidia), "");
        let claims = |text, vendor| name(text).claim_names(vendor).into_iter().collect::<Vec<_>>().join(", ");
        assert_eq!(claims("RTX-5880", Vendor::Nvidia), "NVIDIA RTX 5880, NVIDIA RTX-5880, RTX 5880, RTX-5880");
        assert_eq!(claims("Instinct MI400X", Vendor::Amd), "AMD_Instinct_MI400X, Instinct_MI400X");
        assert_eq!(claims("Max_1750", Vendor::Intel), "Max 1750, Max_1750");
    }

    #[test]
    fn a_name_is_printable_and_has_128_bytes_at_most() {
        for text in ["", " a", "a ", "a\tb", "é", "[A100]", &"a".repeat(129)] {
            assert!(text.parse::<DeviceName>().is_err(), "{text}");
        }
        assert!("a".repeat(128).parse::<DeviceName>().is_ok());
        assert_eq!(without_maker("NVIDIA Foo 3"), "Foo 3");
        assert_eq!((without_maker("nvidia"), without_maker("Tesla Foo")), ("nvidia", "Tesla Foo"));
    }
}
