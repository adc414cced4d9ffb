//! The names that one substrate uses: labels, resources, taints, runtime classes. Owns which tables a substrate uses; the tables
//! have the data.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::gpu::{Catalogue, Vendor};
use super::place::label;
use super::placement::Toleration;
use super::table::{
    ClassName, ConfidentialWords, DockerWords, KeyName, LabelFamily, MigStrategy, NodeType, TeeFamily, TeeWords,
    VendorWords,
};
use super::{Arch, Machine, Tables, TeeKind};
use crate::named::Named;
use crate::named::named_enum;
use crate::resource::ResourceVector;

named_enum! {
    /// Where work runs.
    pub enum Substrate("substrate") {
        /// A Kubernetes cluster.
        Kubernetes = "kubernetes",
        /// A site of leased machines, such as Chameleon.
        OpenStack = "openstack",
        /// One Docker daemon.
        Docker = "docker",
        /// Orlop's own workers.
        Fleet = "fleet",
    }
}

/// The prefix of labels that the fleet derives itself; users cannot set labels under it.
pub const FLEET: &str = "orlop/";

/// The label of a trusted execution environment, where Orlop itself labels machines.
#[must_use]
pub fn tee_label(kind: TeeKind) -> String {
    format!("{FLEET}tee-{kind}")
}

/// How a substrate tells of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuWords {
    /// By labels and extended resources.
    Labels {
        /// Vendors.
        vendors: BTreeMap<Vendor, VendorWords>,
        /// Whose labels are in use.
        families: BTreeSet<LabelFamily>,
        /// Whether those count besides whose keys a cluster's nodes have.
        auto: bool,
        /// How slices are told of.
        mig_strategy: MigStrategy,
    },
    /// By a list of devices.
    Inventory,
}

/// The names that one substrate uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    /// The substrate.
    pub substrate: Substrate,
    /// Device models.
    pub catalogue: Catalogue,
    /// The label of the CPU architecture.
    pub arch_label: String,
    /// The values of that label.
    pub arch_names: BTreeMap<Arch, String>,
    /// GPUs.
    pub gpu: GpuWords,
    /// Trusted execution environments; one without words cannot be asked for.
    pub tees: BTreeMap<TeeKind, TeeWords>,
    /// Which families of labels report them.
    pub tee_families: BTreeSet<TeeFamily>,
    /// GPUs within trusted execution environments; absent, they cannot be asked for.
    pub confidential: Option<ConfidentialWords>,
    /// Tolerations of every request for a GPU.
    pub gpu_tolerations: Vec<Toleration>,
    /// Tolerations of every request for a trusted execution environment.
    pub tee_tolerations: Vec<Toleration>,
}

impl Vocabulary {
    pub(super) fn of(tables: Tables, substrate: Substrate) -> Self {
        match substrate {
            Substrate::Kubernetes => Self::kubernetes(tables),
            Substrate::OpenStack => Self::openstack(tables),
            Substrate::Docker => Self::docker(tables),
            Substrate::Fleet => Self::fleet(tables),
        }
    }

    fn kubernetes(tables: Tables) -> Self {
        Self {
            substrate: Substrate::Kubernetes,
            catalogue: tables.catalogue,
            arch_label: "kubernetes.io/arch".to_owned(),
            arch_names: arch_names(Named::as_str),
            gpu: GpuWords::Labels {
                vendors: tables.vendors,
                families: tables.families.gpu,
                auto: tables.families.auto,
                mig_strategy: tables.families.mig_strategy,
            },
            tees: tables.tees.into_iter().filter(|(_, words)| says_anything(words)).collect(),
            tee_families: tables.families.tee,
            confidential: Some(tables.confidential),
            gpu_tolerations: Vec::new(),
            tee_tolerations: Vec::new(),
        }
    }

    /// A substrate whose machines list their devices.
    fn listing(
        substrate: Substrate,
        catalogue: Catalogue,
        kinds: impl IntoIterator<Item = (TeeKind, TeeWords)>,
    ) -> Self {
        Self {
            substrate,
            catalogue,
            arch_label: format!("{FLEET}arch"),
            arch_names: arch_names(Named::as_str),
            gpu: GpuWords::Inventory,
            tees: kinds.into_iter().collect(),
            tee_families: BTreeSet::from([TeeFamily::Rule]),
            confidential: None,
            gpu_tolerations: Vec::new(),
            tee_tolerations: Vec::new(),
        }
    }

    fn openstack(tables: Tables) -> Self {
        let kinds = listed_tees(&tables.node_types).into_iter().map(|kind| (kind, labelled(kind)));
        let mut words = Self::listing(Substrate::OpenStack, tables.catalogue, kinds);
        words.arch_label = "architecture.platform_type".to_owned();
        words.arch_names = arch_names(Tables::platform);
        words
    }

