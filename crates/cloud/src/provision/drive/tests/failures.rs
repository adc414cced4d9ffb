//! The chapter of failures, row by row: how each is seen, what is said, which exit code, and that nothing is left.

use std::time::Duration;

use super::*;
use crate::openstack::port::Identity as _;
use crate::provision::journal::Kind;
use crate::provision::saga::check_account;
use crate::testing::openstack::{Build, Fault, LeaseStart};

fn failed(world: &World, what: &str) -> (u8, String) {
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Failed, "{what}\n{}", world.trace());
    world.assert_nothing(what);
    let failure = saga.failure().unwrap_or_else(|| panic!("{what}: no failure"));
    (failure.exit.code(), failure.message.clone())
}

fn one_choice(world: &mut World) {
    world.order.choices.truncate(1);
}

#[test]
fn no_capacity_falls_back_to_the_next_offering_and_then_says_so() {
    let world = World::new();
    world.cloud.world().hosts.retain(|host| host.node_type != "gpu_rtx_6000");
    let saga = world.applied();
    assert_eq!((saga.state(), saga.attempt()), (SagaState::Ready, 2));
    assert_eq!(saga.choice().map(|choice| choice.node_type.as_str()), Some("compute_haswell"));
    let world = World::new();
    world.cloud.world().hosts.clear();
    let (exit, message) = failed(&world, "no hosts");
    assert_eq!(exit, 11);
    assert!(message.starts_with("no free compute_haswell at test"), "{message}");
}

#[test]
fn attempts_at_sites_before_count_and_keep_their_numbers() {
    for (tried, state, attempt) in [(2, SagaState::Ready, 4), (3, SagaState::Failed, 4)] {
        let mut world = World::new();
        world.order.tried = tried;
        world.cloud.world().hosts.retain(|host| host.node_type != "gpu_rtx_6000");
        let saga = world.applied();
        assert_eq!((saga.state(), saga.attempt()), (state, attempt), "four in all\n{}", world.trace());
        assert_eq!(world.journal.written().first().map(|line| line.attempt), Some(tried + 1));
        assert_eq!(replayed(&world.journal.written()).map(|saga| saga.attempt()), Some(attempt));
    }
}

#[test]
fn what_failed_is_kept_only_where_no_other_site_is_tried() {
    let ended = |elsewhere, attempts| {
        let mut world = World::new();
        (world.order.keep_on_failure, world.order.elsewhere, world.order.max_attempts) = (true, elsewhere, attempts);
        world.cloud.world().build.fails = Some(("No valid host was found".to_owned(), 9));
        world.applied().state()
    };
    assert_eq!(ended(None, 2), SagaState::Kept);
    assert_eq!(ended(Some(4), 2), SagaState::Failed, "two attempts are left for the other site");
    assert_eq!(ended(Some(2), 2), SagaState::Kept, "none is");
}

#[test]
fn waiting_for_capacity_takes_the_first_host_that_is_free() {
    let mut world = World::new();
    one_choice(&mut world);
    world.order.pace.capacity = Some(Duration::from_secs(7200));
    let other =
        World { order: DeploymentOrder { id: DeploymentId::new("other", "project", "x"), ..order() }, ..World::new() };
    let other = World { cloud: world.cloud.clone(), clock: world.clock.clone(), ..other };
    let mut brief = other.order.clone();
    brief.choices.truncate(1);
    if let Some(choice) = brief.choices.first_mut() {
        choice.hours = 1;
    }
    let other = World { order: brief, ..other };
    assert_eq!(other.applied().state(), SagaState::Ready);
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Ready, "{:?}\n{}", saga.failure(), world.trace());
    let posts = world.cloud.faults().calls().iter().filter(|call| call.contains("POST /leases")).count();
    assert_eq!(posts, 3, "one of the other, one that failed, one that was free");
    let mut never = World::new();
    one_choice(&mut never);
    never.order.pace.capacity = Some(Duration::from_secs(600));
    never.cloud.world().hosts.retain(|host| host.node_type != "gpu_rtx_6000");
    if let Some(choice) = never.order.choices.first_mut() {
        choice.hosts.clear();
    }
    assert_eq!(failed(&never, "never free").0, 11);
}

#[test]
fn a_lease_that_never_starts_is_deleted() {
    let mut world = World::new();
    one_choice(&mut world);
    world.order.max_attempts = 1;
    world.cloud.world().lease_start = LeaseStart::Never;
    let (exit, message) = failed(&world, "never starts");
    assert_eq!(exit, 1);
    assert!(message.contains("still PENDING after 30") && message.ends_with(" s, deleted"), "{message}");
}

