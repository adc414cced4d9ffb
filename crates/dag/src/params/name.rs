//! Names of parameters. Owns the check and the reserved names; never repairs a name.

/// The most bytes a parameter name may have.
pub const NAME_MAX: usize = 253;

/// Name of the parameter that holds the item of a fan-out instance.
pub const ITEM: &str = "item";

/// Name of the parameter that holds the position of a fan-out instance, from 0.
pub const INDEX: &str = "index";

/// What is wrong with a parameter name. Positions count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameFault {
    /// Nothing was given.
    #[error("the parameter name is empty; use letters, digits, `-` and `.`")]
    Empty,
    /// More bytes than the limit.
    #[error("the parameter name is {len} bytes long; use at most {NAME_MAX}")]
    TooLong {
        /// Bytes given.
        len: usize,
    },
    /// A character that may not occur.
    #[error(
        "character {ch:?} at position {at} of parameter name `{name}` is not allowed; use letters, digits, `-` and `.`"
    )]
    Character {
        /// The name, escaped.
        name: String,
        /// The character.
        ch: char,
        /// Its position.
        at: usize,
    },
    /// `-` or `.` at an end.
    #[error("parameter name `{name}` starts or ends with {ch:?}; start and end with a letter or digit")]
    Edge {
        /// The name.
        name: String,
        /// The character.
        ch: char,
    },
    /// `item`, `item.*` or `index`.
    #[error("parameter name `{name}` is reserved for fan-out; choose another name")]
    Reserved {
        /// The name.
        name: String,
    },
}

/// Checks a parameter name: letters of either case, digits, `-` and `.`, alphanumeric at both ends, at most 253 bytes;
/// `item`, `item.*` and `index` are reserved.
///
/// ```
/// use orlop_dag::params::check_name;
/// assert!(check_name("imageTag").is_ok());
/// assert!(check_name("image_tag").is_err());
/// ```
///
/// # Errors
/// Says what is wrong and what is allowed.
pub fn check_name(name: &str) -> Result<(), NameFault> {
    if name.len() > NAME_MAX {
        return Err(NameFault::TooLong { len: name.len() });
    }
    let (Some(first), Some(last)) = (name.chars().next(), name.chars().next_back()) else {
        return Err(NameFault::Empty);
    };
    let allowed = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '-' | '.');
    if let Some((at, ch)) = (1..).zip(name.chars()).find(|&(_, ch)| !allowed(ch)) {
        return Err(NameFault::Character { name: name.escape_debug().to_string(), ch, at });
    }
    if let Some(ch) = [first, last].into_iter().find(|ch| !ch.is_ascii_alphanumeric()) {
        return Err(NameFault::Edge { name: name.to_owned(), ch });
    }
    if is_reserved(name) {
        return Err(NameFault::Reserved { name: name.to_owned() });
    }
    Ok(())
}

/// Whether a name is one that fan-out instances give: `item`, `item.<field>` or `index`.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    name == ITEM || name == INDEX || item_field(name).is_some()
}

/// The field of `item.<field>`.
pub(super) fn item_field(name: &str) -> Option<&str> {
    name.strip_prefix(ITEM)?.strip_prefix('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_digits_dash_and_dot_are_accepted() {
        for good in
            ["a", "Z", "0", "imageTag", "image-tag", "image.tag", "a--b", "a..b", "items", "indexes", "item-a", "Item"]
        {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        assert_eq!(check_name(&"a".repeat(253)), Ok(()));
        assert_eq!(check_name(&"a".repeat(254)), Err(NameFault::TooLong { len: 254 }));
    }

    #[test]
    fn underscore_blank_and_other_characters_are_refused() {
        for bad in ["a_b", "a b", " a", "a\t", "ä", "a/b", "a:b", "{a}", "a\u{0}", "a\u{2028}b"] {
            assert!(matches!(check_name(bad), Err(NameFault::Character { .. })), "{bad:?}");
        }
        for bad in ["-a", "a-", ".a", "a.", ".", "-"] {
            assert!(matches!(check_name(bad), Err(NameFault::Edge { .. })), "{bad}");
        }
        assert_eq!(check_name(""), Err(NameFault::Empty));
    }

    #[test]
    fn fan_out_names_are_reserved() {
        for reserved in ["item", "index", "item.a", "item.a.b"] {
            assert!(matches!(check_name(reserved), Err(NameFault::Reserved { .. })), "{reserved}");
            assert!(is_reserved(reserved));
        }
        assert!(is_reserved("item."));
        assert!(!is_reserved("index.a"));
    }

    #[test]
    fn messages_say_what_is_wrong_and_what_to_do() {
        let text = |name: &str| check_name(name).unwrap_err().to_string();
        insta::assert_snapshot!(text("image_tag"), @"character '_' at position 6 of parameter name `image_tag` is not allowed; use letters, digits, `-` and `.`");
        insta::assert_snapshot!(text("a\n"), @r#"character '\n' at position 2 of parameter name `a\n` is not allowed; use letters, digits, `-` and `.`"#);
        insta::assert_snapshot!(text("tag."), @"parameter name `tag.` starts or ends with '.'; start and end with a letter or digit");
        insta::assert_snapshot!(text("item.x"), @"parameter name `item.x` is reserved for fan-out; choose another name");
        insta::assert_snapshot!(text(""), @"the parameter name is empty; use letters, digits, `-` and `.`");
        insta::assert_snapshot!(text(&"a".repeat(300)), @"the parameter name is 300 bytes long; use at most 253");
    }
}
