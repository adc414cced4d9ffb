//! The way through a proxy, which looks names up where this machine cannot.

use super::server::{INNER, NAME, Tunnels};
use super::*;

/// A server, a proxy on the way to it, and a machine on which names lead nowhere.
struct Behind {
    world: World,
    tunnels: Tunnels,
}

impl Behind {
    async fn new() -> Self {
        Self { world: World::new(&[("README.md", b"hello")]).await, tunnels: Tunnels::new().await }
    }

    fn options(&self, except: &str) -> Options {
        let proxies = Proxies::read(|name| match name {
            "https_proxy" => Some(self.tunnels.url.clone()),
            "no_proxy" => Some(except.to_owned()),
            _ => None,
        });
        Options { proxies, ..self.world.options() }
    }

    async fn fetch(&self, url: &str, options: &Options) -> Result<Scan, FetchError> {
        let mut doors = self.world.server.doors();
        doors.resolve = std::sync::Arc::new(|host, _| {
            Box::pin(async move {
                match host.as_str() {
                    INNER => Ok(vec![[127, 0, 0, 2].into()]),
                    _ => Err(std::io::Error::other("no name is known here")),
                }
            })
        });
        let source = Source::parse(url, Allow::default()).unwrap();
        let request = Request { source, ..self.world.request("/x/.git") };
        fetch_through(&doors, &request, options).await
    }
}

#[tokio::test]
async fn a_repository_is_fetched_through_a_proxy_that_knows_its_name() {
    let behind = Behind::new().await;
    let url = behind.world.server.url("/x/.git");
    assert_eq!(paths(&behind.fetch(&url, &behind.options("other.test")).await.unwrap()), ["README.md"]);
    let opened = behind.tunnels.opened();
    let place = format!("{NAME}:{}", behind.world.server.port);
    assert!(opened.len() >= 2 && opened.iter().all(|one| *one == place), "the question and Git itself: {opened:?}");
    let error = behind.fetch(&url, &behind.options(NAME)).await.unwrap_err();
    assert!(matches!(&error, FetchError::Network { why, .. } if why.contains("no name is known here")), "{error:?}");
    assert_eq!(behind.tunnels.opened().len(), opened.len(), "a host of no_proxy is asked without it");
    assert!(!format!("{:?}", behind.options("")).contains("hunter2"));
}

#[tokio::test]
async fn what_is_known_to_be_private_is_refused_before_a_proxy_hears_of_it() {
    let behind = Behind::new().await;
    let port = behind.world.server.port;
    let options = behind.options("");
    for (url, is_name) in [
        ("https://10.0.0.1/x".to_owned(), false),
        ("https://169.254.169.254/x".to_owned(), false),
        ("https://[::ffff:10.0.0.1]/x".to_owned(), false),
        ("https://2130706434/x".to_owned(), false),
        (format!("https://{INNER}:{port}/x/.git"), false),
        ("https://metadata.google.internal/x".to_owned(), true),
        ("https://localhost/x".to_owned(), true),
        ("https://nas/x".to_owned(), true),
    ] {
        let error = behind.fetch(&url, &options).await.unwrap_err();
        let wanted = match &error {
            FetchError::Private { .. } => !is_name,
            FetchError::LocalName { .. } => is_name,
            _ => false,
        };
        assert!(wanted, "{url}: {error:?}");
    }
    assert_eq!(behind.tunnels.opened(), [""; 0]);
    // Nor does a redirect lead there.
    let question = "info/refs?service=git-upload-pack";
    behind.world.server.redirect("/one/", &format!("https://{INNER}:{port}/x/.git/{question}"));
    behind.world.server.redirect("/two/", &format!("https://metadata.google.internal/x/{question}"));
    for path in ["/one", "/two"] {
        let error = behind.fetch(&behind.world.server.url(path), &options).await.unwrap_err();
        assert!(matches!(error, FetchError::Private { .. } | FetchError::LocalName { .. }), "{path}: {error:?}");
    }
    let place = format!("{NAME}:{port}");
    assert!(behind.tunnels.opened().iter().all(|one| *one == place), "{:?}", behind.tunnels.opened());
}
