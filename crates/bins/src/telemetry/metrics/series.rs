//! A metric with labels whose number of series is bounded: the first label names an object of the user's (a tenant, a
//! worker), and objects beyond the bound share the name `other`. One label may stand before them that says where something
//! is, as the namespace of a flow. Never measures anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::{EncodeLabel as _, EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// The name that objects beyond the bound share.
pub const OTHER: &str = "other";

/// A label: its name and its value.
pub(super) type Label = (&'static str, Arc<str>);

/// The labels of one series: where it is, and its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Labels<const N: usize> {
    pub(super) place: Option<Label>,
    own: [Label; N],
}

impl<const N: usize> EncodeLabelSet for Labels<N> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        self.place.iter().chain(&self.own).try_for_each(|label| label.encode(encoder.encode_label()))
    }
}

/// A metric by its labels.
pub(super) type Labelled<M, const N: usize> = Family<Labels<N>, M, fn() -> M>;

/// A metric without labels of its own, in one place or in none.
#[derive(Debug)]
pub struct Single<M> {
    metric: M,
    #[cfg(feature = "kube")]
    family: Option<Labelled<M, 0>>,
}

impl<M: Clone> Single<M> {
    /// One that is nowhere in particular.
    pub(super) const fn new(metric: M) -> Self {
        Self {
            metric,
            #[cfg(feature = "kube")]
            family: None,
        }
    }

    /// One that is in places: what counts before a place is named is seen by nobody.
    pub(super) fn placed(make: fn() -> M) -> (Self, Labelled<M, 0>) {
        let family = Family::new_with_constructor(make);
        let single = Self {
            metric: make(),
            #[cfg(feature = "kube")]
            family: Some(family.clone()),
        };
        (single, family)
    }

    /// The same in a place; itself where it is in none.
    #[cfg(feature = "kube")]
    pub(super) fn within(&self, place: &Label) -> Self {
        let Some(family) = &self.family else { return Self::new(self.metric.clone()) };
        let labels = Labels { place: Some(place.clone()), own: [] };
        Self { metric: family.get_or_create_owned(&labels), family: Some(family.clone()) }
    }
}

impl<M> Deref for Single<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.metric
    }
}

/// What stands at a value, instead of counting.
pub trait Stands {
    /// What it stands at.
    type Value: Copy;

    /// Has it stand at this.
    fn stand(&self, value: Self::Value);
}

impl Stands for Gauge {
    type Value = i64;

    fn stand(&self, value: i64) {
        self.set(value);
    }
}

impl Stands for Gauge<f64, AtomicU64> {
    type Value = f64;

    fn stand(&self, value: f64) {
        self.set(value);
    }
}

/// The series of a metric.
#[derive(Debug)]
struct KnownSeries<const N: usize> {
    /// By object, those beyond the bound aside.
    of: BTreeMap<Arc<str>, BTreeSet<Labels<N>>>,
    /// All that were shown at once, and are gone when they are not shown again.
    shown: BTreeSet<Labels<N>>,
}

impl<const N: usize> Default for KnownSeries<N> {
    fn default() -> Self {
        Self { of: BTreeMap::new(), shown: BTreeSet::new() }
    }
}

