//! Accelerator cards by name: memory, maker, generation. Owns which names count and how they are found in
//! text; what a device is stands in the table of devices, and which card is needed is decided elsewhere.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use orlop_core::hardware::gpu::{Catalogue, Form, Vendor};

use super::version::Version;

/// A card as people name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Its name in lower case without blanks and dashes.
    pub key: &'static str,
    /// Who makes it.
    pub vendor: Vendor,
    /// Memory in GB where nothing else is written.
    pub memory_gb: u32,
    /// Further sizes it is sold with, counted only when written beside the name.
    pub also_gb: Vec<u32>,
    /// The compute capability of an NVIDIA card.
    pub capability: Option<Version>,
}

impl Card {
    /// Whether it is older than what present libraries support (compute capability under 7.0).
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.capability.is_some_and(|capability| capability < Version::new(7, 0))
    }

    /// Whether its name has no other meaning, so that it may be found in prose by itself.
    pub(crate) fn stands_alone(&self) -> bool {
        !matches!(
            self.key,
            "a2" | "p4"
                | "t4"
                | "a10"
                | "a30"
                | "a40"
                | "l4"
                | "p40"
                | "m40"
                | "3060"
                | "3070"
                | "3080"
                | "3090"
                | "4080"
                | "4090"
                | "5090"
        )
    }
}

/// How texts name cards, and the compute capability of NVIDIA's; a longer name stands before a shorter one that it begins with. What a
/// card is stands in the table of devices.
const NAMES: &[(&str, Option<(u32, u32)>)] = &[
    ("rtx6000ada", Some((8, 9))),
    ("rtx6000", Some((7, 5))),
    ("rtx8000", Some((7, 5))),
    ("titanrtx", Some((7, 5))),
    ("titanv", Some((7, 0))),
    ("1080ti", Some((6, 1))),
    ("2080ti", Some((7, 5))),
    ("3060", Some((8, 6))),
    ("3070", Some((8, 6))),
    ("3080", Some((8, 6))),
    ("3090", Some((8, 6))),
    ("4080", Some((8, 9))),
    ("4090", Some((8, 9))),
    ("5090", Some((12, 0))),
    ("t4", Some((7, 5))),
    ("p40", Some((6, 1))),
    ("p4", Some((6, 1))),
    ("p100", Some((6, 0))),
    ("v100", Some((7, 0))),
    ("k80", Some((3, 7))),
    ("m40", Some((5, 2))),
    ("a2", Some((8, 6))),
    ("a100", Some((8, 0))),
    ("a10", Some((8, 6))),
    ("a30", Some((8, 0))),
    ("a4000", Some((8, 6))),
    ("a40", Some((8, 6))),
    ("a5000", Some((8, 6))),
    ("a6000", Some((8, 6))),
    ("h100nvl", Some((9, 0))),
    ("h100", Some((9, 0))),
    ("h200", Some((9, 0))),
    ("b200", Some((10, 0))),
    ("l40s", Some((8, 9))),
    ("l40", Some((8, 9))),
    ("l4", Some((8, 9))),
    ("mi50", None),
    ("mi60", None),
    ("mi100", None),
    ("mi210", None),
    ("mi250x", None),
    ("mi250", None),
    ("mi300x", None),
    ("mi325x", None),
    ("mi355x", None),
    ("max1550", None),
];

/// Every card with a name in texts; a longer name stands before a shorter one that it begins with.
pub static CARDS: LazyLock<Vec<Card>> = LazyLock::new(|| {
    let card = |&(key, capability): &(&'static str, Option<(u32, u32)>)| {
        // A product with its own name.
        let (model, form) = key.strip_suffix("nvl").map_or((key, None), |model| (model, Some(Form::Nvl)));
        let model = Catalogue::built_in().model(model)?;
        let form: BTreeSet<Form> = form.into_iter().collect();
        let products = model.products.iter().filter(|product| product.has_form(&form));
        let mut sizes: Vec<u32> = products.map(|product| product.memory_gib).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let (memory_gb, also_gb) = sizes.split_first()?;
        let capability = capability.map(|(major, minor)| Version::new(major, minor));
        Some(Card { key, vendor: model.vendor, memory_gb: *memory_gb, also_gb: also_gb.to_vec(), capability })
    };
    NAMES.iter().filter_map(card).collect()
});

