//! Whether a machine answers, and what it has. Owns the look at the port, the command that signs in
//! and the comparison with the plan.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

use super::hostkey::{HostKey, known_hosts, of_known_hosts, stranger};
use super::idle::{Work, work_of_login};
use super::keep::write_private;
use super::order::Expects;
use super::saga::{Login, Probe};

/// The port of SSH.
pub const PORT: u16 = 22;
/// How long the port is listened to.
const LISTEN: Duration = Duration::from_secs(5);
/// How long a login may take.
const SIGN_IN: Duration = Duration::from_secs(60);
/// Bytes that are read before the banner, which others may precede.
const MAX_BANNER: usize = 8192;
/// Bytes of a login's answer that are read.
const MAX_ANSWER: u64 = 4096;
/// Less memory than this part of the nominal one is less than planned: firmware and kernel keep some.
const MEMORY_PART: u64 = 88;

/// What is run on the machine: it reads, and changes nothing.
const SCRIPT: &str = "n=0; for d in /sys/bus/pci/devices/*; do c=$(cat $d/class 2>/dev/null); v=$(cat $d/vendor 2>/dev/null); \
case $c in 0x0300*|0x0302*|0x0380*|0x1200*) case $v in 0x10de|0x1002|0x8086) n=$((n+1));; esac;; esac; done; \
echo threads $(nproc --all); echo memory_kib $(sed -n 's/^MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo); echo gpus $n";

/// What is run to see whether it works: the load of five minutes in hundredths, who is signed in, and what computes on its cards.
const WORK: &str = "echo load $(cut -d' ' -f2 /proc/loadavg | tr -d .); echo users $(who | wc -l); \
echo cards $( (nvidia-smi --query-compute-apps=pid --format=csv,noheader 2>/dev/null; \
cat /sys/class/drm/card*/device/gpu_busy_percent 2>/dev/null | grep -v '^0$') | grep -c '^[0-9]')";

/// What OpenSSH says to a host key that is none of those it knows.
const OTHER_KEY: &str = "Host key verification failed";

/// Whether somebody at a port says that it speaks SSH.
pub(crate) async fn speaks_ssh(address: &str, port: u16) -> bool {
    timeout(LISTEN, banner(address, port)).await.unwrap_or(false)
}

async fn banner(address: &str, port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((address, port)).await else { return false };
    let mut bytes = Vec::new();
    while bytes.len() < MAX_BANNER {
        match stream.read_buf(&mut bytes).await {
            Ok(count) if count > 0 => {}
            _ => return false,
        }
        if bytes.starts_with(b"SSH-") || bytes.windows(5).any(|part| part == b"\nSSH-") {
            return true;
        }
    }
    false
}

/// How a login went.
enum LoginOutcome {
    /// The machine said this.
    Text(String),
    /// Nobody got in.
    Nothing,
    /// It showed another host key than it may.
    OtherKey,
}

/// By what people compare host keys.
fn fingerprint(key: &HostKey) -> String {
    let sum = Sha256::digest(STANDARD.decode(&key.key).unwrap_or_default());
    format!("{} SHA256:{}", key.kind, STANDARD_NO_PAD.encode(sum))
}

/// How machines are signed in to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ssh {
    /// The program.
    pub program: PathBuf,
    /// The private key, if one is known.
    pub key: Option<PathBuf>,
    /// Host keys of this deployment.
    pub known_hosts: PathBuf,
}

impl Ssh {
    /// Sees whether a machine answers, and with a login whether it has what was planned.
    pub async fn probe(&self, address: &str, port: u16, login: Option<&Login>) -> Probe {
        if !speaks_ssh(address, port).await {
            return Probe::Silent;
        }
        let Some(login) = login else { return Probe::Answered };
        match self.pin(address, port, &login.host_keys) {
            Ok(true) => {}
            Ok(false) => return Probe::Silent,
            Err(how) => return Probe::Stranger(how),
        }
        let answer = match self.ask(address, port, &login.user, SCRIPT, !login.host_keys.is_empty()).await {
            LoginOutcome::Text(answer) => answer,
            LoginOutcome::Nothing => return Probe::Silent,
            LoginOutcome::OtherKey if login.host_keys.is_empty() => {
                return Probe::Stranger(format!("{address} shows another host key than it did before"));
            }
            LoginOutcome::OtherKey => {
                let own: Vec<String> = login.host_keys.iter().map(fingerprint).collect();
                let how =
                    format!("{address} shows another host key than the machine's console does ({})", own.join(", "));
                return Probe::Stranger(how);
            }
        };
        let Some(expects) = &login.expects else { return Probe::Answered };
        match differences(expects, &answer) {
            less if less.is_empty() => Probe::Answered,
            less => Probe::Differs(less.join("; ")),
        }
    }

