//! The suite of the ports, and whole deployments, against real services.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use orlop_cloud::openstack::classify::Service;
use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::openstack::credentials::{Credentials, Method};
use orlop_cloud::openstack::port::{Clock as _, CloudError};
use orlop_cloud::openstack::wire::{Lost, Request, Response, Sent, Transport};
use orlop_cloud::provision::drive::{apply, take_up};
use orlop_cloud::provision::journal::{FileJournal, Kind, MemoryJournal};
use orlop_cloud::provision::saga::{Event, check_account};
use orlop_cloud::testing::openstack::{Census, Subject, cloud_suite};
use orlop_core::machine::saga::SagaState;

use super::cut::is_create;
use super::services::{FastClock, assert_nothing, assert_unchanged, cloud_as, find, hands, order};

#[tokio::test(flavor = "multi_thread")]
async fn real_services_pass_the_suite() {
    let Some(services) = find().await else { return };
    for who in ["tester", "appcred"] {
        let cloud = cloud_as(&services, who);
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
    let Some(services) = find().await else { return };
    let census = Census::take(&services).await.unwrap();
    for who in ["tester", "appcred"] {
        let cloud = cloud_as(&services, who);
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
        assert_unchanged(&census, &order, who).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_credential_is_reported_and_a_wrong_one_refused() {
    let Some(services) = find().await else { return };
    let cloud = cloud_as(&services, "appcred-restricted");
    let account = cloud.identity.authenticate().await.unwrap();
    let failure = check_account(&account).unwrap_err();
    assert_eq!((failure.exit.code(), failure.message.as_str()), (6, "the credential cannot create leases"));
    let (_, session) = services.open("appcred", |transport| transport).unwrap();
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

/// A way on which the token of each create is withdrawn just before: it has expired in the middle of the work. A service that has
/// seen it a moment ago may still take it.
struct Withdrawing {
    inner: Arc<dyn Transport>,
    auth_url: String,
    /// What creates were answered.
    answered: Mutex<Vec<u16>>,
}

#[async_trait]
impl Transport for Withdrawing {
    async fn send(&self, sent: &Sent) -> Result<Response, Lost> {
        let token = sent.headers.iter().find(|(name, _)| *name == "x-auth-token").map(|(_, token)| token.clone());
        let Some(token) = token.filter(|_| is_create(sent)) else { return self.inner.send(sent).await };
        // What is sent again with a new token gets through.
        let again = self.answered.lock().unwrap().last() == Some(&401);
        if !again {
            let request = Request::delete(Service::Identity, "/auth/tokens");
            let url = format!("{}{}", self.auth_url, request.path);
            let headers = vec![("x-auth-token", token.clone()), ("x-subject-token", token)];
            let status = self.inner.send(&Sent { request, url, headers }).await?.status;
            assert!(matches!(status, 204 | 401), "{status}");
        }
        let answer = self.inner.send(sent).await?;
        self.answered.lock().unwrap().push(answer.status);
        Ok(answer)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_expires_before_each_create_is_renewed_and_nothing_is_made_twice() {
    let Some(services) = find().await else { return };
    let census = Census::take(&services).await.unwrap();
    let (_, session) = services.open("tester", |transport| transport).unwrap();
    let auth_url = session.credentials().auth_url.clone();
    let mut way = None;
    let (cloud, _) = services
        .open("tester", |inner| {
            let withdrawing = Arc::new(Withdrawing { inner, auth_url, answered: Mutex::default() });
            way = Some(Arc::clone(&withdrawing));
            withdrawing
        })
        .unwrap();
    let order = order(&cloud, "orlop-expired", "compute_haswell").await;
    let hands = hands(cloud.clone(), Arc::new(MemoryJournal::default()), Arc::new(FastClock::new(1)));
    let saga = apply(&hands, order.clone(), "nonce", Vec::new()).await.unwrap();
    assert_eq!(saga.state(), SagaState::Ready, "{:?}", saga.failure());
    let answered = way.unwrap().answered.lock().unwrap().clone();
    let (refused, done): (Vec<u16>, Vec<u16>) = answered.iter().partition(|status| **status == 401);
    assert!(!refused.is_empty() && done.len() == 4 && done.iter().all(|status| *status < 300), "{answered:?}");
    assert_eq!(cloud.compute.servers(Some(order.id.as_str())).await.unwrap().len(), 1);
    let saga = take_up(&hands, Event::Destroy).await.unwrap().unwrap();
    assert_eq!((saga.state(), saga.failure()), (SagaState::Destroyed, None));
    assert_unchanged(&census, &order, "with tokens that expire").await;
}
