//! Reading JSON with every number exact. `serde_json` may read numbers of more than 15 digits, or with an exponent, with an error
//! in the last digit, unless its feature `float_roundtrip` is on, which would change how the whole program reads numbers. Use this
//! module for JSON that is stored and read again, compared by its hash or handed on to a step. Writes nothing: what `serde_json`
//! writes is exact.

use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Error, Map, Number, Value};

/// Reads a value of any type.
///
/// ```
/// use orlop_core::exact;
/// let number = exact::from_str::<serde_json::Value>("[0.12345678901234566]").unwrap()[0].clone();
/// assert_eq!(number.to_string(), "0.12345678901234566");
/// ```
///
/// # Errors
/// When the text is not JSON, or nests deeper than 127 levels, or is not of this type.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    if Numbers::of(text).all(is_read_exactly) || keeps_texts() {
        serde_json::from_str(text)
    } else {
        T::deserialize(read(text)?)
    }
}

/// Whether the program has `serde_json` keep the texts of numbers (`arbitrary_precision`): it reads all of them exactly then.
fn keeps_texts() -> bool {
    serde_json::from_str::<Number>("1e400").is_ok()
}

/// Reads a value of any type from UTF-8.
///
/// # Errors
/// As [`from_str`], and when the bytes are not UTF-8.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    from_str(std::str::from_utf8(bytes).map_err(Error::custom)?)
}

/// A number as JSON writes it; none where it is not finite or no number. Whole numbers of 64 bits stay whole.
#[must_use]
pub fn number(text: &str) -> Option<Number> {
    // The sign of `-0` is kept by floating-point numbers alone.
    let whole = (text != "-0").then(|| text.parse().map(u64::into).or_else(|_| text.parse().map(i64::into)));
    match whole {
        Some(Ok(whole)) => Some(whole),
        _ => Number::from_f64(text.parse().ok()?),
    }
}

/// Whether `serde_json` itself reads this number exactly: a whole number of 64 bits, or one that is the quotient of two others
/// that a floating-point number holds.
fn is_read_exactly(number: &str) -> bool {
    match number.contains(['.', 'e', 'E']) {
        true => number.len() <= 16 && !number.contains(['e', 'E']),
        false => number.len() <= 19,
    }
}

fn read(text: &str) -> Result<Value, Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Tree(&mut Numbers::of(text)).deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// The numbers of a JSON text, in its order. On invalid JSON the pieces are unspecified.
struct Numbers<'t>(&'t str);

impl<'t> Numbers<'t> {
    const fn of(text: &'t str) -> Self {
        Self(text)
    }

    /// Skips to the end of a string, after its opening quote.
    fn pass_string(&mut self) {
        while let Some(at) = self.0.find(['"', '\\']) {
            let escapes = self.0.as_bytes().get(at) == Some(&b'\\');
            // What follows a backslash may be a quote, and is ASCII in JSON.
            self.0 = self.0.get(at + 1 + usize::from(escapes)..).unwrap_or_default();
            if !escapes {
                return;
            }
        }
        self.0 = "";
    }
}

impl<'t> Iterator for Numbers<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        loop {
            let at = self.0.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
            let from = self.0.get(at..)?;
            if let Some(string) = from.strip_prefix('"') {
                self.0 = string;
                self.pass_string();
                continue;
            }
            let end = from.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(from.len());
            let (number, rest) = from.split_at_checked(end)?;
            self.0 = rest;
            return Some(number);
        }
    }
}

/// Builds a tree out of what `serde_json` finds, its numbers out of the text. As deep as `serde_json` lets a text nest.
struct Tree<'n, 't>(&'n mut Numbers<'t>);

impl Tree<'_, '_> {
    /// The next number of the text; `found` only where the two disagree on what a number is, which they never do.
    fn number(self, found: impl Into<Value>) -> Value {
        self.0.next().and_then(number).map_or_else(|| found.into(), Value::Number)
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, found: u64) -> Result<Value, E> {
        Ok(self.number(found))
    }

