//! From bytes to a flow and what happens to it. Steps and happenings take a fixed number of bytes each, so that leaving
//! one out does not change the others: failing cases shrink well.

use orlop_core::spec::flow::SuspendMode;
use orlop_core::spec::policy::{FailurePolicy, SkipPolicy, ToleratedOutcome};

use super::bytes::Bytes;
use super::case::{Ask, Case, Condition, Items, Join, Retry, StepCase};

/// Bytes of the flow as a whole.
const HEAD: usize = 16;
/// Bytes of a step.
const STEP: usize = 16;
/// Happenings at most; what follows is not read.
const OPS: usize = 120;
/// Bytes of a happening.
const OP: usize = 4;

/// Something that happens. What it picks among is known when it happens.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Seconds that pass before.
    pub wait: u32,
    /// What happens.
    pub what: What,
    /// Picks among candidates.
    pub pick: usize,
    /// Decides the rest.
    pub arg: u8,
}

/// Kinds of happenings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A requested start is answered.
    Answer,
    /// A live attempt ends.
    End,
    /// Time passes.
    Tick,
    /// The next deadline comes.
    Deadline,
    /// A fan-out's items are read.
    Items,
    /// The flow is suspended or resumed.
    Suspend,
    /// The spec is changed or restored.
    Hold,
    /// The flow is told to end.
    Stop,
    /// A person decides.
    Decide,
    /// An earlier event comes again.
    Replay,
    /// An event about something that is not.
    Stray,
    /// The gate opens, or stays closed.
    Gate,
    /// Resources are there, or cannot be.
    Resources,
    /// A step is imported.
    Import,
    /// The final status was written.
    Written,
}

/// Decodes bytes: the flow and what happens to it.
#[must_use]
pub fn decode(bytes: &[u8]) -> (Case, Vec<Op>) {
    let mut bytes = Bytes::new(bytes);
    let mut first = bytes.take(HEAD);
    let mood = Mood::of(first.byte());
    let mut case = head(&mut first);
    let chunks: Vec<Bytes<'_>> = case.steps.iter().map(|_| bytes.take(STEP)).collect();
    steps(&mut case, chunks);
    let mut ops = Vec::new();
    while !bytes.is_empty() && ops.len() < OPS {
        ops.push(op(&mut bytes.take(OP), mood));
    }
    (case, ops)
}

fn head(bytes: &mut Bytes<'_>) -> Case {
    let main = [1, 1, 2, 3, 4, 5, 6, 7].get(bytes.below(8)).copied().unwrap_or(1);
    let finally = if bytes.chance(90) { bytes.below(2) + 1 } else { 0 };
    let part = |finally| StepCase { finally, ..StepCase::default() };
    let steps = std::iter::repeat_n(part(false), main).chain(std::iter::repeat_n(part(true), finally)).collect();
    let failure = [FailurePolicy::FailFast, FailurePolicy::CancelRunning, FailurePolicy::Continue];
    let count = |n: usize| u32::try_from(n).unwrap_or(0);
    Case {
        steps,
        failure: failure.get(bytes.below(3)).copied().unwrap_or_default(),
        skip: if bytes.chance(70) { SkipPolicy::Strict } else { SkipPolicy::Lenient },
        tolerated: if bytes.chance(60) { ToleratedOutcome::Failed } else { ToleratedOutcome::Succeeded },
        budget: [1, 1, 0, 2, 4].get(bytes.below(5)).copied().unwrap_or(1),
        lost_limit: count(bytes.below(3)),
        parallelism: bytes.chance(100).then(|| count(bytes.below(3)) + 1),
        deadline: bytes.chance(70).then(|| count(bytes.below(30)) + 3),
        ttl: count(bytes.below(3)) * 7,
        suspended: bytes.chance(40),
        mode: if bytes.chance(100) { SuspendMode::Suspend } else { SuspendMode::Drain },
        resources: bytes.chance(40),
        gated: bytes.chance(50),
    }
}

fn steps(case: &mut Case, mut chunks: Vec<Bytes<'_>>) {
    let main = case.main();
    // Dependencies go to lower ranks; ranks and places in the spec are independent.
    let ranks: Vec<u8> = chunks.iter_mut().map(Bytes::byte).collect();
    for (step, bytes) in case.steps.iter_mut().zip(&mut chunks) {
        *step = own(step.finally, bytes);
    }
    for (at, bytes) in chunks.iter_mut().enumerate() {
        let finally = at >= main;
        let rank = |at: usize| (at >= main, ranks.get(at).copied().unwrap_or(0), at);
        let earlier: Vec<usize> = (0..case.steps.len()).filter(|other| rank(*other) < rank(at)).collect();
        let peers: Vec<usize> = earlier.iter().copied().filter(|other| (*other >= main) == finally).collect();
        let with_output: Vec<usize> =
            earlier.iter().copied().filter(|step| case.steps.get(*step).is_some_and(|step| step.output)).collect();
        let lists = Lists { peers, earlier, with_output };
        if let Some(step) = case.steps.get_mut(at) {
            relations(step, bytes, &lists);
        }
    }
}

/// What a step may refer to.
struct Lists {
    /// Steps it may depend on.
    peers: Vec<usize>,
    /// Steps it may read.
    earlier: Vec<usize>,
    /// Those with an output.
    with_output: Vec<usize>,
}

