//! Quantities of a sentence: sizes and what they are of, cores, cards, parameters of models.

use super::super::super::card;
use super::super::super::fact::{Finding, Sink, Strength};
use super::{CountedSentence, Token};

/// What a size is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Ram,
    Vram,
    Disk,
}

/// A size as people write it: 1 TB of memory is 1024 GiB, 1 TB of disk 1000 GB.
#[derive(Debug, Clone, Copy)]
struct Size {
    binary: f64,
    decimal: f64,
}

impl Size {
    fn of(number: f64, unit: &str) -> Option<Self> {
        let (binary, decimal) = match unit {
            "gb" | "gib" | "g" => (1.0, 1.0),
            "tb" | "tib" => (1024.0, 1000.0),
            "mb" | "mib" => (1.0 / 1024.0, 0.001),
            _ => return None,
        };
        Some(Self { binary: number * binary, decimal: number * decimal })
    }
}

impl CountedSentence<'_> {
    pub(super) fn quantities(&self, sink: &mut Sink<'_>) {
        let mut last = None;
        let is_worked_out = (0..self.tokens.len()).any(|index| self.is_worked_out(index));
        for (index, token) in self.tokens.iter().enumerate() {
            let Token::Number(number) = *token else { continue };
            let unit_at =
                if matches!(self.tokens.get(index + 1), Some(Token::Mark('-'))) { index + 2 } else { index + 1 };
            let Some(unit) = self.word(unit_at) else { continue };
            if let Some(size) = Size::of(number, unit) {
                // `16 GB of RAM, ideally 32 GB`: the second is of what the first is.
                let of = self
                    .size_of(unit_at, index)
                    .or(last.filter(|_| self.is_ideal(index) || self.is_for_model(unit_at)));
                if let Some(of) = of {
                    last = Some(of);
                    self.size(of, size, unit_at, index, sink);
                }
            } else if self.is_cores(unit, unit_at) {
                self.cores(number, index, sink);
            } else if ["gpu", "gpus"].contains(&unit) && (1.0..=64.0).contains(&number) {
                self.wish("readme-gpu-count", Finding::GpuCount(number as u32), sink);
            } else if unit == "b" && !is_worked_out && !self.is_sized() {
                self.model(number, sink);
            }
        }
    }

    fn is_cores(&self, unit: &str, at: usize) -> bool {
        let next = self.word(at + 1).unwrap_or_default();
        ["core", "cores", "vcpu", "vcpus", "threads", "cpus"].contains(&unit)
            || ["cpu", "physical", "logical", "hardware", "processor"].contains(&unit)
                && ["core", "cores", "cpus", "threads"].contains(&next)
    }

    /// Cores, times how many processors: `2 x 16-core`.
    fn cores(&self, number: f64, index: usize, sink: &mut Sink<'_>) {
        let before = |back: usize| index.checked_sub(back).and_then(|index| self.tokens.get(index));
        let times = match (before(2), before(1)) {
            (Some(Token::Number(count)), Some(Token::Word("x") | Token::Mark('×' | '*'))) => *count,
            (_, Some(Token::Word("dual"))) => 2.0,
            _ => 1.0,
        };
        let cores = number * times;
        if (1.0..1e6).contains(&cores) {
            self.add("readme-cores", Finding::Cores(cores.ceil() as u32), sink);
        }
    }

    /// Whether memory is written out, so that none has to be worked out by parameters.
    fn is_sized(&self) -> bool {
        self.tokens.iter().enumerate().any(|(index, token)| {
            let Token::Number(number) = *token else { return false };
            let sized = self.word(index + 1).and_then(|unit| Size::of(number, unit));
            sized.is_some() && matches!(self.size_of(index + 1, index), Some(Of::Ram | Of::Vram))
        })
    }

    /// Whether a size is given for a model of so many parameters: `and 32 GB to run the 33B models`.
    fn is_for_model(&self, unit_at: usize) -> bool {
        let after = self.tokens.get(unit_at + 1..).unwrap_or_default();
        let near = after.get(..6).unwrap_or(after);
        matches!(near.first(), Some(Token::Word("to" | "for")))
            && near.windows(2).any(|pair| matches!(pair, [Token::Number(_), Token::Word("b")]))
    }

    /// Whether a number is what would be better still.
    fn is_ideal(&self, index: usize) -> bool {
        let mut before = index.saturating_sub(2)..index;
        before.any(|at| matches!(self.word(at), Some("ideally" | "preferably" | "better")))
    }

    fn size(&self, of: Of, size: Size, unit_at: usize, index: usize, sink: &mut Sink<'_>) {
        // In tables and brackets the smaller word decides: `16 GB (32 GB recommended)`.
        let soft = (unit_at + 1..unit_at + 3)
            .any(|at| self.word(at).is_some_and(|word| word.starts_with("recommend") || word.starts_with("prefer")));
        let strength = if soft || self.is_ideal(index) { self.strength.min(Strength::Target) } else { self.strength };
        let whole = if of == Of::Ram { size.binary } else { size.decimal }.ceil();
        if !(1.0..1e9).contains(&whole) {
            return;
        }
        let mut whole = whole as u32;
        let mut strength = strength;
        if self.is_worked_out(index) {
            strength = Strength::Weak;
        } else if of == Of::Vram && self.is_total() {
            // What all cards have together, over how many there are; without their number it says nothing of one.
            match self.card_count() {
                Some(count) => whole = whole.div_ceil(count),
                None => strength = Strength::Weak,
            }
        }
        let finding = match of {
            Of::Ram => Finding::Ram(whole),
            Of::Vram => Finding::Vram(whole),
            Of::Disk => Finding::Disk(whole),
        };
        sink.add(self.at, "readme-size", finding, (strength, self.confidence));
    }

    /// Whether a number is the end of a sum that is written out: `7 x 4 x 4 = 112 GB`.
    fn is_worked_out(&self, index: usize) -> bool {
        let before = |back: usize| index.checked_sub(back).and_then(|index| self.tokens.get(index));
        matches!(before(1), Some(Token::Mark('=' | '≈')))
            && matches!(before(2), Some(Token::Number(_) | Token::Mark(')')))
    }

    /// Whether sizes are of all cards together.
    fn is_total(&self) -> bool {
        [
            "in total",
            "total of",
            "altogether",
            "combined",
            "across all",
            "overall",
            "aggregate",
            "total gpu",
            "total vram",
        ]
        .iter()
        .any(|word| self.small.contains(word))
    }

    /// How many cards the sentence names.
    fn card_count(&self) -> Option<u32> {
        let named = card::find(self.small).into_iter().find_map(|found| found.count);
        let plain = self.tokens.windows(2).find_map(|pair| match pair {
            [Token::Number(count), Token::Word("gpu" | "gpus" | "cards")] if (1.0..=64.0).contains(count) => {
                Some(*count as u32)
            }
            _ => None,
        });
        named.or(plain).filter(|count| *count > 0)
    }

    /// What a size is of, by the words after it, else before it.
    fn size_of(&self, unit_at: usize, index: usize) -> Option<Of> {
        let mut gpu_after = false;
        let mut depth = 0_u32;
        for token in self.tokens.iter().skip(unit_at + 1).take(14) {
            match token {
                Token::Mark('(') => depth += 1,
                Token::Mark(')') => depth = depth.saturating_sub(1),
                _ if depth > 0 => {}
                Token::Number(_) | Token::Mark(',' | ';') => break,
                Token::Word("and" | "or" | "with" | "for" | "on" | "plus") => break,
                Token::Word("gpu" | "gpus" | "video" | "graphics" | "card" | "cards" | "cuda") => gpu_after = true,
                Token::Word(word) => match (*word, gpu_after) {
                    ("vram", _) | ("memory" | "ram", true) => return Some(Of::Vram),
                    ("ram" | "memory" | "mem", false) => {
                        return Some(if *word == "memory" && self.gpu_before(index) { Of::Vram } else { Of::Ram });
                    }
                    ("disk" | "storage" | "space" | "ssd" | "hdd" | "drive" | "nvme" | "harddisk", _) => {
                        return Some(Of::Disk);
                    }
                    _ => {}
                },
                Token::Mark(_) => {}
            }
        }
        if gpu_after {
            return Some(Of::Vram);
        }
        self.size_before(index)
    }

    fn size_before(&self, index: usize) -> Option<Of> {
        let start = index.saturating_sub(6);
        let mut found = None;
        for token in self.tokens.get(start..index)? {
            match token {
                Token::Number(_) | Token::Mark(',' | ';') | Token::Word("and" | "or") => found = None,
                Token::Word("vram") => found = Some(Of::Vram),
                Token::Word("ram" | "memory" | "mem") => {
                    found = Some(if self.small.contains("gpu memory") || self.small.contains("video memory") {
                        Of::Vram
                    } else {
                        Of::Ram
                    });
                }
                Token::Word("disk" | "storage" | "space" | "ssd" | "hdd") => found = Some(Of::Disk),
                _ => {}
            }
        }
        found.or_else(|| self.gpu_before(index).then_some(Of::Vram))
    }

    /// Whether the words just before speak of a card: `a GPU with at least 24 GB`.
    fn gpu_before(&self, index: usize) -> bool {
        let mut seen = false;
        for token in self.tokens.get(index.saturating_sub(6)..index).unwrap_or_default() {
            match token {
                Token::Word("gpu" | "gpus" | "card" | "cards") => seen = true,
                Token::Word("and" | "or") | Token::Mark(',' | ';') | Token::Number(_) => seen = false,
                _ => {}
            }
        }
        seen
    }

    /// Memory for a model of so many billion parameters.
    fn model(&self, billions: f64, sink: &mut Sink<'_>) {
        let has = |words: &[&str]| words.iter().any(|word| self.small.contains(word));
        if !has(&["model", "parameter", "llama", "mistral", "lora", "fine-tun", "finetun", "inference", "train", "llm"])
            || !(0.1..=2000.0).contains(&billions)
            || self.strength < Strength::Hard && !has(&["gpu", "memory", "vram", "a100", "h100", "v100", " card"])
        {
            return;
        }
        let gb = if has(&["qlora"]) {
            0.8 * billions + 4.0
        } else if has(&["lora"]) {
            2.6 * billions + 4.0
        } else if has(&["fine-tun", "finetun", "train"]) {
            return self.full_tuning(16.0 * billions, sink);
        } else {
            2.4 * billions
        };
        // Beyond the largest card it takes several.
        if gb > 80.0 {
            self.full_tuning(gb, sink);
        } else {
            self.wish("readme-model", Finding::Vram(gb.ceil() as u32), sink);
        }
    }

    /// Memory over all cards: as few of 80 GB as will do.
    fn full_tuning(&self, gb: f64, sink: &mut Sink<'_>) {
        let count = (gb / 80.0).ceil().clamp(1.0, 64.0);
        self.wish("readme-model", Finding::GpuCount(count as u32), sink);
        self.wish("readme-model", Finding::Vram((gb / count).ceil() as u32), sink);
    }
}
