//! Node affinity terms: each generated clause holds in every term of the user's. Owns their product, its bound, and dropping
//! terms that nothing can meet.

use std::collections::BTreeMap;

use super::Term;
use super::contradiction::contradicts;
use crate::hardware::HardwareError;
use crate::hardware::placement::{Clause, LabelExpr};

/// The most terms of a merged affinity.
pub const TERMS_MAX: usize = 64;

/// The terms; none where neither side asks for any.
pub(super) fn required(
    user: Option<&[Term]>,
    clauses: &[&Clause],
    selector: &BTreeMap<String, String>,
) -> Result<Vec<Term>, HardwareError> {
    let fixed: Vec<LabelExpr> = selector.iter().map(|(key, value)| LabelExpr::equal(key, value)).collect();
    let mut impossible = |term: &Term| contradicts(term.expressions.iter().chain(&fixed)) || contradicts(&term.fields);
    product(user, clauses, &mut impossible)
}

/// The same, where somebody else judges a term. The work is one judgement for each term of the user's, and then for each of at
/// most [`TERMS_MAX`] and each alternative.
fn product(
    user: Option<&[Term]>,
    clauses: &[&Clause],
    impossible: &mut dyn FnMut(&Term) -> bool,
) -> Result<Vec<Term>, HardwareError> {
    // A term without conditions matches nothing, so it must not be filled with generated ones.
    let has_any = |term: &&Term| !(term.expressions.is_empty() && term.fields.is_empty());
    let mut terms: Vec<Term> = match user {
        Some(terms) => terms.iter().filter(has_any).cloned().collect(),
        None if clauses.is_empty() => return Ok(Vec::new()),
        None => vec![Term::default()],
    };
    settle(&mut terms, impossible)?;
    for clause in clauses {
        let mut product: Vec<Term> = Vec::new();
        for term in &terms {
            // A term that already says one alternative whole implies the clause.
            let says = |all: &[LabelExpr]| all.iter().all(|expression| term.expressions.contains(expression));
            if clause.any_of.iter().any(|alternative| says(&alternative.all_of)) {
                product.push(term.clone());
                continue;
            }
            for alternative in &clause.any_of {
                let mut term = term.clone();
                for expression in &alternative.all_of {
                    if !term.expressions.contains(expression) {
                        term.expressions.push(expression.clone());
                    }
                }
                product.push(term);
            }
        }
        terms = product;
        settle(&mut terms, impossible)?;
    }
    Ok(terms)
}

/// Drops terms that nothing can meet and repetitions, and holds the bound.
fn settle(terms: &mut Vec<Term>, impossible: &mut dyn FnMut(&Term) -> bool) -> Result<(), HardwareError> {
    terms.retain(|term| !impossible(term));
    let mut kept: Vec<Term> = Vec::new();
    for term in terms.drain(..) {
        if !kept.contains(&term) {
            kept.push(term);
        }
        if kept.len() > TERMS_MAX {
            break;
        }
    }
    *terms = kept;
    match terms.len() {
        0 => Err(HardwareError::UnsatisfiableAffinity),
        len if len > TERMS_MAX => Err(HardwareError::TooManyTerms { terms: len, max: TERMS_MAX }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::placement::Alternative;

    fn term(key: &str, value: usize) -> Term {
        Term { expressions: vec![LabelExpr::equal(key, value.to_string())], fields: Vec::new() }
    }

    /// How often a term was judged, and how many came out.
    fn judged(user: &[Term], clauses: &[Clause]) -> (usize, Result<usize, HardwareError>) {
        let mut count = 0;
        let clauses: Vec<&Clause> = clauses.iter().collect();
        let mut judge = |_: &Term| {
            count += 1;
            false
        };
        let terms = product(Some(user), &clauses, &mut judge).map(|terms| terms.len());
        (count, terms)
    }

    #[test]
    fn work_is_linear_in_the_terms_of_the_user_and_at_most_64_multiply() {
        let alternative = |key: &str, value| Alternative { all_of: term(key, value).expressions };
        let clause = |key: &str| Clause { any_of: (0..3).map(|value| alternative(key, value)).collect() };
        let clauses = ["a", "b", "c"].map(clause);
        for many in [1_000, 10_000] {
            let same = vec![term("zone", 0); many];
            assert_eq!(judged(&same, &clauses), (many + 3 + 9 + 27, Ok(27)));
            let two: Vec<Term> = (0..many).map(|at| term("zone", at % 2)).collect();
            assert_eq!(judged(&two, &clauses), (many + 6 + 18 + 54, Ok(54)));
            let all: Vec<Term> = (0..many).map(|at| term("zone", at)).collect();
            let (count, refused) = judged(&all, &clauses);
            assert_eq!(count, many, "nothing is multiplied where there are too many already");
            assert!(matches!(refused, Err(HardwareError::TooManyTerms { max: TERMS_MAX, .. })), "{refused:?}");
        }
    }
}