/// A card found in text, with the memory written beside it and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CardMention {
    /// Which card.
    pub card: &'static Card,
    /// Memory of one in GB.
    pub memory_gb: u32,
    /// How many, if a number stands before it.
    pub count: Option<u32>,
}

/// The card of a text that names one thing, such as a model in a host list; the longest name counts.
#[must_use]
pub fn by_model(text: &str) -> Option<&'static Card> {
    let words: Vec<String> = text
        .split(|ch: char| !ch.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let squeezed = words.concat();
    // Where a word begins in it: what stands before and after such a place is not one number.
    let starts: Vec<usize> = words
        .iter()
        .scan(0, |at, word| {
            let start = *at;
            *at += word.len();
            Some(start)
        })
        .collect();
    CARDS.iter().find(|card| {
        squeezed.match_indices(card.key).any(|(at, _)| {
            let end = at + card.key.len();
            let before = squeezed.get(..at).and_then(|text| text.chars().next_back());
            let after = squeezed.get(end..).and_then(|text| text.chars().next());
            // `a10` is not in `a100`, `3080` not in `13080`; `H100` is in `H100 80GB`.
            let is_digit = |ch: Option<char>, place: usize| {
                ch.is_some_and(|ch| ch.is_ascii_digit()) && starts.binary_search(&place).is_err()
            };
            let is_number = card.key.starts_with(|ch: char| ch.is_ascii_digit());
            let cut = is_digit(after, end) || (is_number && is_digit(before, at));
            !cut
        })
    })
}

/// Words of a sentence: runs of letters and digits, in lower case.
fn words(text: &str) -> Vec<String> {
    let spaced = text.replace('×', " × ");
    let split = spaced.split(|ch: char| !(ch.is_ascii_alphanumeric() || ch == '×'));
    split.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Names that make an otherwise common word a card.
const MAKERS: [&str; 14] = [
    "nvidia", "tesla", "geforce", "gtx", "rtx", "quadro", "gpu", "gpus", "card", "cards", "titan", "amd", "instinct",
    "graphics",
];

/// Every card a sentence names.
#[must_use]
pub fn find(sentence: &str) -> Vec<CardMention> {
    let words = words(sentence);
    let has_maker = words.iter().any(|word| MAKERS.contains(&word.as_str()));
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let hit = (1..=4).rev().find_map(|length| {
            let window = words.get(at..at + length)?;
            // Every name has a digit, but for one line of cards.
            if !window.iter().any(|word| word == "titan" || word.bytes().any(|b| b.is_ascii_digit())) {
                return None;
            }
            let joined = window.concat();
            let card = named(&joined)?;
            (card.stands_alone() || has_maker || joined != card.key).then_some((card, length))
        });
        let Some((card, length)) = hit else {
            at += 1;
            continue;
        };
        found.push(CardMention { card, memory_gb: memory(card, &words, at, length), count: count(&words, at) });
        at += length;
    }
    found
}

/// The card of these letters, with or without the names of its maker and line in front, and the form after it.
fn named(joined: &str) -> Option<&'static Card> {
    let mut rest = joined;
    for front in ["nvidia", "amd", "intel", "tesla", "instinct", "geforce", "quadro", "datacenter", "gpu"] {
        rest = rest.strip_prefix(front).unwrap_or(rest);
    }
    let exact = |name: &str| CARDS.iter().find(|card| card.key == name);
    exact(rest).or_else(|| {
        let bare = rest.strip_prefix("rtx").or_else(|| rest.strip_prefix("gtx")).unwrap_or(rest);
        let bare = ["sxm2", "sxm3", "sxm4", "sxm5", "sxm", "pcie", "s"]
            .iter()
            .find_map(|end| bare.strip_suffix(end))
            .unwrap_or(bare);
        let bare =
            ["80gb", "40gb", "32gb", "16gb", "94gb"].iter().find_map(|end| bare.strip_suffix(end)).unwrap_or(bare);
        exact(bare)
    })
}

