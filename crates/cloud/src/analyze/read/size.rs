//! Sizes as tools write them: `16g`, `1.5GiB`, `512m`, `-Xmx4g`.

/// A size in tenths of a GiB, rounded up; a number without a unit is in bytes.
pub(super) fn gib_tenths(text: &str) -> Option<u32> {
    let text = text.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    let end = text.find(|ch: char| !(ch.is_ascii_digit() || ch == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let number: f64 = number.parse().ok()?;
    let factor = match unit.trim() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" | "ki" => 1024.0,
        "m" | "mb" | "mib" | "mi" => 1024.0 * 1024.0,
        "g" | "gb" | "gib" | "gi" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tb" | "tib" | "ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let tenths = (number * factor / (1024.0 * 1024.0 * 1024.0) * 10.0).ceil();
    // Saturates: what is too large is refused where facts are taken down.
    (tenths.is_finite() && tenths > 0.0).then_some(tenths as u32)
}

/// A size in whole GiB, rounded up.
pub(super) fn gib(text: &str) -> Option<u32> {
    gib_tenths(text).map(|tenths| tenths.div_ceil(10))
}

/// The largest `-Xmx` of a text, in tenths of a GiB.
pub(super) fn heap_tenths(text: &str) -> Option<u32> {
    let after = text.match_indices("-Xmx").filter_map(|(at, found)| text.get(at + found.len()..));
    let values = after.filter_map(|rest| {
        let end = rest.find(|ch: char| !ch.is_ascii_alphanumeric()).unwrap_or(rest.len());
        gib_tenths(rest.get(..end)?)
    });
    values.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_any_usual_unit() {
        for (text, wanted) in [
            ("16g", Some(16)),
            ("1.5GiB", Some(2)),
            ("512m", Some(1)),
            ("\"2Gi\"", Some(2)),
            ("1t", Some(1024)),
            ("1073741824", Some(1)),
            ("0", None),
            ("x", None),
            ("1q", None),
            ("1e400", None),
        ] {
            assert_eq!(gib(text), wanted, "{text}");
        }
        assert_eq!(gib("999999999999999999999999t"), Some(u32::MAX.div_ceil(10)));
    }

    #[test]
    fn the_largest_heap_counts() {
        assert_eq!(heap_tenths("-Xms1g -Xmx4g -Xmx512m"), Some(40));
        assert_eq!(heap_tenths("-Xmx2048m\""), Some(20));
        assert_eq!(heap_tenths("-Xmx -XmxQ"), None);
    }
}
