//! NameParser device names, as users write them and as machines report them. Owns the five
//! steps; the words it looks up are data elsewhere.

use super::name::without_maker;
use super::{Catalogue, Form, GpuType, MigProfile, Model, Product, Vendor, Wanted};
use crate::hardware::HardwareError;
use crate::named::Named;

/// Bytes allowed.
const MAX: usize = 128;

/// Words that say nothing.
const DROPPED: [&str; 9] =
    ["gpu", "data", "center", "graphics", "accelerator", "tensor", "core", "generation", "series"];

/// Machines and networks whose devices are built in as modules.
const BOARDS: [&str; 2] = ["hgx", "mega"];

fn vendor_word(word: &str) -> Option<Vendor> {
    match word {
        "nvidia" | "nvidia.com" | "tesla" | "quadro" | "geforce" => Some(Vendor::Nvidia),
        "amd" | "amd.com" | "radeon" | "instinct" => Some(Vendor::Amd),
        "intel" | "arc" => Some(Vendor::Intel),
        _ => None,
    }
}

/// `40g`, `40gb`, `40gib`: the digits.
fn size_word(word: &str) -> Option<&str> {
    let digits = ["gib", "gb", "g"].iter().find_map(|unit| word.strip_suffix(unit))?;
    is_number(digits).then_some(digits)
}

/// Step 1: lower case words, split at blanks and separators.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut lower = text.trim_ascii().to_ascii_lowercase();
    for mark in ["(r)", "(tm)"] {
        lower = lower.replace(mark, " ");
    }
    let separators = ['-', '_', ' ', '/', ':', ',', '(', ')'];
    let mut words: Vec<String> = Vec::new();
    for word in lower.split(separators).filter(|word| !word.is_empty()) {
        match words.last_mut().filter(|last| matches!(word, "gb" | "gib") && is_number(last)) {
            Some(size) => size.push_str(word),
            None => words.push(word.to_owned()),
        }
    }
    words
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Who makes a family of devices, by the word that the names of its models begin with, and whether a number follows.
fn family_word(word: &str, next: Option<&String>) -> Option<Vendor> {
    let numbered = |prefix: &str| {
        let rest = word.strip_prefix(prefix)?;
        let number = if rest.is_empty() { next?.as_str() } else { rest };
        number.as_bytes().get(..2)?.iter().all(u8::is_ascii_digit).then_some(number)
    };
    let is = |prefixes: &[&str]| prefixes.iter().any(|prefix| numbered(prefix).is_some());
    let radeon_pro =
        ["5", "6", "7", "9"].iter().any(|first| numbered("w").is_some_and(|number| number.starts_with(first)));
    match word {
        _ if is(&["mi", "rx"]) || radeon_pro => Some(Vendor::Amd),
        _ if is(&["max", "flex"]) => Some(Vendor::Intel),
        _ => None,
    }
}

/// Who makes what a text names, as far as a word says so.
fn maker(words: &[String]) -> Option<Vendor> {
    let named = words.iter().find_map(|word| vendor_word(word));
    named.or_else(|| words.iter().zip(1..).find_map(|(word, next)| family_word(word, words.get(next))))
}

/// What no GPU is although it is written in its place, and what to do about it.
fn instead(words: &[String]) -> Option<&'static str> {
    let begins = |prefix: &str| words.iter().any(|word| word.starts_with(prefix));
    let word = words.iter().map(String::as_str).collect::<Vec<_>>();
    match word.as_slice() {
        ["none" | "no" | "null" | "false" | "cpu" | "n" | "0"] | ["n", "a"] => {
            Some("leave gpuType and gpuCount out where no GPU is needed")
        }
        _ if begins("tpu") => Some("ask for `google.com/tpu` among the resources, and for its nodes by customLabels"),
        _ if begins("gaudi") || begins("habana") => {
            Some("ask for `habana.ai/gaudi` among the resources, and for its nodes by customLabels")
        }
        _ if begins("trainium") || begins("inferentia") => {
            Some("ask for `aws.amazon.com/neuron` among the resources, and for its nodes by customLabels")
        }
        _ => None,
    }
}