/// Memory written within two words of the name, if the card is sold so; else its usual size.
fn memory(card: &Card, words: &[String], at: usize, length: usize) -> u32 {
    let from = at.saturating_sub(2);
    let near = words.get(from..(at + length + 3).min(words.len())).unwrap_or_default();
    let sizes = near.iter().enumerate().filter_map(|(index, word)| {
        let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
        let unit = word.get(digits.len()..)?;
        let unit = if unit.is_empty() { near.get(index + 1).map_or("", String::as_str) } else { unit };
        ["gb", "g", "gib"].contains(&unit).then(|| digits.parse::<u32>().ok()).flatten()
    });
    let tail = near.iter().filter_map(|word| {
        card.also_gb.iter().copied().find(|size| word.starts_with(card.key) && word.contains(&format!("{size}gb")))
    });
    let sxm94 = near.iter().any(|word| word == "sxm94").then_some(94);
    sizes.chain(tail).chain(sxm94).filter(|size| card.also_gb.contains(size)).max().unwrap_or(card.memory_gb)
}

/// The number before a name: `4x`, `4 x`, `4×`, `x4` after it is not looked for; a bare number counts too.
fn count(words: &[String], at: usize) -> Option<u32> {
    let before = |back: usize| at.checked_sub(back).and_then(|index| words.get(index)).map(String::as_str);
    let mut back = 1;
    while before(back).is_some_and(|word| MAKERS.contains(&word)) {
        back += 1;
    }
    let word = before(back)?;
    let times = |word: &str| word == "x" || word == "×";
    let digits = if times(word) { before(back + 1)? } else { word.trim_end_matches(['x', '×']) };
    let number = match digits {
        "one" | "single" | "a" | "an" => 1,
        "two" | "dual" => 2,
        "four" => 4,
        "eight" => 8,
        digits => digits.parse().ok()?,
    };
    (1..=64).contains(&number).then_some(number)
}

/// Whether drivers that have this CUDA still drive a card of this capability. A driver runs programs of every older CUDA, so
/// what is asked for is a minimum: only a card that drivers have left behind is out.
#[must_use]
pub fn drives(cuda: Version, capability: Version) -> bool {
    newest(capability).is_none_or(|newest| cuda <= newest)
}

/// The newest CUDA whose drivers drive a card of this capability; none where they all do.
#[must_use]
pub fn newest(capability: Version) -> Option<Version> {
    match (capability.major, capability.minor) {
        (0..=3, _) => Some(Version::new(11, 8)),
        (4..=6, _) | (7, 0..=4) => Some(Version::new(12, u32::MAX)),
        _ => None,
    }
}