#[test]
fn a_lease_in_error_or_without_its_host_is_deleted() {
    for (start, words) in
        [(LeaseStart::Error, "lease failed to start (ERROR)"), (LeaseStart::Degraded, "reservation lost its host")]
    {
        let mut world = World::new();
        world.order.max_attempts = 2;
        world.cloud.world().lease_start = start;
        let (exit, message) = failed(&world, words);
        assert_eq!((exit, message.as_str()), (1, words));
    }
}

#[test]
fn a_host_fault_gets_one_new_server_in_the_same_lease() {
    let world = World::new();
    let reason = "Build of instance aborted: deploy failed: disk not found";
    world.cloud.world().build.fails = Some((reason.to_owned(), 1));
    let saga = world.applied();
    assert_eq!((saga.state(), saga.attempt()), (SagaState::Ready, 1), "{}", world.trace());
    world.assert_one_of_each("one new server");
    assert!(saga.warnings().iter().any(|text| text.contains(reason)), "{:?}", saga.warnings());
    assert_eq!(world.stage.consoles.lock().unwrap().as_slice(), ["login:"]);
    let mut broken = World::new();
    one_choice(&mut broken);
    broken.order.max_attempts = 1;
    broken.cloud.world().build.fails = Some((reason.to_owned(), 9));
    let (exit, message) = failed(&broken, "always fails");
    assert_eq!((exit, message), (1, format!("server failed: {reason}; undone")));
}

#[test]
fn a_server_that_stays_in_build_is_undone_with_its_console() {
    let mut world = World::new();
    one_choice(&mut world);
    world.order.max_attempts = 1;
    world.cloud.world().build.takes = Duration::from_secs(100_000);
    let (exit, message) = failed(&world, "slow");
    assert_eq!((exit, message.as_str()), (1, "server not ready after 30 min, undone"));
    assert_eq!(world.stage.consoles.lock().unwrap().len(), 1);
}

#[test]
fn a_server_that_is_switched_off_is_started_once() {
    let world = World::new();
    world.cloud.world().build.ends = "SHUTOFF";
    assert_eq!(world.applied().state(), SagaState::Ready, "{}", world.trace());
}

#[test]
fn without_a_floating_ip_it_goes_on_and_says_so() {
    type Change = fn(&mut crate::testing::openstack::World);
    let changes: [(&str, Change); 3] = [
        ("pool", |cloud| cloud.pool = 0),
        ("quota", |cloud| cloud.quota.0 = 0),
        ("route", |cloud| cloud.port_is_routed = false),
    ];
    for (what, change) in changes {
        let world = World::new();
        change(&mut world.cloud.world());
        let saga = world.applied();
        assert_eq!((saga.state(), saga.failure()), (SagaState::Degraded, None), "{what}\n{}", world.trace());
        let warned = saga.warnings().join("\n");
        assert!(
            warned.contains("no floating IP available") && warned.contains("only reachable inside sharednet1"),
            "{warned}"
        );
        assert_eq!(world.remains().addresses.len(), 0, "{what}");
        world.take_up(Event::Destroy).unwrap();
        world.assert_nothing(what);
    }
}

#[test]
fn foreign_and_reserved_addresses_are_never_taken_nor_deleted() {
    let world = World::new();
    let mine = world.order.id.marks().address(1);
    let foreign = world.cloud.world().add_address("somebody's", &[]);
    let reserved = world.cloud.world().add_address(&mine, &["blazar", "reservation:R"]);
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Ready);
    assert!(![&foreign, &reserved].contains(&&saga.id_of(Kind::Address).unwrap().to_owned()));
    world.take_up(Event::Destroy).unwrap();
    let left: Vec<String> =
        world.remains().addresses.iter().map(|one| one.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(left, [foreign, reserved]);
}

#[test]
fn service_units_and_quota_stop_everything() {
    let world = World::new();
    world.cloud.world().refuse_leases.push((400, "Reservation would spend 24 SUs, only 3 left".to_owned()));
    let (exit, message) = failed(&world, "units");
    assert!(exit == 11 && message.contains("would spend 24 SUs, only 3 left"), "{exit} {message}");
    let world = World::new();
    world.cloud.world().quota.1 = 0;
    assert_eq!(failed(&world, "servers").0, 11);
}

