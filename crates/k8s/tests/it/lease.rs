//! Elections among operators on the API server double, through the real client, in virtual time: whoever leads works, and
//! never two do.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures::future::{LocalBoxFuture, join_all};
use orlop_core::time::Time;
use orlop_k8s::api::{Api, Client, Kind, Request};
use orlop_k8s::shell::Clock;
use orlop_k8s::shell::lease::{self, Ended, Fenced, Term};
use orlop_k8s::testing::{ApiServer, Fault, Match, Verb, What};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

struct ServerClock(ApiServer);

impl Clock for ServerClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.clock().now())
    }
}

fn server() -> ApiServer {
    let server = ApiServer::new();
    server.namespace("orlop");
    server.clock().follow_tokio();
    server
}

const LEASES: &str = "leases.coordination.k8s.io";

fn holder(server: &ApiServer, name: &str) -> String {
    let lease = server.look(LEASES, "orlop", name).unwrap_or_default();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

/// An operator: its way to the server, its term, and when it is to stop.
#[derive(Clone)]
struct Operator {
    server: ApiServer,
    client: kube::Client,
    name: String,
    term: Term,
    stop: Rc<Cell<bool>>,
    /// Writes of its work that passed the fence, and those that did not.
    writes: Rc<Cell<(u32, u32)>>,
    flows: bool,
}

impl Operator {
    fn new(server: &ApiServer, name: &str) -> Self {
        let (server, client, name) = (server.clone(), server.client_named(name), name.to_owned());
        Self { server, client, name, term: Term::default(), stop: Rc::default(), writes: Rc::default(), flows: true }
    }

    async fn stopped(&self) {
        while !self.stop.get() {
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Writes a ConfigMap every 300 ms, as long as it may.
    async fn work(&self) {
        let api = Fenced::new(Client::new(self.client.clone()), self.term.clone());
        for number in 0.. {
            if self.stop.get() {
                return;
            }
            let name = format!("{}-{number}", self.name);
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "orlop"}});
            let held = self.term.holds();
            let written = api.send(&Request::create(Kind::ConfigMap, object)).await.is_ok();
            assert!(held || !written, "only a leader writes");
            let (passed, refused) = self.writes.get();
            self.writes.set(if written { (passed + 1, refused) } else { (passed, refused + 1) });
            sleep(Duration::from_millis(300)).await;
        }
    }

    async fn run(&self) -> Ended<()> {
        let clock = ServerClock(self.server.clone());
        let options = lease::Options::operator(&self.name, "orlop", self.flows);
        let api = Client::new(self.client.clone());
        lease::lead(&api, &clock, options, &self.term, self.stopped(), self.work()).await
    }
}

/// Polls a future only outside of these times, as if its process were stopped in them.
async fn paused<T>(start: Instant, pauses: Vec<(u64, u64)>, inner: impl Future<Output = T>) -> T {
    let mut inner = pin!(inner);
    let mut wakes = pin!(join_all(
        pauses.iter().map(|(_, to)| sleep_until(start + Duration::from_millis(*to))).collect::<Vec<_>>()
    ));
    let mut awake = false;
    poll_fn(|context| {
        awake = awake || wakes.as_mut().poll(context).is_ready();
        let now = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        if pauses.iter().any(|(from, to)| (*from..*to).contains(&now)) {
            return Poll::Pending;
        }
        inner.as_mut().poll(context)
    })
    .await
}

/// Looks every 50 ms that no two lead, until the time is over.
async fn watch(terms: &[Term], time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        let leaders = terms.iter().filter(|term| term.holds()).count();
        assert!(leaders <= 1, "two lead");
        sleep(Duration::from_millis(50)).await;
    }
}

/// A sequence of numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn fault(numbers: &mut Numbers) -> Fault {
    let when = if numbers.below(2) == 0 { Match::of(Verb::Update, LEASES) } else { Match::any() };
    let when = when.nth(1 + numbers.below(30)).times(1 + numbers.below(4));
    let what = match numbers.below(8) {
        0 => What::DropAnswer,
        1 => What::Unreachable,
        2 => What::Conflict,
        3 => What::Timeout,
        4 => What::TimeoutAfter,
        5 => What::Refuse(429),
        6 => What::Refuse(500),
        _ => What::Delay(Duration::from_millis(numbers.below(9_000))),
    };
    Fault { when, what }
}

