//! Device models as a value: what is built in, and what a table lays over it. Owns look-ups by name, need and memory;
//! never reads a file.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::{Form, MigProfile, ModelKey, Vendor, legal, models};
use crate::named::Named as _;

/// A device model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Model {
    /// Its key.
    pub key: ModelKey,
    /// Another name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Its vendor.
    pub vendor: Vendor,
    /// The products of this model.
    pub products: Vec<Product>,
    /// What GKE calls its accelerators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gke: Vec<FamilyValue>,
    /// What Karpenter calls it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "legal::some_value")]
    pub karpenter: Option<String>,
}

/// A product: a device that can be bought.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Product {
    /// Its name, without the vendor's where the device itself leaves it out.
    #[serde(deserialize_with = "legal::product")]
    pub name: String,
    /// Nominal memory in GiB, 1 to 4096.
    #[serde(deserialize_with = "legal::memory")]
    pub memory_gib: u32,
    /// Whether several of them are connected by NVLink or the vendor's equal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nvlink: bool,
    /// What form it has besides what its name says.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub forms: BTreeSet<Form>,
    /// Profiles its slices can have, those with media engines aside.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub mig: BTreeSet<MigProfile>,
}

/// A label value that stands for the products of a model with this memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FamilyValue {
    /// The value.
    #[serde(deserialize_with = "legal::value")]
    pub value: String,
    /// Nominal memory in GiB, 1 to 4096.
    #[serde(deserialize_with = "legal::memory")]
    pub memory_gib: u32,
}

impl Product {
    /// Whether it has every word of a form: its name says so, or its maker.
    #[must_use]
    pub fn has_form(&self, form: &BTreeSet<Form>) -> bool {
        named_with(&self.name, &self.forms, form)
    }

    /// Whether it can be cut into slices of a profile; media engines follow the plain profile.
    #[must_use]
    pub fn has_profile(&self, profile: MigProfile) -> bool {
        self.mig.contains(&profile.plain())
    }

    /// How many slices of a profile one device holds at once; zero where it has no such profile.
    #[must_use]
    pub fn instances(&self, profile: MigProfile) -> u32 {
        let whole = self.mig.iter().max_by_key(|whole| (whole.slices, whole.memory_gb));
        let Some(whole) = whole.filter(|_| self.has_profile(profile)) else { return 0 };
        let (total, one) = (u32::from(whole.memory_gb), u32::from(profile.memory_gb).max(1));
        // Sizes in names are rounded: two slices of 71 make a whole of 141.
        let by_memory = (2 * total + one) / (2 * one);
        let by_compute = u32::from(whole.slices / profile.slices.max(1));
        let most = by_memory.min(by_compute);
        if profile == profile.plain() { most } else { most.min(1) }
    }
}

/// Whether a device of a name, of which these forms are known besides, has every form word, case aside. `sxm` is any of its kind.
pub(crate) fn named_with(name: &str, known: &BTreeSet<Form>, form: &BTreeSet<Form>) -> bool {
    let name = name.to_ascii_lowercase();
    form.iter().all(|word| {
        let word = word.as_str();
        let is_known = |known: &Form| match known.as_str() {
            sxm if word == "sxm" => sxm.starts_with(word),
            other => other == word,
        };
        name.contains(word) || known.iter().any(is_known)
    })
}

/// The models known, in the order in which they are preferred in messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalogue {
    /// The models.
    pub models: Vec<Model>,
}

/// What is looked for in a catalogue; what is not named does not matter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// The model.
    pub model: Option<&'a ModelKey>,
    /// Form words.
    pub form: Option<&'a BTreeSet<Form>>,
    /// Nominal memory of one in GiB, at least this; where it is more than a slice has, of the card that the slice is of.
    pub memory_gib: Option<u32>,
    /// Connected by NVLink or the vendor's equal.
    pub nvlink: bool,
    /// Slices of this profile.
    pub partition: Option<MigProfile>,
}

