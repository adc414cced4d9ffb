//! What a restart learns from attempts that have ended: tokens before the newest, and how far the members of a gang have
//! come.

use std::collections::BTreeMap;

use orlop_core::machine::attempt::AttemptState;
use orlop_core::ports::fleet_store::{AttemptRow, TaskStatus};
use orlop_scheduler::engine::MemberEnd;
use orlop_scheduler::stored::{GangEnd, GangRow, Incarnation, TokenRow};

use crate::wire::attempt::is_permanent;

/// The most tokens before the newest that are remembered of a task, as the core remembers them.
const EARLIER: usize = 64;

/// Whether the result of an attempt was accepted.
pub(super) fn is_answered(row: &AttemptRow) -> bool {
    use AttemptState::{Lost, Rejected, Revoked};
    row.state.is_end() && !matches!(row.state, Lost | Rejected | Revoked)
}

/// Attempts before the newest of a task, the oldest first.
pub(super) fn earlier(unit: &TaskStatus, rows: &[AttemptRow], gang: bool) -> Vec<TokenRow> {
    let mut tokens: BTreeMap<u32, TokenRow> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.attempt.id.attempt < unit.attempt) {
        let id = row.attempt.id;
        let (attempt, epoch) = (id.attempt, id.epoch);
        let token =
            tokens.entry(attempt).or_insert_with(|| TokenRow { attempt, epoch, answered: false, members: Vec::new() });
        if is_answered(row) {
            token.answered |= !gang;
            token.members.extend(gang.then_some(id.member));
        }
    }
    let skip = tokens.len().saturating_sub(EARLIER);
    tokens.into_values().skip(skip).collect()
}

/// What the members of a gang of `size` have said about its newest attempt. The member that failed first decides how the
/// gang ends; the others were asked to end because of it.
pub(super) fn gang(size: u32, unit: &TaskStatus, rows: &[AttemptRow]) -> GangRow {
    let mut answered = vec![false; size as usize];
    let (mut first, mut broken): (Option<(bool, orlop_core::time::Time, GangEnd)>, bool) = (None, false);
    for row in rows.iter().filter(|row| row.attempt.id.attempt == unit.attempt) {
        if let Some(seat) = answered.get_mut(row.attempt.id.member as usize) {
            *seat = is_answered(row);
        }
        let end = row.end.clone().unwrap_or_default();
        let permanent = end.reason.as_deref().is_some_and(is_permanent);
        let Some(member) = MemberEnd::of(row.state, end.exit_code, permanent) else { continue };
        let worker = Some(Incarnation { id: row.attempt.worker.clone(), number: row.attempt.incarnation });
        let elsewhere = first.as_ref().is_some_and(|(.., before)| before.worker != worker);
        broken |= row.state != AttemptState::Lost || row.finished_at.is_some() || elsewhere;
        let reported = matches!(row.state, AttemptState::Cancelled | AttemptState::Preempted);
        let at = row.finished_at.unwrap_or(row.attempt.assigned_at);
        if first.as_ref().is_none_or(|(was_reported, before, _)| (reported, at) < (*was_reported, *before)) {
            first = Some((reported, at, GangEnd { end: member, worker }));
        }
    }
    GangRow { answered, ending: first.map(|(.., ending)| ending), broken }
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{Epoch, JobId};
    use orlop_core::machine::job::JobState;
    use orlop_core::ports::fleet_store::{AttemptEnd, NewAttempt};
    use orlop_core::task::{StartMode, TaskRef};
    use orlop_core::time::Time;

    use super::*;

    fn row(attempt: u32, member: u32, state: AttemptState, at: i64) -> AttemptRow {
        let id = TaskRef { job: JobId::from_u64(1), index: 0, member, attempt, epoch: Epoch(1) };
        let (worker, mode) = ("w1".parse().unwrap(), StartMode::Now);
        let end = AttemptEnd { exit_code: Some(7), ..AttemptEnd::default() };
        AttemptRow {
            attempt: NewAttempt { id, worker, incarnation: 1, mode, assigned_at: Time::EPOCH, gpu: None },
            state,
            accepted_at: None,
            started_at: None,
            finished_at: Some(Time::from_millis(at)),
            end: Some(end),
        }
    }

    fn unit(attempt: u32) -> TaskStatus {
        TaskStatus { attempt, epoch: Epoch(1), ..TaskStatus::new(JobState::Running) }
    }

    #[test]
    fn tokens_before_the_newest_are_known_after_a_restart() {
        use AttemptState::{Failed, Lost, Running};
        let rows = [row(1, 0, Failed, 1), row(2, 0, Lost, 2), row(3, 0, Running, 3)];
        let found = earlier(&unit(3), &rows, false);
        assert_eq!(
            found.iter().map(|token| (token.attempt, token.answered)).collect::<Vec<_>>(),
            [(1, true), (2, false)]
        );
        let rows = [row(1, 0, Failed, 1), row(1, 1, AttemptState::Cancelled, 2), row(2, 0, Running, 3)];
        assert_eq!(earlier(&unit(2), &rows, true)[0].members, [0, 1]);
    }

    #[test]
    fn the_member_that_failed_first_decides_how_a_gang_ends() {
        use AttemptState::{Cancelled, Failed, Running, Succeeded};
        let rows = [row(2, 0, Cancelled, 1), row(2, 1, Failed, 5), row(2, 2, Succeeded, 1), row(2, 3, Running, 0)];
        let found = gang(4, &unit(2), &rows);
        assert_eq!(found.answered, [true, true, true, false]);
        assert_eq!(found.ending.map(|ending| ending.end), MemberEnd::of(Failed, Some(7), false));
        assert_eq!(gang(4, &unit(2), &rows[2..]).ending, None);
    }

    #[test]
    fn what_is_left_of_a_gang_may_return_unless_a_member_has_ended_otherwise() {
        use AttemptState::{Cancelled, Lost, Succeeded};
        let held = AttemptRow { finished_at: None, ..row(2, 0, Lost, 1) };
        for (other, broken) in
            [(row(2, 1, Succeeded, 1), false), (row(2, 1, Cancelled, 1), true), (row(2, 1, Lost, 1), true)]
        {
            assert_eq!(gang(2, &unit(2), &[held.clone(), other]).broken, broken);
        }
        let mut elsewhere = AttemptRow { finished_at: None, ..row(2, 1, Lost, 1) };
        assert!(!gang(2, &unit(2), &[held.clone(), elsewhere.clone()]).broken);
        elsewhere.attempt.incarnation += 1;
        assert!(gang(2, &unit(2), &[held, elsewhere]).broken, "two workers never bring it back together");
    }
}
