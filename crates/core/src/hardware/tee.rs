//! Trusted execution environments. Owns their kinds, what they imply and how their names are read; how a cluster marks
//! such a machine is a translation's matter.

use serde::{Deserialize, Serialize};

use super::{Arch, HardwareError};
use crate::named::named_enum;

named_enum! {
    /// A kind of trusted execution environment.
    pub enum TeeKind("TEE kind") {
        /// Intel SGX: enclaves within a process.
        Sgx = "sgx",
        /// Intel TDX: virtual machines.
        Tdx = "tdx",
        /// AMD SEV: virtual machines with encrypted memory.
        Sev = "sev",
        /// AMD SEV-ES: with encrypted registers.
        SevEs = "sev-es",
        /// AMD SEV-SNP: with protected integrity.
        SevSnp = "sev-snp",
        /// IBM Secure Execution: virtual machines.
        Se = "se",
        /// Arm CCA: virtual machines.
        Cca = "cca",
    }
}

named_enum! {
    /// How much a trusted execution environment is wanted.
    #[derive(Default)]
    pub enum TeeLevel("TEE level") {
        /// Only machines with it are accepted.
        #[default]
        Required = "required",
        /// Better with it.
        Preferred = "preferred",
    }
}

/// A trusted execution environment that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TeeNeed {
    /// Which kind.
    pub kind: TeeKind,
    /// How much.
    #[serde(default)]
    pub level: TeeLevel,
}

impl TeeKind {
    /// The CPU architecture it exists on.
    #[must_use]
    pub const fn arch(self) -> Arch {
        match self {
            Self::Sgx | Self::Tdx | Self::Sev | Self::SevEs | Self::SevSnp => Arch::Amd64,
            Self::Se => Arch::S390x,
            Self::Cca => Arch::Arm64,
        }
    }

    /// Whether it protects whole virtual machines; all but SGX do.
    #[must_use]
    pub const fn is_vm(self) -> bool {
        !matches!(self, Self::Sgx)
    }

    /// Whether a machine with this kind serves a need for `asked`: itself, and within SEV the stronger the weaker.
    #[must_use]
    pub fn serves(self, asked: Self) -> bool {
        self == asked || matches!((self, asked), (Self::SevSnp, Self::SevEs | Self::Sev) | (Self::SevEs, Self::Sev))
    }
}

/// Reads the name of a kind in any usual spelling: case, `_`, `-`, blanks and one leading `intel`, `amd`, `ibm` or `arm`
/// do not matter.
///
/// # Errors
/// No such kind.
pub fn parse_tee_type(text: &str) -> Result<TeeKind, HardwareError> {
    let unknown = || HardwareError::UnknownTee { given: text.chars().take(64).collect() };
    if text.len() > 128 {
        return Err(unknown());
    }
    let name: String = text.to_ascii_lowercase().chars().filter(|ch| !matches!(ch, '_' | '-' | ' ')).collect();
    let bare = ["intel", "amd", "ibm", "arm"].iter().find_map(|brand| name.strip_prefix(brand)).unwrap_or(&name);
    match bare {
        "sgx" | "sgx1" | "sgx2" => Ok(TeeKind::Sgx),
        "tdx" => Ok(TeeKind::Tdx),
        "sev" => Ok(TeeKind::Sev),
        "seves" => Ok(TeeKind::SevEs),
        "snp" | "sevsnp" => Ok(TeeKind::SevSnp),
        "se" | "secureexecution" => Ok(TeeKind::Se),
        "cca" => Ok(TeeKind::Cca),
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::named::Named;

    #[test]
    fn names_are_read_in_any_usual_spelling() {
        let spellings = [
            ("sgx sgx1 sgx2", TeeKind::Sgx),
            ("tdx", TeeKind::Tdx),
            ("sev", TeeKind::Sev),
            ("seves sev-es SEV_ES sev--es", TeeKind::SevEs),
            ("snp sevsnp sev-snp SEV_SNP", TeeKind::SevSnp),
            ("se secureexecution secure-execution Secure_Execution", TeeKind::Se),
            ("cca", TeeKind::Cca),
        ];
        for (texts, kind) in spellings {
            for text in texts.split(' ') {
                assert_eq!(parse_tee_type(text), Ok(kind), "{text}");
                assert_eq!(parse_tee_type(&text.to_uppercase().replace(['-', '_'], " ")), Ok(kind), "{text}");
                for brand in ["intel", "AMD-", "ibm_", "Arm "] {
                    assert_eq!(parse_tee_type(&format!("{brand}{text}")), Ok(kind), "{brand}{text}");
                }
            }
        }
        for text in [
            "",
            "intel",
            "sgx3",
            "sgxintel",
            "intel-intel-sgx",
            "intel-amd-sgx",
            "nvidia-tdx",
            "tdx.",
            "séx",
            &"s".repeat(200),
        ] {
            assert!(parse_tee_type(text).is_err(), "{text}");
        }
        let error = parse_tee_type("sev-snq").unwrap_err();
        insta::assert_snapshot!(format!("{error}; {}", error.help()), @"unknown TEE type `sev-snq`; use one of sgx, tdx, sev, sev-es, sev-snp, se, cca");
    }

    #[test]
    fn a_kind_implies_an_architecture_and_a_machine_form() {
        let implied: Vec<String> =
            TeeKind::ALL.iter().map(|kind| format!("{kind}:{}:{}", kind.arch(), kind.is_vm())).collect();
        insta::assert_snapshot!(implied.join(" "), @"sgx:amd64:false tdx:amd64:true sev:amd64:true sev-es:amd64:true sev-snp:amd64:true se:s390x:true cca:arm64:true");
    }

    #[test]
    fn within_sev_the_stronger_serves_the_weaker() {
        assert!(TeeKind::SevSnp.serves(TeeKind::Sev) && TeeKind::SevEs.serves(TeeKind::Sev));
        assert!(!TeeKind::Sev.serves(TeeKind::SevEs) && !TeeKind::Tdx.serves(TeeKind::Sgx));
        assert!(TeeKind::ALL.iter().all(|kind| kind.serves(*kind)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_kinds_read_back(text in "\\PC{0,40}", kind in proptest::sample::select(TeeKind::ALL)) {
            let _ = parse_tee_type(&text);
            prop_assert_eq!(parse_tee_type(kind.as_str()), Ok(kind));
        }
    }
}
