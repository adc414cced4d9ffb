//! A worker's stream opens: what it kept is told from what it lost, attempt by attempt. Owns the comparison; the fence
//! judges each attempt.

use std::collections::BTreeSet;

use orlop_core::machine::attempt::{self, AttemptState};
use orlop_core::machine::job;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::task::TaskRef;

use super::ends::Ending;
use super::message::Judged;
use super::{Scheduler, machine};
use crate::effect::{Effect, Reason};
use crate::event::Kept;

impl Scheduler {
    /// Tells what a worker kept from what it lost.
    pub(super) fn sync(&mut self, number: u32, kept: &[Kept], effects: &mut Vec<Effect>) {
        let key = self.key_of(number);
        let kept_refs: BTreeSet<TaskRef> = kept.iter().map(|kept| kept.attempt).collect();
        // Whoever was sent ahead and runs by now is the one that inherited, whatever the order here.
        for kept in kept.iter().rev().filter(|kept| kept.started) {
            let judged = self.judge(kept.attempt, number, true);
            let own = |judged: &Judged| self.attempts.get(judged.slot).is_some_and(|attempt| attempt.worker == number);
            if let Some(judged) = judged.filter(own) {
                self.feeds.put_first(judged.slot, &self.attempts);
            }
        }
        // First who is gone: whoever inherited of them has a slot before it is asked whether it runs.
        for slot in self.attempts_on(number) {
            let is_kept = self.attempts.get(slot).is_some_and(|known| kept_refs.contains(&self.reference(known)));
            if !is_kept {
                self.vanish(slot, effects);
            }
        }
        let adopted = self.adopt_gangs(number, kept, effects);
        for kept in kept {
            if adopted.contains(&kept.attempt) {
                effects.push(Effect::Verdict { attempt: kept.attempt, verdict: ReportVerdict::Adopted });
                continue;
            }
            let judged = self.judge(kept.attempt, number, true);
            let verdict = judged.map_or(ReportVerdict::Unknown, |judged| judged.verdict);
            match judged {
                Some(judged) if verdict == ReportVerdict::Accepted => {
                    self.keep(judged.slot);
                    if kept.started {
                        self.started(kept.attempt, key, effects).unwrap_or_default();
                        continue;
                    }
                    self.ask_again(judged.slot, effects);
                }
                Some(_) if verdict == ReportVerdict::Adopted && kept.started => {
                    self.started(kept.attempt, key, effects).unwrap_or_default();
                    continue;
                }
                // Given up before it started: another attempt may already be on its way.
                Some(_) if verdict == ReportVerdict::Adopted => {
                    self.kill(kept.attempt, key, effects);
                    effects.push(Effect::Verdict { attempt: kept.attempt, verdict: ReportVerdict::Stale });
                    continue;
                }
                _ => {
                    self.kill(kept.attempt, key, effects);
                }
            }
            effects.push(Effect::Verdict { attempt: kept.attempt, verdict });
        }
    }

    /// A worker that is back has its attempt still.
    fn keep(&mut self, slot: u32) {
        let Some(attempt) = self.attempts.get_mut(slot) else { return };
        let held = |guard| match guard {
            attempt::Guard::WasStarted => attempt.started,
            attempt::Guard::WasAccepted => attempt.accepted,
            attempt::Guard::Adopted => false,
        };
        if let Some(state) = machine::attempt(attempt.state, attempt::Event::Kept, held) {
            attempt.state = state;
        }
    }

    /// What was to happen to an attempt that has not started: the worker may not have heard of it.
    fn ask_again(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        let Some(attempt) = self.attempts.get_mut(slot).filter(|attempt| !attempt.started) else { return };
        let revoking = std::mem::take(&mut attempt.revoking);
        match attempt.ending {
            // Said by a server or in a session that is gone, perhaps in vain.
            Some(why) => self.tell_to_end(slot, why, effects),
            None if revoking || attempt.ahead => self.revoke(slot, effects),
            // Whoever is suspect is not waited for: time runs again.
            _ if attempt.state == AttemptState::Assigned => {
                self.await_acceptance(slot);
            }
            _ => {}
        }
    }

    /// A worker that is back has nothing of an attempt any more.
    fn vanish(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        let Some(attempt) = self.attempts.get(slot).copied() else { return };
        let life = self.life(attempt.task);
        self.tell_lost(slot, false, effects);
        self.close(slot, effects);
        let lost = Ending::of(job::Event::WorkerLost, Reason::WorkerLost);
        if self.is_gang(attempt.task.job) {
            let members = self.gangs.get(&attempt.task.job);
            if members.and_then(|members| members.slots.get(attempt.member as usize)) == Some(&slot) {
                self.member_ended(attempt.task, (attempt.member, attempt.worker), Some(lost), effects);
            }
            return;
        }
        if let Some(life) = life.filter(|life| life.live == slot)
            && (life.lost || !self.move_on(attempt.task, life, self.key_of(attempt.worker), lost, effects))
        {
            self.is_over(attempt.task, life);
        }
    }
}
