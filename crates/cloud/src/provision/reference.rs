//! Chameleon's public description of its hardware, which needs no login. Owns the
//! question, what is kept of its answer for a day, and their bounds; whether a host is free it does not tell.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::keep::write_private;
use crate::catalog::host::{Catalogue, Origin};
use crate::catalog::read_hosts;
use crate::catalog::site::site_named;
use crate::openstack::classify::Service;
use crate::openstack::wire::{Request, Sent, Transport};
use crate::private_url::private_url;

/// Where it is.
pub const BASE: &str = "https://api.chameleoncloud.org";
/// How long an answer is kept.
const FRESH: Duration = Duration::from_secs(24 * 3600);
/// How long one is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of what is kept that are read.
const MAX_KEPT: u64 = 64 << 20;

/// Why the description is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// An address that is not safe to believe.
    #[error("{0} is not a valid address of a hardware description: use https, or http on this machine")]
    Address(String),
    /// A site that has none.
    #[error("there is no public description of {0}")]
    Site(String),
    /// Nobody answered, or not with a list of hosts.
    #[error("cannot retrieve the public description of {site}: {why}")]
    Answer {
        /// Which site.
        site: String,
        /// What happened.
        why: String,
    },
}

/// Whether what is kept will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// As long as it is not older than a day.
    #[default]
    Use,
    /// It is asked for anew.
    Refresh,
}

/// What is kept of an answer.
#[derive(Serialize, Deserialize)]
struct Kept {
    fetched_at: Time,
    base: String,
    document: Value,
}

/// The public description.
pub struct Reference {
    base: String,
    folder: PathBuf,
    transport: Arc<dyn Transport>,
}

impl std::fmt::Debug for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reference").field("base", &self.base).field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Reference {
    /// One at an address, usually [`BASE`], whose answers are kept below a folder of state.
    ///
    /// # Errors
    /// The address is not https, nor http on this machine.
    pub fn new(base: &str, state: &Path, transport: Arc<dyn Transport>) -> Result<Self, ReferenceError> {
        let wrong = || ReferenceError::Address(base.chars().take(200).collect());
        private_url(base).map_err(|_| wrong())?;
        Ok(Self { base: base.trim_end_matches('/').to_owned(), folder: state.join("reference"), transport })
    }

    /// The hardware of a site. Whether it is free is unknown, for its hosts have no ids of reservations here.
    ///
    /// # Errors
    /// The site has no description, or it is not available.
    pub async fn catalogue(&self, site: &str, keep: Keep, now: Time) -> Result<Catalogue, ReferenceError> {
        let known = site_named(site).filter(|known| !known.virtual_machines);
        let name = known.ok_or_else(|| ReferenceError::Site(site.to_owned()))?.name;
        if keep == Keep::Use
            && let Some(catalogue) = self.kept(name, now).await.and_then(|document| catalogue(site, &document).ok())
        {
            return Ok(catalogue);
        }
        let failed = |why: String| ReferenceError::Answer { site: site.to_owned(), why };
        let document = self.ask(name).await.map_err(failed)?;
        let catalogue = catalogue(site, &document).map_err(failed)?;
        self.keep(name, document, now).await;
        Ok(catalogue)
    }

    async fn ask(&self, name: &str) -> Result<Value, String> {
        let path = format!("/sites/{name}/clusters/chameleon/nodes");
        let url = format!("{}{path}", self.base);
        let sent = Sent { request: Request::get(Service::Compute, path), url, headers: Vec::new() };
        let answer = tokio::time::timeout(PATIENCE, self.transport.send(&sent)).await;
        let response =
            answer.map_err(|_| "it did not answer in time".to_owned())?.map_err(|lost| format!("it {lost}"))?;
        match response.status {
            200 => serde_json::from_str(&response.body).map_err(|_| "the answer is not JSON".to_owned()),
            status => Err(format!("it answered {status}")),
        }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    /// What is kept, if it is of this address and young; what is damaged is as if it were not there.
    async fn kept(&self, name: &str, now: Time) -> Option<Value> {
        let path = self.place(name);
        let read = move || -> Option<Kept> {
            let mut text = String::new();
            File::open(path).ok()?.take(MAX_KEPT).read_to_string(&mut text).ok()?;
            serde_json::from_str(&text).ok()
        };
        let kept = tokio::task::spawn_blocking(read).await.ok().flatten()?;
        let is_young = kept.fetched_at <= now && now.since(kept.fetched_at) < FRESH;
        (is_young && kept.base == self.base).then_some(kept.document)
    }

    /// Keeps an answer. One that cannot be kept is asked for again the next time.
    async fn keep(&self, name: &str, document: Value, now: Time) {
        let (folder, path) = (self.folder.clone(), self.place(name));
        let kept = Kept { fetched_at: now, base: self.base.clone(), document };
        let write = move || -> std::io::Result<()> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            write_private(&path, &serde_json::to_vec(&kept)?)
        };
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the hardware description cannot be stored"),
            Err(error) => tracing::warn!(%error, "storing the hardware description was interrupted"),
        }
    }
}

