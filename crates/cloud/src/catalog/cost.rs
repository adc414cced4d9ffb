//! What a lease costs and how long it may be. Owns the arithmetic, in thousandths of a service
//! unit; whether somebody may spend it is the budget's matter.

/// A cost in thousandths of a service unit, and whether the rate behind it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Thousandths of a service unit.
    pub milli_su: u64,
    /// Whether the rate is the site's; if not, it is at least this much.
    pub known: bool,
}

/// The cost of so many hours: the rate of the dearest host, 1.0 where none is given. `from_site` tells whether the catalogue
/// holds the site's own rates.
#[must_use]
pub fn cost(hours: u32, su_milli: Option<u32>, from_site: bool) -> Cost {
    Cost { milli_su: u64::from(hours) * u64::from(su_milli.unwrap_or(1000)), known: from_site }
}

/// The cost of a virtual machine: its share of the threads of a host, rounded up.
#[must_use]
pub(crate) fn flavor_cost(hours: u32, su_milli: Option<u32>, vcpus: u32, host_threads: u32) -> Cost {
    let whole = u64::from(hours) * u64::from(su_milli.unwrap_or(1000)) * u64::from(vcpus);
    Cost { milli_su: whole.div_ceil(u64::from(host_threads.max(1))), known: su_milli.is_some() }
}

impl Cost {
    /// Whether it is within a budget of whole service units.
    #[must_use]
    pub const fn is_within(&self, max_su: u64) -> bool {
        self.milli_su <= max_su.saturating_mul(1000)
    }

    /// The cost as text, with one digit after the point where it is not whole.
    #[must_use]
    pub fn text(&self) -> String {
        let tenths = self.milli_su.div_ceil(100);
        let amount = if tenths.is_multiple_of(10) {
            format!("{}", tenths / 10)
        } else {
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        if self.known { format!("{amount} SU") } else { format!("at least {amount} SU (rate unknown)") }
    }
}

/// Hours a lease of bare metal, or of a scarce virtual machine, may have.
pub(crate) const MAX_HOURS: u32 = 168;
/// Before this many hours to its end a lease cannot be extended.
pub(crate) const EXTENSION_OPENS_HOURS: u32 = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_hours_times_the_rate() {
        assert_eq!(cost(24, Some(1500), true).text(), "36 SU");
        assert_eq!(cost(24, None, true).text(), "24 SU");
        assert_eq!(cost(24, None, false).text(), "at least 24 SU (rate unknown)");
        assert_eq!(cost(1, Some(1250), true).text(), "1.3 SU");
        assert_eq!(flavor_cost(10, Some(1000), 4, 48).milli_su, 834);
        assert_eq!(flavor_cost(10, Some(1000), 4, 0).milli_su, 40_000);
    }

    #[test]
    fn a_budget_is_met_exactly_and_not_beyond() {
        assert!(cost(24, Some(1000), true).is_within(24));
        assert!(!cost(24, Some(1001), true).is_within(24));
        assert!(cost(u32::MAX, Some(u32::MAX), true).is_within(u64::MAX));
    }
}
