//! What a container leaves: last words and files.

use orlop_cloud::runtime::pod::{Mount, PodResult, PodRuntime as _};
use orlop_core::error::Class;

use super::bench::{texts, with};

#[tokio::test]
async fn last_words_may_be_in_another_file_and_of_another_user() {
    with("last_words_may_be_in_another_file_and_of_another_user", |bench| async move {
        let mut plan = bench.plan("own-path", "printf mine > /tmp/words");
        plan.main.termination_message_path = "/tmp/words".to_owned();
        plan.main.user = Some(1234);
        assert_eq!(bench.run(&plan).await.containers[0].message, "mine");
        let mut plan = bench.plan("long", "head -c 5000 /dev/zero | tr '\\0' x; exit 1");
        plan.main.message_falls_back_to_logs = true;
        assert_eq!(bench.run(&plan).await.containers[0].message, "x".repeat(2048));
    })
    .await;
}

#[tokio::test]
async fn last_words_at_the_path_of_a_mount_are_read_inside_of_the_container() {
    with("last_words_at_the_path_of_a_mount_are_read_inside", |bench| async move {
        let volume = bench.directory.path().join("words");
        std::fs::write(&volume, "").unwrap();
        let mut plan = bench.plan("mounted", "printf here > /words");
        plan.main.termination_message_path = "/words".to_owned();
        plan.main.mounts = vec![Mount { source: volume, target: "/words".to_owned(), read_only: false }];
        assert_eq!(bench.run(&plan).await.containers[0].message, "here");
    })
    .await;
}

#[tokio::test]
async fn files_and_trees_are_fetched_from_an_ended_container() {
    with("files_and_trees_are_fetched_from_an_ended_container", |bench| async move {
        let script = "mkdir -p /out/sub; printf one > /out/1; printf two > /out/sub/2; chmod 555 /out/sub; \
                      ln -s /out/1 /tmp/link; ln -s /out /tmp/dir; ln -s link /tmp/again; ln -s /nowhere /tmp/dangling; \
                      printf v > /data/volume";
        let plan = bench.plan("fetch", script);
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        assert_eq!(runtime.wait(&plan.key, &plan.directory).await.unwrap().result, PodResult::Succeeded);
        let scratch = bench.directory.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        let fetch = |inside: &'static str| runtime.fetch(&plan.key, &plan, inside, &scratch);
        for (inside, text) in [("/out/1", "one"), ("/tmp/link", "one"), ("/tmp/again", "one"), ("/data/volume", "v")] {
            let path = fetch(inside).await.unwrap();
            assert!(path.starts_with(&scratch));
            assert_eq!(std::fs::read_to_string(path).unwrap(), text, "{inside}");
        }
        for inside in ["/out", "/out/", "/tmp/dir"] {
            let path = fetch(inside).await.unwrap();
            assert_eq!(std::fs::read_to_string(path.join("1")).unwrap(), "one");
            assert_eq!(std::fs::read_to_string(path.join("sub/2")).unwrap(), "two");
        }
        for inside in ["/out/none", "/nowhere", "/tmp/dangling", "/out/1/2"] {
            assert_eq!(fetch(inside).await.unwrap_err().class, Class::NotFound, "{inside}");
        }
        assert_eq!(fetch("/").await.unwrap_err().class, Class::Invalid);
        runtime.remove(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(fetch("/out/1").await.unwrap_err().class, Class::NotFound);
    })
    .await;
}

#[tokio::test]
async fn a_link_never_leads_out_of_the_container() {
    with("a_link_never_leads_out_of_the_container", |bench| async move {
        let host = bench.directory.path().join("host-file");
        std::fs::write(&host, "of the host").unwrap();
        let plan = bench.plan(
            "escape",
            &format!("ln -s {} /tmp/escape; ln -s ../../../../{} /tmp/up", host.display(), host.display()),
        );
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        runtime.wait(&plan.key, &plan.directory).await.unwrap();
        for inside in ["/tmp/escape", "/tmp/up"] {
            let error = runtime.fetch(&plan.key, &plan, inside, bench.directory.path()).await.unwrap_err();
            assert_eq!(error.class, Class::NotFound, "{error}");
        }
        assert!(texts(&plan.stderr).is_empty());
    })
    .await;
}
