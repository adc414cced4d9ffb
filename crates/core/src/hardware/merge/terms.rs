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
    // A term without conditions matches nothing, so it must not be filled with generated ones.
    let has_any = |term: &&Term| !(term.expressions.is_empty() && term.fields.is_empty());
    let fixed: Vec<LabelExpr> = selector.iter().map(|(key, value)| LabelExpr::equal(key, value)).collect();
    let mut terms: Vec<Term> = match user {
        Some(terms) => terms.iter().filter(has_any).cloned().collect(),
        None if clauses.is_empty() => return Ok(Vec::new()),
        None => vec![Term::default()],
    };
    settle(&mut terms, &fixed)?;
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
        settle(&mut terms, &fixed)?;
    }
    Ok(terms)
}

/// Drops terms that nothing can meet and repetitions, and holds the bound.
fn settle(terms: &mut Vec<Term>, fixed: &[LabelExpr]) -> Result<(), HardwareError> {
    terms.retain(|term| !contradicts(term.expressions.iter().chain(fixed)) && !contradicts(&term.fields));
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
