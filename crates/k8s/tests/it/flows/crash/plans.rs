//! Every way in which one write or two go wrong. What plans have in common is carried out once: where a controller dies, all
//! there is, is in the server, and every plan that goes on from there begins with a copy of it.

use std::collections::BTreeSet;
use std::time::Duration;

use orlop_k8s::flow::Options;
use orlop_k8s::testing::{ApiServer, Fault, Match, What};
use serde_json::Value;

use super::super::test_env::{Age, TestEnv, submit};

/// How far behind the next controller is at first.
const BEHIND: [Age; 7] = [
    Age { flows: 0, jobs: 0 },
    Age { flows: 1, jobs: 0 },
    Age { flows: 0, jobs: 1 },
    Age { flows: 2, jobs: 3 },
    Age { flows: 0, jobs: 1_000 },
    Age { flows: 1_000, jobs: 0 },
    Age { flows: 1_000, jobs: 1_000 },
];
/// The same where two writes go wrong.
const PAIRED: [Age; 3] = [Age { flows: 0, jobs: 0 }, Age { flows: 1, jobs: 2 }, Age { flows: 1_000, jobs: 1_000 }];

/// What takes longer does not go on by itself.
const PATIENCE: Duration = Duration::from_secs(86_400);

/// Something that people do to a flow, as a merge patch.
pub(super) type Order = Value;

/// What is tried.
pub(super) struct Case {
    /// A flow that is under way before.
    pub(super) before: Option<Value>,
    pub(super) spec: Value,
    pub(super) options: Options,
    /// Whether the next controller sees all there is at once: who holds a key is known from that.
    pub(super) fresh: bool,
    /// What people order one after the other, each when nothing goes on by itself.
    pub(super) orders: Vec<Order>,
}

/// How many plans are tried.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// Of how many first faults one is followed by all second ones, and how many count as seen before.
    pub(super) every: usize,
    pub(super) before: usize,
    /// How many writes are tried as the first that goes wrong.
    pub(super) few: usize,
}

/// Where a plan has come to.
struct Place {
    server: ApiServer,
    /// How many orders were given.
    orders: usize,
}

/// What came of a plan.
enum End {
    /// The controller died.
    Died(Place),
    /// Everything is over.
    Over(Box<TestEnv>),
}

/// A way for a write to go wrong.
#[derive(Clone, Debug)]
struct Wrong {
    at: usize,
    what: What,
}

impl Wrong {
    fn fault(&self) -> Fault {
        Fault { when: Match::write().by("admin").nth(self.at as u64 + 1), what: self.what.clone() }
    }
}

/// A controller that dies there.
fn deaths(at: usize) -> [Wrong; 2] {
    [What::StopBefore, What::StopBeforeAnswer].map(|what| Wrong { at, what })
}

/// A controller that hears no answer and goes on.
fn silence(at: usize) -> Wrong {
    Wrong { at, what: What::DropAnswer }
}

/// All plans of a case as they are tried.
pub(super) struct Plans<'a> {
    case: &'a Case,
    clean: TestEnv,
    /// Of how many first faults one is followed by all second ones, and how many were counted before.
    every: usize,
    firsts: usize,
    tried: usize,
}

impl Case {
    pub(super) fn of(spec: Value) -> Self {
        Self { before: None, spec, options: Options::default(), fresh: false, orders: Vec::new() }
    }

    /// The server before anything happened, and the flow is there.
    async fn begin(&self) -> Place {
        let mut server = TestEnv::template();
        if let Some(before) = &self.before {
            let mut env = TestEnv::on(server, None, self.options.clone());
            env.patience = Some(PATIENCE);
            env.submit("old", before.clone());
            env.run().await;
            server = env.server.fork();
        }
        submit(&server, "etl", self.spec.clone());
        Place { server, orders: 0 }
    }

    /// A controller of that age goes on from there, while this goes wrong.
    async fn go(&self, from: &Place, age: Age, wrong: &[&Wrong]) -> End {
        let mut env = TestEnv::on(from.server.fork(), None, self.options.clone());
        (env.stays_down, env.patience) = (true, Some(PATIENCE));
        wrong.iter().for_each(|wrong| env.server.faults().push(wrong.fault()));
        env.begin(age).await;
        let mut orders = from.orders;
        loop {
            env.run().await;
            if env.is_down() {
                return End::Died(Place { server: env.server.fork(), orders });
            }
            let Some(order) = self.orders.get(orders) else { break };
            env.ask_of_flows("PATCH", "etl", order).await.expect("the order is taken");
            orders += 1;
        }
        if !env.is_over("etl") {
            env.patience = None;
            env.run().await;
        }
        if env.is_down() { End::Died(Place { server: env.server.fork(), orders }) } else { End::Over(Box::new(env)) }
    }

    /// The whole of it without trouble.
    pub(super) async fn clean(&self) -> TestEnv {
        match self.go(&self.begin().await, Age::default(), &[]).await {
            End::Over(env) => *env,
            End::Died(_) => unreachable!("nothing goes wrong"),
        }
    }

