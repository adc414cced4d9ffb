//! Logs: every line once, in order, whatever dies when.

use std::time::Duration;

use orlop_cloud::runtime::pod::{PodResult, PodRuntime as _};

use super::bench::{texts, with};

#[tokio::test]
async fn every_line_is_logged_once_when_hosts_come_and_go() {
    with("every_line_is_logged_once_when_hosts_come_and_go", |bench| async move {
        let script = "i=0; while [ $i -lt 4000 ]; do i=$((i+1)); echo out $i; echo err $i >&2; \
                      [ $((i % 100)) = 0 ] && sleep 0.05; done; exit 0";
        let plan = bench.plan("lines", script);
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        drop(runtime);
        for millis in (0..200).step_by(7) {
            let runtime = bench.runtime().await;
            let wait = runtime.wait(&plan.key, &plan.directory);
            if tokio::time::timeout(Duration::from_millis(millis), wait).await.is_ok() {
                break;
            }
        }
        let exit = bench.runtime().await.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(exit.result, PodResult::Succeeded);
        for (path, stream) in [(&plan.stdout, "out"), (&plan.stderr, "err")] {
            let expected: Vec<String> = (1..=4000).map(|n| format!("{stream} {n}")).collect();
            assert!(texts(path) == expected, "{stream}: {} lines", texts(path).len());
        }
    })
    .await;
}

#[tokio::test]
async fn pods_of_an_attempt_may_share_their_log_files() {
    with("pods_of_an_attempt_may_share_their_log_files", |bench| async move {
        let mut one = bench.plan("one", "for i in $(seq 1 50); do echo $i; sleep 0.01; done");
        let two = bench.plan("two", "for i in $(seq 1 50); do echo $i; sleep 0.01; done");
        (one.stdout, one.stderr) = (two.stdout.clone(), two.stderr.clone());
        let runtime = bench.runtime().await;
        runtime.start(&one).await.unwrap();
        runtime.start(&two).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(runtime);
        let runtime = bench.runtime().await;
        let (a, b) = tokio::join!(runtime.wait(&one.key, &one.directory), runtime.wait(&two.key, &two.directory));
        assert_eq!([a.unwrap().result, b.unwrap().result], [PodResult::Succeeded, PodResult::Succeeded]);
        let mut numbers: Vec<usize> = texts(&one.stdout).iter().map(|text| text.parse().unwrap()).collect();
        numbers.sort_unstable();
        let expected: Vec<usize> = (1..=50).flat_map(|n| [n, n]).collect();
        assert_eq!(numbers, expected);
    })
    .await;
}
