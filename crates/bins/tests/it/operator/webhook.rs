//! The webhook of the program over HTTPS: reviews and their words, certificates that are renewed while connections are live,
//! callers that mean no good, and the end of the process.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::Signal;
use orlop::k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::cluster::until;
use super::double::plain_server;
use super::flow;
use super::http::{kubeconfig, serve};
use super::https::{Https, Issued, issue};
use super::program::Program;

/// A program with a webhook whose certificate is mounted as Kubernetes mounts it.
pub(super) struct Bench {
    dir: tempfile::TempDir,
    pub(super) server: ApiServer,
    pub(super) program: Option<Program>,
    turns: usize,
}

impl Bench {
    /// Everything but the program.
    async fn prepare() -> Self {
        let server = plain_server(true);
        let dir = tempfile::tempdir().unwrap();
        kubeconfig(dir.path(), &serve(server.client_named("command")).await);
        std::fs::create_dir(dir.path().join("certs")).unwrap();
        for file in ["tls.crt", "tls.key"] {
            symlink(format!("..data/{file}"), dir.path().join("certs").join(file)).unwrap();
        }
        Self { dir, server, program: None, turns: 0 }
    }

    pub(super) async fn new(first: &Issued) -> Self {
        let mut bench = Self::prepare().await;
        bench.mount(&first.pair.chain, &first.pair.key);
        bench.start("127.0.0.1:0").await;
        bench
    }

    pub(super) async fn start(&mut self, address: &str) {
        let (dir, webhook) = (self.dir.path().to_owned(), format!("--webhook-addr={address}"));
        let start = move || {
            let certs = format!("--webhook-cert-dir={}", dir.join("certs").display());
            let words = [webhook.as_str(), &certs, "--leader-elect=false"];
            let program = Program::start_in_pod(&dir, "operator", &dir.join("kubeconfig"), &words);
            program.webhook();
            program
        };
        self.program = Some(apart(start).await);
    }

    pub(super) fn program(&self) -> &Program {
        self.program.as_ref().unwrap()
    }

    /// Turns the mount to another pair.
    fn mount(&mut self, certificate: &str, key: &str) {
        let root = self.dir.path().join("certs");
        self.turns += 1;
        let folder = format!("..2026_{}", self.turns);
        std::fs::create_dir(root.join(&folder)).unwrap();
        std::fs::write(root.join(&folder).join("tls.crt"), certificate).unwrap();
        std::fs::write(root.join(&folder).join("tls.key"), key).unwrap();
        let before = std::fs::read_link(root.join("..data"));
        symlink(&folder, root.join("..data_tmp")).unwrap();
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        if let Ok(before) = before {
            std::fs::remove_dir_all(root.join(before)).unwrap();
        }
    }

    fn metric(&self, line: &str) {
        until(line, || self.program().get("/metrics").1.contains(line).then_some(()));
    }

    /// Waits for words in the log: they are written beside the work, and may come after its metric.
    fn reported(&self, words: &str) {
        until(words, || self.program().log().contains(words).then_some(()));
    }
}

/// Work that waits for sockets and processes, beside the server of this test.
pub(super) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn review(operation: &str, object: &Value, old: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5", "operation": operation, "userInfo": {"username": "ann", "groups": ["system:authenticated"]},
        "kind": {"group": "workflow.kube-zen.io", "version": "v1alpha1", "kind": "JobFlow"},
        "resource": {"group": "workflow.kube-zen.io", "version": "v1alpha1", "resource": "jobflows"},
        "name": "etl", "namespace": "other", "dryRun": false, "object": object, "oldObject": old}})
}

fn create(spec: &Value) -> Value {
    review("CREATE", &flow("etl", spec), &Value::Null)
}

