//! "Did you mean": the declared name nearest to a misspelt one. Never looks at more than a bounded number of names.

/// The one of `names` nearest to `word` by edit distance, if it is near enough to be a likely misspelling.
pub(crate) fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let limit = (word.chars().count() / 3).max(1);
    names
        .into_iter()
        .filter(|name| !name.is_empty())
        .filter_map(|name| distance(word, name, limit).map(|found| (found, name)))
        .min_by_key(|(found, _)| *found)
        .map(|(_, name)| name)
}

/// The sentence that offers the nearest of `names`.
pub(crate) fn did_you_mean<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    nearest(word, names).map(|name| format!("did you mean `{name}`?"))
}

/// Edit distance (insert, delete, replace, swap of neighbours; case is free), `None` above `limit`.
fn distance(left: &str, right: &str, limit: usize) -> Option<usize> {
    let left: Vec<char> = left.chars().flat_map(char::to_lowercase).collect();
    let right: Vec<char> = right.chars().flat_map(char::to_lowercase).collect();
    if left.len().abs_diff(right.len()) > limit {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, a) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, b) in right.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX / 2);
            let mut best = at(&above, column) + usize::from(a != b);
            best = best.min(at(&above, column + 1) + 1).min(at(&current, column) + 1);
            let swapped = row > 0 && column > 0 && left.get(row - 1) == Some(b) && right.get(column - 1) == Some(a);
            if swapped {
                best = best.min(at(&before, column - 1) + 1);
            }
            current.push(best);
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
    }
}
