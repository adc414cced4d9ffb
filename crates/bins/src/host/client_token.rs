//! The token with which the people and workers of this machine reach a server that runs under the same user: made before the
//! server listens, kept in a file that only this user reads, and found by the address of the server.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use ring::rand::SystemRandom;

use crate::api::auth::{Bearer, SecretHash};

/// Its name in a server's data directory.
pub const FILE: &str = "client.token";

/// The longest file of a token, or of where one is.
const LONGEST: u64 = 8192;

/// The client token of a server: an administrator's, of all tenants.
#[derive(Debug)]
pub struct ClientToken {
    path: PathBuf,
    bearer: Bearer,
}

fn at(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("client token {}: {error}", path.display()))
}

/// A file of this user, which nobody else can read, whole.
fn read_private(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != nix::unistd::geteuid().as_raw() || found.mode() & 0o077 != 0 {
        let text = "other users may have written or read it; delete it, or make it private with `chmod 600`";
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a file beside a path, for this user only. Gives where it is, and it locked.
fn write_beside(path: &Path, text: &str) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().unwrap_or_default();
    let half = path.with_file_name(format!(".{}.{}", name.display(), uuid::Uuid::new_v4().simple()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&half)?;
    file.try_lock()?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok((half, file))
}

/// Writes a file that appears whole, in place of what was there, and gives it locked.
fn replace(path: &Path, text: &str) -> io::Result<File> {
    let (half, file) = write_beside(path, text)?;
    fs::rename(&half, path)?;
    Ok(file)
}

/// Writes a file that appears whole, unless one is there.
fn create(path: &Path, text: &str) -> io::Result<()> {
    let (half, _file) = write_beside(path, text)?;
    let linked = fs::hard_link(&half, path);
    fs::remove_file(&half)?;
    linked
}

impl ClientToken {
    /// The token in a file; made where there is none.
    ///
    /// # Errors
    /// The file cannot be read or written, holds no token, or is open to others.
    pub fn take_up(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let mut read = read_private(&path);
        if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            let made = Bearer::generate(&SystemRandom::new()).map_err(|error| at(&path, &error))?;
            match create(&path, &format!("{}\n", made.reveal())) {
                // Another server of the same directory was first.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made.map_err(|error| at(&path, &error))?,
            }
            read = read_private(&path);
        }
        let text = read.map_err(|error| at(&path, &error))?;
        let bearer = Bearer::parse(text.trim()).map_err(|error| at(&path, &error))?;
        Ok(Self { path, bearer })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// By what the guard knows it.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        self.bearer.hash()
    }

    /// Lets clients of this user find it by the addresses of the server, as long as the answer lives.
    ///
    /// # Errors
    /// There is no directory for that which belongs to this user alone.
    pub fn announce(&self, addresses: &[SocketAddr]) -> io::Result<Announcement> {
        let given = runtime_directories().find_map(|directory| prepared(&directory).ok());
        let folder = given.or_else(|| made_directory().ok());
        let folder = folder.ok_or_else(|| {
            let text = "no directory found that only this user can access: set XDG_RUNTIME_DIR to one";
            io::Error::new(ErrorKind::NotFound, text)
        })?;
        self.announce_in(&folder, addresses)
    }

    fn announce_in(&self, folder: &Path, addresses: &[SocketAddr]) -> io::Result<Announcement> {
        let _turn = turn(folder)?;
        sweep(folder)?;
        let mut entries = Vec::new();
        for address in addresses.iter().copied().flat_map(reached_by) {
            let path = folder.join(name(address));
            let text = self.path.to_str().ok_or_else(|| at(&self.path, &"the path is not UTF-8"))?;
            let held = replace(&path, text)?;
            entries.push((path, held));
        }
        Ok(Announcement { folder: folder.to_owned(), entries })
    }
}

/// Keeps others from changing a folder of entries, as long as the answer lives.
fn turn(folder: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join(".lock"))?;
    file.lock()?;
    Ok(file)
}

/// Removes the entries of servers that were killed.
fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && File::open(&path).is_ok_and(|file| file.try_lock_shared().is_ok()) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Entries by which clients find a token. They are locked as long as this lives: who can lock one knows that its server has ended,
/// however it ended.
#[derive(Debug)]
pub struct Announcement {
    folder: PathBuf,
    entries: Vec<(PathBuf, File)>,
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // Without the lock entries stay behind, which the next server removes.
        let Ok(_turn) = turn(&self.folder) else { return };
        for (path, held) in &self.entries {
            // Another server may have taken the address since.
            let own = held.metadata().ok().zip(fs::symlink_metadata(path).ok());
            if own.is_some_and(|(own, there)| (own.dev(), own.ino()) == (there.dev(), there.ino())) {
                drop(fs::remove_file(path));
            }
        }
    }
}

/// The loopback addresses at which clients of this machine reach a listener.
fn reached_by(listener: SocketAddr) -> Vec<SocketAddr> {
    let hosts = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        IpAddr::V6(ip) if ip.is_unspecified() => vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()],
        ip if ip.is_loopback() => vec![ip],
        _ => Vec::new(),
    };
    hosts.into_iter().map(|host| SocketAddr::new(host, listener.port())).collect()
}

fn name(address: SocketAddr) -> String {
    format!("{}_{}", address.ip(), address.port())
}

