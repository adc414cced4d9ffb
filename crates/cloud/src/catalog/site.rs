//! Known sites and their addresses.

/// A site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// Its short name.
    pub name: &'static str,
    /// Where one signs in.
    pub auth_url: &'static str,
    /// Its region.
    pub region: &'static str,
    /// Whether it has virtual machines only.
    pub virtual_machines: bool,
}

const fn site(name: &'static str, auth_url: &'static str, region: &'static str, virtual_machines: bool) -> Site {
    Site { name, auth_url, region, virtual_machines }
}

/// All known sites.
pub const SITES: [Site; 6] = [
    site("uc", "https://chi.uc.chameleoncloud.org:5000/v3", "CHI@UC", false),
    site("tacc", "https://chi.tacc.chameleoncloud.org:5000/v3", "CHI@TACC", false),
    site("nu", "https://sl-ciab.northwestern.edu:5000/v3", "CHI@NU", false),
    site("ncar", "https://chi.hpc.ucar.edu:5000/v3", "CHI@NCAR", false),
    site("nrp", "https://chi.nrp.ai:5000/v3", "CHI@NRP", false),
    site("kvm", "https://kvm.tacc.chameleoncloud.org:5000/v3", "KVM@TACC", true),
];

/// The site of a name or region, whatever its case.
#[must_use]
pub fn site_named(name: &str) -> Option<&'static Site> {
    SITES.iter().find(|site| site.name.eq_ignore_ascii_case(name) || site.region.eq_ignore_ascii_case(name))
}

/// Whether a name is that of the site for containers, which has no servers to lease.
#[must_use]
pub fn is_edge(name: &str) -> bool {
    ["edge", "chi@edge"].contains(&name.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_found_by_name_and_region() {
        assert_eq!(site_named("uc").unwrap().region, "CHI@UC");
        assert_eq!(site_named("chi@tacc").unwrap().auth_url, "https://chi.tacc.chameleoncloud.org:5000/v3");
        assert!(site_named("kvm").unwrap().virtual_machines);
        assert!(site_named("elsewhere").is_none());
        assert!(is_edge("CHI@Edge") && !is_edge("uc"));
    }
}
