//! Releases are signed, and who checks one sees any change to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAMS: [&str; 2] = ["orlop", "orlop-helper"];
/// The program under the names of its roles.
const LINKS: [&str; 4] = ["orlop-scheduler", "orlop-worker", "orlop-operator", "orlop-provisioner"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn release(args: &[&str]) -> Output {
    Command::new(root().join("scripts/release")).args(args).output().expect("the script runs")
}

/// Keys of two people; none, and said so, where nobody can make any.
fn keys(dir: &Path) -> Option<[String; 2]> {
    if Command::new("ssh-keygen").arg("-?").output().is_err() {
        println!("skipped: ssh-keygen is not here; Debian's openssh-client has it");
        return None;
    }
    Some(["ours", "theirs"].map(|name| {
        let key = dir.join(name).display().to_string();
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", &key]).status();
        assert!(made.expect("it runs").success());
        key
    }))
}

#[test]
fn a_release_is_signed_the_same_programs_give_the_same_bytes_and_any_change_is_seen() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let Some([ours, theirs]) = keys(dir.path()) else { return };
    fs::create_dir(path("programs")).expect("a directory");
    for name in PROGRAMS {
        fs::copy("/bin/true", dir.path().join("programs").join(name)).expect("any small program");
    }
    let public = |key: &str| fs::read_to_string(format!("{key}.pub")).expect("a public key");
    fs::write(path("signers"), format!("orlop {}", public(&ours))).expect("a file");
    let made = |key: &str, out: &str| {
        let output = release(&["--key", key, "--out", &path(out), "--programs", &path("programs")]);
        assert!(output.status.success(), "{output:?}");
        PathBuf::from(String::from_utf8(output.stdout).expect("text").trim())
    };
    let check = |out: &str| {
        let output = release(&["--verify", &path(out), "--signers", &path("signers")]);
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let archive = made(&ours, "one");
    assert_eq!(check("one"), (Some(0), "signed by orlop\n".to_owned()));
    assert_eq!(fs::read(&archive).expect("bytes"), fs::read(made(&ours, "two")).expect("bytes"));
    let listed = Command::new("tar").arg("-tvzf").arg(&archive).output().expect("tar runs").stdout;
    let listed = String::from_utf8(listed).expect("text");
    for program in PROGRAMS {
        assert!(
            listed.lines().any(|line| line.starts_with("-rwxr-xr-x 0/0") && line.ends_with(&format!("/bin/{program}")))
        );
    }

    let symbols = fs::read_dir(path("one")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let symbols = symbols.filter(|path| path.to_string_lossy().ends_with("-symbols.tar.gz")).collect::<Vec<_>>();
    let listed_symbols = Command::new("tar").arg("-tzf").args(&symbols).output().expect("tar runs").stdout;
    let listed_symbols = String::from_utf8(listed_symbols).expect("text");
    for program in PROGRAMS {
        assert!(listed_symbols.contains(&format!("/{program}.debug")), "{listed_symbols}");
    }
    for link in LINKS {
        assert!(listed.lines().any(|line| line.starts_with('l') && line.ends_with(&format!("/bin/{link} -> orlop"))));
    }

    made(&theirs, "three");
    let (code, said) = check("three");
    assert!(code == Some(1) && said.contains("is signed by nobody"), "{said}");
    let mut bytes = fs::read(&archive).expect("bytes");
    bytes[99] ^= 1;
    fs::write(&archive, bytes).expect("it is written");
    let (code, said) = check("one");
    assert!(code == Some(1) && said.contains("is not the one that orlop signed"), "{said}");
    // Sums that fit what was changed are not what was signed.
    let sums = Command::new("sha256sum").arg(archive.file_name().expect("a name")).current_dir(path("one")).output();
    fs::write(dir.path().join("one/SHA256SUMS"), sums.expect("it runs").stdout).expect("it is written");
    let (code, said) = check("one");
    assert!(code == Some(1) && said.contains("is not what orlop signed"), "{said}");
    fs::remove_file(dir.path().join("one/SHA256SUMS.sig")).expect("it goes");
    let (code, said) = check("one");
    assert!(code == Some(1) && said.contains("not a signed release"), "{said}");
    assert_eq!(release(&["--key", &ours]).status.code(), Some(2));
}