/// One metric with `N` labels, of which the first is bounded.
#[derive(Debug)]
pub struct Series<M, const N: usize> {
    keys: [&'static str; N],
    cap: usize,
    family: Labelled<M, N>,
    known: Arc<Mutex<KnownSeries<N>>>,
    place: Option<Label>,
}

impl<M, const N: usize> Series<M, N>
where
    M: Clone,
{
    /// A metric with these labels, and at most `cap` values of the first.
    pub(super) fn new(keys: [&'static str; N], cap: usize, make: fn() -> M) -> Self {
        Self { keys, cap, family: Family::new_with_constructor(make), known: Arc::default(), place: None }
    }

    /// The same metric in a place. The bound holds over all places.
    #[cfg(feature = "kube")]
    pub(super) fn within(&self, place: &Label) -> Self {
        let (family, known) = (self.family.clone(), Arc::clone(&self.known));
        Self { keys: self.keys, cap: self.cap, family, known, place: Some(place.clone()) }
    }

    pub(super) fn family(&self) -> Labelled<M, N> {
        self.family.clone()
    }

    /// The series of these label values, made if it is new. Values are in the order of the labels.
    #[must_use]
    pub fn of(&self, values: [&str; N]) -> M {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let labels = self.labels(&mut known, values);
        self.family.get_or_create_owned(&labels)
    }

    /// The labels of these values, with the shared name where there are too many objects.
    fn labels(&self, known: &mut KnownSeries<N>, values: [&str; N]) -> Labels<N> {
        let first = values.first().copied().unwrap_or_default();
        let full = !known.of.contains_key(first) && known.of.len() >= self.cap;
        let mut position = 0;
        let own: [Label; N] = self.keys.map(|key| {
            let value = if position == 0 && full { OTHER } else { values.get(position).copied().unwrap_or_default() };
            position += 1;
            (key, Arc::from(value))
        });
        let labels = Labels { place: self.place.clone(), own };
        if let Some((_, name)) = labels.own.first()
            && !full
        {
            known.of.entry(Arc::clone(name)).or_default().insert(labels.clone());
        }
        labels
    }

    /// Removes every series of an object that is gone.
    pub fn forget(&self, name: &str) {
        let sets = self.known.lock().unwrap_or_else(PoisonError::into_inner).of.remove(name);
        for labels in sets.into_iter().flatten() {
            self.family.remove(&labels);
        }
    }
}

impl<M, const N: usize> Series<M, N>
where
    M: Clone + Stands,
{
    /// Shows these values and no others: series of what is not among them go. Values of objects that share a name are joined.
    pub fn show(&self, all: &[([&str; N], M::Value)], join: impl Fn(M::Value, M::Value) -> M::Value) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let names: BTreeSet<&str> = all.iter().filter_map(|(values, _)| values.first().copied()).collect();
        // First those that are gone make room.
        known.of.retain(|name, _| names.contains(&**name));
        let mut shown: BTreeMap<Labels<N>, M::Value> = BTreeMap::new();
        for (values, value) in all {
            let labels = self.labels(&mut known, *values);
            let joined = shown.get(&labels).map_or(*value, |before| join(*before, *value));
            shown.insert(labels, joined);
        }
        for labels in known.shown.iter().filter(|labels| !shown.contains_key(*labels)) {
            self.family.remove(labels);
        }
        for (labels, value) in &shown {
            self.family.get_or_create_owned(labels).stand(*value);
        }
        known.shown = shown.into_keys().collect();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::registry::Registry;

    use super::*;

    fn text(series: &Series<Counter, 2>) -> String {
        let mut registry = Registry::default();
        registry.register("jobs", "Jobs", series.family());
        let mut out = String::new();
        encode(&mut out, &registry).unwrap();
        let mut lines: Vec<_> = out.lines().filter(|line| !line.starts_with('#')).collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    #[test]
    fn series_beyond_the_cap_share_one_name_and_leave_with_their_object() {
        let series = Series::<Counter, 2>::new(["tenant", "reason"], 2, Counter::default);
        series.of(["a", "exit"]).inc();
        series.of(["a", "signal"]).inc();
        series.of(["b", "exit"]).inc();
        series.of(["c", "exit"]).inc();
        series.of(["d", "exit"]).inc();
        series.of(["a", "exit"]).inc();
        insta::assert_snapshot!(text(&series), @r#"
        jobs_total{tenant="a",reason="exit"} 2
        jobs_total{tenant="a",reason="signal"} 1
        jobs_total{tenant="b",reason="exit"} 1
        jobs_total{tenant="other",reason="exit"} 2
        "#);
        series.forget("a");
        series.forget("nobody");
        series.of(["d", "exit"]).inc();
        insta::assert_snapshot!(text(&series), @r#"
        jobs_total{tenant="b",reason="exit"} 1
        jobs_total{tenant="d",reason="exit"} 1
        jobs_total{tenant="other",reason="exit"} 2
        "#);
    }

    #[test]
    fn what_stands_beyond_the_cap_is_summed_and_what_is_gone_leaves() {
        let series = Series::<Gauge, 2>::new(["tenant", "of"], 2, Gauge::default);
        let text = || {
            let mut registry = Registry::default();
            registry.register("jobs", "Jobs", series.family());
            let mut out = String::new();
            encode(&mut out, &registry).unwrap();
            let mut lines: Vec<_> = out.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
            lines.sort_unstable();
            lines.join("\n")
        };
        let sum = |left: i64, right: i64| left + right;
        series.show(&[(["a", "x"], 1), (["b", "x"], 2), (["c", "x"], 3), (["d", "x"], 4), (["b", "y"], 5)], sum);
        series.show(&[(["a", "x"], 1), (["b", "x"], 2), (["c", "x"], 3), (["d", "x"], 4), (["b", "y"], 5)], sum);
        insta::assert_snapshot!(text(), @r#"
        jobs{tenant="a",of="x"} 1
        jobs{tenant="b",of="x"} 2
        jobs{tenant="b",of="y"} 5
        jobs{tenant="other",of="x"} 7
        "#);
        series.show(&[(["b", "x"], 2), (["c", "x"], 3), (["d", "x"], 4)], i64::max);
        insta::assert_snapshot!(text(), @r#"
        jobs{tenant="b",of="x"} 2
        jobs{tenant="c",of="x"} 3
        jobs{tenant="other",of="x"} 4
        "#);
        series.show(&[], sum);
        assert_eq!(text(), "");
    }
}
