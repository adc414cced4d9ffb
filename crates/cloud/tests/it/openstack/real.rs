//! The suite of the ports, and whole deployments, against real services.

use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::openstack::credentials::{Credentials, Method};
use orlop_cloud::openstack::port::{Clock as _, CloudError};
use orlop_cloud::provision::drive::{apply, take_up};
use orlop_cloud::provision::journal::{FileJournal, Kind};
use orlop_cloud::provision::saga::{Event, check_account};
use orlop_cloud::testing::openstack::{Subject, cloud_suite};
use orlop_core::machine::saga::SagaState;

use super::services::{FastClock, Services, assert_nothing, hands, order};

#[tokio::test(flavor = "multi_thread")]
async fn real_services_pass_the_suite() {
    let Some(services) = Services::find().await else { return };
    for who in ["tester", "appcred"] {
        let (cloud, _) = services.open(who, |transport| transport);
        let nonce = format!("{who}-{}", SystemClock.now().millis());
        let subject = Subject {
            cloud: &cloud,
            clock: &SystemClock,
            node_type: "compute_haswell",
            image: "CC-CentOS9-Stream",
            flavor: "baremetal",
            networks: ("sharednet1", "public"),
            nonce: &nonce,
        };
        let passed = cloud_suite(&subject).await.unwrap_or_else(|failure| panic!("as {who}: {failure}"));
        assert_eq!(passed.len(), 14);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_applied_extended_and_destroyed_with_nothing_left() {
    let Some(services) = Services::find().await else { return };
    for who in ["tester", "appcred"] {
        let (cloud, _) = services.open(who, |transport| transport);
        let folder = tempfile::tempdir().unwrap();
        let order = order(&cloud, &format!("orlop-whole-{who}"), "gpu_rtx_6000").await;
        let journal = Arc::new(FileJournal::open(folder.path(), order.id.as_str()).unwrap());
        let hands = hands(cloud.clone(), journal, Arc::new(FastClock::new(1)));
        let saga = apply(&hands, order.clone(), "nonce", Vec::new()).await.unwrap();
        assert_eq!(saga.state(), SagaState::Ready, "as {who}: {:?}", saga.failure());
        assert!(saga.detail_of(Kind::Address).is_some_and(|address| address.starts_with("192.5.87.")));
        assert!(saga.fixed_address().is_some_and(|address| address.starts_with("10.140.8")));
        let end = saga.lease_end().unwrap().plus(Duration::from_secs(3600));
        let saga = take_up(&hands, Event::Extend { end }).await.unwrap().unwrap();
        assert_eq!((saga.failure(), saga.lease_end()), (None, Some(end)), "as {who}");
        assert_eq!(take_up(&hands, Event::Look).await.unwrap().unwrap().state(), SagaState::Ready);
        let saga = take_up(&hands, Event::Destroy).await.unwrap().unwrap();
        assert_eq!((saga.state(), saga.failure()), (SagaState::Destroyed, None), "as {who}");
        assert_nothing(&cloud, &order, who).await;
        // What an administrator sees counts too.
        let (admin, _) = services.open("admin", |transport| transport);
        assert_nothing(&admin, &order, "as admin").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_credential_is_told_and_a_wrong_one_refused() {
    let Some(services) = Services::find().await else { return };
    let (cloud, _) = services.open("appcred-restricted", |transport| transport);
    let account = cloud.identity.authenticate().await.unwrap();
    let failure = check_account(&account).unwrap_err();
    assert_eq!((failure.exit, failure.message.as_str()), (3, "the credential cannot make leases"));
    let (_, session) = services.open("appcred", |transport| transport);
    let good = session.credentials().clone();
    let wrong = Credentials {
        method: match good.method.clone() {
            Method::ApplicationCredential { credential, .. } => {
                Method::ApplicationCredential { credential, secret: "planted-wrong".to_owned().into() }
            }
            other => other,
        },
        ..good
    };
    let transport = orlop_cloud::openstack::client::HttpTransport::new(None).unwrap();
    let (cloud, _) = orlop_cloud::openstack::client::open(wrong, Arc::new(transport), Arc::new(SystemClock));
    let error: CloudError = cloud.identity.authenticate().await.unwrap_err();
    assert_eq!(error.status, Some(401));
    assert!(!format!("{error} {error:?}").contains("planted"));
}
