//! Values as text: text as is, numbers in shortest form, `true`, `false`, null empty, the rest compact JSON
//! with members by name. Owns the conversion and its limits; never decides which value is meant.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::Formatter;

use super::tree::{DEPTH_MAX, depth_within};

/// The longest text a value becomes, in bytes: what all outputs of a flow may hold together.
pub const TEXT_MAX: usize = 8 * 1024 * 1024;

/// A value cannot be written as a parameter value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the value is longer than {TEXT_MAX} bytes or deeper than {DEPTH_MAX} levels; read a smaller part of it")]
pub struct TextTooLarge;

/// The text of a JSON value as the value of a parameter: texts without quotes, everything else as compact JSON.
///
/// ```
/// use orlop_dag::params::text_of;
/// use serde_json::json;
/// assert_eq!(text_of(&json!(0.7)).unwrap(), "0.7");
/// assert_eq!(text_of(&json!({"a": [1, null]})).unwrap(), r#"{"a":[1,null]}"#);
/// ```
///
/// # Errors
/// When the text would be longer than 8 MiB or the value is deeper than 128 levels.
pub fn text_of(value: &Value) -> Result<Cow<'_, str>, TextTooLarge> {
    match value {
        Value::Null => Ok(Cow::Borrowed("")),
        Value::Bool(true) => Ok(Cow::Borrowed("true")),
        Value::Bool(false) => Ok(Cow::Borrowed("false")),
        Value::String(text) if text.len() <= TEXT_MAX => Ok(Cow::Borrowed(text)),
        Value::String(_) => Err(TextTooLarge),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => compact(std::iter::once(value)).map(Cow::Owned),
    }
}

/// Several results as one compact JSON array.
pub(super) fn array_of<'v>(values: impl Iterator<Item = &'v Value>) -> Result<String, TextTooLarge> {
    compact(values).map(|items| format!("[{items}]"))
}

/// Values as compact JSON, separated by commas.
fn compact<'v>(values: impl Iterator<Item = &'v Value>) -> Result<String, TextTooLarge> {
    let mut out = Bounded(Vec::new());
    for (at, value) in values.enumerate() {
        if !depth_within(value, DEPTH_MAX) {
            return Err(TextTooLarge);
        }
        if at > 0 {
            io::Write::write_all(&mut out, b",").map_err(|_| TextTooLarge)?;
        }
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, Shortest);
        value.serialize(&mut serializer).map_err(|_| TextTooLarge)?;
    }
    String::from_utf8(out.0).map_err(|_| TextTooLarge)
}

/// A buffer that refuses to grow beyond [`TEXT_MAX`].
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > TEXT_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compact JSON whose floating-point numbers have no `.0` and no `+` in the exponent.
struct Shortest;

impl Formatter for Shortest {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // Only finite numbers reach this: a JSON value holds no others.
        let text = serde_json::Number::from_f64(value).map(|number| number.to_string()).unwrap_or_default();
        writer.write_all(text.strip_suffix(".0").unwrap_or(&text).replace("e+", "e").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::exact;
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::tree::testing::{nested, trees};
    use super::*;

    #[test]
    fn values_become_text() {
        for (value, text) in [
            (json!("a \"b\"\n"), "a \"b\"\n"),
            (json!(""), ""),
            (json!(null), ""),
            (json!(true), "true"),
            (json!(false), "false"),
            (json!(0), "0"),
            (json!(-7), "-7"),
            (json!(18_446_744_073_709_551_615_u64), "18446744073709551615"),
            (json!(0.7), "0.7"),
            (json!(1.0), "1"),
            (json!(-2.0), "-2"),
            (json!(1e300), "1e300"),
            (json!(1e-7), "1e-7"),
            (json!(0.1 + 0.2), "0.30000000000000004"),
            (json!([]), "[]"),
            (json!([1.0, "a", null, true, {}]), r#"[1,"a",null,true,{}]"#),
            (json!({"b": 1, "a": "ü\n\u{1}"}), "{\"a\":\"ü\\n\\u0001\",\"b\":1}"),
        ] {
            assert_eq!(text_of(&value).unwrap(), text, "{value}");
        }
    }

    #[test]
    fn text_is_bounded_in_length_and_depth() {
        assert_eq!(text_of(&nested(DEPTH_MAX, "x")).unwrap().len(), 2 * (DEPTH_MAX - 1) + 3);
        assert_eq!(text_of(&nested(DEPTH_MAX + 1, "x")), Err(TextTooLarge));
        let long = Value::from("x".repeat(TEXT_MAX));
        assert_eq!(text_of(&long).unwrap().len(), TEXT_MAX);
        assert_eq!(text_of(&json!([long])), Err(TextTooLarge));
        assert_eq!(text_of(&Value::from("x".repeat(TEXT_MAX + 1))), Err(TextTooLarge));
        insta::assert_snapshot!(TextTooLarge, @"the value is longer than 8388608 bytes or deeper than 128 levels; read a smaller part of it");
    }

    proptest! {
        #[test]
        fn compact_json_reads_back(tree in trees(any::<String>().boxed())) {
            prop_assume!(tree.is_array() || tree.is_object());
            let text = text_of(&tree).unwrap();
            let back: Value = exact::from_str(&text).unwrap();
            prop_assert_eq!(text_of(&back).unwrap(), text);
        }

        #[test]
        fn numbers_keep_their_value(number in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
            let text = text_of(&json!(number)).unwrap().into_owned();
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits());
            prop_assert!(text.len() <= json!(number).to_string().len());
        }
    }
}