    fn docker(tables: Tables) -> Self {
        let DockerWords { runtimes, .. } = tables.docker;
        let vm = |(kind, name): (TeeKind, ClassName)| (kind, TeeWords { runtime_class: Some(name), ..labelled(kind) });
        let kinds = std::iter::once((TeeKind::Sgx, labelled(TeeKind::Sgx))).chain(runtimes.into_iter().map(vm));
        let mut words = Self::listing(Substrate::Docker, tables.catalogue, kinds.collect::<Vec<_>>());
        // A weaker kind without a runtime of its own is served by the stronger one's.
        for weaker in [TeeKind::SevEs, TeeKind::Sev] {
            if words.tees.contains_key(&TeeKind::SevSnp) {
                let narrowed = TeeWords { narrowed_to: Some(TeeKind::SevSnp), ..TeeWords::default() };
                words.tees.entry(weaker).or_insert(narrowed);
            }
        }
        words
    }

    fn fleet(tables: Tables) -> Self {
        let kinds = TeeKind::ALL.iter().map(|kind| (*kind, labelled(*kind)));
        let mut words = Self::listing(Substrate::Fleet, tables.catalogue, kinds);
        // Nobody else uses a worker's devices, and a worker says which of them are confidential.
        words.confidential = Some(ConfidentialWords { overhead: ResourceVector::new(), ..tables.confidential });
        let leave = |name: &str| vec![Toleration { effect: None, ..Toleration::of_key(format!("{FLEET}{name}")) }];
        words.gpu_tolerations = leave("gpu");
        words.tee_tolerations = leave("tee");
        words
    }

    /// The names for a cluster with these machines. Where families of labels are chosen automatically, those with a key on any of the
    /// machines are added to the vendors' own. A request then matches more machines, never fewer.
    #[must_use]
    pub fn on<'m>(&self, machines: impl Iterator<Item = &'m Machine>) -> Cow<'_, Self> {
        let GpuWords::Labels { vendors, families, auto: true, .. } = &self.gpu else { return Cow::Borrowed(self) };
        let mut open: Vec<LabelFamily> =
            LabelFamily::ALL.iter().copied().filter(|one| !families.contains(one)).collect();
        let mut all = families.clone();
        for machine in machines {
            open.retain(|family| {
                let is_borne = label::is_borne(*family, vendors, &machine.labels);
                !is_borne || !all.insert(*family)
            });
        }
        if all == *families {
            return Cow::Borrowed(self);
        }
        let mut words = self.clone();
        if let GpuWords::Labels { families, .. } = &mut words.gpu {
            *families = all;
        }
        Cow::Owned(words)
    }

    /// The families of labels that report GPUs, where labels do.
    pub fn families(&self) -> impl Iterator<Item = LabelFamily> {
        let families = match &self.gpu {
            GpuWords::Labels { families, .. } => Some(families),
            GpuWords::Inventory => None,
        };
        families.into_iter().flatten().copied()
    }

    /// The entry of a kind and its kind: the same, or the stronger one that is asked for instead.
    #[must_use]
    pub fn tee(&self, kind: TeeKind) -> Option<(TeeKind, &TeeWords)> {
        let row = self.tees.get(&kind)?;
        match row.narrowed_to {
            Some(stronger) => Some((stronger, self.tees.get(&stronger)?)),
            None => Some((kind, row)),
        }
    }

    /// Labels of which one is `true` where a row's kind is.
    pub fn tee_labels<'a>(&'a self, words: &'a TeeWords) -> impl Iterator<Item = &'a KeyName> {
        let families = words.labels.iter().filter(|(family, _)| self.tee_families.contains(family));
        families.flat_map(|(_, keys)| keys)
    }
}

fn arch_names(name: impl Fn(Arch) -> &'static str) -> BTreeMap<Arch, String> {
    Arch::ALL.iter().map(|arch| (*arch, name(*arch).to_owned())).collect()
}

/// Whether a row can be asked for: it has a label, or another row stands in for it.
fn says_anything(words: &TeeWords) -> bool {
    words.narrowed_to.is_some() || words.labels.values().any(|keys| !keys.is_empty())
}

/// The row of a kind where Orlop itself labels machines.
fn labelled(kind: TeeKind) -> TeeWords {
    let keys = tee_label(kind).parse().into_iter().collect();
    TeeWords { labels: BTreeMap::from([(TeeFamily::Rule, keys)]), ..TeeWords::default() }
}

fn listed_tees(types: &BTreeMap<String, NodeType>) -> BTreeSet<TeeKind> {
    let listed = types.values().flat_map(|row| &row.tees);
    let serves = |asked: &TeeKind| listed.clone().any(|kind| kind.serves(*asked));
    TeeKind::ALL.iter().copied().filter(serves).collect()
}
