//! How what a file says is laid over a field, and how its rows are read. Owns that maps are laid entry by entry and amounts by
//! name, that no row is named twice, and that no row weakens a need.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

use super::GpuFamilies;
use super::names::{AttributeName, ClassName, KeyName, ValueName};
use super::words::{TeeFile, VendorFile};
use crate::hardware::TeeKind;
use crate::hardware::gpu::Vendor;
use crate::named::Named;
use crate::resource::{ResourceName, ResourceVector};

/// A field over which a file may lay something.
pub trait Over {
    /// What the file says.
    type Layer;

    /// Lays it over what is there.
    fn lay(&mut self, said: Self::Layer);
}

/// What is one thing is said as a whole.
macro_rules! whole {
    ($($type:ty,)+) => { $(
        impl Over for $type {
            type Layer = Self;

            fn lay(&mut self, said: Self) {
                *self = said;
            }
        }
    )+ };
}

whole! {
    bool, u32, KeyName, ClassName, AttributeName, Vec<KeyName>, BTreeSet<ClassName>,
    Option<ResourceName>, Option<ClassName>, Option<ValueName>, Option<TeeKind>,
}

impl<K: Ord, V> Over for BTreeMap<K, V> {
    /// What is not named stays, and nothing takes an entry away.
    type Layer = BTreeMap<K, Option<V>>;

    fn lay(&mut self, said: Self::Layer) {
        for (key, value) in said {
            match value {
                Some(value) => drop(self.insert(key, value)),
                None => drop(self.remove(&key)),
            }
        }
    }
}

impl Over for ResourceVector {
    /// What is not named stays. Nothing is taken away: who needs these resources is not to run without them.
    type Layer = Self;

    fn lay(&mut self, said: Self) {
        for (name, amount) in said.iter() {
            self.set(name.clone(), amount);
        }
    }
}

/// Rows by key, each key once.
fn rows<'de, D: Deserializer<'de>, K: Deserialize<'de> + Ord + fmt::Display, V: Deserialize<'de>>(
    deserializer: D,
    check: fn(&K, &V) -> Result<(), String>,
) -> Result<BTreeMap<K, V>, D::Error> {
    struct Rows<K, V>(fn(&K, &V) -> Result<(), String>, PhantomData<(K, V)>);

    impl<'de, K: Deserialize<'de> + Ord + fmt::Display, V: Deserialize<'de>> Visitor<'de> for Rows<K, V> {
        type Value = BTreeMap<K, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("rows by key")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut rows = BTreeMap::new();
            while let Some(key) = map.next_key::<K>()? {
                let row = map.next_value::<V>()?;
                (self.0)(&key, &row).map_err(A::Error::custom)?;
                if rows.contains_key(&key) {
                    return Err(A::Error::custom(format!("`{key}` appears twice; keep one of them")));
                }
                rows.insert(key, row);
            }
            Ok(rows)
        }
    }

    deserializer.deserialize_map(Rows(check, PhantomData))
}

/// Rows of trusted execution environments.
pub(super) fn tees<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<TeeKind, TeeFile>, D::Error> {
    rows(deserializer, |kind: &TeeKind, row: &TeeFile| not_weaker(*kind, row))
}

/// Whether a row gives work no less than its kind.
fn not_weaker(kind: TeeKind, row: &TeeFile) -> Result<(), String> {
    if let Some(Some(other)) =
        row.narrowed_to.filter(|other| other.is_none_or(|other| other == kind || !other.serves(kind)))
    {
        return Err(format!(
            "tee.kinds.{kind}: narrowedTo `{other}` is not a stronger kind that serves {kind}; leave it out or name one"
        ));
    }
    // The built-in rows of these have no class, for a stronger kind serves them.
    let bare = matches!(kind, TeeKind::Sev | TeeKind::SevEs) && !matches!(row.runtime_class, Some(Some(_)));
    if row.labels.is_some() && row.narrowed_to.is_none() && bare {
        return Err(format!(
            "tee.kinds.{kind}: its own labels need a runtimeClass, otherwise its work would not run in a virtual machine; name the \
             class, for example kata-qemu-{kind}"
        ));
    }
    Ok(())
}

/// A vendor in any case.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct AnyCase(Vendor);

impl fmt::Display for AnyCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for AnyCase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        vendor(deserializer).map(Self)
    }
}

/// A vendor, in any case.
pub(super) fn vendor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vendor, D::Error> {
    let text = String::deserialize(deserializer)?;
    Vendor::from_name(&text.to_ascii_lowercase()).ok_or_else(|| {
        let given: String = text.chars().take(64).collect();
        let known: Vec<&str> = Vendor::ALL.iter().map(|vendor| vendor.as_str()).collect();
        D::Error::custom(format!("unknown GPU vendor `{given}`, allowed are {}", known.join(", ")))
    })
}

impl<'de> Deserialize<'de> for GpuFamilies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Families;

        impl<'de> Visitor<'de> for Families {
            type Value = GpuFamilies;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto`, or a list of GPU label families")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<GpuFamilies, E> {
                if text == "auto" { Ok(GpuFamilies::Auto) } else { Err(E::invalid_value(Unexpected::Str(text), &self)) }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<GpuFamilies, A::Error> {
                let mut families = BTreeSet::new();
                while let Some(family) = all.next_element()? {
                    families.insert(family);
                }
                Ok(GpuFamilies::These(families))
            }
        }

        deserializer.deserialize_any(Families)
    }
}

/// A vendor, where one is named.
pub(super) fn some_vendor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vendor>, D::Error> {
    Ok(Option::<AnyCase>::deserialize(deserializer)?.map(|AnyCase(vendor)| vendor))
}

/// Rows of vendors.
pub(super) fn vendors<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Vendor, VendorFile>, D::Error> {
    let rows = rows(deserializer, |_: &AnyCase, _: &VendorFile| Ok(()))?;
    Ok(rows.into_iter().map(|(AnyCase(vendor), row)| (vendor, row)).collect())
}