    /// What a machine does at the moment, seen from within.
    pub async fn work(&self, address: &str, port: u16, user: &str) -> Work {
        match self.ask(address, port, user, WORK, false).await {
            LoginOutcome::Text(answer) => work_of_login(&answer),
            LoginOutcome::Nothing | LoginOutcome::OtherKey => Work::Unknown,
        }
    }

    /// Lets only these host keys pass for the machine, if there are any. Says whether they could be written down.
    ///
    /// # Errors
    /// Another one passed for it before: which, in words.
    fn pin(&self, address: &str, port: u16, keys: &[HostKey]) -> Result<bool, String> {
        if keys.is_empty() {
            return Ok(true);
        }
        let known = std::fs::read_to_string(&self.known_hosts).unwrap_or_default();
        if let Some(other) = stranger(keys, &of_known_hosts(&known)) {
            let met = fingerprint(other);
            return Err(format!("{address} showed the host key {met}, which the machine's console does not show"));
        }
        let kept = write_private(&self.known_hosts, known_hosts(address, port, keys).as_bytes());
        if let Err(error) = &kept {
            tracing::warn!(%error, "the machine is not signed in to: its host keys cannot be kept");
        }
        Ok(kept.is_ok())
    }

    /// What the machine says to a script.
    async fn ask(&self, address: &str, port: u16, user: &str, script: &str, is_pinned: bool) -> LoginOutcome {
        let checking = if is_pinned { "StrictHostKeyChecking=yes" } else { "StrictHostKeyChecking=accept-new" };
        let mut command = Command::new(&self.program);
        // Nobody's own settings, agent or questions: the key that was named, or those that are tried by default.
        command.args(["-F", "none", "-o", "BatchMode=yes", "-o", checking]);
        command.args(["-o", "ConnectTimeout=10", "-o", "ForwardAgent=no", "-o", "ClearAllForwardings=yes"]);
        // There may be several files, parted by spaces, and `%` begins a variable.
        let known_hosts = self.known_hosts.display().to_string().replace('%', "%%");
        command.arg("-o").arg(format!("UserKnownHostsFile=\"{known_hosts}\""));
        command.arg("-p").arg(port.to_string());
        if let Some(key) = &self.key {
            command.arg("-o").arg("IdentitiesOnly=yes").arg("-i").arg(key);
        }
        command.arg("-l").arg(user).arg("--").arg(address).arg(script);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.env("LC_ALL", "C");
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                tracing::warn!(%error, "the machine cannot be looked at: ssh cannot be started");
                return LoginOutcome::Nothing;
            }
        };
        let (Some(answer), Some(trouble)) = (child.stdout.take(), child.stderr.take()) else {
            return LoginOutcome::Nothing;
        };
        let asked = async {
            let (mut text, mut words) = (String::new(), Vec::new());
            let (mut answer, mut trouble) = (answer.take(MAX_ANSWER), trouble.take(MAX_ANSWER));
            let (answered, _) = tokio::join!(answer.read_to_string(&mut text), trouble.read_to_end(&mut words));
            let is_good = answered.is_ok() && child.wait().await.is_ok_and(|status| status.success());
            match is_good {
                true => LoginOutcome::Text(text),
                false if String::from_utf8_lossy(&words).contains(OTHER_KEY) => LoginOutcome::OtherKey,
                false => LoginOutcome::Nothing,
            }
        };
        timeout(SIGN_IN, asked).await.unwrap_or(LoginOutcome::Nothing)
    }
}