fn catalogue(site: &str, document: &Value) -> Result<Catalogue, String> {
    let hosts = read_hosts(&document.to_string()).map_err(|error| error.to_string())?;
    if hosts.is_empty() {
        return Err("it lists no hosts".to_owned());
    }
    let mut catalogue = Catalogue::of_hosts(Origin::Public, site, &hosts);
    for variant in &mut catalogue.variants {
        // Allocations go by other ids: without any, nobody takes a host for free.
        variant.ids.clear();
    }
    Ok(catalogue)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::openstack::wire::{Lost, Response};

    const NODES: &str = r#"{"items":[
        {"uid":"a","node_type":"compute_new","architecture":{"platform_type":"x86_64","smt_size":96},"main_memory":{"ram_size":206158430208},"gpu":{"gpu":false},"storage_devices":[{"size":480103981056}]},
        {"uid":"b","node_type":"gpu_new","architecture":{"smt_size":64},"gpu":[{"gpu_model":"H200"},{"gpu_model":"H200"}]},
        {"uid":"c","node_type":"compute_new","architecture":{"platform_type":"x86_64","smt_size":96},"main_memory":{"ram_size":206158430208},"gpu":null,"storage_devices":[{"size":480103981056}]}
    ]}"#;

    /// A description that answers as it is set, and counts how often it is asked.
    struct Fake {
        answer: Mutex<Result<(u16, String), Lost>>,
        asked: AtomicUsize,
    }

    #[async_trait]
    impl Transport for Fake {
        async fn send(&self, sent: &Sent) -> Result<Response, Lost> {
            assert_eq!(sent.url, "https://reference.test/sites/uc/clusters/chameleon/nodes");
            assert!(sent.headers.is_empty(), "no login");
            self.asked.fetch_add(1, Ordering::Relaxed);
            let (status, body) = self.answer.lock().unwrap().clone()?;
            Ok(Response { status, body, ..Response::default() })
        }
    }

    struct Bench {
        folder: tempfile::TempDir,
        fake: Arc<Fake>,
    }

    impl Bench {
        fn new() -> Self {
            let answer = Mutex::new(Ok((200, NODES.to_owned())));
            Self { folder: tempfile::tempdir().unwrap(), fake: Arc::new(Fake { answer, asked: AtomicUsize::new(0) }) }
        }

        fn answers(&self, answer: Result<(u16, &str), Lost>) {
            *self.fake.answer.lock().unwrap() = answer.map(|(status, body)| (status, body.to_owned()));
        }

        async fn at(&self, hours: u64, keep: Keep) -> Result<Catalogue, String> {
            let reference =
                Reference::new("https://reference.test/", self.folder.path(), Arc::clone(&self.fake) as _).unwrap();
            let now = Time::from_millis(1_767_621_607_000).plus(Duration::from_secs(hours * 3600));
            reference.catalogue("uc", keep, now).await.map_err(|error| error.to_string())
        }

        fn asked(&self) -> usize {
            self.fake.asked.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn hosts_are_read_nested_and_nobody_takes_them_for_free() {
        let bench = Bench::new();
        let catalogue = bench.at(0, Keep::Use).await.unwrap();
        let variants: Vec<String> = catalogue
            .variants
            .iter()
            .map(|one| {
                let cards = one.shape.cards.as_ref().map_or(0, |cards| cards.count);
                format!(
                    "{} {} {} cards {cards} {:?} {:?}",
                    one.node_type, one.count, one.shape.ram_gib, one.ids, one.uids
                )
            })
            .collect();
        insta::assert_snapshot!(variants.join("\n"), @r#"
        compute_new 2 192 cards 0 [] ["a", "c"]
        gpu_new 1 0 cards 2 [] ["b"]
        "#);
        assert_eq!(catalogue.origin, Origin::Public);
    }

    #[tokio::test]
    async fn an_answer_is_kept_for_a_day_and_asked_for_anew_on_request() {
        let bench = Bench::new();
        bench.at(0, Keep::Use).await.unwrap();
        bench.answers(Err(Lost::Refused("nobody listens".to_owned())));
        assert_eq!(bench.at(23, Keep::Use).await.unwrap().variants.len(), 2);
        assert_eq!(bench.asked(), 1, "it was kept");
        assert!(bench.at(24, Keep::Use).await.is_err(), "what is older than a day is not believed");
        bench.answers(Ok((200, NODES)));
        bench.at(24, Keep::Use).await.unwrap();
        assert_eq!(bench.asked(), 3);
        bench.at(25, Keep::Refresh).await.unwrap();
        assert_eq!(bench.asked(), 4);
        let path = bench.folder.path().join("reference/uc.json");
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "{").unwrap();
        bench.at(25, Keep::Use).await.unwrap();
        assert_eq!(bench.asked(), 5, "what is damaged is as if it were not there");
    }

    #[tokio::test]
    async fn what_is_no_description_is_refused_and_not_kept() {
        let bench = Bench::new();
        for answer in [
            Err(Lost::Timeout),
            Err(Lost::TooLarge),
            Ok((500, "")),
            Ok((302, NODES)),
            Ok((200, "<html>")),
            Ok((200, "{}")),
            Ok((200, "{\"items\":[]}")),
        ] {
            bench.answers(answer);
            let error = bench.at(0, Keep::Use).await.unwrap_err();
            assert!(error.starts_with("cannot retrieve the public description of uc: "), "{error}");
        }
        assert!(!bench.folder.path().join("reference").exists());
    }

    #[tokio::test]
    async fn only_sites_of_chameleon_and_safe_addresses_are_asked() {
        let bench = Bench::new();
        let reference = |base: &str| Reference::new(base, bench.folder.path(), Arc::clone(&bench.fake) as _);
        for site in ["mine", "kvm", "../../etc"] {
            let error = reference(BASE).unwrap().catalogue(site, Keep::Use, Time::EPOCH).await.unwrap_err();
            assert_eq!(error, ReferenceError::Site(site.to_owned()));
        }
        assert_eq!(bench.asked(), 0);
        for base in ["https://x.test", "http://127.0.0.1:1", "http://[::1]:1"] {
            assert!(reference(base).is_ok(), "{base}");
        }
        for base in
            ["http://x.test", "http://localhost.evil.test", "ftp://127.0.0.1", "file:///etc", "https://u:p@x.test", "x"]
        {
            assert!(reference(base).is_err(), "{base}");
        }
    }
}
