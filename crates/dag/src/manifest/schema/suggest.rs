//! Did you mean: the known word nearest to one that is not known. Owns the measure of nearness.

/// Known words that are compared; the first ones of longer lists.
const COMPARED: usize = 1000;

/// The known word a user most likely meant: equal but for case and separators, or a few letters away.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let folded = fold(word);
    let letters = folded.len();
    if letters == 0 || letters > 64 {
        return None;
    }
    known
        .into_iter()
        .take(COMPARED)
        .filter(|known| known.len().abs_diff(word.len()) <= 12)
        .map(|known| (distance(&folded, &fold(known)), known))
        .filter(|(distance, known)| *distance <= (letters.min(known.len()) / 3).min(4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

fn fold(word: &str) -> Vec<char> {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.')).flat_map(char::to_lowercase).collect()
}

/// Letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, from) in a.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, to) in b.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX - 1);
            let replaced = at(&last, column) + usize::from(from != to);
            let mut best = replaced.min(at(&last, column + 1) + 1).min(at(&current, column) + 1);
            let swapped = row > 0 && column > 0 && a.get(row - 1) == Some(to) && b.get(column - 1) == Some(from);
            if swapped {
                best = best.min(at(&before, column - 1) + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_their_word_and_others_do_not() {
        let known = ["dependencies", "depends", "template", "timeoutSeconds", "when", "name"];
        let table = [
            ("dependecies", Some("dependencies")),
            ("templaet", Some("template")),
            ("timeout_seconds", Some("timeoutSeconds")),
            ("TimeoutSeconds", Some("timeoutSeconds")),
            ("wehn", Some("when")),
            ("nmae", Some("name")),
            ("image", None),
            ("x", None),
            ("", None),
        ];
        for (word, expected) in table {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"a".repeat(100_000), known), None);
    }
}
