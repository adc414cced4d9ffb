//! Cursors of lists: where the next page begins, as a text that means nothing to clients.

use orlop_core::error::Problem;

use super::call::Call;

/// The cursor behind an item.
pub(super) fn write(list: &str, item: &str) -> String {
    format!("{list}:{item}").bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The item that a cursor of this list stands behind.
pub(super) fn read(list: &str, text: &str) -> Option<String> {
    if text.len() > 1024 || !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
    let plain = String::from_utf8(bytes?).ok()?;
    plain.strip_prefix(list)?.strip_prefix(':').map(str::to_owned)
}

impl Call {
    /// The item that the request's cursor stands behind.
    pub(super) fn cursor<T: std::str::FromStr>(&self, list: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.one("cursor")? else { return Ok(None) };
        let item = read(list, text).and_then(|item| item.parse().ok());
        item.map(Some).ok_or_else(|| {
            Problem::field("cursor", "does not belong to this list; use `next_cursor` as it was returned")
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_reads_back_in_its_own_list_only(item in "\\PC{0,64}") {
            let text = write("jobs", &item);
            prop_assert_eq!(read("jobs", &text), Some(item));
            prop_assert_eq!(read("workers", &text), None);
        }

        #[test]
        fn no_text_breaks_the_reading_of_cursors(text in "\\PC{0,64}") {
            let _ = read("jobs", &text);
        }
    }
}