/// What a step is by itself.
fn own(finally: bool, bytes: &mut Bytes<'_>) -> StepCase {
    let manual = bytes.chance(35) && !finally;
    let count = |n: usize| u32::try_from(n).unwrap_or(0);
    let retry = bytes.below(4);
    let kind = bytes.byte();
    let retry = (retry > 0 && !manual).then(|| Retry {
        limit: count(retry) - 1 + u32::from(kind & 1),
        base: 1 + u32::from(kind >> 1 & 3),
        doubles: kind & 8 == 8,
        jitter: kind & 48 == 48,
    });
    let continues = bytes.chance(60);
    let timeout = bytes.chance(90).then(|| count(bytes.below(6)) + 1);
    StepCase {
        finally,
        manual,
        continues,
        retry,
        timeout,
        // Without a byte of its own, so that older inputs keep their meaning.
        pending: timeout.filter(|limit| limit % 3 == 0 && !manual).map(|limit| limit - 1),
        parallelism: bytes.chance(60).then(|| count(bytes.below(2)) + 1),
        output: !manual && bytes.chance(100),
        ..StepCase::default()
    }
}

fn relations(step: &mut StepCase, bytes: &mut Bytes<'_>, lists: &Lists) {
    let pick = |bytes: &mut Bytes<'_>, list: &[usize]| list.get(bytes.below(list.len())).copied();
    match bytes.below(8) {
        0 | 1 => {}
        2..=4 => step.needs.extend(pick(bytes, &lists.peers)),
        5 | 6 => {
            step.needs.extend(pick(bytes, &lists.peers));
            step.needs.extend(pick(bytes, &lists.peers));
        }
        _ => step.join = join(bytes, &lists.peers, 2),
    }
    let fan = bytes.byte();
    let size = u32::from(fan & 3);
    if !step.manual {
        step.items = match fan >> 2 {
            1..=11 => Some(Items::Listed(size)),
            12..=18 => pick(bytes, &lists.peers).map(Items::Read),
            _ => None,
        };
    }
    if step.items.is_none() {
        step.parallelism = None;
    }
    let kind = bytes.below(24);
    let number = bytes.byte();
    let of = |list: &[usize]| list.get(usize::from(number).checked_rem(list.len()).unwrap_or(0)).copied();
    let phase = ["Succeeded", "Failed", "Skipped"].get(usize::from(number >> 4) % 3).copied().unwrap_or_default();
    step.when = match kind {
        0 => Some(Condition::Never),
        1 | 2 => of(&lists.earlier).map(|step| Condition::Phase(step, phase)),
        3 => of(&lists.earlier).map(|step| Condition::Reason(step, "ConditionFalse")),
        4 | 5 => of(&lists.with_output).map(|step| Condition::Output(step, "v0")),
        6 => of(&lists.earlier).map(Condition::Retried),
        7..=10 if step.items.is_some() => Some(Condition::Index(u32::from(number & 1))),
        7..=9 if step.finally => Some(Condition::Outcome(number & 1 == 0)),
        _ => None,
    };
    if bytes.chance(30) {
        step.reads.extend(pick(bytes, &lists.earlier));
    }
}

fn join(bytes: &mut Bytes<'_>, peers: &[usize], depth: u8) -> Option<Join> {
    let kind = if depth == 0 { 0 } else { bytes.below(6) };
    let inner = |bytes: &mut Bytes<'_>| join(bytes, peers, depth.saturating_sub(1)).map(Box::new);
    match kind {
        1 => Some(Join::Not(inner(bytes)?)),
        2 | 3 => Some(Join::And(inner(bytes)?, inner(bytes)?)),
        4 | 5 => Some(Join::Or(inner(bytes)?, inner(bytes)?)),
        _ => {
            let step = peers.get(bytes.below(peers.len())).copied()?;
            let ask = Ask::ALL.get(bytes.below(Ask::ALL.len())).copied().unwrap_or(Ask::Satisfied);
            Some(Join::Term(step, ask))
        }
    }
}

/// What kinds of happenings prevail.
#[derive(Clone, Copy)]
enum Mood {
    Mixed,
    Work,
    Failures,
    Orders,
}

impl Mood {
    fn of(byte: u8) -> Self {
        match byte % 4 {
            1 => Self::Work,
            2 => Self::Failures,
            3 => Self::Orders,
            _ => Self::Mixed,
        }
    }

    /// How often each kind happens.
    fn shares(self) -> [(What, u8); 15] {
        let [work, time, orders, noise] = match self {
            Self::Mixed => [6, 2, 2, 2],
            Self::Work => [12, 5, 0, 0],
            Self::Failures => [12, 4, 1, 0],
            Self::Orders => [6, 1, 5, 0],
        };
        [
            (What::Answer, work),
            (What::End, work),
            (What::Tick, time),
            (What::Deadline, time * 2),
            (What::Items, 2),
            (What::Suspend, orders),
            (What::Hold, orders / 2),
            (What::Stop, orders / 2),
            (What::Decide, 2),
            (What::Replay, noise),
            (What::Stray, noise),
            (What::Gate, 1),
            (What::Resources, 2),
            (What::Import, noise / 2),
            (What::Written, noise / 2),
        ]
    }
}

fn op(bytes: &mut Bytes<'_>, mood: Mood) -> Op {
    let shares = mood.shares();
    let all: u32 = shares.iter().map(|(_, share)| u32::from(*share)).sum();
    let mut place = u32::from(bytes.byte()) * all / 256;
    let mut what = What::Answer;
    for (kind, share) in shares {
        if place < u32::from(share) {
            what = kind;
            break;
        }
        place -= u32::from(share);
    }
    let pick = usize::from(bytes.byte());
    let arg = bytes.byte();
    // Where failures prevail, ends are failures of all kinds.
    let arg = if matches!((mood, what), (Mood::Failures, What::End)) { arg & 0xf0 | (6 + (arg & 7)) } else { arg };
    let wait = match bytes.byte() {
        byte @ 0..=249 => u32::from(byte & 3),
        byte => u32::from(byte - 249) * 20,
    };
    Op { wait, what, pick, arg }
}