/// Where the system keeps what lives as long as this user's session, the best place first.
fn runtime_directories() -> impl Iterator<Item = PathBuf> {
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    given.into_iter().chain([PathBuf::from(format!("/run/user/{}", nix::unistd::geteuid()))])
}

/// What takes its place where the system has none.
fn other_directory() -> PathBuf {
    std::env::temp_dir().join(format!("orlop-{}", nix::unistd::geteuid()))
}

fn made_directory() -> io::Result<PathBuf> {
    let directory = other_directory();
    make(&directory)?;
    prepared(&directory)
}

/// Makes a directory for this user alone, or finds that it is.
fn make(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => closed(path),
    }
}

/// The folder of entries below a runtime directory.
fn prepared(directory: &Path) -> io::Result<PathBuf> {
    closed(directory)?;
    let folder = directory.join("orlop");
    make(&folder)?;
    Ok(folder)
}

/// Refuses what is not a directory of this user alone.
fn closed(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::PermissionDenied, format!("{} is not this user's alone", path.display())))
}

/// A token that was found.
#[derive(Debug)]
pub struct FoundToken {
    /// The address that the server listens at.
    pub address: SocketAddr,
    /// The token.
    pub token: String,
}

/// The token of the server of this user that listens at a host and port of this machine now. A server that has ended is none,
/// for somebody else may have its port.
#[must_use]
pub fn find(host: &str, port: u16) -> Option<FoundToken> {
    let directories = runtime_directories().chain([other_directory()]);
    let folders = directories.filter(|directory| closed(directory).is_ok()).map(|path| path.join("orlop"));
    let folders: Vec<PathBuf> = folders.filter(|folder| closed(folder).is_ok()).collect();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let hosts: Vec<IpAddr> = match host.parse::<IpAddr>() {
        Ok(ip) if ip.is_loopback() => vec![ip],
        Err(_) if host.eq_ignore_ascii_case("localhost") => {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        }
        _ => Vec::new(),
    };
    let addresses = hosts.into_iter().map(|ip| SocketAddr::new(ip, port));
    addresses.into_iter().find_map(|address| folders.iter().find_map(|folder| find_in(folder, address)))
}

fn find_in(folder: &Path, address: SocketAddr) -> Option<FoundToken> {
    let entry = folder.join(name(address));
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(&entry).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let mut path = String::new();
    file.take(LONGEST).read_to_string(&mut path).ok()?;
    let token = read_private(Path::new(&path)).ok()?.trim().to_owned();
    Some(FoundToken { address, token })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_token_is_made_once_and_for_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let made = ClientToken::take_up(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(ClientToken::take_up(&path).unwrap().hash().matches(&made.hash()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = ClientToken::take_up(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600") && error.contains(FILE), "{error}");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(ClientToken::take_up(&path).is_err(), "that is no token");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(ClientToken::take_up(&path).is_err(), "a link leads elsewhere");
    }

    #[test]
    fn servers_that_begin_at_once_have_the_same_token() {
        for _ in 0..50 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(FILE);
            let tokens: Vec<ClientToken> = std::thread::scope(|threads| {
                let begun: Vec<_> = (0..4).map(|_| threads.spawn(|| ClientToken::take_up(&path).unwrap())).collect();
                begun.into_iter().map(|begun| begun.join().unwrap()).collect()
            });
            assert!(tokens.iter().all(|token| token.hash().matches(&tokens[0].hash())));
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_token_is_found_by_the_address_while_its_server_lives() {
        let dir = tempfile::tempdir().unwrap();
        let token = ClientToken::take_up(&dir.path().join(FILE)).unwrap();
        let run = dir.path().join("run");
        make(&run).unwrap();
        let folder = prepared(&run).unwrap();
        let address: SocketAddr = "127.0.0.1:7070".parse().unwrap();
        let found = || find_in(&folder, address).map(|found| found.token);
        assert_eq!(found(), None);
        let announced = token.announce_in(&folder, &[address, "0.0.0.0:7071".parse().unwrap()]).unwrap();
        assert_eq!(found().unwrap(), token.bearer.reveal());
        assert!(find_in(&folder, "127.0.0.1:7071".parse().unwrap()).is_some(), "it listens at all addresses");
        assert!(find_in(&folder, "[::1]:7070".parse().unwrap()).is_none(), "somebody else may be there");
        // Another server takes the address: the end of the first leaves its entry alone.
        let next = token.announce_in(&folder, &[address]).unwrap();
        drop(announced);
        assert!(found().is_some());
        drop(next);
        let left =
            || fs::read_dir(&folder).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != ".lock").count();
        assert_eq!((found(), left()), (None, 0));
        // A server that was killed: its entry stays until the next server starts, and nobody holds it.
        fs::write(folder.join(name(address)), token.path().to_str().unwrap()).unwrap();
        assert_eq!((found(), left()), (None, 1));
        let next = token.announce_in(&folder, &["127.0.0.1:1".parse().unwrap()]).unwrap();
        assert_eq!(left(), 1);
        drop(next);
    }

    #[test]
    fn entries_are_never_looked_for_in_a_directory_that_others_can_change() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(prepared(&open).is_err());
        let link = dir.path().join("link");
        let run = dir.path().join("run");
        make(&run).unwrap();
        std::os::unix::fs::symlink(&run, &link).unwrap();
        assert!(prepared(&link).is_err());
    }
}
