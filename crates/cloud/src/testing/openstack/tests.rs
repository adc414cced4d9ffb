//! The double passes the suite, in no time.

use futures::FutureExt as _;

use super::*;

#[test]
fn the_double_passes_the_suite_without_waiting() {
    let clock = VirtualClock::default();
    let cloud = MemoryCloud::new(clock.clone());
    let (ports, _) = cloud.open();
    let subject = Subject {
        cloud: &ports,
        clock: &clock,
        node_type: "compute_haswell",
        image: "CC-Ubuntu22.04",
        flavor: "baremetal",
        networks: ("sharednet1", "public"),
        nonce: "double",
    };
    let passed = cloud_suite(&subject).now_or_never().expect("nothing waits for real");
    assert_eq!(passed.unwrap_or_else(|failure| panic!("{failure}")).len(), 14);
    let left = cloud.world().remains();
    assert_eq!(left, Remains::default(), "the suite cleans up");
}
