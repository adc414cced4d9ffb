//! The join language: what compiles can be decided for every state of its steps, and only asks about them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use orlop_dag::depends::{SettledView, compile};
use orlop_dag::when::Steps;

use super::when::check_error;
use super::{STEPS, text};

/// A join.
pub fn depends(bytes: &[u8]) {
    let Some(source) = text(bytes) else { return };
    let steps: Steps<'_> = STEPS.iter().map(|(name, outputs)| (*name, outputs.iter().copied())).collect();
    let join = match compile(source, &steps) {
        Ok(join) => join,
        Err(error) => return check_error(&error, source),
    };
    let named: BTreeSet<String> = join.references().map(str::to_owned).collect();
    assert_eq!(named.len(), join.references().len(), "a step is named twice in {source:?}");
    assert!(named.iter().all(|name| steps.contains(name)));
    assert!(join.named_failures().all(|name| named.contains(name)));
    for pattern in 0..=u8::MAX {
        let asked = RefCell::new(BTreeSet::new());
        let view = |name: &str| {
            asked.borrow_mut().insert(name.to_owned());
            settled(pattern, name)
        };
        assert_eq!(join.eval(&view), join.eval(&view));
        assert!(asked.borrow().is_subset(&named), "{source:?} asks about a step it does not name");
    }
}

/// A state of a step: differs by step and by pattern.
fn settled(pattern: u8, name: &str) -> SettledView {
    let bits = pattern.rotate_left(u32::try_from(name.len() % 8).unwrap_or(0));
    let bit = |at: u8| bits >> at & 1 == 1;
    SettledView {
        satisfied: bit(0),
        succeeded: bit(1),
        failed: bit(2),
        skipped: bit(3),
        omitted: bit(4),
        completed: bit(5),
        any_succeeded: bit(6),
        all_failed: bit(7),
    }
}
