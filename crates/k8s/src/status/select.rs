//! Which records of a large flow stay readable in its status. Owns that choice.

use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::StepStatus;

/// Most records that stay.
const MOST: usize = 200;

/// The records that need attention, in their order: those that wait for approval, failed, retry and live ones, at most 200.
/// Where there are more, those that come first here go before the others.
pub(super) fn attention(records: Vec<StepStatus>) -> Vec<StepStatus> {
    let mut chosen: Vec<(u8, usize)> =
        records.iter().enumerate().filter_map(|(at, record)| Some((urgency(record)?, at))).collect();
    chosen.sort_unstable();
    chosen.truncate(MOST);
    let mut places: Vec<usize> = chosen.into_iter().map(|(_, at)| at).collect();
    places.sort_unstable();
    let mut places = places.into_iter().peekable();
    let kept = records.into_iter().enumerate().filter(|(at, _)| places.next_if_eq(at).is_some());
    kept.map(|(_, record)| record).collect()
}

fn urgency(record: &StepStatus) -> Option<u8> {
    match record.phase {
        StepPhase::PendingApproval => Some(0),
        StepPhase::Failed if record.next_retry_time.is_none() => Some(1),
        StepPhase::Failed => Some(2),
        StepPhase::Running => Some(3),
        // Asked for, and not accepted yet.
        StepPhase::Pending if record.attempt > 0 => Some(4),
        _ => None,
    }
}
