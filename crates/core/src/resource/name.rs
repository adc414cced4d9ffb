//! Names of resources and the step each is counted in. Owns the convention of Kubernetes; lists no vendors.

use crate::id::{label_key, text_id};
use crate::quantity::Step;

/// Millicores.
pub const CPU: &str = "cpu";
/// Bytes of memory.
pub const MEMORY: &str = "memory";
/// Bytes of scratch disk.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

text_id! {
    /// The name of a resource: `cpu`, `memory`, `hugepages-2Mi`, or extended such as `nvidia.com/gpu`.
    pub struct ResourceName(|text: &str| label_key(text).map_err(|error| error.about("resource name")));
}

impl ResourceName {
    /// The step this resource is counted in: `cpu` in thousandths, memory and storage in bytes, all others (devices,
    /// licences) in ten-thousandths.
    #[must_use]
    pub fn step(&self) -> Step {
        match self.as_str() {
            CPU => Step::Milli,
            MEMORY | EPHEMERAL_STORAGE | "storage" => Step::One,
            name if name.starts_with("hugepages-") => Step::One,
            _ => Step::TenThousandth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kubernetes() {
        for good in ["cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu", "sgx.intel.com/epc", "nvidia.com/mig-1g.5gb"] {
            assert!(ResourceName::new(good).is_ok(), "{good}");
        }
        insta::assert_snapshot!(ResourceName::new("nvidia.com/gpu/0").unwrap_err(), @"resource name `nvidia.com/gpu/0` is not valid: it has more than one `/`; use `name` or `prefix/name`");
    }

    #[test]
    fn each_name_has_its_step() {
        let step = |name: &str| ResourceName::new(name).unwrap().step();
        assert_eq!((step("cpu"), step("memory"), step("storage")), (Step::Milli, Step::One, Step::One));
        assert_eq!((step("hugepages-1Gi"), step("ephemeral-storage")), (Step::One, Step::One));
        assert_eq!((step("nvidia.com/gpu"), step("licence")), (Step::TenThousandth, Step::TenThousandth));
    }
}
