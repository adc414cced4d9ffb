//! Deployments that are interrupted or killed: whatever is under way is rolled back, kept, or taken up again.

use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orlop_cloud::testing::openstack::Fault;

use super::bench::Endpoint;
use super::cloud::Site;

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).expect("an id")), signal).expect("it runs");
}

/// A site whose servers take long.
fn slow() -> Site {
    let site = Site::new();
    site.cloud.world().build.takes = Duration::from_secs(6);
    site
}

#[test]
fn killed_while_a_server_is_built_it_goes_on_with_what_is_there() {
    let site = slow();
    let mut child = site.spawn(&Site::demo(&[]));
    site.until("ServerWait");
    child.kill().expect("it runs");
    Site::waited(child);
    let before = site.remains();
    let listed = site.run(&["list"]);
    assert!(listed.out.contains("demo") && listed.out.contains("ServerWait"), "{listed:?}");
    let resumed = site.run(&["resume", "demo", "--output", "json"]);
    assert_eq!((resumed.code, &resumed.json()["data"]["status"]), (0, &"Ready".into()), "{resumed:?}");
    let after = site.remains();
    assert_eq!((after.leases, after.servers), (before.leases, before.servers), "the same ones");
    assert_eq!(site.counts(), [1, 1, 1, 1]);
}

#[test]
fn killed_while_a_server_is_built_it_is_destroyed_or_applied_again() {
    let site = slow();
    for again in ["destroy", "apply"] {
        let mut child = site.spawn(&Site::demo(&[]));
        site.until("ServerWait");
        child.kill().expect("it runs");
        Site::waited(child);
        if again == "destroy" {
            let destroyed = site.run(&["destroy", "demo"]);
            assert_eq!(destroyed.code, 0, "{destroyed:?}");
            site.assert_nothing("destroyed");
        } else {
            assert_eq!(site.apply(&[]).code, 0);
            assert_eq!(site.counts(), [1, 1, 1, 1]);
        }
    }
}

#[test]
fn whoever_only_looks_is_ended_by_the_first_signal_and_nothing_is_removed() {
    let site = slow();
    let mut child = site.spawn(&Site::demo(&[]));
    site.until("ServerWait");
    child.kill().expect("it runs");
    Site::waited(child);
    // A look that takes long, and one that is waited for.
    site.cloud.faults().on("compute GET /servers", Fault::Status(503), 3);
    for pause in [0, 2500] {
        let before = site.cloud.faults().calls().len();
        let mut watching = site.spawn(&["status", "demo", "--watch"]);
        // Whoever asks the cloud listens for signals already.
        assert!(watching.until("a first question", || site.cloud.faults().calls().len() > before));
        std::thread::sleep(Duration::from_millis(pause));
        send(&watching, Signal::SIGTERM);
        let gave = Site::waited(watching);
        assert_eq!((gave.code, site.counts()), (143, [1, 1, 0, 1]), "{gave:?}");
    }
    assert_eq!(site.run(&["resume", "demo"]).code, 0);
    assert_eq!(site.counts(), [1, 1, 1, 1]);
}

#[test]
fn the_first_signal_rolls_back_and_tells_which_it_was() {
    let site = slow();
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let child = site.spawn(&Site::demo(&["--output", "json"]));
        site.until("ServerWait");
        send(&child, signal);
        let gave = Site::waited(child);
        assert_eq!((gave.code, &gave.json()["data"]["status"]), (code, &"Failed".into()), "{gave:?}");
        assert_eq!(gave.json()["exit_code"], code);
        site.assert_nothing("rolled back");
    }
}

#[test]
fn a_second_signal_a_hang_up_or_a_flag_keep_everything() {
    let site = slow();
    for (signals, more) in [
        (vec![Signal::SIGHUP], &[][..]),
        (vec![Signal::SIGINT], &["--keep-on-interrupt"][..]),
        (vec![Signal::SIGINT, Signal::SIGINT], &[]),
    ] {
        let child = site.spawn(&Site::demo(more));
        site.until("ServerWait");
        for (number, signal) in signals.iter().enumerate() {
            if number > 0 {
                // Two of a kind at once may arrive as one.
                site.until("RollingBack");
            }
            send(&child, *signal);
        }
        let gave = Site::waited(child);
        assert_eq!(gave.code, 130, "{signals:?}: {gave:?}");
        assert_eq!(site.info()["status"], "Kept", "{signals:?}: {gave:?}");
        for words in ["orlop provisioner resume demo", "orlop provisioner destroy demo"] {
            assert!(gave.out.contains(words), "{gave:?}");
        }
        let resumed = site.run(&["resume", "demo"]);
        assert_eq!(resumed.code, 0, "{signals:?}: {resumed:?}");
        assert_eq!(site.counts(), [1, 1, 1, 1]);
        assert_eq!(site.run(&["destroy", "demo"]).code, 0);
        site.assert_nothing("destroyed");
    }
}

#[test]
fn before_anything_is_made_a_signal_just_ends_it() {
    let site = Site::new();
    let silent = Endpoint::new(|_| None);
    let mut command = site.command(&Site::demo(&["--output", "json"]));
    command.env("OPENAI_API_KEY", "planted-key").env("OPENAI_BASE_URL", &silent.url);
    let mut child = Site::begun(command);
    assert!(child.until("a question to the model", || !silent.asked().is_empty()));
    send(&child, Signal::SIGINT);
    let gave = Site::waited(child);
    assert_eq!(
        (gave.code, &gave.json()["error"]["message"]),
        (130, &"interrupted; nothing was created".into()),
        "{gave:?}"
    );
    site.assert_nothing("nothing was begun");
}
