//! What workers call, in plain text and over TLS.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt;
use orlop_core::error::{Code, Problem};
use orlop_core::id::{Epoch, JobId, WorkerId};
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use tokio::sync::{oneshot, watch};

use super::super::super::attempt::JobAccepted;
use super::super::super::frame::{Hello, OutboxRange, ServerFrame, Welcome, WorkerFrame};
use super::super::super::identity::{Csr, JoinToken};
use super::super::super::session::tests::registered;
use super::super::super::status::{Heartbeat, HeartbeatResponse, WorkerStatus};
use super::super::super::tests::registration;
use super::super::super::worker::{ProtocolRange, Registered, Registration};
use super::*;

/// Registers who shows the right token or certificate, and answers each frame with its number.
#[derive(Default)]
struct Echo {
    callers: Mutex<Vec<Caller>>,
    /// Fingerprints of certificates that are revoked.
    revoked: Mutex<Vec<[u8; 32]>>,
}

impl Echo {
    fn admit(&self, caller: &Caller, worker: &WorkerId) -> Result<(), Problem> {
        self.callers.lock().unwrap().push(caller.clone());
        let Some(certificate) = &caller.certificate else { return Ok(()) };
        if self.revoked.lock().unwrap().contains(&certificate.fingerprint()) {
            return Err(Problem::coded(Code::Unauthenticated, "the certificate is revoked"));
        }
        match certificate.is_of(worker) {
            true => Ok(()),
            false => Err(Problem::coded(Code::Forbidden, "the certificate is of another worker")),
        }
    }
}

#[async_trait]
impl WorkerHost for Echo {
    async fn register(&self, caller: Caller, registration: Registration) -> Result<Registered, Problem> {
        self.admit(&caller, &registration.worker)?;
        if registration.protocol.common(ProtocolRange::OURS).is_none() {
            let detail = format!("this server speaks protocols {}", ProtocolRange::OURS);
            return Err(Problem::coded(Code::Precondition, detail));
        }
        Ok(registered(1, 1))
    }

    async fn stream(&self, _: Caller, first: WorkerFrame, frames: FramesIn) -> Result<FramesOut, Problem> {
        let welcome = ServerFrame { ack: first.ack, welcome: Some(Welcome::default()), ..ServerFrame::default() };
        let echo = frames.map(|frame| frame.map(|frame| ServerFrame { ack: frame.seq, ..ServerFrame::default() }));
        Ok(futures::stream::iter([Ok(welcome)]).chain(echo).boxed())
    }

    async fn heartbeat(&self, _: Caller, heartbeat: Heartbeat) -> Result<HeartbeatResponse, Problem> {
        Ok(HeartbeatResponse { epoch: heartbeat.epoch, lease_ms: 7, directive: None })
    }

    async fn worker_status(&self, _: Caller, _: WorkerId) -> Result<WorkerStatus, Problem> {
        Err(Problem::coded(Code::NotFound, "there is no such worker"))
    }

    async fn place(&self, _: Caller, _: WorkerId, job: JobId) -> Result<TaskRef, Problem> {
        Ok(TaskRef { job, index: 0, member: 0, attempt: 1, epoch: Epoch(1) })
    }
}

pub(crate) struct Served {
    host: Arc<Echo>,
    address: std::net::SocketAddr,
    leads: watch::Sender<bool>,
    stop: oneshot::Sender<()>,
    done: tokio::task::JoinHandle<Result<(), Problem>>,
}

impl Served {
    pub(crate) async fn start(tls: Option<TlsIdentity>) -> Self {
        Self::on(Listening::bind("127.0.0.1:0".parse().unwrap(), tls).await.unwrap())
    }

    pub(crate) fn on(listening: Listening) -> Self {
        let address = listening.address();
        let (host, (leads, leading), (stop, stopped)) =
            (Arc::new(Echo::default()), watch::channel(true), oneshot::channel());
        let services = Services {
            workers: host.clone(),
            jobs: Some(Arc::new(super::jobs::Desk)),
            artifacts: Some(Arc::new(super::artifacts::Shelf::default())),
            leads: leading,
            interceptor: None,
        };
        let stopped = async { drop(stopped.await) };
        let done = tokio::spawn(listening.serve(services, stopped));
        Self { host, address, leads, stop, done }
    }