/// The name of a product in a name as lists of PCI ids have it: `GA100 [A100 PCIe 80GB]`. Products that share an id are told apart by
/// nothing (`TU102GL [Quadro RTX 6000/8000]`): the first, which is the smallest, is what such a device is at least.
fn listed(text: &str) -> &str {
    let Some((chip, rest)) = text.split_once('[') else { return text };
    let Some(name) = rest.trim_ascii_end().strip_suffix(']').filter(|_| !chip.is_empty()) else { return text };
    name.split('/').next().unwrap_or(name)
}

/// Words without the brand and without those that say nothing, sorted and each once, to compare names.
fn telling(words: &[String]) -> Vec<&str> {
    let mut telling: Vec<&str> = words.iter().map(String::as_str).collect();
    telling.retain(|word| vendor_word(word).is_none() && !DROPPED.contains(word));
    telling.sort_unstable();
    telling.dedup();
    telling
}

/// The product with exactly this name; brand, order and repetition of words aside.
pub(super) fn product<'c>(catalogue: &'c Catalogue, given: &[String]) -> Option<(&'c Model, &'c Product)> {
    let given = telling(given);
    let all = catalogue.models.iter().flat_map(|model| model.products.iter().map(move |product| (model, product)));
    all.into_iter().find(|(_, product)| telling(&words(&product.name)) == given)
}

/// Reads a device name, at most 128 bytes: a vendor, a model, a product or any words of it.
///
/// ```
/// use orlop_core::hardware::gpu::parse_gpu_type;
/// assert_eq!(parse_gpu_type("A100-SXM4-40GB")?.to_string(), "nvidia-a100-sxm4-40gb");
/// assert_eq!(parse_gpu_type("mig-1g.5gb")?.to_string(), "nvidia-mig-1g.5gb");
/// # Ok::<(), orlop_core::hardware::HardwareError>(())
/// ```
///
/// # Errors
/// The text is empty, too long or no text of a device name; it names two vendors or sizes, a broken MIG profile, an
/// unknown model or one of another vendor.
pub fn parse_gpu_type(text: &str) -> Result<GpuType, HardwareError> {
    Catalogue::built_in().parse(text)
}

impl Catalogue {
    /// Reads a device name as [`parse_gpu_type`] does, with the models of this catalogue.
    ///
    /// # Errors
    /// As of [`parse_gpu_type`].
    pub fn parse(&self, text: &str) -> Result<GpuType, HardwareError> {
        read(self, text)
    }

    /// Reads a device name as [`Catalogue::parse`] does, for who asks for such a device: one of a model, or of a size or form of it, that
    /// no table knows is asked for by the whole text, its maker aside. Slices, connected and shared devices are told by words of their
    /// own, so that such a name has none of them.
    ///
    /// # Errors
    /// As of [`parse_gpu_type`]; an unknown model only where its text cannot be a name; what is no GPU at all.
    pub fn ask(&self, text: &str) -> Result<GpuType, HardwareError> {
        let (otherwise, made_by) = match self.parse(text) {
            Ok(kind) if self.has_variant(&kind) => return Ok(kind),
            Ok(kind) => {
                let vendor = kind.vendor;
                (Ok(kind), vendor)
            }
            Err(error @ HardwareError::UnknownGpuModel { .. }) => (Err(error), None),
            Err(error) => return Err(error),
        };
        let words = words(text);
        if let Some(instead) = instead(&words) {
            return Err(HardwareError::NoGpu { given: text.trim_ascii().to_owned(), instead });
        }
        let says_more =
            |word: &String| matches!(word.as_str(), "mig" | "nvlink" | "shared") || word.parse::<MigProfile>().is_ok();
        match without_maker(text.trim_ascii()).parse() {
            Ok(name) if !words.iter().any(says_more) => {
                Ok(GpuType { vendor: made_by.or_else(|| maker(&words)), name: Some(name), ..GpuType::default() })
            }
            _ => otherwise,
        }
    }