#[tokio::test(start_paused = true)]
async fn two_operators_never_lead_together_whatever_is_paused_or_lost() {
    let (mut wrote, mut lost, mut struck) = (0, 0, 0);
    for seed in 0..30 {
        let mut numbers = Numbers(seed);
        let server = server();
        let operators = ["a", "b"].map(|name| Operator::new(&server, name));
        for _ in 0..numbers.below(12) {
            server.faults().push(fault(&mut numbers));
        }
        let terms = operators.each_ref().map(|operator| operator.term.clone());
        let (start, over) = (Instant::now(), Cell::new(0));
        let mut runs: Vec<LocalBoxFuture<'_, ()>> = Vec::new();
        for operator in &operators {
            let pauses: Vec<(u64, u64)> = (0..numbers.below(4))
                .map(|_| (numbers.below(70_000), 1 + numbers.below(30_000)))
                .map(|(from, long)| (from, from + long))
                .collect();
            let over = &over;
            runs.push(Box::pin(async move {
                // A process that lost is started again, under another name.
                let mut operator = operator.clone();
                while let Ended::Lost(_) = paused(start, pauses.clone(), operator.run()).await {
                    over.set(over.get() + 1);
                    operator.name.push('x');
                }
            }));
        }
        runs.push(Box::pin(async {
            watch(&terms, Duration::from_secs(105)).await;
            server.faults().clear();
            watch(&terms, Duration::from_secs(35)).await;
            let leader = terms.iter().filter(|term| term.holds()).count();
            assert_eq!(leader, 1, "one leads when the trouble is over (seed {seed})");
            let holder = [lease::OPERATOR, lease::FLOWS].map(|name| holder(&server, name));
            assert!(holder[0] == holder[1] && !holder[0].is_empty(), "{holder:?}");
            operators.iter().for_each(|operator| operator.stop.set(true));
        }));
        join_all(runs).await;
        assert_eq!([lease::OPERATOR, lease::FLOWS].map(|name| holder(&server, name)), ["", ""], "seed {seed}");
        wrote += operators.iter().map(|operator| operator.writes.get().0).sum::<u32>();
        (lost, struck) = (lost + over.get(), struck + server.faults().struck());
    }
    assert!(wrote > 5_000 && lost > 10 && struck > 50, "{wrote} writes, {lost} lost terms, {struck} faults");
}