#[test]
fn a_lease_that_is_too_long_is_refused_by_policy_in_hours() {
    let mut world = World::new();
    for choice in &mut world.order.choices {
        choice.hours = 200;
    }
    let (exit, message) = failed(&world, "long");
    assert!(exit == 6 && message.contains("maximum lease duration of 168 h"), "{exit} {message}");
}

#[test]
fn a_credential_that_cannot_make_leases_is_reported_before_anything_is_made() {
    let cloud = MemoryCloud::new(VirtualClock::default());
    cloud.world().restricted = true;
    let credentials = MemoryCloud::credentials(true);
    let clock = VirtualClock::default();
    let (_, session) = crate::openstack::client::open(credentials, Arc::new(cloud), Arc::new(clock));
    let account = session.authenticate().now_or_never().unwrap().unwrap();
    let failure = check_account(&account).unwrap_err();
    assert_eq!((failure.exit.code(), failure.message.as_str()), (6, "the credential cannot create leases"));
    assert!(failure.hint.contains("unrestricted"));
}

#[test]
fn a_token_that_is_refused_for_good_is_reported() {
    let world = World::new();
    world.cloud.faults().on("reservation POST /leases", Fault::Status(401), 2);
    assert_eq!(failed(&world, "401 twice").0, 6);
}

#[test]
fn another_key_of_the_same_name_stops_before_the_lease() {
    let mut world = World::new();
    world.order.key.must_match = true;
    world.cloud.world().add_keypair("my-key", "ssh-ed25519 AAAAother");
    let saga = world.applied();
    let failure = saga.failure().unwrap();
    assert_eq!((saga.state(), failure.exit.code()), (SagaState::Failed, 5));
    assert_eq!(failure.message, "key my-key in the cloud is not the one in the file");
    assert!(
        world
            .cloud
            .faults()
            .calls()
            .iter()
            .all(|call| !call.contains("POST /leases") && !call.contains("POST /os-keypairs"))
    );
    assert_eq!(world.remains().keypairs, ["my-key"], "it is somebody's");
    world.order.key.must_match = false;
    let world = World { journal: MemoryJournal::default(), ..world };
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Ready);
    assert!(saga.warnings().iter().any(|text| text.contains("my-key")), "{:?}", saga.warnings());
    world.take_up(Event::Destroy).unwrap();
    assert_eq!(world.remains().keypairs, ["my-key"], "it was there before");
}

#[test]
fn a_network_or_image_that_is_missing_stops_before_the_lease() {
    let mut world = World::new();
    world.order.network = ("gone".to_owned(), "mynet".to_owned());
    let (exit, message) = failed(&world, "network");
    assert_eq!((exit, message.as_str()), (2, "network mynet not found at test; there are: public, sharednet1"));
    let mut world = World::new();
    for choice in &mut world.order.choices {
        choice.images.truncate(1);
        choice.images[0].id = "gone".to_owned();
    }
    let (exit, message) = failed(&world, "image");
    assert_eq!((exit, message.as_str()), (2, "image CC-Ubuntu22.04 no longer exists"));
    assert!(world.cloud.faults().calls().iter().all(|call| !call.contains("POST /leases")));
}

#[test]
fn an_image_that_the_service_refuses_gives_way_to_the_next_once() {
    let world = World::new();
    // It is there when requirements are looked at, and gone when the server is made.
    world.cloud.faults().on("compute POST /servers", Fault::Kill, 1);
    assert!(world.apply().is_none());
    world.cloud.world().images.retain(|image| image["id"] != "image-0");
    let saga = world.take_up(Event::Resume).unwrap();
    assert_eq!((saga.state(), saga.failure()), (SagaState::Ready, None), "{}", world.trace());
    assert_eq!(saga.image().map(|image| image.id.as_str()), Some("image-2"));
    let again = crate::provision::saga::replayed(&world.journal.written()).unwrap();
    assert_eq!(again.image(), saga.image(), "who signs in, and how, follows from it");
    let refusals = saga.warnings().iter().filter(|text| text.contains("was rejected; trying the next one")).count();
    assert_eq!(refusals, 1, "{:?}", saga.warnings());

    // The next one is gone too: that is the end, with both names and nothing left.
    let world = World::new();
    world.cloud.faults().on("compute POST /servers", Fault::Kill, 1);
    assert!(world.apply().is_none());
    world.cloud.world().images.clear();
    let saga = world.take_up(Event::Resume).unwrap();
    assert_eq!(saga.failure().map(|failure| failure.exit.code()), Some(2), "{:?}", saga.failure());
    world.assert_nothing("no image is left");
}

