//! References `$(VAR)` in env values, command and args, as the kubelet expands them. Owns one thing: putting a
//! reference behind any text so that it is expanded and the text is not; never expands anything itself.
//!
//! The kubelet reads left to right: `$$` is one dollar; `$(` up to the next `)` names a variable and stays as it is when
//! there is no such variable. So a reference behind `$`, or inside an unclosed `$(` such as a shell's command
//! substitution, would not be seen. Such a dollar is doubled, which the kubelet takes back.

/// A text under construction that holds references to environment variables.
#[derive(Debug, Default)]
pub(super) struct Referring {
    out: String,
    /// Bytes of `out` that the kubelet has read completely when it comes to what follows.
    settled: usize,
}

impl Referring {
    /// Appends text as it is.
    pub(super) fn push_text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Appends a reference to a variable.
    pub(super) fn push_reference(&mut self, variable: &str) {
        self.settle();
        self.out.push_str("$(");
        self.out.push_str(variable);
        self.out.push(')');
        self.settled = self.out.len();
    }

    /// The text.
    pub(super) fn finish(self) -> String {
        self.out
    }

    /// Doubles the dollars that would swallow what follows.
    fn settle(&mut self) {
        let mut tail = self.out.split_off(self.settled);
        let last_close = tail.rfind(')');
        let mut from = 0;
        let mut settled = String::with_capacity(tail.len() + 1);
        while let Some(dollar) = tail.get(from..).and_then(|rest| rest.find('$')).map(|at| from + at) {
            let end = match tail.as_bytes().get(dollar + 1) {
                Some(b'$') => dollar + 2,
                Some(b'(') if last_close.is_some_and(|close| close > dollar) => {
                    tail.get(dollar..).and_then(|rest| rest.find(')')).map_or(tail.len(), |close| dollar + close + 1)
                }
                Some(b'(') | None => {
                    settled.push_str(tail.get(from..dollar).unwrap_or_default());
                    settled.push('$');
                    from = dollar;
                    dollar + 1
                }
                Some(_) => dollar + 1,
            };
            settled.push_str(tail.get(from..end).unwrap_or_default());
            from = end;
        }
        settled.push_str(&tail.split_off(from));
        self.out.push_str(&settled);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a container sees: an independent reading of the rules of expansion, with one variable known.
    fn expand(text: &str, variable: &str, value: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out.push_str(before);
            rest = if let Some(after) = after.strip_prefix('$') {
                out.push('$');
                after
            } else if let Some((name, closed)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
                if name == variable {
                    out.push_str(value);
                } else {
                    out.push_str(&format!("$({name})"));
                }
                closed
            } else {
                out.push('$');
                after
            };
        }
        out + rest
    }

    fn referring(parts: &[&str]) -> String {
        let mut text = Referring::default();
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                text.push_reference("V");
            }
            text.push_text(part);
        }
        text.finish()
    }

    #[test]
    fn references_stand_behind_any_text() {
        assert_eq!(referring(&["--token=", ""]), "--token=$(V)");
        assert_eq!(referring(&["$", ""]), "$$$(V)");
        assert_eq!(referring(&["$$", ""]), "$$$(V)");
        assert_eq!(referring(&["$$$", ""]), "$$$$$(V)");
        assert_eq!(referring(&["echo $(cat ", ")"]), "echo $$(cat $(V))");
        assert_eq!(referring(&["$(date) $(cat ", ")"]), "$(date) $$(cat $(V))");
        assert_eq!(referring(&["$(a $(b ", "))"]), "$$(a $$(b $(V)))");
        assert_eq!(referring(&["$HOME ", " $", "x"]), "$HOME $(V) $$$(V)x");
        assert_eq!(referring(&["a) $(b ", ""]), "a) $$(b $(V)");
    }

    #[test]
    fn text_without_references_is_not_escaped() {
        assert_eq!(referring(&["$ $$ $(a $(b)"]), "$ $$ $(a $(b)");
        assert_eq!(referring(&["", "$ $$ $(a"]), "$(V)$ $$ $(a");
    }

    #[test]
    fn escaping_is_linear() {
        let text = referring(&["$(".repeat(300_000).as_str(), ""]);
        assert_eq!(text.len(), 900_000 + 4);
    }

    proptest! {
        #[test]
        fn the_container_sees_text_and_secret(parts in proptest::collection::vec("[$()aä]{0,7}", 1..5)) {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let seen = expand(&referring(&parts), "V", "<secret>");
            // What stands between references is read as it would be alone, but for `$(…` that a later part closes.
            let (last, firsts) = parts.split_last().unwrap();
            let mut want = String::new();
            for part in firsts {
                want.push_str(&expand(part, "V", ""));
                want.push_str("<secret>");
            }
            want.push_str(&expand(last, "V", ""));
            prop_assert_eq!(seen, want);
        }
    }
}
