//! A metric with labels whose number of series is bounded: the first label names an object of the user's (a tenant, a
//! worker), and objects beyond the bound share the name `other`. Owns which series exist; never measures anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::family::Family;

/// The name that objects beyond the bound share.
pub const OTHER: &str = "other";

type Labels<const N: usize> = [(&'static str, Arc<str>); N];

/// One metric with `N` labels, of which the first is bounded.
#[derive(Debug)]
pub struct Series<M, const N: usize> {
    keys: [&'static str; N],
    cap: usize,
    family: Family<Labels<N>, M, fn() -> M>,
    known: Mutex<BTreeMap<Arc<str>, BTreeSet<Labels<N>>>>,
}

impl<M, const N: usize> Series<M, N>
where
    M: Clone,
{
    /// A metric with these labels, and at most `cap` values of the first.
    pub(super) fn new(keys: [&'static str; N], cap: usize, make: fn() -> M) -> Self {
        Self { keys, cap, family: Family::new_with_constructor(make), known: Mutex::default() }
    }

    pub(super) fn family(&self) -> Family<Labels<N>, M, fn() -> M> {
        self.family.clone()
    }

    /// The series of these label values, made if it is new. Values are in the order of the labels.
    #[must_use]
    pub fn of(&self, values: [&str; N]) -> M {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let first = values.first().copied().unwrap_or_default();
        let full = !known.contains_key(first) && known.len() >= self.cap;
        let mut position = 0;
        let labels: Labels<N> = self.keys.map(|key| {
            let value = if position == 0 && full { OTHER } else { values.get(position).copied().unwrap_or_default() };
            position += 1;
            (key, Arc::from(value))
        });
        if let Some((_, name)) = labels.first()
            && !full
        {
            known.entry(Arc::clone(name)).or_default().insert(labels.clone());
        }
        self.family.get_or_create_owned(&labels)
    }

    /// Removes every series of an object that is gone.
    pub fn forget(&self, name: &str) {
        let sets = self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        for labels in sets.into_iter().flatten() {
            self.family.remove(&labels);
        }
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
    fn s5_6_series_beyond_the_cap_share_one_name_and_leave_with_their_object() {
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
}
