//! Which attempts of one worker make enough room: the fewest, then those of the worst priority, then those that lose the
//! least run time. Owns the choice among given attempts; knows nothing of jobs and workers.

use std::cmp::Reverse;

/// An attempt that may be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    /// Slot of the attempt.
    pub(super) slot: u32,
    pub(super) priority: u8,
    /// How long it has run, in milliseconds.
    pub(super) ran: u64,
    /// What it gives back of each dimension that is short, in the order of the shortage.
    pub(super) gives: Vec<i64>,
}

/// What a choice costs, the cheapest first: attempts, priorities together (greater is cheaper), run time together.
pub(super) type Cost = (usize, Reverse<u64>, u64);

/// A choice of attempts, by position, and what it costs.
type Choice = (Cost, Vec<usize>);

/// The cheapest attempts, at most `most`, that together give `short` of every dimension; none if there are none. The search
/// is exact as long as `budget` lasts, which it uses up by one a step, and greedy after that.
pub(super) fn cheapest(
    short: &[i64],
    mut victims: Vec<Victim>,
    most: usize,
    budget: &mut u32,
) -> Option<(Cost, Vec<u32>)> {
    victims.retain(|victim| short.iter().zip(&victim.gives).any(|(short, gives)| *short > 0 && *gives > 0));
    victims.sort_unstable_by_key(|victim| (Reverse(victim.priority), victim.ran, victim.slot));
    let least = at_least(short, &victims)?;
    let greedy = greedy(short, &victims)?;
    let exact = (least..=most.min(greedy.len())).find_map(|count| exactly(short, &victims, count, budget));
    let fallback = || (greedy.len() <= most).then(|| (cost(&victims, &greedy), greedy.clone()));
    let (cost, chosen) = exact.or_else(fallback)?;
    Some((cost, chosen.iter().filter_map(|at| victims.get(*at)).map(|victim| victim.slot).collect()))
}

fn cost(victims: &[Victim], chosen: &[usize]) -> Cost {
    let each = || chosen.iter().filter_map(|at| victims.get(*at));
    let ran = each().fold(0_u64, |sum, victim| sum.saturating_add(victim.ran));
    (chosen.len(), Reverse(each().map(|victim| u64::from(victim.priority)).sum()), ran)
}

/// What is still short after some attempts.
fn rest(short: &[i64], victims: &[Victim], chosen: &[usize]) -> Vec<i64> {
    let mut rest = short.to_vec();
    for victim in chosen.iter().filter_map(|at| victims.get(*at)) {
        rest.iter_mut().zip(&victim.gives).for_each(|(rest, gives)| *rest -= gives);
    }
    rest
}

fn covers(short: &[i64], victims: &[Victim], chosen: &[usize]) -> bool {
    rest(short, victims, chosen).iter().all(|rest| *rest <= 0)
}

/// No fewer attempts can be enough: in each dimension the greatest ones are counted until they are. None if all are not.
fn at_least(short: &[i64], victims: &[Victim]) -> Option<usize> {
    let mut least = 0;
    for (dim, short) in short.iter().enumerate() {
        let mut gives: Vec<i64> = victims.iter().filter_map(|victim| victim.gives.get(dim).copied()).collect();
        gives.sort_unstable_by_key(|gives| Reverse(*gives));
        let (mut rest, mut count) = (*short, 0);
        for gives in gives {
            if rest <= 0 {
                break;
            }
            (rest, count) = (rest - gives, count + 1);
        }
        if rest > 0 {
            return None;
        }
        least = least.max(count);
    }
    Some(least)
}

/// One choice after the other of who gives most of what is short, then without those that turn out not to be needed.
fn greedy(short: &[i64], victims: &[Victim]) -> Option<Vec<usize>> {
    let mut chosen: Vec<usize> = Vec::new();
    loop {
        let rest = rest(short, victims, &chosen);
        if rest.iter().all(|rest| *rest <= 0) {
            break;
        }
        let worth = |victim: &Victim| {
            let parts = rest.iter().zip(short).zip(&victim.gives);
            parts.map(|((rest, short), gives)| (*gives).min(*rest).max(0) * 1000 / (*short).max(1)).sum::<i64>()
        };
        let others = victims.iter().enumerate().filter(|(at, _)| !chosen.contains(at));
        let (best, _) = others.max_by_key(|(at, victim)| (worth(victim), Reverse(*at)))?;
        chosen.push(best);
    }
    for at in chosen.clone() {
        let without: Vec<usize> = chosen.iter().copied().filter(|other| *other != at).collect();
        if covers(short, victims, &without) {
            chosen = without;
        }
    }
    Some(chosen)
}