/// Whether a CUDA version knows cards of this capability; binaries of an older one may have to be compiled anew.
#[must_use]
pub fn knows(cuda: Version, capability: Version) -> bool {
    let first = match (capability.major, capability.minor) {
        (0..=6, _) => return true,
        (7, 0..=4) => Version::new(9, 0),
        (7, _) => Version::new(10, 0),
        (8, 0..=5) => Version::new(11, 0),
        (8, 6..=8) => Version::new(11, 1),
        (8 | 9, _) => Version::new(11, 8),
        _ => Version::new(12, 8),
    };
    cuda >= first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(text: &str) -> String {
        let found = find(text).into_iter();
        found.map(|f| format!("{}x{}@{}", f.count.unwrap_or(0), f.card.key, f.memory_gb)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn cards_are_found_by_any_usual_spelling() {
        let cases = [
            ("an NVIDIA Tesla T4", "1xt4@16"),
            ("NVIDIA V100", "0xv100@16"),
            ("V100 32GB", "0xv100@32"),
            ("a V100 (32 GB)", "1xv100@32"),
            ("A100", "0xa100@40"),
            ("A100-80GB", "0xa100@80"),
            ("8 x A100 80GB SXM4", "8xa100@80"),
            ("80GB A100", "0xa100@80"),
            ("4x NVIDIA A100", "4xa100@40"),
            ("4×A6000", "4xa6000@48"),
            ("H100 NVL", "0xh100nvl@94"),
            ("H100 SXM94", "0xh100@94"),
            ("Quadro RTX 6000", "0xrtx6000@24"),
            ("RTX 6000 Ada", "0xrtx6000ada@48"),
            ("RTX 3090", "0x3090@24"),
            ("GeForce RTX 2080 Ti", "0x2080ti@11"),
            ("GTX 1080Ti", "0x1080ti@11"),
            ("TITAN RTX", "0xtitanrtx@24"),
            ("AMD MI250X", "0xmi250x@64"),
            ("two MI210 cards", "2xmi210@64"),
            ("L40S GPU", "0xl40s@48"),
            ("Intel Max 1550", "0xmax1550@128"),
            ("either a V100 or an RTX 3090", "1xv100@16 1x3090@24"),
            ("see section A2 of the paper", ""),
            ("port 3090 must be open", ""),
            ("A1000 times", ""),
        ];
        for (text, wanted) in cases {
            assert_eq!(reported(text), wanted, "{text}");
        }
    }

    #[test]
    fn every_card_of_the_table_has_its_memory() {
        let table = CARDS.iter().map(|card| format!("{} {}", card.key, card.memory_gb)).collect::<Vec<_>>().join(" · ");
        insta::assert_snapshot!(table, @"rtx6000ada 48 · rtx6000 24 · rtx8000 48 · titanrtx 24 · titanv 12 · 1080ti 11 · 2080ti 11 · 3060 12 · 3070 8 · 3080 10 · 3090 24 · 4080 16 · 4090 24 · 5090 32 · t4 16 · p40 24 · p4 8 · p100 16 · v100 16 · k80 12 · m40 12 · a2 16 · a100 40 · a10 24 · a30 24 · a4000 16 · a40 48 · a5000 24 · a6000 48 · h100nvl 94 · h100 80 · h200 141 · b200 180 · l40s 48 · l40 48 · l4 24 · mi50 16 · mi60 32 · mi100 32 · mi210 64 · mi250x 64 · mi250 64 · mi300x 192 · mi325x 256 · mi355x 288 · max1550 128");
        assert!(
            CARDS
                .iter()
                .filter(|card| card.is_legacy())
                .map(|card| card.key)
                .eq(["1080ti", "p40", "p4", "p100", "k80", "m40"])
        );
    }

    #[test]
    fn a_model_of_a_host_list_is_one_card() {
        for (text, key) in [
            ("RTX 6000", "rtx6000"),
            ("Quadro RTX 6000", "rtx6000"),
            ("NVIDIA A100-PCIE-80GB", "a100"),
            ("Tesla V100-SXM2-32GB", "v100"),
            ("A30", "a30"),
            ("MI100", "mi100"),
            ("H100 SXM5 94GB", "h100"),
            ("Intel Data Center GPU Max 1550", "max1550"),
            ("P100-PCIE", "p100"),
            ("H100 80GB", "h100"),
            ("A100-80GB PCIe", "a100"),
            ("GPU 1: 3080", "3080"),
        ] {
            assert_eq!(by_model(text).map(|card| card.key), Some(key), "{text}");
        }
        assert_eq!(by_model("Matrox G200"), None);
        assert_eq!(by_model(""), None);
    }

    #[test]
    fn a_cuda_is_a_minimum_and_a_card_may_be_newer_than_it_knows() {
        let v = Version::new;
        // Capability, the newest that drives it, one it is too old for, one that knows it, one that does not.
        let rows = [
            (v(3, 7), Some(v(11, 8)), Some(v(12, 0)), v(8, 0), None),
            (v(5, 2), Some(v(12, 9)), Some(v(13, 0)), v(8, 0), None),
            (v(6, 1), Some(v(12, 9)), Some(v(13, 0)), v(8, 0), None),
            (v(7, 0), Some(v(12, 9)), Some(v(13, 0)), v(9, 0), Some(v(8, 0))),
            (v(7, 5), Some(v(13, 0)), None, v(10, 0), Some(v(9, 2))),
            (v(8, 0), Some(v(13, 0)), None, v(11, 0), Some(v(10, 2))),
            (v(8, 6), Some(v(13, 0)), None, v(11, 1), Some(v(11, 0))),
            (v(8, 9), Some(v(13, 0)), None, v(11, 8), Some(v(11, 7))),
            (v(9, 0), Some(v(13, 0)), None, v(11, 8), Some(v(11, 7))),
            (v(10, 0), Some(v(13, 0)), None, v(12, 8), Some(v(12, 7))),
        ];
        for (capability, driven, left, known, unknown) in rows {
            assert!(driven.is_none_or(|cuda| drives(cuda, capability)), "{capability}");
            assert!(left.is_none_or(|cuda| !drives(cuda, capability)), "{capability}");
            assert!(knows(known, capability) && unknown.is_none_or(|cuda| !knows(cuda, capability)), "{capability}");
            assert!(unknown.is_none_or(|cuda| drives(cuda, capability)), "{capability}: an older CUDA runs");
        }
    }
}