/// Waits until a process leads; gives how long that took.
async fn until_leading(term: &Term) -> Duration {
    let start = Instant::now();
    while !term.holds() {
        sleep(Duration::from_millis(50)).await;
        assert!(start.elapsed() < Duration::from_secs(300), "it never leads");
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_within_a_term_and_a_retry_of_a_leader_that_dies() {
    for moment in 0..10 {
        let server = server();
        let [a, b] = ["a", "b"].map(|name| Operator::new(&server, name));
        let test = async {
            until_leading(&a.term).await;
            sleep(Duration::from_millis(4_000 + 300 * moment)).await;
            server.faults().stop("a");
            let took = until_leading(&b.term).await;
            assert!(took > Duration::from_secs(12) && took <= Duration::from_millis(17_100), "{took:?}");
            assert_eq!((b.term.leader().as_deref(), a.term.holds()), (Some("b"), false));
            b.stop.set(true);
        };
        let late = async {
            sleep(Duration::from_millis(10)).await;
            b.run().await
        };
        let (first, second, ()) = futures::join!(a.run(), late, test);
        assert!(matches!(first, Ended::Lost(_)), "losing the lease ends the run: {first:?}");
        assert_eq!(second, Ended::Done(()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_hands_over_at_once() {
    let server = server();
    let [a, b] = ["a", "b"].map(|name| Operator::new(&server, name));
    let test = async {
        until_leading(&a.term).await;
        sleep(Duration::from_millis(5_300)).await;
        a.stop.set(true);
        let took = until_leading(&b.term).await;
        assert!(took <= Duration::from_millis(2_500), "{took:?}");
        b.stop.set(true);
    };
    let late = async {
        sleep(Duration::from_millis(10)).await;
        b.run().await
    };
    let (first, second, ()) = futures::join!(a.run(), late, test);
    assert_eq!((first, second), (Ended::Done(()), Ended::Done(())));
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_is_to_stop_stops_and_has_done_nothing() {
    let server = server();
    let [a, b] = ["a", "b"].map(|name| Operator::new(&server, name));
    let test = async {
        until_leading(&a.term).await;
        sleep(Duration::from_secs(30)).await;
        b.stop.set(true);
        sleep(Duration::from_secs(30)).await;
        a.stop.set(true);
    };
    let late = async {
        sleep(Duration::from_millis(10)).await;
        b.run().await
    };
    let (_, second, ()) = futures::join!(a.run(), late, test);
    assert_eq!((second, b.writes.get()), (Ended::Stopped, (0, 0)));
    assert!(server.writes().iter().all(|write| write.client == "a"), "a standby writes nothing");
}

#[tokio::test(start_paused = true)]
async fn an_operator_without_flows_is_not_kept_by_another_program() {
    let server = server();
    let zen = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": lease::FLOWS},
        "spec": {"holderIdentity": "zen", "leaseDurationSeconds": 3600}});
    server.create("coordination.k8s.io", "leases", "orlop", &zen).expect("a lease");
    let [a, mut b] = ["a", "b"].map(|name| Operator::new(&server, name));
    b.flows = false;
    let test = async {
        sleep(Duration::from_secs(60)).await;
        assert_eq!((a.term.holds(), b.term.holds()), (false, true));
        assert!(server.writes().iter().all(|write| write.client == "b"));
        for operator in [&a, &b] {
            operator.stop.set(true);
        }
    };
    let (first, second, ()) = futures::join!(a.run(), b.run(), test);
    assert_eq!((first, second), (Ended::Stopped, Ended::Done(())));
}

const USER: &str = "system:serviceaccount:orlop:operator";

/// The rights on leases as section 5.3 lists them, in the namespace of the operator only.
async fn leads_with(verbs: &[&str]) -> (bool, ApiServer) {
    let server = server();
    let rules = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    ]);
    let create = |kind: &str, plural: &str, more: Value| {
        let mut object =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "operator"}});
        let members = object.as_object_mut().expect("an object");
        members.extend(more.as_object().expect("an object").clone());
        server.create("rbac.authorization.k8s.io", plural, "orlop", &object).expect("the server takes it");
    };
    create("Role", "roles", json!({"rules": rules}));
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"});
    let subjects = json!([{"kind": "ServiceAccount", "namespace": "orlop", "name": "operator"}]);
    create("RoleBinding", "rolebindings", json!({"roleRef": role, "subjects": subjects}));
    let mut operator = Operator::new(&server, "a");
    operator.client = server.client_as(USER);
    let test = async {
        sleep(Duration::from_secs(40)).await;
        let leads = operator.term.holds();
        operator.stop.set(true);
        leads
    };
    let (_, leads) = futures::join!(operator.run(), test);
    (leads, server)
}

#[tokio::test(start_paused = true)]
async fn the_rights_of_the_contract_are_enough_and_each_is_needed() {
    let all = ["get", "create", "update"];
    let (leads, server) = leads_with(&all).await;
    assert!(leads && server.requests().iter().all(|asked| asked.code != 403), "{:?}", server.requests());
    for without in all {
        let verbs: Vec<&str> = all.into_iter().filter(|verb| *verb != without).collect();
        let (leads, server) = leads_with(&verbs).await;
        assert!(!leads, "without {without}");
        assert!(server.requests().iter().any(|asked| asked.code == 403), "without {without}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fence_passes_reads_and_holds_writes_of_who_does_not_lead() {
    let server = server();
    let api = Fenced::new(Client::new(server.client()), Term::default());
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "orlop"}});
    let refused = api.send(&Request::create(Kind::ConfigMap, object)).await.expect_err("it does not lead");
    assert_eq!((refused.code, server.writes().len()), (None, 0));
    let read = api.send(&Request::get(Kind::ConfigMap, "orlop", "m")).await.expect_err("there is none");
    assert_eq!(read.code, Some(404));
}