/// The cheapest `count` attempts that are enough, found by depth first search in order of preference.
fn exactly(short: &[i64], victims: &[Victim], count: usize, budget: &mut u32) -> Option<Choice> {
    // The most that any attempt from a position on gives of each dimension.
    let mut ahead = vec![vec![0; short.len()]; victims.len() + 1];
    for (at, victim) in victims.iter().enumerate().rev() {
        let next = ahead.get(at + 1)?.clone();
        *ahead.get_mut(at)? = next.iter().zip(&victim.gives).map(|(known, gives)| *known.max(gives)).collect();
    }
    let mut best: Option<Choice> = None;
    let (mut chosen, mut at): (Vec<usize>, usize) = (Vec::new(), 0);
    while *budget > 0 {
        *budget -= 1;
        let missing = count - chosen.len();
        if missing == 0 && covers(short, victims, &chosen) {
            let cost = cost(victims, &chosen);
            if best.as_ref().is_none_or(|(known, _)| cost < *known) {
                best = Some((cost, chosen.clone()));
            }
        }
        let rest = rest(short, victims, &chosen);
        let could = |most: &Vec<i64>| {
            let times = i64::try_from(missing).unwrap_or(i64::MAX);
            rest.iter().zip(most).all(|(rest, most)| *rest <= most.saturating_mul(times))
        };
        let better = || {
            let Some((known, _)) = &best else { return true };
            // Those that follow are at most as cheap as the next one.
            let (_, Reverse(priorities), ran) = cost(victims, &chosen);
            let next = victims.get(at).map_or(0, |victim| u64::from(victim.priority));
            (count, Reverse(priorities + next * missing as u64), ran) < *known
        };
        if missing > 0 && at + missing <= victims.len() && ahead.get(at).is_some_and(could) && better() {
            chosen.push(at);
            at += 1;
        } else {
            let Some(last) = chosen.pop() else { break };
            at = last + 1;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn victims(list: &[(u8, u64, &[i64])]) -> Vec<Victim> {
        let victim = |(slot, (priority, ran, gives)): (u32, &(u8, u64, &[i64]))| Victim {
            slot,
            priority: *priority,
            ran: *ran,
            gives: gives.to_vec(),
        };
        (0..).zip(list).map(victim).collect()
    }

    fn chosen(short: &[i64], list: &[(u8, u64, &[i64])], most: usize) -> Option<Vec<u32>> {
        cheapest(short, victims(list), most, &mut 10_000).map(|(_, slots)| slots)
    }

    #[test]
    fn victims_are_fewest_then_of_the_worst_priority_then_those_that_lose_least() {
        // One large attempt rather than two small ones, though these are less urgent.
        assert_eq!(chosen(&[2], &[(9, 0, &[1]), (9, 0, &[1]), (7, 50, &[2])], 9), Some(vec![2]));
        assert_eq!(chosen(&[1], &[(7, 0, &[1]), (9, 80, &[1]), (8, 0, &[1])], 9), Some(vec![1]));
        assert_eq!(chosen(&[1], &[(9, 30, &[1]), (9, 10, &[1]), (9, 20, &[1])], 9), Some(vec![1]));
        // Every short dimension counts.
        assert_eq!(chosen(&[1, 1], &[(9, 0, &[1, 0]), (9, 0, &[1, 0]), (6, 9, &[0, 1])], 9), Some(vec![0, 2]));
        assert_eq!(chosen(&[1, 1], &[(9, 0, &[1, 0])], 9), None);
        assert_eq!(chosen(&[2], &[(9, 0, &[1]), (9, 0, &[1])], 1), None, "more than may be ended");
    }

    #[test]
    fn without_a_budget_the_choice_is_enough_and_has_nobody_to_spare() {
        let list = victims(&[(9, 0, &[1, 0]), (9, 0, &[1, 3]), (9, 0, &[0, 1]), (8, 0, &[2, 2])]);
        let (cost, slots) = cheapest(&[3, 4], list, 9, &mut 0).unwrap();
        assert_eq!((cost.0, slots), (2, vec![3, 1]));
    }

    proptest! {
        #[test]
        fn the_search_finds_what_trying_all_sets_finds(
            list in proptest::collection::vec((6_u8..10, 0_u64..4, proptest::collection::vec(0_i64..4, 2)), 0..8),
            short in proptest::collection::vec(0_i64..7, 2),
        ) {
            prop_assume!(short.iter().any(|short| *short > 0));
            let list: Vec<(u8, u64, &[i64])> = list.iter().map(|(p, r, g)| (*p, *r, g.as_slice())).collect();
            let all = victims(&list);
            let sets = (1_u32..1 << all.len()).map(|set| (0..all.len()).filter(|at| set >> at & 1 == 1).collect());
            let enough = sets.filter(|set: &Vec<usize>| covers(&short, &all, set));
            let best = enough.map(|set| cost(&all, &set)).min();
            prop_assert_eq!(cheapest(&short, all, 9, &mut 100_000).map(|(cost, _)| cost), best);
        }
    }
}
