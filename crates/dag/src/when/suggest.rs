//! "Did you mean": the declared name nearest to a misspelt one. Looks at a bounded number of names and at a bounded part
//! of each pair, so hostile text costs no more than honest text.

/// Names that are compared; the first ones of longer lists.
const COMPARED: usize = 300;
/// Characters of names that are compared; object names are shorter.
const LONGEST: usize = 256;
/// The most changes a misspelling is taken for.
const CHANGES: usize = 4;

/// The one of `names` nearest to `word` by edit distance, if it is near enough to be a likely misspelling.
pub(crate) fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let length = word.chars().take(LONGEST + 1).count();
    if length > LONGEST {
        return None;
    }
    let limit = (length / 3).clamp(1, CHANGES);
    names
        .into_iter()
        .take(COMPARED)
        .filter(|name| !name.is_empty() && name.len() <= 4 * LONGEST)
        .filter_map(|name| distance(word, name, limit).map(|found| (found, name)))
        .min_by_key(|(found, _)| *found)
        .map(|(_, name)| name)
}

/// The sentence that offers the nearest of `names`.
pub(crate) fn did_you_mean<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    nearest(word, names).map(|name| format!("did you mean `{name}`?"))
}

/// Edit distance (insert, delete, replace, swap of neighbours; case is free), `None` above `limit`. Only pairs of places
/// at most `limit` apart are compared.
fn distance(left: &str, right: &str, limit: usize) -> Option<usize> {
    let left: Vec<char> = left.chars().flat_map(char::to_lowercase).collect();
    let right: Vec<char> = right.chars().flat_map(char::to_lowercase).collect();
    if left.len().abs_diff(right.len()) > limit {
        return None;
    }
    let far = limit + 1;
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, a) in left.iter().enumerate() {
        let mut current = vec![far; right.len() + 1];
        if let Some(first) = current.first_mut() {
            *first = row + 1;
        }
        let (from, to) = (row.saturating_sub(limit), (row + limit + 1).min(right.len()));
        let mut least = row + 1;
        for (column, b) in right.iter().enumerate().take(to).skip(from) {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(far);
            let mut best = at(&above, column) + usize::from(a != b);
            best = best.min(at(&above, column + 1) + 1).min(at(&current, column) + 1);
            let swapped = row > 0 && column > 0 && left.get(row - 1) == Some(b) && right.get(column - 1) == Some(a);
            if swapped {
                best = best.min(at(&before, column - 1) + 1);
            }
            least = least.min(best);
            if let Some(place) = current.get_mut(column + 1) {
                *place = best;
            }
        }
        if least > limit {
            return None;
        }
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied().filter(|found| *found <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_misspellings_and_nothing_far_away() {
        let names = ["build-image", "test", "deploy"];
        assert_eq!(nearest("buidl-image", names), Some("build-image"));
        assert_eq!(nearest("tset", names), Some("test"));
        assert_eq!(nearest("Deploy", names), Some("deploy"));
        assert_eq!(nearest("publish", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"a".repeat(100_000), [&*"a".repeat(100_001)]), None);
    }

    #[test]
    fn distance_counts_changes_up_to_its_limit() {
        for (left, right, changes) in
            [("kitten", "sitting", 3), ("ab", "ba", 1), ("Flaw", "lawn", 2), ("", "abc", 3), ("same", "same", 0)]
        {
            assert_eq!(distance(left, right, 3), Some(changes).filter(|found| *found <= 3), "{left} {right}");
            assert_eq!(distance(left, right, changes), Some(changes), "{left} {right}");
            assert_eq!(changes.checked_sub(1).and_then(|limit| distance(left, right, limit)), None, "{left} {right}");
        }
    }
}
