//! Values of columns that have their own text.

use orlop_core::error::{Class, Problem};
use orlop_core::hardware::gpu::GpuShape;
use orlop_core::named::Named;

/// Inclusive ranges of indices as a column holds them, such as `0-99,200`; none for no ranges.
pub(in crate::store) fn indices_text(indices: &[(u32, u32)]) -> Option<String> {
    use std::fmt::Write as _;
    if indices.is_empty() {
        return None;
    }
    let mut text = String::new();
    for (first, last) in indices {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = if first == last { write!(text, "{comma}{first}") } else { write!(text, "{comma}{first}-{last}") };
    }
    Some(text)
}

/// The ranges of such a text.
pub(in crate::store) fn indices(text: Option<&str>) -> Result<Vec<(u32, u32)>, Problem> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    text.split(',').map(part).collect::<Option<_>>().ok_or_else(|| damaged("indices of an array", text))
}

/// A kind of GPU as a column holds it; none for none.
pub(in crate::store) fn gpu_text(gpu: Option<&GpuShape>) -> Option<String> {
    // Writing to memory fails for values JSON has no form for; here are none.
    gpu.map(|gpu| serde_json::to_string(gpu).unwrap_or_default())
}

/// The kind of GPU of such a text.
pub(in crate::store) fn gpu(text: Option<&str>) -> Result<Option<Box<GpuShape>>, Problem> {
    let read = |text| serde_json::from_str(text).map(Box::new).map_err(|_| damaged("a kind of GPU", text));
    text.map(read).transpose()
}

/// A value of a closed set.
pub(in crate::store) fn named<T: Named>(text: &str) -> Result<T, Problem> {
    T::from_name(text).ok_or_else(|| damaged(T::KIND, text))
}

/// The error for a column that holds what was never written to it.
pub(in crate::store) fn damaged(what: &str, found: &str) -> Problem {
    let shown: String = found.chars().take(64).collect();
    Problem::new(Class::Fatal, format!("the store holds `{shown}` as {what}; it is damaged: restore a backup"))
}

/// A number as 64-bit columns hold it; beyond their range the greatest.
pub(in crate::store) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that a 64-bit column holds.
pub(in crate::store) fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A small number that a column holds.
pub(in crate::store) fn small<T: TryFrom<i64>>(number: i64) -> Result<T, Problem> {
    T::try_from(number).map_err(|_| damaged("a small number", &number.to_string()))
}

/// What a key that begins with `prefix` is below: the next text that begins otherwise. None for no bound.
pub(in crate::store) fn above(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = ((last as u32 + 1)..=0x10_ffff).find_map(char::from_u32);
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_read_back() {
        for ranges in [vec![], vec![(0, 99), (200, 200)], vec![(u32::MAX, u32::MAX)]] {
            assert_eq!(indices(indices_text(&ranges).as_deref()).unwrap(), ranges);
        }
        assert_eq!(indices(Some("1,x")).unwrap_err().class, Class::Fatal);
    }

    #[test]
    fn keys_of_a_prefix_are_below_its_successor() {
        assert_eq!(above("a/").as_deref(), Some("a0"));
        assert_eq!(above("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(above("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(above("\u{10ffff}"), None);
        assert_eq!(above(""), None);
    }
}