    fn endpoint(&self, scheme: &str) -> Endpoint {
        format!("{scheme}://{}", self.address).parse().unwrap()
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.done.await.unwrap().unwrap();
    }
}

fn now() -> Time {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Time::from_millis(elapsed.as_millis() as i64)
}

fn hello() -> WorkerFrame {
    let hello = Hello {
        session_id: vec![1; 16],
        highest_epoch: 1,
        outbox: Some(OutboxRange { first_seq: 1, count: 0 }),
        ..Hello::default()
    };
    WorkerFrame { hello: Some(hello), ..WorkerFrame::default() }
}

#[tokio::test]
async fn frames_go_both_ways_in_plain_text_on_this_machine() {
    let served = Served::start(None).await;
    let channel = Connector::plain(served.endpoint("http")).unwrap().connect().await.unwrap();
    let client = WorkerClient::new(channel, Some("secret-token")).unwrap();
    assert_eq!(client.register(registration()).await.unwrap(), registered(1, 1));
    let caller = served.host.callers.lock().unwrap().remove(0);
    assert_eq!((caller.token.as_deref(), caller.is_local(), &caller.certificate), (Some("secret-token"), true, &None));
    assert!(!format!("{caller:?} {client:?}").contains("secret-token"));

    let (sink, mut frames) = client.stream(hello()).await.unwrap();
    assert!(frames.next().await.unwrap().unwrap().welcome.is_some());
    for seq in 1..=3 {
        sink.send(WorkerFrame { seq, ..WorkerFrame::default() }).await.unwrap();
        assert_eq!(frames.next().await.unwrap().unwrap().ack, seq);
    }
    drop(sink);
    assert!(frames.next().await.is_none());

    let beat = Heartbeat { session_id: vec![1; 16], epoch: 3, status: None };
    assert_eq!(client.heartbeat(beat).await.unwrap().lease_ms, 7);
    assert_eq!(client.worker_status(&"w".parse().unwrap()).await.unwrap_err().code, Code::NotFound);
    assert_eq!(client.place(&"w".parse().unwrap(), JobId::from_u64(5)).await.unwrap().job, JobId::from_u64(5));
    drop((client, frames));
    served.stop().await;
}

#[tokio::test]
async fn a_stream_begins_with_hello_and_nonsense_ends_it() {
    let served = Served::start(None).await;
    let channel = Connector::plain(served.endpoint("http")).unwrap().connect().await.unwrap();
    let client = WorkerClient::new(channel, None).unwrap();
    let refused = client.stream(WorkerFrame::default()).await.err().unwrap();
    insta::assert_snapshot!(refused, @"hello is missing; a stream begins with it");
    let (sink, mut frames) = client.stream(hello()).await.unwrap();
    frames.next().await.unwrap().unwrap();
    let attempt = TaskRef { job: JobId::from_u64(1), index: 0, member: 0, attempt: 0, epoch: Epoch(1) };
    sink.send(WorkerFrame { seq: 1, accepted: vec![JobAccepted::new(attempt)], ..WorkerFrame::default() })
        .await
        .unwrap();
    let error = frames.next().await.unwrap().unwrap_err();
    insta::assert_snapshot!(error, @"ref.attempt: is 0; attempts count from 1");
    assert!(WorkerClient::new(served_channel(&served).await, Some("a\nb")).is_err());
    let old = Registration { protocol: ProtocolRange { min: 7, max: 9 }, ..registration() };
    insta::assert_snapshot!(client.register(old).await.unwrap_err(), @"this server speaks protocols 2 to 2");
}

pub(crate) async fn served_channel(served: &Served) -> tonic::transport::Channel {
    Connector::plain(served.endpoint("http")).unwrap().connect().await.unwrap()
}