/// What a machine has less than planned, in words; what it does not say is not held against it.
#[must_use]
pub fn differences(expects: &Expects, answer: &str) -> Vec<String> {
    let number =
        |name: &str| -> Option<u64> { answer.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()) };
    let mut less = Vec::new();
    if let Some(found) = number("gpus ").filter(|found| *found < u64::from(expects.gpus)) {
        less.push(format!("planned {} GPU, found {found}", expects.gpus));
    }
    if let Some(found) = number("threads ").filter(|found| *found < u64::from(expects.threads)) {
        less.push(format!("planned {} threads, found {found}", expects.threads));
    }
    let least = u64::from(expects.ram_gib) * 1024 * 1024 * MEMORY_PART / 100;
    if let Some(found) = number("memory_kib ").filter(|found| *found < least) {
        less.push(format!("planned {} GiB of memory, found {}", expects.ram_gib, found / 1024 / 1024));
    }
    less
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Somebody at a port who says something in two parts.
    async fn somebody(first: &'static str, second: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    stream.write_all(first.as_bytes()).await.unwrap();
                    stream.flush().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    stream.write_all(second.as_bytes()).await.unwrap();
                    std::future::pending::<()>().await;
                });
            }
        });
        port
    }

    fn ssh(folder: &Path, script: &str) -> Ssh {
        let program = folder.join("ssh");
        std::fs::write(&program, format!("#!/bin/sh\necho \"$@\" > {}/asked\n{script}\n", folder.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        Ssh { program, key: Some("/keys/demo.pem".into()), known_hosts: folder.join("known_hosts") }
    }

    fn login() -> Login {
        Login {
            user: "cc".into(),
            expects: Some(Expects { threads: 48, ram_gib: 192, gpus: 4 }),
            host_keys: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_banner_counts_and_nothing_else_does() {
        assert!(speaks_ssh("127.0.0.1", somebody("SSH-2", ".0-OpenSSH_9.2\r\n").await).await);
        assert!(speaks_ssh("127.0.0.1", somebody("hello, who are you\r\nSS", "H-2.0-x\r\n").await).await);
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        assert!(!speaks_ssh("127.0.0.1", closed).await);
        assert!(!speaks_ssh("no host of this name", 22).await);
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_says_nothing_of_ssh_is_silent_in_bounded_time() {
        assert!(!speaks_ssh("127.0.0.1", somebody("HTTP/1.1 400", " SSH-2.0 is not here\r\n").await).await);
    }

    #[tokio::test]
    async fn less_than_planned_differs_and_no_login_is_silent() {
        let folder = tempfile::tempdir().unwrap();
        let port = somebody("SSH-2.0-x\r\n", "").await;
        let good = ssh(folder.path(), "echo threads 48; echo memory_kib 197000000; echo gpus 4");
        assert_eq!(good.probe("127.0.0.1", port, Some(&login())).await, Probe::Answered);
        let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap();
        for part in [
            "BatchMode=yes",
            "accept-new",
            "UserKnownHostsFile=\"/",
            "known_hosts\"",
            "-i /keys/demo.pem",
            "-l cc -- 127.0.0.1",
        ] {
            assert!(asked.contains(part), "{part}: {asked}");
        }
        let less = ssh(folder.path(), "echo threads 24; echo memory_kib 100000000; echo gpus 3");
        let differences = "planned 4 GPU, found 3; planned 48 threads, found 24; planned 192 GiB of memory, found 95";
        assert_eq!(less.probe("127.0.0.1", port, Some(&login())).await, Probe::Differs(differences.to_owned()));
        let refused = ssh(folder.path(), "exit 255");
        assert_eq!(refused.probe("127.0.0.1", port, Some(&login())).await, Probe::Silent);
        assert_eq!(refused.probe("127.0.0.1", port, None).await, Probe::Answered);
        let missing = Ssh { program: "/no/such/ssh".into(), ..refused };
        assert_eq!(missing.probe("127.0.0.1", port, Some(&login())).await, Probe::Silent);
    }

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIFFhJ1Zo6ND5DBbQO5CHQTxUX4Rj9pV1mPZWFmQjGfVc";

    /// An ssh that goes to a machine with this key and minds known hosts as OpenSSH does.
    fn minding(folder: &Path, key: &str) -> Ssh {
        let script = format!(
            "for word; do case $word in UserKnownHostsFile=*) file=$(echo \"$word\" | cut -d'\"' -f2);; \
             StrictHostKeyChecking=*) checking=$word;; esac; done\n\
             if test -s \"$file\"; then grep -q 'ssh-ed25519 {key}' \"$file\" || \
             {{ echo 'Host key verification failed.' >&2; exit 255; }}; \
             elif test $checking = StrictHostKeyChecking=yes; then echo 'Host key verification failed.' >&2; exit 255; \
             else echo \"127.0.0.1 ssh-ed25519 {key}\" > \"$file\"; fi\necho threads 48"
        );
        ssh(folder, &script)
    }

    #[tokio::test]
    async fn a_host_key_that_the_console_does_not_show_stops_before_anything_is_said() {
        let port = somebody("SSH-2.0-x\r\n", "").await;
        let own = HostKey { kind: "ssh-ed25519".into(), key: KEY.into() };
        let seen = Login { host_keys: vec![own], ..login() };
        let other = KEY.replace("FFhJ", "GGhJ");
        let folder = tempfile::tempdir().unwrap();
        let (good, bad) = (minding(folder.path(), KEY), |folder: &Path| minding(folder, &other));
        assert_eq!(good.probe("127.0.0.1", port, Some(&seen)).await, Probe::Answered);
        let known = std::fs::read_to_string(&good.known_hosts).unwrap();
        assert_eq!(known, format!("[127.0.0.1]:{port} ssh-ed25519 {KEY}\n"));
        assert!(std::fs::read_to_string(folder.path().join("asked")).unwrap().contains("StrictHostKeyChecking=yes"));
        // Somebody else answers at the address.
        let folder = tempfile::tempdir().unwrap();
        let Probe::Stranger(how) = bad(folder.path()).probe("127.0.0.1", port, Some(&seen)).await else { panic!() };
        assert!(how.contains("another host key than the machine's console") && how.contains("SHA256:"), "{how}");
        // They answered before the console was seen.
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(bad(folder.path()).probe("127.0.0.1", port, Some(&login())).await, Probe::Answered);
        let Probe::Stranger(how) = bad(folder.path()).probe("127.0.0.1", port, Some(&seen)).await else { panic!() };
        assert!(how.contains("which the machine's console does not show"), "{how}");
        // The key changed without any console.
        let Probe::Stranger(how) = minding(folder.path(), KEY).probe("127.0.0.1", port, Some(&login())).await else {
            panic!()
        };
        assert!(how.contains("than it did before"), "{how}");
    }

    /// The real program reads what is pinned.
    #[tokio::test]
    async fn pinned_keys_are_known_hosts_to_openssh() {
        let folder = tempfile::tempdir().unwrap();
        let ssh = Ssh { program: "ssh".into(), key: None, known_hosts: folder.path().join("known_hosts") };
        ssh.pin("192.0.2.1", 22, &[HostKey { kind: "ssh-ed25519".into(), key: KEY.into() }]).unwrap();
        assert!(ssh.known_hosts.exists());
        let found = Command::new("ssh-keygen").args(["-F", "192.0.2.1", "-f"]).arg(&ssh.known_hosts).output().await;
        let Ok(found) = found else { return println!("skipped: there is no ssh-keygen") };
        assert!(found.status.success() && String::from_utf8_lossy(&found.stdout).contains(KEY), "{found:?}");
    }

    #[tokio::test]
    async fn the_login_tells_whether_a_machine_works() {
        let folder = tempfile::tempdir().unwrap();
        let idle = ssh(folder.path(), "echo load 002; echo users 0; echo cards 0");
        assert_eq!(idle.work("127.0.0.1", 22, "cc").await, Work::Idle { mark: None });
        assert_eq!(ssh(folder.path(), "exit 255").work("127.0.0.1", 22, "cc").await, Work::Unknown);
        // What is run there, here: this machine has something to say of itself.
        let here = ssh(folder.path(), &format!("{WORK}\n"));
        assert_ne!(here.work("127.0.0.1", 22, "cc").await, Work::Unknown);
    }

    #[test]
    fn what_a_machine_does_not_say_is_not_held_against_it() {
        let expects = Expects { threads: 48, ram_gib: 192, gpus: 1 };
        assert!(differences(&expects, "").is_empty());
        assert!(differences(&expects, "threads many\nthreads 96\nmemory_kib 196000000\ngpus 1\n").is_empty());
        assert_eq!(differences(&expects, "gpus 0\n"), ["planned 1 GPU, found 0"]);
    }
}
