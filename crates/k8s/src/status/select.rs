//! Which records of a large flow stay readable in its status, and how much of them. Owns that choice.

use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::StepStatus;

/// Most records that stay.
const MOST: usize = 200;
/// Bytes of the member of a status that lists records, besides the list: its name, a colon and a comma.
const MEMBER: usize = 9;

/// The records that stay in sight, in so many bytes. Where there is not enough room they are shown without their outputs,
/// then without their messages too, which are read from the columns; at last, where that is allowed, the least urgent are
/// left out. None where they do not fit.
pub(super) fn shown(records: &[StepStatus], room: usize, may_leave_out: bool) -> Option<Vec<StepStatus>> {
    let mut kept = attention(records);
    if kept.is_empty() {
        return Some(kept);
    }
    let room = room.saturating_sub(MEMBER);
    if bytes(&kept) <= room {
        return Some(kept);
    }
    kept.iter_mut().for_each(|record| record.outputs = None);
    if bytes(&kept) <= room {
        return Some(kept);
    }
    kept.iter_mut().for_each(|record| record.message.clear());
    if bytes(&kept) <= room {
        return Some(kept);
    }
    may_leave_out.then(|| most_urgent(kept, room))
}

/// The records that need attention, in their order: those that wait for approval, failed, retry and live ones, at most 200.
/// Where there are more, those that come first here go before the others.
fn attention(records: &[StepStatus]) -> Vec<StepStatus> {
    let mut chosen: Vec<(u8, usize)> =
        records.iter().enumerate().filter_map(|(at, record)| Some((urgency(record)?, at))).collect();
    chosen.sort_unstable();
    chosen.truncate(MOST);
    let mut places: Vec<usize> = chosen.into_iter().map(|(_, at)| at).collect();
    places.sort_unstable();
    places.into_iter().filter_map(|at| records.get(at).cloned()).collect()
}

/// As many as there is room for, in their order.
fn most_urgent(records: Vec<StepStatus>, room: usize) -> Vec<StepStatus> {
    let mut order: Vec<(Option<u8>, usize)> =
        records.iter().enumerate().map(|(at, record)| (urgency(record), at)).collect();
    order.sort_unstable();
    // The brackets of the list, and a comma for each.
    let mut free = room.saturating_sub(2);
    let mut places = std::collections::BTreeSet::new();
    for (_, at) in order {
        let needed = records.get(at).map_or(0, |record| bytes(record).saturating_add(1));
        if needed > free {
            break;
        }
        free -= needed;
        places.insert(at);
    }
    records.into_iter().enumerate().filter(|(at, _)| places.contains(at)).map(|(_, record)| record).collect()
}

/// Bytes as JSON.
fn bytes(records: &(impl serde::Serialize + ?Sized)) -> usize {
    serde_json::to_vec(records).map_or(usize::MAX, |text| text.len())
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