#[tokio::test]
async fn health_is_serving_on_the_leader_only() {
    use super::super::super::proto::health::HealthCheckRequest;
    use super::super::super::proto::health::health_client::HealthClient;
    let served = Served::start(None).await;
    let mut client = HealthClient::new(served_channel(&served).await);
    let ask = |service: &str| HealthCheckRequest { service: service.to_owned() };
    let serving = client.check(ask("orlop.v1.WorkerService")).await.unwrap().into_inner().status;
    let mut watched = client.watch(ask("")).await.unwrap().into_inner();
    assert_eq!((serving, watched.next().await.unwrap().unwrap().status), (1, 1));
    served.leads.send(false).unwrap();
    assert_eq!(watched.next().await.unwrap().unwrap().status, 2);
    assert_eq!(client.check(ask("")).await.unwrap().into_inner().status, 2);
    assert_eq!(client.check(ask("other")).await.unwrap_err().code(), tonic::Code::NotFound);
    assert_eq!(client.watch(ask("other")).await.unwrap().into_inner().next().await.unwrap().unwrap().status, 3);
}

/// A fleet with its authority, and a server of it.
async fn fleet() -> (Authority, Served) {
    let (authority, _) = Authority::create(now()).unwrap();
    let server = authority.server(&[], now()).unwrap();
    let served = Served::start(Some(TlsIdentity { server, workers: authority.pem().to_owned() })).await;
    (authority, served)
}

/// Registers over a connector; connecting and the first call are both allowed to fail.
async fn join(connector: &Connector, worker: &str) -> Result<Registered, Problem> {
    let channel = connector.connect().await?;
    let registration = Registration { worker: worker.parse().unwrap(), ..registration() };
    WorkerClient::new(channel, None)?.register(registration).await
}

#[tokio::test]
async fn a_worker_joins_by_fingerprint_and_then_shows_its_certificate() {
    let (authority, served) = fleet().await;
    let token = JoinToken::new("t", [1; 32], authority.fingerprint()).unwrap();
    let joining = Connector::joining(served.endpoint("https"), &token).unwrap();
    join(&joining, "w-1").await.unwrap();
    assert_eq!(served.host.callers.lock().unwrap()[0].certificate, None);

    let csr = Csr::new().unwrap();
    let certificate = authority.sign(&csr.request, &"w-1".parse().unwrap(), now()).unwrap();
    let own = Some((certificate.as_slice(), csr.key.as_str()));
    let mutual = Connector::fleet(served.endpoint("https"), authority.certificate(), own).unwrap();
    join(&mutual, "w-1").await.unwrap();
    assert_eq!(join(&mutual, "w-2").await.unwrap_err().code, Code::Forbidden, "another worker's certificate");
    served.host.revoked.lock().unwrap().push(super::super::super::identity::fingerprint(&certificate));
    assert_eq!(join(&mutual, "w-1").await.unwrap_err().code, Code::Unauthenticated, "a revoked certificate");
}

#[tokio::test]
async fn servers_that_are_not_the_fleets_are_refused() {
    let (authority, served) = fleet().await;
    let wrong = JoinToken::new("t", [1; 32], [0; 32]).unwrap();
    let error = Connector::joining(served.endpoint("https"), &wrong).unwrap().connect().await.unwrap_err();
    assert!(error.message.contains("UnknownIssuer"), "{error}");
    let (other, _) = Authority::create(now()).unwrap();
    let strange = Connector::fleet(served.endpoint("https"), other.certificate(), None).unwrap();
    assert!(strange.connect().await.is_err());
    // An outside authority vouches for addresses, and this certificate names none.
    let outside = Connector::outside(served.endpoint("https"), authority.certificate(), None).unwrap();
    assert!(outside.connect().await.is_err());

    // A worker that poses as the server, with its own good certificate.
    let csr = Csr::new().unwrap();
    let der =
        authority.sign(&csr.request, &super::super::super::identity::SERVER_NAME.parse().unwrap(), now()).unwrap();
    let chain = format!("{}{}", in_pem(&der), authority.pem());
    let server = ServerIdentity { chain, key: csr.key };
    let posing = Served::start(Some(TlsIdentity { server, workers: authority.pem().to_owned() })).await;
    let token = JoinToken::new("t", [1; 32], authority.fingerprint()).unwrap();
    assert!(Connector::joining(posing.endpoint("https"), &token).unwrap().connect().await.is_err());
}

fn in_pem(der: &[u8]) -> String {
    use base64::Engine;
    let body = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
}

