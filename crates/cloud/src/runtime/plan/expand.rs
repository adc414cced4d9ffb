//! `$(VAR)` in commands, arguments and values, as Kubernetes expands it. Owns the syntax only.

/// The text with each `$(NAME)` replaced by what `lookup` gives, in one pass from left to right.
///
/// `$$` stands for one `$`, so `$$(NAME)` stays `$(NAME)`. A name `lookup` does not know stays as it is, and so does
/// every `$` before anything but `(` or `$`. What is put in is not read again.
///
/// ```
/// use orlop_cloud::runtime::plan::expand::expand;
/// let lookup = |name: &str| (name == "WHO").then_some("world");
/// assert_eq!(expand("hello $(WHO), $$(WHO), $(NOBODY), $5", lookup), "hello world, $(WHO), $(NOBODY), $5");
/// ```
#[must_use]
pub fn expand<'a>(text: &str, mut lookup: impl FnMut(&str) -> Option<&'a str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            after
        } else if let Some((name, after)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
            match lookup(name) {
                Some(value) => out.push_str(value),
                None => out.extend(["$(", name, ")"]),
            }
            after
        } else {
            out.push('$');
            after
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_kubernetes_documents() {
        let lookup = |name: &str| match name {
            "A" => Some("1"),
            "EMPTY" => Some(""),
            "NESTED" => Some("$(A)"),
            _ => None,
        };
        for (text, expected) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(EMPTY)", ""),
            ("$(NESTED)", "$(A)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$(A)", "$$(A)"),
            ("$A ${A} $", "$A ${A} $"),
            ("$(A", "$(A"),
            ("$()", "$()"),
            ("$(B)$(A)", "$(B)1"),
            ("$($(A))", "$($(A))"),
            ("\u{e4}$(A)\u{e4}", "\u{e4}1\u{e4}"),
        ] {
            assert_eq!(expand(text, lookup), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_without_a_dollar_is_untouched(text in "[^$]*") {
            prop_assert_eq!(expand(&text, |_| Some("x")), text);
        }

        #[test]
        fn doubled_dollars_survive(text in "[a$()]*") {
            prop_assert_eq!(expand(&text.replace('$', "$$"), |_| Some("x")), text);
        }
    }
}
