//! The store over TLS, with a PostgreSQL server of this test's own that has a certificate.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;

/// Nobody: the server refuses root.
const NOBODY: u32 = 65_534;

/// A server that ends with this value.
struct Server {
    child: Child,
    dir: tempfile::TempDir,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        // One that has ended meanwhile is what is wanted.
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT);
        drop(self.child.wait());
    }
}

fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path().join("bin"));
    versions.into_iter().find(|bin| bin.join("initdb").exists())
}

fn command(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env("HOME", dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// An authority, and what it signs for `localhost`; written into the directory.
fn certify(dir: &Path) {
    let mut of_authority = CertificateParams::new(Vec::new()).unwrap();
    of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(of_authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    std::fs::write(dir.join("ca.pem"), authority.pem()).unwrap();
    std::fs::write(dir.join("server.crt"), server.pem()).unwrap();
    std::fs::write(dir.join("server.key"), key.serialize_pem()).unwrap();
}

fn server() -> Option<Server> {
    use std::os::unix::fs::PermissionsExt as _;
    let bin = binaries()?;
    let dir = tempfile::Builder::new().prefix("orlop-pg").tempdir_in("/tmp").unwrap();
    certify(dir.path());
    std::fs::set_permissions(dir.path().join("server.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    if nix::unistd::geteuid().is_root() {
        for path in [dir.path().to_owned(), dir.path().join("server.key"), dir.path().join("server.crt")] {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    let data = dir.path().join("data");
    let mut initdb = command(&bin.join("initdb"), dir.path());
    initdb.arg("-D").arg(&data).args(["-U", "orlop", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
    if !initdb.status().is_ok_and(|status| status.success()) {
        return None;
    }
    // Only over TLS.
    std::fs::write(data.join("pg_hba.conf"), "hostssl all all 127.0.0.1/32 trust\nhostssl all all ::1/128 trust\n")
        .unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut postgres = command(&bin.join("postgres"), dir.path());
    postgres.arg("-D").arg(&data).arg("-p").arg(port.to_string()).arg("-c");
    postgres.arg(format!("unix_socket_directories={}", dir.path().display()));
    for (name, value) in [("ssl_cert_file", "server.crt"), ("ssl_key_file", "server.key")] {
        postgres.arg("-c").arg(format!("{name}={}", dir.path().join(value).display()));
    }
    postgres.args(["-c", "ssl=on", "-c", "fsync=off", "-c", "listen_addresses=localhost"]);
    Some(Server { child: postgres.spawn().ok()?, dir, port })
}

#[tokio::test]
async fn the_store_speaks_tls_and_checks_whom_it_speaks_to() {
    let Some(server) = server() else {
        println!("skipped: s9_the_store_speaks_tls…: no PostgreSQL is installed below /usr/lib/postgresql");
        return;
    };
    let ca = server.dir.path().join("ca.pem");
    let url = |host: &str, more: &str| format!("postgres://orlop@{host}:{}/postgres?{more}", server.port);
    let trusted = format!("sslmode=verify-full&sslrootcert={}", ca.display());
    let began = std::time::Instant::now();
    let store = loop {
        match PostgresFleet::open(PostgresOptions::new(url("localhost", &trusted))).await {
            Ok(store) => break store,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{}", error.chain()),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let epoch = store.acquire(&holder("a")).await.unwrap();
    store.commit(epoch, turns()).await.unwrap();
    let session = store.reader().await.unwrap();
    let encrypted: bool =
        session.client.query_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).await.unwrap().get(0);
    assert!(encrypted);
    for (host, more, wanted) in [
        // The certificate is of another name; nobody of the system signed it; and the server takes no plain text.
        ("127.0.0.1", trusted.as_str(), "certificate"),
        ("localhost", "sslmode=require", "certificate"),
        ("localhost", "sslmode=disable", "refuses the user"),
    ] {
        let error = PostgresFleet::open(PostgresOptions::new(url(host, more))).await.unwrap_err();
        assert!(error.chain().contains(wanted), "{host} {more}: {}", error.chain());
    }
    store.close().await;
}