#[tokio::test]
async fn workers_with_a_bad_certificate_are_refused() {
    let (authority, served) = fleet().await;
    let csr = Csr::new().unwrap();
    let worker: WorkerId = "w-1".parse().unwrap();
    let with = |certificate: &[u8]| {
        Connector::fleet(served.endpoint("https"), authority.certificate(), Some((certificate, &csr.key))).unwrap()
    };
    let days_ago = Time::from_millis(now().millis() - 2 * 86_400_000);
    let expired = authority.sign(&csr.request, &worker, days_ago).unwrap();
    assert!(join(&with(&expired), "w-1").await.is_err(), "expired");
    let (other, _) = Authority::create(now()).unwrap();
    let foreign = other.sign(&csr.request, &worker, now()).unwrap();
    assert!(join(&with(&foreign), "w-1").await.is_err(), "of another authority");
    let good = authority.sign(&csr.request, &worker, now()).unwrap();
    assert!(join(&with(&good), "w-1").await.is_ok());
}

#[tokio::test]
async fn an_outside_authority_vouches_for_the_address() {
    let (authority, _) = Authority::create(now()).unwrap();
    let server = authority.server(&["127.0.0.1".to_owned()], now()).unwrap();
    let served = Served::start(Some(TlsIdentity { server, workers: authority.pem().to_owned() })).await;
    let outside = Connector::outside(served.endpoint("https"), authority.certificate(), None).unwrap();
    join(&outside, "w-1").await.unwrap();
}

#[test]
fn plain_text_is_for_this_machine_only() {
    let server = ServerIdentity { chain: String::new(), key: String::new() };
    let tls = TlsIdentity { server, workers: String::new() };
    for open in ["0.0.0.0:7071", "10.0.0.1:1", "[::]:7071"] {
        assert!(check_address(open.parse().unwrap(), None).is_err(), "{open}");
        assert!(check_address(open.parse().unwrap(), Some(&tls)).is_ok(), "{open}");
    }
    assert!(check_address("127.0.0.1:1".parse().unwrap(), None).is_ok());
    assert!(check_address("[::1]:1".parse().unwrap(), None).is_ok());
    insta::assert_snapshot!(check_address("0.0.0.0:7071".parse().unwrap(), None).unwrap_err(), @"0.0.0.0:7071 can be reached from outside; give the server TLS and tokens, or listen on 127.0.0.1");
    let error = |text: &str| text.parse::<Endpoint>().unwrap_err();
    insta::assert_snapshot!(error("http://example.com:7071"), @"`http://example.com:7071` is not a server address: plain text is for this machine only; use https://");
    insta::assert_snapshot!(error("example.com"), @"`example.com` is not a server address: it begins with neither https:// nor http://");
    for good in ["http://localhost:1", "http://[::1]:1", "http://127.3.2.1", "https://example.com"] {
        assert!(good.parse::<Endpoint>().is_ok(), "{good}");
    }
    assert!(Connector::plain("https://example.com".parse().unwrap()).is_err());
    let token = JoinToken::new("t", [1; 32], [2; 32]).unwrap();
    assert!(Connector::joining("http://localhost".parse().unwrap(), &token).is_err());
}

#[tokio::test]
async fn beyond_the_limit_of_connections_the_oldest_on_which_nobody_is_known_goes() {
    let listening = Listening::bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap().at_most(2);
    let address = listening.address();
    let (_leads, leading) = watch::channel(true);
    let services =
        Services { workers: Arc::new(Echo::default()), jobs: None, artifacts: None, leads: leading, interceptor: None };
    let (_stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(listening.serve(services, async { drop(stopped.await) }));
    let connect = || tokio::net::TcpStream::connect(address);
    let mut first = connect().await.unwrap();
    let mut second = connect().await.unwrap();
    // A server speaks first: its settings.
    async fn greeted(stream: &mut tokio::net::TcpStream) -> bool {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        drop(stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await);
        let read = tokio::time::timeout(std::time::Duration::from_millis(500), stream.read_u8()).await;
        matches!(read, Ok(Ok(_)))
    }
    assert!(greeted(&mut first).await);
    // Nobody has asked anything on any of them: the oldest one goes.
    let mut third = connect().await.unwrap();
    assert!(greeted(&mut third).await && greeted(&mut second).await);
    let mut rest = Vec::new();
    let ended = tokio::io::AsyncReadExt::read_to_end(&mut first, &mut rest);
    assert!(tokio::time::timeout(std::time::Duration::from_secs(60), ended).await.is_ok(), "it was ended");
    served.abort();
}
