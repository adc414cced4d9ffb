//! Operating systems that are available, and what others come nearest to. Owns the
//! mapping; which image is taken is the catalogue's matter.

use serde::Serialize;

use super::version::Version;

/// A system images are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OsType {
    /// Ubuntu.
    Ubuntu,
    /// CentOS, from 9 on the Stream.
    Centos,
}

impl OsType {
    /// Its name in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ubuntu => "ubuntu",
            Self::Centos => "centos",
        }
    }
}

/// A system with its version, and what the repository called it if that was another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Os {
    /// Which system.
    pub kind: OsType,
    /// Its version.
    pub version: Version,
    /// Whether it stands for another system or version than the one written.
    pub mapped: bool,
}

/// Releases of Ubuntu with long support.
pub(crate) const UBUNTU: [Version; 5] =
    [Version::new(18, 4), Version::new(20, 4), Version::new(22, 4), Version::new(24, 4), Version::new(26, 4)];

impl Os {
    /// What is taken when nothing is known.
    pub const DEFAULT: Self = Self { kind: OsType::Ubuntu, version: Version::new(22, 4), mapped: false };

    /// The version as it is written: `22.04`, `9`.
    #[must_use]
    pub fn version_text(&self) -> String {
        match self.kind {
            OsType::Ubuntu => format!("{}.{:02}", self.version.major, self.version.minor),
            OsType::Centos => self.version.major.to_string(),
        }
    }

    /// Whether its support has ended.
    #[must_use]
    pub fn is_end_of_life(&self) -> bool {
        match self.kind {
            OsType::Ubuntu => self.version < Version::new(22, 4),
            OsType::Centos => self.version.major < 9,
        }
    }

    /// The version of Python it carries.
    #[must_use]
    pub fn python(&self) -> Version {
        let minor = match (self.kind, self.version.major) {
            (OsType::Ubuntu, ..20) | (OsType::Centos, ..9) => 6,
            (OsType::Ubuntu, 20..22) => 8,
            (OsType::Centos, _) => 9,
            (OsType::Ubuntu, 22..24) => 10,
            (OsType::Ubuntu, 24..26) => 12,
            (OsType::Ubuntu, _) => 14,
        };
        Version::new(3, minor)
    }

    /// The system of a distribution by name and version, `latest` and code names included; nothing for names that are
    /// no distribution.
    #[must_use]
    pub fn of(name: &str, version: &str) -> Option<Self> {
        let version = version.trim().to_ascii_lowercase();
        let number = Version::read(&version);
        let major = number.map(|number| number.major);
        match name.trim().to_ascii_lowercase().as_str() {
            "ubuntu" => Some(ubuntu(&version, number)),
            "debian" => Some(nearest(debian_month(&version, major))),
            "alpine" => Some(nearest(number.map(|n| month(2020, 5) + 6 * n.minor.min(200) as i64 - 72))),
            "fedora" => Some(nearest(major.map(|n| month(2022, 5) + 6 * (i64::from(n.min(200)) - 36)))),
            "amazonlinux" => Some(nearest(match major {
                Some(2023..) => Some(month(2023, 3)),
                Some(_) => Some(month(2018, 6)),
                None => None,
            })),
            "archlinux" | "arch" | "opensuse" | "suse" => Some(nearest(None)),
            "centos" => Some(centos(major)),
            "rhel" | "redhat" | "rocky" | "rockylinux" | "alma" | "almalinux" | "oraclelinux" | "ubi" => {
                Some(Self { kind: OsType::Centos, version: Version::new(9, 0), mapped: true })
            }
            _ => None,
        }
    }

    /// The system that a code name in an image tag stands for.
    #[must_use]
    pub fn of_code_name(name: &str) -> Option<Self> {
        match name {
            "bionic" | "focal" | "jammy" | "noble" | "xenial" | "resolute" => Some(ubuntu(name, None)),
            "stretch" | "buster" | "bullseye" | "bookworm" | "trixie" => Self::of("debian", name),
            _ => None,
        }
    }
}

fn ubuntu(version: &str, number: Option<Version>) -> Os {
    let written = match version {
        "xenial" => Some(Version::new(16, 4)),
        "bionic" => Some(Version::new(18, 4)),
        "focal" => Some(Version::new(20, 4)),
        "jammy" => Some(Version::new(22, 4)),
        "noble" => Some(Version::new(24, 4)),
        "resolute" => Some(Version::new(26, 4)),
        "" | "latest" | "lts" => None,
        _ => number,
    };
    match written {
        Some(exact) if UBUNTU.contains(&exact) => Os { version: exact, ..Os::DEFAULT },
        // `20` means 20.04, and so does 20.10: releases without long support are not offered.
        Some(other) => {
            let year = i64::from(other.major.min(200)) + 2000;
            nearest(Some(month(year, if other.minor == 0 { 4 } else { i64::from(other.minor.min(12)) })))
        }
        None => Os { mapped: true, ..Os::DEFAULT },
    }
}