#[test]
fn a_service_that_stays_away_is_rolled_back_with_the_time_since_when() {
    let world = World::new();
    world.cloud.faults().on("compute POST /servers", Fault::Status(503), 50);
    let (exit, message) = failed(&world, "compute away");
    assert_eq!(exit, 7);
    assert!(message.starts_with("no server could be created since 2026-01-05T"), "{message}");
}

#[test]
fn a_clock_that_is_off_is_mended_once() {
    let world = World::new();
    let late = (400, "Start date must be later than current date".to_owned());
    world.cloud.world().refuse_leases.push(late.clone());
    let saga = world.applied();
    assert_eq!((saga.state(), saga.attempt()), (SagaState::Ready, 1), "{}", world.trace());
    assert!(saga.warnings().iter().any(|text| text.starts_with("local clock is ")), "{:?}", saga.warnings());
    let world = World::new();
    world.cloud.world().refuse_leases.extend([late.clone(), late]);
    assert_eq!(failed(&world, "twice").0, 2);
}

#[test]
fn a_service_that_cannot_make_its_trust_is_reported_after_the_second_time() {
    let world = World::new();
    let inner = (500, "Internal Server Error".to_owned());
    world.cloud.world().refuse_leases.extend([inner.clone(), inner]);
    let credentials = MemoryCloud::credentials(true);
    let (cloud, _) =
        crate::openstack::client::open(credentials, Arc::new(world.cloud.clone()), Arc::new(world.clock.clone()));
    let hands = Hands { cloud, ..world.hands() };
    let saga = apply(&hands, world.order.clone(), "nonce", Vec::new()).now_or_never().unwrap().unwrap();
    assert_eq!(saga.failure().map(|failure| (failure.exit.code(), failure.code.as_str())), Some((6, "credential")));
    world.assert_nothing("rolled back");
}

#[test]
fn and_19_what_is_silent_or_less_than_planned_is_kept() {
    for (probe, state, words) in [
        (Probe::Silent, SagaState::Unreachable, "server is up, port 22 of 192.5.87."),
        (Probe::Differs("planned 4 GPU, found 3".to_owned()), SagaState::Mismatch, "planned 4 GPU, found 3"),
    ] {
        let world = World::new();
        *world.stage.probe.lock().unwrap() = probe;
        let saga = world.applied();
        let failure = saga.failure().unwrap();
        assert_eq!((saga.state(), failure.exit.code()), (state, 13));
        assert!(failure.message.starts_with(words), "{}", failure.message);
        world.assert_one_of_each("kept");
        *world.stage.probe.lock().unwrap() = Probe::Answered;
        if state == SagaState::Unreachable {
            assert_eq!(world.take_up(Event::Resume).unwrap().state(), SagaState::Ready);
        }
        world.take_up(Event::Destroy).unwrap();
        world.assert_nothing("destroyed");
    }
}

#[test]
fn keep_on_failure_keeps_what_was_made() {
    let mut world = World::new();
    one_choice(&mut world);
    world.order.keep_on_failure = true;
    world.cloud.faults().on("compute POST /servers", Fault::Status(503), 50);
    let saga = world.applied();
    assert_eq!((saga.state(), saga.failure().map(|failure| failure.exit.code())), (SagaState::Kept, Some(7)));
    assert_eq!(world.remains().leases.len(), 1);
    world.cloud.faults().clear();
    assert_eq!(world.take_up(Event::Resume).unwrap().state(), SagaState::Ready, "{}", world.trace());
    world.assert_one_of_each("resumed");
}

#[test]
fn what_cannot_be_removed_is_listed_and_goes_later() {
    let world = World::new();
    world.applied();
    world.cloud.faults().on("reservation DELETE", Fault::Status(500), 100_000);
    let saga = world.take_up(Event::Destroy).unwrap();
    let failure = saga.failure().unwrap();
    assert_eq!((saga.state(), failure.exit.code()), (SagaState::Leftover, 12));
    assert!(failure.message.starts_with("LEFT BEHIND: lease lease-"), "{}", failure.message);
    assert_eq!(saga.leftovers().len(), 1, "{:?}", saga.leftovers());
    assert!(failure.message.ends_with(" (test, until 2026-01-06T14:00:00Z, 1 SU/h)"), "{}", failure.message);
    world.cloud.faults().clear();
    assert_eq!(world.take_up(Event::Destroy).unwrap().state(), SagaState::Destroyed);
    world.assert_nothing("later");
}

