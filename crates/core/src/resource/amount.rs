//! Amounts of one kind: millicores, bytes, ten-thousandths of a device. Owns the units and checked arithmetic; knows no
//! resource names.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quantity::{Quantity, Step};

/// Declares an amount in fixed steps of a whole; a plain number of steps in JSON.
macro_rules! amount {
    ($(#[$meta:meta])* pub struct $name:ident($step:expr);) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Nothing.
            pub const ZERO: Self = Self(0);

            /// A request for `quantity`: rounded up to whole steps, at most `u64::MAX`; `None` where it is negative.
            #[must_use]
            pub fn requested(quantity: Quantity) -> Option<Self> {
                quantity.round_up($step).map(Self)
            }

            /// A capacity of `quantity`: rounded down to whole steps, at most `u64::MAX`; `None` where it is negative.
            #[must_use]
            pub fn offered(quantity: Quantity) -> Option<Self> {
                quantity.round_down($step).map(Self)
            }

            /// Sum, or `None` beyond `u64::MAX`.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// Difference, or `None` below zero.
            #[must_use]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(rest) => Some(Self(rest)),
                    None => None,
                }
            }

            /// Sum, at most `u64::MAX`.
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// Difference, at least zero.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Product with a number of pieces, at most `u64::MAX`.
            #[must_use]
            pub const fn saturating_mul(self, pieces: u64) -> Self {
                Self(self.0.saturating_mul(pieces))
            }

            /// Whether it is nothing.
            #[must_use]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }

        impl From<$name> for Quantity {
            fn from(amount: $name) -> Self {
                amount.quantity()
            }
        }

        impl fmt::Display for $name {
            /// As a Kubernetes quantity.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.quantity(), f)
            }
        }
    };
}

amount! {
    /// CPU in thousandths of a core (millicores).
    pub struct CpuMilli(Step::Milli);
}

amount! {
    /// Memory or storage in bytes.
    pub struct Bytes(Step::One);
}

amount! {
    /// Devices in ten-thousandths of one, so that a third of a device three times is not more than one.
    pub struct Gpu(Step::TenThousandth);
}

impl CpuMilli {
    /// This many whole cores, at most `u64::MAX` millicores.
    #[must_use]
    pub const fn cores(cores: u64) -> Self {
        Self(cores.saturating_mul(1000))
    }

    /// As a Kubernetes quantity, for example `1500m`.
    #[must_use]
    pub const fn quantity(self) -> Quantity {
        Quantity::from_milli(self.0)
    }
}

impl Bytes {
    /// This many mebibytes (2²⁰ bytes), at most `u64::MAX` bytes.
    #[must_use]
    pub const fn mebi(mebi: u64) -> Self {
        Self(mebi.saturating_mul(1 << 20))
    }

    /// This many gibibytes (2³⁰ bytes), at most `u64::MAX` bytes.
    #[must_use]
    pub const fn gibi(gibi: u64) -> Self {
        Self(gibi.saturating_mul(1 << 30))
    }

    /// As a Kubernetes quantity, for example `512Mi`.
    #[must_use]
    pub const fn quantity(self) -> Quantity {
        Quantity::from_bytes(self.0)
    }
}

impl Gpu {
    /// Steps in one whole device.
    pub const STEPS: u64 = 10_000;

    /// This many whole devices, at most `u64::MAX` steps.
    #[must_use]
    pub const fn whole(devices: u64) -> Self {
        Self(devices.saturating_mul(Self::STEPS))
    }

    /// The number of whole devices needed to hold it.
    #[must_use]
    pub const fn devices(self) -> u64 {
        self.0.div_ceil(Self::STEPS)
    }

    /// As a Kubernetes quantity, for example `2` or `500m`.
    #[must_use]
    pub const fn quantity(self) -> Quantity {
        Quantity::from_steps(self.0, Step::TenThousandth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn requests_round_up_and_capacities_round_down() {
        assert_eq!(CpuMilli::requested(quantity("1500u")), Some(CpuMilli(2)));
        assert_eq!(CpuMilli::offered(quantity("1500u")), Some(CpuMilli(1)));
        assert_eq!(Bytes::requested(quantity("1.1Ki")), Some(Bytes(1127)));
        assert_eq!(Gpu::requested(quantity("0.33333")), Some(Gpu(3334)));
        assert_eq!(Gpu::offered(quantity("0.33333")), Some(Gpu(3333)));
        assert_eq!(Bytes::requested(quantity("-1")), None);
    }

    #[test]
    fn amounts_are_written_as_quantities_and_read_back() {
        assert_eq!(CpuMilli(1500).to_string(), "1500m");
        assert_eq!(CpuMilli::cores(2).to_string(), "2");
        assert_eq!(Bytes::mebi(1536).to_string(), "1536Mi");
        assert_eq!(Bytes::gibi(2), Bytes::mebi(2048));
        assert_eq!(Gpu::whole(2).to_string(), "2");
        assert_eq!(Gpu(5000).to_string(), "500m");
        assert_eq!(Gpu(1).to_string(), "100u");
        for steps in [0, 1, 3334, 10_000, u64::MAX] {
            assert_eq!(CpuMilli::requested(CpuMilli(steps).quantity()), Some(CpuMilli(steps)));
            assert_eq!(Bytes::offered(Bytes(steps).quantity()), Some(Bytes(steps)));
            assert_eq!(Gpu::requested(Gpu(steps).quantity()), Some(Gpu(steps)));
        }
        assert_eq!(serde_json::to_string(&Bytes(7)).unwrap(), "7");
    }

    #[test]
    fn nothing_wraps_around() {
        let (one, max) = (Gpu(1), Gpu(u64::MAX));
        assert_eq!((max.checked_add(one), max.saturating_add(one)), (None, max));
        assert_eq!((Gpu::ZERO.checked_sub(one), Gpu::ZERO.saturating_sub(one)), (None, Gpu::ZERO));
        assert_eq!(Gpu::whole(u64::MAX), max);
        assert_eq!((Gpu::whole(2).devices(), Gpu(20_001).devices(), Gpu::ZERO.devices()), (2, 3, 0));
        assert_eq!(Gpu(3333).saturating_mul(3), Gpu(9999));
        assert!(Gpu::ZERO.is_zero() && !one.is_zero());
    }
}
