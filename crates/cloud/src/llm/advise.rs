//! The four points of a run: what is asked when, and what becomes of it. Owns the order; where the
//! repository tries to give instructions, what the machine must have and for how long is not asked at all.

use jiff::Timestamp;
use orlop_core::error::{Class, Problem};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::session::AdvisorSession;
use crate::analyze::advice::{self, Answer, Point, is_tainted};
use crate::analyze::merge::{self, Merged};
use crate::analyze::{Analysis, Requirements};
use crate::catalog::image::Image;
use crate::repository::Scan;

/// A random marker of 128 bits, as digits.
///
/// # Errors
/// Fatal when the system has no randomness.
pub fn marker() -> Result<String, Problem> {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Problem::new(Class::Fatal, "the system provides no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Point 1: what the machine must have.
pub async fn requirements(session: &mut AdvisorSession<'_>, scan: &Scan, analysis: &Analysis, marker: &str) -> Merged {
    let by_rules =
        || Merged { requirements: analysis.requirements.clone(), notes: analysis.notes.clone(), used: Vec::new() };
    if !session.is_on() || is_tainted(&analysis.requirements) {
        return by_rules();
    }
    match session.consult(&advice::requirements(scan, analysis, marker)).await {
        Some(Answer::Requirements(advised)) => {
            let merged = merge::merge(scan, analysis, &advised);
            let made = if merged.used.is_empty() { "nothing".to_owned() } else { merged.used.join(", ") };
            session.note_use(Point::Requirements, &made);
            merged
        }
        _ => by_rules(),
    }
}

/// Point 4: how long; nothing where the rules decide.
pub async fn hours(session: &mut AdvisorSession<'_>, analysis: &Analysis, now: Timestamp, marker: &str) -> Option<u32> {
    if !session.is_on() || is_tainted(&analysis.requirements) {
        return None;
    }
    // The time to the hour, so that the same question within it is known again.
    let hour = Timestamp::from_second(now.as_second().div_euclid(3600).saturating_mul(3600)).unwrap_or(now);
    let Some(Answer::Duration(hours)) = session.consult(&advice::duration(analysis, hour, marker)).await else {
        return None;
    };
    let hours = merge::hours(&analysis.requirements, hours);
    session.note_use(Point::Duration, &format!("{hours} h"));
    Some(hours)
}

/// Points 2 and 3: which of the admissible images are preferred, the best first, as indexes. With fewer than two there is
/// nothing to ask.
pub async fn images(
    session: &mut AdvisorSession<'_>,
    requirements: &Requirements,
    offered: &[&Image],
    marker: &str,
) -> Vec<usize> {
    if !session.is_on() || offered.len() < 2 {
        return Vec::new();
    }
    let offered = offered.get(..offered.len().min(40)).unwrap_or(offered);
    let picked = match session.consult(&advice::candidates(requirements, offered, marker)).await {
        Some(Answer::ImageCandidates(picks)) => picks,
        _ => Vec::new(),
    };
    let mut chosen = merge::candidates(offered, &picked);
    session.note_use(Point::ImageCandidates, &format!("{chosen:?}"));
    let shown: Vec<&Image> = chosen.iter().filter_map(|index| offered.get(*index).copied()).collect();
    let picked = match session.consult(&advice::final_image(requirements, &shown, marker)).await {
        Some(Answer::FinalImage(pick)) => pick,
        _ => None,
    };
    if let Some(first) = merge::final_image(&shown, picked.as_ref()) {
        let index = chosen.remove(first);
        chosen.insert(0, index);
        session.note_use(Point::FinalImage, &format!("{index}"));
    }
    chosen
}