fn centos(major: Option<u32>) -> Os {
    match major {
        Some(7) => Os { kind: OsType::Centos, version: Version::new(7, 0), mapped: false },
        Some(8) => Os { kind: OsType::Centos, version: Version::new(8, 0), mapped: false },
        Some(9) => Os { kind: OsType::Centos, version: Version::new(9, 0), mapped: false },
        _ => Os { kind: OsType::Centos, version: Version::new(9, 0), mapped: true },
    }
}

/// Months since the year 0.
const fn month(year: i64, month: i64) -> i64 {
    year * 12 + month
}

fn debian_month(version: &str, major: Option<u32>) -> Option<i64> {
    let number = match version {
        "stretch" => 9,
        "buster" => 10,
        "bullseye" => 11,
        "bookworm" => 12,
        "trixie" => 13,
        _ => major?,
    };
    Some(match number {
        ..=9 => month(2017, 6),
        10 => month(2019, 7),
        11 => month(2021, 8),
        12 => month(2023, 6),
        _ => month(2025, 8),
    })
}

/// The Ubuntu whose release is nearest to a month, the newer of two equally near.
fn nearest(released: Option<i64>) -> Os {
    let Some(released) = released else { return Os { mapped: true, ..Os::DEFAULT } };
    let of = |version: &Version| month(2000 + i64::from(version.major), i64::from(version.minor));
    let found = UBUNTU.iter().rev().min_by_key(|version| (of(version) - released).abs());
    Os { version: found.copied().unwrap_or(Os::DEFAULT.version), kind: OsType::Ubuntu, mapped: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(name: &str, version: &str) -> String {
        let os = Os::of(name, version).unwrap();
        format!("{} {}{}", os.kind.name(), os.version_text(), if os.mapped { " mapped" } else { "" })
    }

    #[test]
    fn other_systems_map_to_the_ubuntu_of_the_nearest_year() {
        for (name, version, wanted) in [
            ("ubuntu", "22.04", "ubuntu 22.04"),
            ("Ubuntu", "focal", "ubuntu 20.04"),
            ("ubuntu", "18.04", "ubuntu 18.04"),
            ("ubuntu", "16.04", "ubuntu 18.04 mapped"),
            ("ubuntu", "20.10", "ubuntu 20.04 mapped"),
            ("ubuntu", "23.10", "ubuntu 24.04 mapped"),
            ("ubuntu", "20", "ubuntu 20.04 mapped"),
            ("ubuntu", "latest", "ubuntu 22.04 mapped"),
            ("debian", "9", "ubuntu 18.04 mapped"),
            ("debian", "buster", "ubuntu 20.04 mapped"),
            ("debian", "11", "ubuntu 22.04 mapped"),
            ("debian", "bookworm", "ubuntu 24.04 mapped"),
            ("debian", "13", "ubuntu 26.04 mapped"),
            ("alpine", "3.12", "ubuntu 20.04 mapped"),
            ("alpine", "3.16", "ubuntu 22.04 mapped"),
            ("alpine", "3.20", "ubuntu 24.04 mapped"),
            ("alpine", "latest", "ubuntu 22.04 mapped"),
            ("fedora", "40", "ubuntu 24.04 mapped"),
            ("amazonlinux", "2", "ubuntu 18.04 mapped"),
            ("amazonlinux", "2023", "ubuntu 22.04 mapped"),
            ("archlinux", "latest", "ubuntu 22.04 mapped"),
            ("centos", "7.9.2009", "centos 7"),
            ("centos", "8", "centos 8"),
            ("centos", "stream9", "centos 9 mapped"),
            ("rockylinux", "9", "centos 9 mapped"),
            ("almalinux", "8.6", "centos 9 mapped"),
            ("rhel", "8", "centos 9 mapped"),
        ] {
            assert_eq!(reported(name, version), wanted, "{name}:{version}");
        }
        assert_eq!(Os::of("python", "3.8"), None);
        assert_eq!(Os::of_code_name("bookworm").unwrap().version_text(), "24.04");
        assert_eq!(Os::of_code_name("slim"), None);
    }

    #[test]
    fn old_releases_are_at_the_end_of_their_life() {
        let old = |name: &str, version: &str| Os::of(name, version).unwrap().is_end_of_life();
        assert!(old("ubuntu", "18.04") && old("ubuntu", "20.04") && old("centos", "7") && old("centos", "8"));
        assert!(!old("ubuntu", "22.04") && !old("centos", "9"));
    }

    #[test]
    fn every_system_carries_a_python() {
        let pythons = UBUNTU.map(|version| Os { version, ..Os::DEFAULT }.python().to_string());
        assert_eq!(pythons, ["3.6", "3.8", "3.10", "3.12", "3.14"]);
        assert_eq!(Os::of("centos", "9").unwrap().python(), Version::new(3, 9));
    }
}
