//! Bytes in JSON: lower case hexadecimal. Owns the serde form only.

use serde::{Deserialize, Deserializer, Serializer, de};

/// The digits of bytes.
pub(super) fn text(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(bytes))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0);
    let digits = digits.ok_or_else(|| de::Error::custom("bytes are an even number of hexadecimal digits"))?;
    Ok(digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Hex(#[serde(with = "super")] Vec<u8>);

    #[test]
    fn bytes_read_back_and_nonsense_does_not() {
        let held = Hex(vec![0, 0x7f, 0xff]);
        let json = serde_json::to_string(&held).unwrap();
        assert_eq!(json, "\"007fff\"");
        assert_eq!(serde_json::from_str::<Hex>(&json).unwrap(), held);
        assert!(serde_json::from_str::<Hex>("\"0\"").is_err() && serde_json::from_str::<Hex>("\"0g\"").is_err());
    }
}