    /// Whether a product of a model has the size and form that are asked for; slices are no matter of names.
    fn has_variant(&self, kind: &GpuType) -> bool {
        let (Some(model), Some(vendor), None) = (&kind.model, kind.vendor, kind.partition) else { return true };
        let wanted =
            Wanted { model: Some(model), form: Some(&kind.form), memory_gib: kind.memory_gib, ..Wanted::default() };
        !self.products(vendor, wanted).is_empty()
    }

    /// A remark for a user who asks for a device by its exact name; none where a table has the model.
    #[must_use]
    pub fn remark(&self, kind: &GpuType) -> Option<String> {
        let name = kind.name.as_ref()?;
        let near = nearest(self, &words(name.as_str()).concat());
        let meant = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
        let made_by = kind.vendor.map(|vendor| format!(" among devices of {vendor}")).unwrap_or_default();
        Some(format!("model `{name}` is not in Orlop's tables; it is matched by its exact name{made_by}{meant}"))
    }
}

fn read(catalogue: &Catalogue, text: &str) -> Result<GpuType, HardwareError> {
    if text.len() > MAX {
        return Err(HardwareError::GpuTypeTooLong { len: text.len(), max: MAX });
    }
    // Blanks around the text, of which a line's end is one, say nothing; within it no character but those of names may stand.
    let blank = text.len() - text.trim_ascii_start().len();
    let illegal = |(ch, _): &(char, usize)| !ch.is_ascii() || ch.is_ascii_control();
    if let Some((ch, at)) = text.trim_ascii().chars().zip(blank + 1..).find(illegal) {
        return Err(HardwareError::IllegalCharacter { ch, at });
    }
    let text = listed(text);
    let words = words(text);
    if words.is_empty() {
        return Err(HardwareError::EmptyGpuType);
    }
    let (mut reading, mut others) = (NameParser::default(), Vec::new());
    for word in &words {
        let before = reading.rest.len();
        reading.take(word)?;
        if reading.rest.len() == before {
            others.push(word.clone());
        }
    }
    let is_split = words.len() > others.len() + 1;
    let whole = |mut others: Vec<String>| {
        others.push(reading.rest.clone());
        product(catalogue, &others)
    };
    // A model that is written in several words is the product that is named by one: `T 4` is a `T4`.
    let product = product(catalogue, &words).or_else(|| if is_split { whole(others) } else { None });
    if product.is_none() {
        reading.read_bare_size(catalogue, &words);
    }
    reading.finish(catalogue, product)
}

/// What was read so far.
#[derive(Default)]
struct NameParser {
    gpu: GpuType,
    rest: String,
    mig_open: bool,
}

impl NameParser {
    /// Steps 2 to 4: one word.
    fn take(&mut self, word: &str) -> Result<(), HardwareError> {
        let bad_profile = || HardwareError::BadMigProfile { given: word.to_owned() };
        if word == "mig" {
            self.mig_open = true;
        } else if let Ok(profile) = word.parse().or_else(|_| MigProfile::of_resource(word)) {
            self.mig_open = false;
            if self.gpu.partition.replace(profile).is_some() {
                return Err(bad_profile());
            }
        } else if self.mig_open {
            return Err(bad_profile());
        } else if let Some(second) = vendor_word(word) {
            match self.gpu.vendor.replace(second) {
                Some(first) if first != second => return Err(HardwareError::MixedVendors { first, second }),
                _ => {}
            }
        } else if let Some(digits) = size_word(word) {
            let size = digits.parse().ok().filter(|gib| (1..=4096).contains(gib));
            let second = size.ok_or_else(|| HardwareError::MemoryOutOfRange { given: word.to_owned() })?;
            if let Some(first) = self.gpu.memory_gib.replace(second) {
                return Err(HardwareError::AmbiguousMemory { first, second });
            }
        } else if word == "nvlink" {
            self.gpu.nvlink = true;
        } else if BOARDS.contains(&word) {
            self.gpu.form.insert(Form::Sxm);
        } else if let Some(form) = Form::from_name(word) {
            self.gpu.form.insert(form);
        } else if !DROPPED.contains(&word) {
            self.rest.push_str(word);
        }
        Ok(())
    }