impl Catalogue {
    /// The built-in catalogue.
    #[must_use]
    pub fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<Catalogue> = LazyLock::new(models::built_in);
        &BUILT_IN
    }

    /// The model with this key or alias.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.key.as_str() == name || model.alias.as_deref() == Some(name))
    }

    /// Replaces the model with the same key, or adds the model.
    pub fn put(&mut self, model: Model) {
        match self.models.iter_mut().find(|known| known.key == model.key) {
            Some(known) => *known = model,
            None => self.models.push(model),
        }
    }

    /// A vendor's products with their models.
    pub fn of(&self, vendor: Vendor) -> impl Iterator<Item = (&Model, &Product)> {
        let models = self.models.iter().filter(move |model| model.vendor == vendor);
        models.flat_map(|model| model.products.iter().map(move |product| (model, product)))
    }

    /// The products of a vendor that match.
    #[must_use]
    pub fn products(&self, vendor: Vendor, wanted: Wanted<'_>) -> Vec<Product> {
        let will_do = |(model, product): &(&Model, &Product)| {
            wanted.model.is_none_or(|key| *key == model.key)
                && wanted.form.is_none_or(|form| product.has_form(form))
                && (product.nvlink || !wanted.nvlink)
                && match wanted.partition {
                    // More than a slice has is said of the card that it is of.
                    Some(profile) => {
                        let of_card = wanted.memory_gib.filter(|gib| *gib > u32::from(profile.memory_gb));
                        product.has_profile(profile) && of_card.is_none_or(|gib| product.memory_gib >= gib)
                    }
                    None => wanted.memory_gib.is_none_or(|gib| product.memory_gib >= gib),
                }
        };
        self.of(vendor).filter(will_do).map(|(_, product)| product.clone()).collect()
    }

    /// The product with exactly this name; brand, order and repetition of words aside.
    #[must_use]
    pub fn product_named(&self, name: &str) -> Option<(&Model, &Product)> {
        super::parse::product(self, &super::parse::words(name))
    }

    /// The greatest nominal memory of a vendor's products, below a bound if one is given; zero if there is none.
    #[must_use]
    pub fn largest(&self, vendor: Vendor, below: Option<u32>) -> u32 {
        let sizes = self.of(vendor).map(|(_, product)| product.memory_gib);
        sizes.filter(|gib| below.is_none_or(|bound| *gib < bound)).max().unwrap_or(0)
    }

    /// Usable memory in MiB that every device of nominally `memory_gib` GiB passes and no device of a smaller class does.
    ///
    /// A little under nominal (nine tenths), and at least all of the next smaller class.
    #[must_use]
    pub fn threshold_mib(&self, vendor: Vendor, memory_gib: u32) -> u64 {
        let smaller = u64::from(self.largest(vendor, Some(memory_gib)));
        (u64::from(memory_gib) * 9216 / 10).max(1024 * smaller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_lies_between_two_classes() {
        let table = Catalogue::built_in();
        let of = |gib| table.threshold_mib(Vendor::Nvidia, gib);
        assert_eq!((of(16), of(24), of(80), of(96), of(180)), (14745, 22118, 73728, 96256, 165_888));
        for vendor in [Vendor::Nvidia, Vendor::Amd, Vendor::Intel] {
            for gib in table.of(vendor).map(|(_, product)| product.memory_gib) {
                let threshold = table.threshold_mib(vendor, gib);
                assert!(threshold < u64::from(gib) * 1024, "{gib} passes itself");
                assert!(threshold >= u64::from(table.largest(vendor, Some(gib))) * 1024, "{gib} passes no smaller");
            }
        }
    }

    #[test]
    fn a_card_holds_as_many_slices_as_its_maker_says() {
        let of = |name: &str, profile: &str| {
            let (_, product) = Catalogue::built_in().product_named(name).unwrap();
            product.instances(profile.parse().unwrap())
        };
        for (name, profile, slices) in [
            ("A100-SXM4-40GB", "1g.5gb", 7),
            ("A100-SXM4-40GB", "1g.10gb", 4),
            ("A100-SXM4-40GB", "2g.10gb", 3),
            ("A100-SXM4-40GB", "3g.20gb", 2),
            ("A100-SXM4-40GB", "4g.20gb", 1),
            ("A100-SXM4-40GB", "7g.40gb", 1),
            ("A100-SXM4-40GB", "1g.5gb+me", 1),
            ("A100-SXM4-40GB", "3g.40gb", 0),
            ("H100 NVL", "1g.24gb", 4),
            ("H200", "3g.71gb", 2),
            ("A30", "1g.6gb", 4),
            ("A30", "2g.12gb", 2),
            ("Tesla T4", "1g.5gb", 0),
        ] {
            assert_eq!(of(name, profile), slices, "{name} {profile}");
        }
    }
}
