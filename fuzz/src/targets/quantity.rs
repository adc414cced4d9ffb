//! Quantities: what parses can be written and read again, and rounding and sums keep their order.

use orlop_core::quantity::{Quantity, Step};

use super::{first_line, text};

/// Two quantities, one a line.
pub fn quantity(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let (left, right) = first_line(text);
    let parsed = left.parse::<Quantity>();
    if let Err(error) = &parsed {
        assert!(!error.to_string().is_empty());
    }
    let Ok(left) = parsed else { return };
    let written = left.to_string();
    let again: Result<Quantity, _> = written.parse();
    assert!(again.as_ref().is_ok_and(|again| *again == left && again.to_string() == written), "{left:?} {again:?}");
    for step in [Step::Milli, Step::One] {
        if let (Some(down), Some(up)) = (left.round_down(step), left.round_up(step)) {
            assert!(down <= up && up - down <= 1, "{left:?} lies between {down} and {up}");
        }
        assert_eq!(left.round_down(step).is_none(), left.is_negative(), "{left:?}");
    }
    assert_eq!(-(-left), left);
    assert_eq!(left.checked_add(Quantity::ZERO), Some(left));
    let Ok(right) = right.parse::<Quantity>() else { return };
    assert_eq!(left.checked_add(right), right.checked_add(left));
    assert_eq!(left.saturating_add(right), right.saturating_add(left));
    if let Some(sum) = left.checked_add(right) {
        assert_eq!(sum, left.saturating_add(right));
        assert_eq!(sum.checked_sub(right), Some(left));
    }
    assert_eq!(left.cmp(&right), right.cmp(&left).reverse());
}