    /// A number behind a model that is the memory of one of its products: `A100-80`.
    fn read_bare_size(&mut self, catalogue: &Catalogue, words: &[String]) {
        if self.gpu.memory_gib.is_some() || catalogue.model(&self.rest).is_some() {
            return;
        }
        let sizes = words.iter().filter(|word| is_number(word));
        let mut read = sizes.filter_map(|word| {
            let key = self.rest.strip_suffix(word.as_str())?;
            let size: u32 = word.parse().ok()?;
            let model = catalogue.model(key)?;
            model.products.iter().any(|product| product.memory_gib == size).then(|| (key.to_owned(), size))
        });
        if let Some((key, size)) = read.next() {
            (self.rest, self.gpu.memory_gib) = (key, Some(size));
        }
    }

    /// Step 5: the model, what it implies, and what the name of a whole product says besides.
    fn finish(mut self, catalogue: &Catalogue, product: Option<(&Model, &Product)>) -> Result<GpuType, HardwareError> {
        if self.mig_open {
            return Err(HardwareError::BadMigProfile { given: "mig".to_owned() });
        }
        let found = match product {
            Some((model, product)) => {
                self.gpu.memory_gib = Some(product.memory_gib);
                Some(model)
            }
            None if self.rest.is_empty() => None,
            None => Some(catalogue.model(&self.rest).ok_or_else(|| unknown(catalogue, &self.rest))?),
        };
        if let Some(model) = found {
            let made_by = model.vendor;
            match self.gpu.vendor.replace(made_by) {
                Some(asked) if asked != made_by => {
                    return Err(HardwareError::VendorMismatch { model: model.key.to_string(), made_by, asked });
                }
                _ => {}
            }
            self.gpu.model = Some(model.key.clone());
        }
        if self.gpu.partition.is_some() {
            match self.gpu.vendor.replace(Vendor::Nvidia) {
                Some(vendor) if vendor != Vendor::Nvidia => {
                    return Err(HardwareError::MigNotSupported { device: vendor.to_string() });
                }
                _ => {}
            }
        }
        Ok(self.gpu)
    }
}

fn unknown(catalogue: &Catalogue, input: &str) -> HardwareError {
    HardwareError::UnknownGpuModel { input: input.to_owned(), nearest: nearest(catalogue, input) }
}

/// At most three known names that need the fewest changes, none that would be mostly another word.
fn nearest(catalogue: &Catalogue, input: &str) -> Vec<String> {
    let close = input.len().div_ceil(2);
    let keys = catalogue.models.iter().map(|model| (changes(input, model.key.as_str()), model.key.as_str()));
    let mut nearest: Vec<(usize, &str)> = keys.filter(|(changes, _)| *changes <= close).collect();
    nearest.sort_by_key(|(changes, _)| *changes);
    nearest.into_iter().take(3).map(|(_, key)| key.to_owned()).collect()
}

/// Characters to insert, remove or replace to make one text of the other (Levenshtein distance).
fn changes(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (removed, have) in (1..).zip(from.bytes()) {
        let (mut left, mut above_left) = (removed, removed - 1);
        for (cell, want) in row.iter_mut().skip(1).zip(to.bytes()) {
            let replaced = above_left + usize::from(have != want);
            above_left = *cell;
            left = replaced.min(left + 1).min(above_left + 1);
            *cell = left;
        }
    }
    row.last().copied().filter(|_| !to.is_empty()).unwrap_or(from.len())
}