    fn visit_i64<E>(self, found: i64) -> Result<Value, E> {
        Ok(self.number(found))
    }

    fn visit_f64<E>(self, found: f64) -> Result<Value, E> {
        Ok(self.number(found))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Tree(self.0))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key()? {
            map.insert(name, members.next_value_seed(Tree(self.0))?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Any finite number, also as of outputs: a few digits or all of them.
    fn numbers() -> impl Strategy<Value = Value> {
        let finite = any::<f64>().prop_filter("JSON has no infinity", |number| number.is_finite());
        prop_oneof![
            finite.prop_map(Value::from),
            (0.0..1.0).prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from)
        ]
    }

    fn trees() -> impl Strategy<Value = Value> {
        let text = || prop_oneof![any::<String>(), r#"["\\0-9.e]{0,6}"#];
        let leaf = prop_oneof![3 => numbers(), 1 => text().prop_map(Value::from), 1 => Just(json!(null))];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(text(), inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn numbers_are_read_to_the_last_place() {
        for (text, want) in [
            ("0.12345678901234566", json!(0.123_456_789_012_345_66)),
            ("1.2074682189583555e-288", json!(1.207_468_218_958_355_5e-288)),
            ("9.609167804614495E+290", json!(9.609_167_804_614_495e290)),
            ("123456789012345678901234567890", json!(123_456_789_012_345_678_901_234_567_890.0)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("-0", json!(-0.0)),
            ("0", json!(0)),
        ] {
            let number: Value = from_str(text).unwrap();
            assert_eq!(
                (number.to_string(), super::number(text).unwrap()),
                (want.to_string(), number.as_number().unwrap().clone())
            );
        }
        for text in ["", "x", "1e999", "inf"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn strings_hold_no_numbers_and_the_last_of_equal_members_counts() {
        let text = r#" {"a 1e5 \" 2.5e1 \\": [1e2, "\\", 0.12345678901234566], "b": 1E1, "b": {"7": -1.5e0}} "#;
        let want = json!({"a 1e5 \" 2.5e1 \\": [100.0, "\\", 0.123_456_789_012_345_66], "b": {"7": -1.5}});
        assert_eq!(from_str::<Value>(text).unwrap(), want);
        assert_eq!(from_slice::<Vec<f64>>(b"[1e0,0.12345678901234566]").unwrap(), [1.0, 0.123_456_789_012_345_66]);
    }

    #[test]
    fn what_is_no_json_is_refused_as_serde_json_refuses_it() {
        let deep = format!("{}1e0{}", "[".repeat(200), "]".repeat(200));
        for text in ["", "[1e0", "1e0 2", "01e0", "1e", "--1e0", "[1e999]", "\"1e0", "\"\\", "1e0ü", &deep] {
            let want = serde_json::from_str::<Value>(text).unwrap_err().to_string();
            assert_eq!(from_str::<Value>(text).unwrap_err().to_string(), want, "{text}");
        }
        assert!(from_slice::<Value>(b"\xff").is_err());
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back(tree in trees()) {
            for text in [tree.to_string(), serde_json::to_string_pretty(&tree).unwrap()] {
                let back: Value = from_str(&text).unwrap();
                prop_assert_eq!(back.to_string(), tree.to_string());
            }
        }

        /// Each shortcut has to hold: where the text is left to `serde_json`, it too reads the number exactly.
        #[test]
        fn what_is_left_to_serde_json_is_exact(number in "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,17})?") {
            if is_read_exactly(&number) {
                let read: Number = serde_json::from_str(&number).unwrap();
                prop_assert_eq!(Some(read), super::number(&number));
            }
        }
    }

    #[test]
    fn a_member_by_the_name_that_serde_json_gives_to_numbers_is_a_member() {
        let text = r#"[{"$serde_json::private::Number": "5"}, 0.12345678901234566, 7]"#;
        let value: Value = from_str(text).unwrap();
        assert_eq!(value[0]["$serde_json::private::Number"], "5");
        assert_eq!(value[1].to_string() + " " + &value[2].to_string(), "0.12345678901234566 7");
    }
}