#[test]
fn without_a_durable_intent_nothing_is_requested() {
    let lines = {
        let world = World::new();
        world.applied();
        world.journal.written().len()
    };
    let mut named = 0;
    for line in 0..lines {
        let world = World::new();
        world.journal.full_at(Some(line));
        let error = world.apply().unwrap().map(|_| ()).unwrap_err();
        let left = world.remains();
        let known = matches!(error, JournalError::Unrecorded { .. });
        assert_eq!(error.exit().code(), if known { 12 } else { 1 });
        let said = error.to_string();
        assert!(said.starts_with("cannot record, nothing "), "{said}");
        // What was made and known is named, with how to remove it.
        assert_eq!(known, said.contains("destroy --id"), "{said}");
        named += usize::from(left.servers.iter().any(|server| said.contains(server.split(' ').next().unwrap())));
        let made = left.leases.len() + left.servers.len() + left.addresses.len() + left.keypairs.len();
        let intents = world.journal.written().iter().filter(|line| matches!(line.entry, Entry::Intent { .. })).count();
        assert!(made <= intents, "line {line}: {left:?}");
        world.journal.full_at(None);
        if let Some(saga) = world.take_up(Event::Destroy) {
            assert_eq!(saga.state(), SagaState::Destroyed, "line {line}");
        }
        world.assert_nothing(&format!("line {line}"));
    }
    assert!(named > 0, "a server that is there is named");
}

#[test]
fn a_look_needs_no_room_for_what_it_sees() {
    let world = World::new();
    world.applied();
    world.clock.pass(Duration::from_secs(25 * 3600));
    world.journal.full_at(Some(world.journal.written().len()));
    assert_eq!(world.take_up(Event::Look).unwrap().state(), SagaState::Expired);
}

#[test]
fn a_lease_that_ended_under_a_running_server_is_seen() {
    let world = World::new();
    world.applied();
    world.clock.pass(Duration::from_secs(25 * 3600));
    let saga = world.take_up(Event::Look).unwrap();
    assert_eq!((saga.state(), saga.failure()), (SagaState::Expired, None));
    assert!(saga.warnings().iter().any(|text| text.starts_with("lease ended 2026-01-06T")), "{:?}", saga.warnings());
    world.take_up(Event::Destroy).unwrap();
    world.assert_nothing("the rest is swept");
}

#[test]
fn a_build_that_no_host_takes_goes_to_the_next_offering() {
    let world = World::new();
    let fails = "No valid host was found. There are not enough hosts available.".to_owned();
    let build = Build { fails: Some((fails, 1)), ..world.cloud.world().build.clone() };
    world.cloud.world().build = build;
    let saga = world.applied();
    assert_eq!((saga.state(), saga.attempt()), (SagaState::Ready, 2), "{}", world.trace());
    world.assert_one_of_each("next offering");
}

#[test]
fn keep_on_failure_keeps_a_server_that_failed_when_nothing_else_is_tried() {
    let mut world = World::new();
    world.order.keep_on_failure = true;
    world.order.max_attempts = 2;
    world.cloud.world().build.fails = Some(("disk is broken".to_owned(), 10));
    let saga = world.applied();
    assert_eq!((saga.state(), saga.attempt()), (SagaState::Kept, 2), "{:?}", saga.failure());
    let failure = saga.failure().unwrap();
    assert_eq!((failure.exit.code(), failure.message.as_str()), (1, "server failed: disk is broken; kept"));
    assert_eq!((world.remains().leases.len(), world.remains().servers.len()), (1, 1));
    assert_eq!(world.take_up(Event::Destroy).unwrap().state(), SagaState::Destroyed);
    world.assert_nothing("destroyed");
}

#[test]
fn what_could_not_be_had_lately_is_not_tried_first() {
    let world = World::new();
    let now = world.clock.now();
    let failed = |what: &str| FailedOffering {
        site: "test".to_owned(),
        what: what.to_owned(),
        hour: now.millis().div_euclid(3_600_000),
        hours: 24,
        why: "capacity".to_owned(),
        until: now.plus(Duration::from_secs(180)),
    };
    let begin = |failed: Vec<FailedOffering>| {
        let world = World::new();
        let saga = apply(&world.hands(), world.order.clone(), "nonce", failed).now_or_never().unwrap().unwrap();
        saga.choice().unwrap().node_type.clone()
    };
    assert_eq!(begin(vec![failed("gpu_rtx_6000")]), "compute_haswell");
    assert_eq!(begin(vec![failed("other")]), "gpu_rtx_6000");
    assert_eq!(begin(vec![failed("gpu_rtx_6000"), failed("compute_haswell")]), "gpu_rtx_6000");
}