fn good() -> Value {
    create(&json!({"steps": [{"name": "gate", "type": "Manual"}]}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reviews_are_answered_over_https_in_the_words_of_the_rules() {
    let issued = issue(0);
    let bench = Bench::new(&issued).await;
    apart(move || {
        let address = bench.program().webhook();
        let mut line = until("a connection", || Https::connect(&address, &[&issued.authority]).ok());
        let mut shown = Vec::new();
        let wrong = json!({"steps": [
            {"name": "a", "type": "Manual", "dependencies": ["b"]},
            {"name": "A", "type": "Manual", "timeoutSeconds": -1},
            {"name": "c", "template": {"apiVersion": "v1", "kind": "Pod", "spec": {}}},
            {"name": "d"}]});
        let before = flow("etl", &json!({"steps": [{"name": "gate", "type": "Manual"}]}));
        let mut after = before.clone();
        after["metadata"]["annotations"] = json!({"approved.workflow.kube-zen.io/gate": "true"});
        for (path, asked) in [
            ("/validate-jobflow", good()),
            ("/validate-jobflow", create(&wrong)),
            ("/mutate-jobflow", good()),
            ("/validate-jobflow", review("UPDATE", &after, &before)),
            ("/validate-jobflow", review("DELETE", &Value::Null, &before)),
        ] {
            let mut answer = line.review(path, &asked).unwrap();
            if let Some(patch) = answer["response"]["patch"].as_str() {
                let patch = STANDARD.decode(patch).unwrap();
                answer["response"]["patch"] = serde_json::from_slice(&patch).unwrap();
            }
            shown.push(format!("{path} {}\n{:#}", asked["request"]["operation"], answer["response"]));
        }
        insta::assert_snapshot!(shown.join("\n"));
        let answer = line.review("/mutate-jobflow", &review("UPDATE", &after, &before)).unwrap();
        assert_eq!(
            (&answer["response"]["allowed"], &answer["response"]["patchType"]),
            (&json!(true), &json!("JSONPatch"))
        );
        let text = bench.program().get("/metrics").1;
        for (path, result, count) in [("validate", "allowed", 3), ("validate", "refused", 1), ("mutate", "patched", 2)]
        {
            let line = format!("orlop_webhook_requests_total{{path=\"/{path}-jobflow\",result=\"{result}\"}} {count}");
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    })
    .await;
}

/// Tells others to stop when it goes, also where an assertion fails: a scope waits for its threads even then.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks over new connections until told to stop; gives how many answers came. Every one must.
fn keep_asking(address: &str, authorities: &[String], done: &AtomicBool) -> usize {
    let authorities: Vec<&str> = authorities.iter().map(String::as_str).collect();
    let mut answers = 0;
    while !done.load(Ordering::Relaxed) {
        let mut line = Https::connect(address, &authorities).expect("a connection");
        let answer = line.review("/validate-jobflow", &good()).expect("an answer");
        assert_eq!(answer["response"]["allowed"], true);
        answers += 1;
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_is_taken_while_connections_are_live_and_a_wrong_pair_is_not() {
    let (first, second, third) = (issue(0), issue(10), issue(20));
    let mut bench = Bench::new(&first).await;
    apart(move || {
        let address = bench.program().webhook();
        let connect = |issued: &Issued| Https::connect(&address, &[&issued.authority]);
        let mut old = until("a connection", || connect(&first).ok());
        assert!(connect(&second).is_err(), "it is another's");
        until("readiness", || (bench.program().get("/readyz").0 == 200).then_some(()));
        let done = AtomicBool::new(false);
        let all: Vec<String> = [&first, &second, &third].map(|issued| issued.authority.clone()).to_vec();
        let answers = std::thread::scope(|scope| {
            let asking = scope.spawn(|| keep_asking(&address, &all, &done));
            let stop = Stop(&done);
            bench.mount(&second.pair.chain, &second.pair.key);
            let mut new = until("the renewed certificate", || connect(&second).ok());
            assert!(connect(&first).is_err(), "the old one is not shown any more");
            for line in [&mut old, &mut new] {
                assert_eq!(line.review("/validate-jobflow", &good()).unwrap()["response"]["allowed"], true);
            }
            // The certificate of one pair with the key of another.
            bench.mount(&third.pair.chain, &second.pair.key);
            bench.metric("orlop_webhook_certificate_loads_total{result=\"failed\"} 1");
            bench.reported("the current one stays in use");
            // What says nothing for ten seconds is let go.
            assert!(old.review("/validate-jobflow", &good()).is_ok(), "a live connection goes on");
            assert!(connect(&second).is_ok() && connect(&third).is_err());
            assert_eq!(bench.program().get("/readyz").0, 200, "what is in use is good");
            bench.mount(&third.pair.chain, &third.pair.key);
            until("the third certificate", || connect(&third).ok());
            assert!(old.review("/validate-jobflow", &good()).is_ok(), "a live connection goes on");
            drop(stop);
            asking.join().unwrap()
        });
        assert!(answers > 10, "{answers}");
        bench.metric("orlop_webhook_certificate_loads_total{result=\"taken\"} 3");
        let text = bench.program().get("/metrics").1;
        let expiry =
            text.lines().find_map(|line| line.strip_prefix("orlop_webhook_certificate_expiry_timestamp_seconds "));
        let expiry: i64 = expiry.unwrap().parse().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let days = (expiry - i64::try_from(now).unwrap()) / 86_400;
        assert!((343..=346).contains(&days), "{days} days are left of a year less 20");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_not_ready_before_there_is_a_certificate() {
    let mut bench = Bench::prepare().await;
    bench.start("127.0.0.1:0").await;
    apart(move || {
        let (issued, address) = (issue(0), bench.program().webhook());
        let reported = until("a word on the certificate", || {
            let (code, text) = bench.program().get("/readyz");
            (code == 503 && text.contains("webhook: its certificate cannot be used")).then_some(text)
        });
        assert!(reported.contains("certs/tls.crt: No such file or directory"), "{reported}");
        assert_eq!(bench.program().get("/healthz").0, 200);
        assert!(Https::connect(&address, &[&issued.authority]).is_err());
        bench.mount(&issued.pair.chain, &issued.pair.key);
        until("readiness", || (bench.program().get("/readyz").0 == 200).then_some(()));
        assert!(Https::connect(&address, &[&issued.authority]).is_ok());
        let mut program = bench.program.take().unwrap();
        program.signal(Signal::SIGTERM);
        assert_eq!(program.end(), Some(0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_mean_no_good_cost_little_and_stop_nobody() {
    let issued = issue(0);
    let bench = Bench::new(&issued).await;
    apart(move || {
        let address = bench.program().webhook();
        let connect = || Https::connect(&address, &[&issued.authority]);
        drop(until("a connection", || connect().ok()));
        // Not TLS, half of a handshake, and nothing at all: these hold connections open for a while.
        let mut strangers = Vec::new();
        for number in 0..300 {
            let mut stream = std::net::TcpStream::connect(&address).unwrap();
            let bytes: &[u8] = [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[0x16, 3, 1], b""][number % 3];
            drop(std::io::Write::write_all(&mut stream, bytes));
            strangers.push(stream);
        }
        let mut slow = connect().unwrap();
        slow.send(b"POST /validate-jobflow HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{").unwrap();
        let mut silent = connect().unwrap();
        silent.send(b"POST /validate-jobflow HTTP/1.1\r\nHo").unwrap();
        let began = Instant::now();
        let mut line = connect().unwrap();
        assert_eq!(line.review("/validate-jobflow", &good()).unwrap()["response"]["allowed"], true);
        assert!(began.elapsed() < Duration::from_secs(9), "others do not wait for them: {:?}", began.elapsed());
        for garbage in ["", "{", "null", "[[[[", "\u{0}\u{1}"] {
            assert_eq!(connect().unwrap().post("/validate-jobflow", garbage).unwrap().0, 400, "{garbage:?}");
        }
        let deep = "[".repeat(1 << 20);
        assert_eq!(connect().unwrap().post("/mutate-jobflow", &deep).unwrap().0, 400, "depth does not end the process");
        let mut large = connect().unwrap();
        large.send(b"POST /validate-jobflow HTTP/1.1\r\nHost: h\r\nContent-Length: 999999999999\r\n\r\n").unwrap();
        assert_eq!(large.answer().unwrap().0, 413, "it is not waited for");
        let mut line = connect().unwrap();
        line.send(b"GET /validate-jobflow HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!(line.answer().unwrap().0, 405);
        assert_eq!(slow.answer().unwrap().0, 408);
        silent.read_to_end();
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        drop(strangers);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_are_served_side_by_side() {
    let issued = issue(0);
    let bench = Bench::new(&issued).await;
    apart(move || {
        let address = bench.program().webhook();
        let connect = || Https::connect(&address, &[&issued.authority]);
        drop(until("a connection", || connect().ok()));
        // More than are let in at once: the rest waits its turn.
        let (answers, barrier) = (AtomicUsize::new(0), std::sync::Barrier::new(40));
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..15 {
                        let mut line = connect().expect("a connection");
                        for _ in 0..2 {
                            let answer = line.review("/validate-jobflow", &good()).expect("an answer");
                            assert_eq!(answer["response"]["allowed"], true);
                            answers.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(answers.into_inner(), 40 * 15 * 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_served_until_the_cluster_has_heard_that_the_process_ends() {
    let issued = issue(0);
    let mut bench = Bench::new(&issued).await;
    apart(move || {
        let address = bench.program().webhook();
        let connect = || Https::connect(&address, &[&issued.authority]);
        let mut live = until("a connection", || connect().ok());
        let mut program = bench.program.take().unwrap();
        program.signal(Signal::SIGTERM);
        until("the word on the end", || program.log().contains("stopping: work in progress is finished").then_some(()));
        let ends = Instant::now();
        let is_allowed = |line: &mut Https| {
            line.review("/validate-jobflow", &good()).is_ok_and(|answer| answer["response"]["allowed"] == true)
        };
        // An API server that has not heard of it connects anew, and goes on with the connection that it has.
        let (mut anew, mut before) = (Duration::ZERO, Duration::ZERO);
        while connect().is_ok_and(|mut line| is_allowed(&mut line)) {
            anew = ends.elapsed();
            if is_allowed(&mut live) {
                before = ends.elapsed();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(anew.min(before) > Duration::from_secs(1), "nobody was served any more: {anew:?} {before:?}");
        assert_eq!(program.end(), Some(0));
        assert!(connect().is_err());
    })
    .await;
}
