//! Values of arguments that are more than a number or a word.

use std::net::IpAddr;

use jiff::SignedDuration;
use orlop_cloud::analyze::Os;
use orlop_cloud::catalog::window::read_time;
use orlop_core::time::{HumanDuration, Time};

/// A duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DurationArg(pub(super) SignedDuration);

impl DurationArg {
    /// Whole hours, the part of one left out.
    pub(super) fn hours(self) -> u32 {
        u32::try_from(self.0.as_hours()).unwrap_or(0)
    }
}

/// A system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OsArg(pub(super) Os);

/// Reads `90m`, `12h`, `2d`, `1d12h`, `45s` or `0`; a year at most.
pub(super) fn duration(text: &str) -> Result<DurationArg, String> {
    let wrong = || "write a number and s, m, h or d, such as 90m; a year at most".to_owned();
    let time = text.parse::<HumanDuration>().map_err(|_| wrong())?.get();
    let whole = i64::try_from(time.as_secs()).ok().filter(|whole| *whole <= 366 * 86_400).ok_or_else(wrong)?;
    // Clouds count in whole seconds.
    let plain = time.subsec_nanos() == 0 && !text.contains(['.', '+']);
    if plain { Ok(DurationArg(SignedDuration::from_secs(whole))) } else { Err(wrong()) }
}

/// Reads `ubuntu:22.04` or `centos:9`.
pub(super) fn os(text: &str) -> Result<OsArg, String> {
    let wrong = || "write TYPE:VERSION, such as ubuntu:22.04 or centos:9".to_owned();
    let (name, version) = text.split_once(':').ok_or_else(wrong)?;
    if !["ubuntu", "centos"].contains(&name.to_ascii_lowercase().as_str()) {
        return Err(wrong());
    }
    Os::of(name, version).filter(|os| !os.mapped).map(OsArg).ok_or_else(wrong)
}

/// Reads a point in time: RFC 3339, or without a zone in UTC.
pub(super) fn time(text: &str) -> Result<Time, String> {
    let wrong = || "write a time such as 2026-01-07T18:00:00Z".to_owned();
    read_time(text).map(|time| Time::from_millis(time.as_millisecond())).ok_or_else(wrong)
}

/// Reads a range of addresses such as `192.0.2.0/24`.
pub(super) fn cidr(text: &str) -> Result<String, String> {
    let wrong = || "write a range of addresses such as 192.0.2.0/24".to_owned();
    let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits: u8 = bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?;
    Ok(format!("{address}/{bits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_a_bound() {
        let seconds = |text: &str| duration(text).map(|value| value.0.as_secs()).ok();
        assert_eq!(
            ["0", "45s", "90m", "12h", "2d"].map(seconds),
            [Some(0), Some(45), Some(5400), Some(43_200), Some(172_800)]
        );
        assert_eq!(["", "5", "h", "-1h", "1.5h", "1w", "99999999999d", "367d", "1h "].map(seconds), [None; 9]);
        assert_eq!((duration("59m").unwrap().hours(), seconds("1d12h"), seconds("500ms")), (0, Some(129_600), None));
    }

    #[test]
    fn times_and_ranges_of_addresses_are_read_strictly() {
        assert_eq!(time("2026-01-07T18:00:00Z").unwrap().to_string(), "2026-01-07T18:00:00Z");
        assert_eq!(time("2026-01-07 18:00").unwrap().to_string(), "2026-01-07T18:00:00Z");
        assert!(time("tomorrow").is_err());
        assert_eq!(cidr("192.0.2.0/24").unwrap(), "192.0.2.0/24");
        assert_eq!(cidr("2001:db8::/32").unwrap(), "2001:db8::/32");
        for text in ["192.0.2.0", "192.0.2.0/33", "x/8", "1.2.3/8", "192.0.2.0/-1"] {
            assert!(cidr(text).is_err(), "{text}");
        }
    }

    #[test]
    fn systems_are_named_with_their_version() {
        assert_eq!(os("Ubuntu:24.04").unwrap().0.version_text(), "24.04");
        assert_eq!(os("centos:9").unwrap().0.version_text(), "9");
        for text in ["ubuntu", "debian:12", "ubuntu:1.2.3.4", ":", "ubuntu:", "centos:12"] {
            assert!(os(text).is_err(), "{text}");
        }
    }
}
