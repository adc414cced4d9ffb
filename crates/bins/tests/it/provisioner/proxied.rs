//! The proxy of the environment on the way to a repository.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::bench::{Bench, Gave};

const REPO: &str = "https://git.example.invalid/x";

fn analyze(bench: &Bench, repo: &str, variables: &[(&str, &str)]) -> Gave {
    let mut command = bench.command(&["analyze", "--repo", repo]);
    command.envs(variables.iter().copied());
    Bench::gives(command)
}

#[test]
fn a_repository_is_asked_for_through_the_proxy_of_the_environment_and_nothing_private_is() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxy = format!("http://{}", listener.local_addr().expect("an address"));
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let count = stream.read(&mut head).unwrap_or(0);
            let text = String::from_utf8_lossy(head.get(..count).unwrap_or_default()).into_owned();
            log.lock().expect("a log").push(text.lines().next().unwrap_or_default().to_owned());
            drop(stream.write_all(b"HTTP/1.1 502 No way\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
        }
    });
    let gave = analyze(&bench, "https://metadata.google.internal/x", &[("https_proxy", &proxy)]);
    assert_eq!(gave.code, 6, "{gave:?}");
    assert!(gave.err.contains("metadata.google.internal is a name of a private network"), "{gave:?}");
    assert_eq!(asked.lock().expect("a log").len(), 0);
    let gave = analyze(&bench, REPO, &[("HTTPS_PROXY", &proxy)]);
    assert_eq!(gave.code, 7, "{gave:?}");
    let seen = asked.lock().expect("a log").clone();
    assert_eq!(seen, ["CONNECT git.example.invalid:443 HTTP/1.1"; 2], "once, and once more");
    let gave = analyze(&bench, REPO, &[("https_proxy", "socks5://127.0.0.1:1")]);
    assert!(gave.code == 2 && gave.err.contains("the proxy in https_proxy is not usable"), "{gave:?}");
}
