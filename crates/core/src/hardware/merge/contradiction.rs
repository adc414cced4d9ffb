//! Whether conditions can hold together on any labels at all. Owns that judgement, which errs on the side of yes.

use std::collections::{BTreeMap, BTreeSet};

use crate::hardware::placement::{LabelExpr, Operator};

/// What is known of one label.
#[derive(Default)]
struct LabelBounds<'a> {
    /// Values of which it must have one.
    values: Option<BTreeSet<&'a str>>,
    /// Values it must not have.
    not: BTreeSet<&'a str>,
    present: bool,
    absent: bool,
    above: Option<i64>,
    below: Option<i64>,
    /// A bound that is no number is passed by nothing.
    nonsense: bool,
}

/// Whether no labels can meet all conditions.
pub(super) fn contradicts<'a>(expressions: impl IntoIterator<Item = &'a LabelExpr>) -> bool {
    let mut known: BTreeMap<&str, LabelBounds<'_>> = BTreeMap::new();
    for expression in expressions {
        known.entry(&expression.key).or_default().learn(expression);
    }
    known.values().any(LabelBounds::is_impossible)
}

impl<'a> LabelBounds<'a> {
    fn learn(&mut self, expression: &'a LabelExpr) {
        let values = expression.values.iter().map(String::as_str);
        match expression.op {
            Operator::In => {
                self.present = true;
                let these: BTreeSet<&str> = values.collect();
                self.values = Some(match self.values.take() {
                    Some(known) => known.intersection(&these).copied().collect(),
                    None => these,
                });
            }
            Operator::NotIn => self.not.extend(values),
            Operator::Exists => self.present = true,
            Operator::DoesNotExist => self.absent = true,
            Operator::Gt | Operator::Lt => {
                self.present = true;
                let only = expression.values.first().filter(|_| expression.values.len() == 1);
                match only.and_then(|bound| bound.parse::<i64>().ok()) {
                    None => self.nonsense = true,
                    Some(bound) if expression.op == Operator::Gt => self.above = self.above.max(Some(bound)),
                    Some(bound) => self.below = Some(self.below.map_or(bound, |known| known.min(bound))),
                }
            }
        }
    }

    fn is_impossible(&self) -> bool {
        if self.nonsense || (self.present && self.absent) {
            return true;
        }
        if let Some(values) = &self.values {
            return !values.iter().any(|value| self.admits(value));
        }
        match (self.above, self.below) {
            (Some(above), Some(below)) => above.checked_add(1).is_none_or(|least| least >= below),
            (Some(above), None) => above == i64::MAX,
            (None, Some(below)) => below == i64::MIN,
            (None, None) => false,
        }
    }

    fn admits(&self, value: &str) -> bool {
        let number = || value.parse::<i64>().ok();
        !self.not.contains(value)
            && self.above.is_none_or(|above| number().is_some_and(|has| has > above))
            && self.below.is_none_or(|below| number().is_some_and(|has| has < below))
    }
}