    /// Tries the plans of one fault, and of two those that begin with every n-th of the first ones.
    pub(super) async fn all(&self, Extent { every, before, few }: Extent) {
        let clean = self.clean().await;
        let writes = clean.writes().len();
        let mut plans = Plans { case: self, clean, every, firsts: before, tried: 0 };
        let begin = self.begin().await;
        for at in orlop_core::sample!(writes, few) {
            plans.beginning_at(&begin, at).await;
        }
        println!("{} plans, the first fault at one of {writes} writes", plans.tried);
        // Eight flows: twenty thousand plans of a run of all tests.
        assert!(self.fresh || every > 2 || plans.tried > 2_500, "only {} plans", plans.tried);
    }
}

impl Plans<'_> {
    fn ages(&self) -> (&'static [Age], &'static [Age]) {
        if self.case.fresh { (&BEHIND[..1], &PAIRED[..1]) } else { (&BEHIND, &PAIRED) }
    }

    /// Every plan whose first fault is at that write.
    async fn beginning_at(&mut self, begin: &Place, at: usize) {
        let (alone, paired) = self.ages();
        let first = silence(at);
        let writes = self.over(begin, Age::default(), &[&first], &format!("{first:?}")).await;
        if self.is_followed() {
            for next in at + 1..writes {
                self.second(begin, Age::default(), Some(&first), next, &format!("{first:?}")).await;
            }
        }
        for first in deaths(at) {
            let End::Died(place) = self.case.go(begin, Age::default(), &[&first]).await else {
                panic!("nobody dies of {first:?}");
            };
            for age in alone {
                let reported = format!("{first:?}, {age:?}");
                let writes = self.over(&place, *age, &[], &reported).await;
                if paired.contains(age) && self.is_followed() {
                    for next in 0..writes {
                        self.second(&place, *age, None, next, &reported).await;
                    }
                }
            }
        }
    }

    /// Whether this first fault is one of those that others follow.
    fn is_followed(&mut self) -> bool {
        self.firsts += 1;
        self.firsts.is_multiple_of(self.every)
    }

    /// Every plan whose second fault is at that write.
    async fn second(&mut self, from: &Place, age: Age, first: Option<&Wrong>, at: usize, reported: &str) {
        let (_, paired) = self.ages();
        let silent = silence(at);
        let both: Vec<&Wrong> = first.into_iter().chain([&silent]).collect();
        self.over(from, age, &both, &format!("{reported}, {silent:?}")).await;
        for death in deaths(at) {
            let both: Vec<&Wrong> = first.into_iter().chain([&death]).collect();
            let End::Died(place) = self.case.go(from, age, &both).await else { panic!("nobody dies of {both:?}") };
            for next in paired {
                self.over(&place, *next, &[], &format!("{reported}, {death:?}, {next:?}")).await;
            }
        }
    }

    /// Goes on to the end: all is as if nothing had gone wrong, and nothing more is written. Gives the number of writes.
    async fn over(&mut self, from: &Place, age: Age, wrong: &[&Wrong], reported: &str) -> usize {
        let End::Over(mut env) = self.case.go(from, age, wrong).await else { panic!("nobody dies: {reported}") };
        self.tried += 1;
        assert_eq!(env.outcome("etl"), self.clean.outcome("etl"), "{reported}");
        assert_eq!(made(&env), made(&self.clean), "{reported}");
        assert_eq!(left(&env), left(&self.clean), "Jobs that are left: {reported}");
        assert_eq!(pieces(&env), pieces(&self.clean), "{reported}");
        let writes = env.writes().len();
        env.restart().await;
        env.settle().await;
        assert_eq!(env.writes().get(writes..), Some([].as_slice()), "a finished flow is written: {reported}");
        writes
    }
}

/// All that was ever created, nothing of it twice. Pieces of the status have the name of what is in them, times too.
fn made(env: &TestEnv) -> Vec<String> {
    let mut all = Vec::new();
    for resource in ["jobs.batch", "configmaps", "persistentvolumeclaims"] {
        all.extend(env.server.created(resource).into_iter().filter(|name| !name.contains("-state-")));
    }
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "something was created twice: {all:?}");
    all.sort();
    all
}

/// The Jobs there are, and whether they are to go by themselves.
fn left(env: &TestEnv) -> Vec<String> {
    let name = |job: &Value| format!("{} {}", job["metadata"]["name"], job["spec"]["ttlSecondsAfterFinished"]);
    env.jobs().iter().map(name).collect()
}

/// How many pieces the status lists; all of them are there.
pub(super) fn pieces(env: &TestEnv) -> usize {
    let refs = env.status("etl").pointer("/stepsPacked/refs").cloned().unwrap_or_default();
    let refs: Vec<String> = serde_json::from_value(refs).unwrap_or_default();
    for name in &refs {
        assert!(env.server.look("configmaps", "default", name).is_some(), "{name} is listed and not there");
    }
    refs.len()
}
