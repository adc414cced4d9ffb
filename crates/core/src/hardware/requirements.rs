//! What work needs of a machine, as users ask for it. Owns the value; resolving it to a
//! placement is a later step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TeeNeed;
use super::gpu::GpuNeed;
use crate::named::named_enum;
use crate::resource::{Bytes, CpuMilli, ResourceVector};

named_enum! {
    /// A CPU architecture, by its Kubernetes name.
    pub enum Arch("CPU architecture") {
        /// x86 with 64 bits.
        Amd64 = "amd64",
        /// Arm with 64 bits.
        Arm64 = "arm64",
        /// POWER, little endian.
        Ppc64le = "ppc64le",
        /// IBM Z.
        S390x = "s390x",
        /// RISC-V with 64 bits.
        Riscv64 = "riscv64",
    }
}

/// What work needs of a machine beyond plain resources. What is absent does not matter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HardwareRequirements {
    /// Devices; none means no resource, toleration or selector for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuNeed>,
    /// A trusted execution environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tee: Option<TeeNeed>,
    /// The CPU architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
    /// Labels the machine must have, with exactly these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Plain resources that travel beside the requirements. Zero means unaccounted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Resources {
    /// CPU in millicores.
    pub cpu_milli: CpuMilli,
    /// Memory in bytes.
    pub memory_bytes: Bytes,
    /// Scratch disk in bytes.
    pub disk_bytes: Bytes,
    /// Anything else by resource name.
    #[serde(skip_serializing_if = "ResourceVector::is_zero")]
    pub extended: ResourceVector,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::gpu::parse_gpu_type;
    use crate::hardware::{TeeKind, TeeLevel};

    #[test]
    fn json_has_the_fields_of_the_model() {
        let requirements = HardwareRequirements {
            gpu: Some(GpuNeed { count: 1, kind: parse_gpu_type("h100").unwrap(), allocation: Default::default() }),
            tee: Some(TeeNeed { kind: TeeKind::SevSnp, level: TeeLevel::Preferred }),
            arch: Some(Arch::Amd64),
            labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        };
        let json = serde_json::to_string(&requirements).unwrap();
        insta::assert_snapshot!(json, @r#"{"gpu":{"count":1,"kind":{"vendor":"nvidia","model":"h100"},"allocation":"devicePlugin"},"tee":{"kind":"sev-snp","level":"preferred"},"arch":"amd64","labels":{"zone":"a"}}"#);
        assert_eq!(serde_json::from_str::<HardwareRequirements>(&json).unwrap(), requirements);
        assert_eq!(serde_json::from_str::<HardwareRequirements>("{}").unwrap(), HardwareRequirements::default());
        assert!(serde_json::from_str::<HardwareRequirements>(r#"{"gpus": 1}"#).is_err());
        assert!(serde_json::from_str::<HardwareRequirements>(r#"{"arch": "x86_64"}"#).is_err());
    }

    #[test]
    fn resources_are_plain_numbers() {
        let json =
            r#"{"cpuMilli":1500,"memoryBytes":1073741824,"diskBytes":0,"extended":{"sgx.intel.com/epc":"64Mi"}}"#;
        let resources: Resources = serde_json::from_str(json).unwrap();
        assert_eq!(resources.cpu_milli, CpuMilli(1500));
        assert_eq!(resources.extended.get("sgx.intel.com/epc"), 64 * 1024 * 1024 * 10_000);
        assert_eq!(serde_json::from_str::<Resources>(&serde_json::to_string(&resources).unwrap()).unwrap(), resources);
    }
}
