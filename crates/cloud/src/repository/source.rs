//! Addresses of repositories: which are read, and which are refused. Opens none of them.
//!
//! ```
//! use orlop_cloud::repository::source::{Allow, Source};
//! let source = Source::parse("https://GitHub.com/orlop/orlop.git", Allow::default())?;
//! assert_eq!(source.short_name(), "orlop");
//! assert!(Source::parse("http://github.com/orlop/orlop", Allow::default()).is_err());
//! # Ok::<(), orlop_cloud::repository::source::Refusal>(())
//! ```

use std::fmt;
use std::path::PathBuf;

use url::{Host, Url};

/// Bytes an address may have.
const MAX_BYTES: usize = 2048;

/// Ways to a repository beyond public https.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allow {
    /// `ssh://` and `user@host:path`.
    pub ssh: bool,
    /// A folder of this machine.
    pub local: bool,
    /// Hosts whose names resolve to addresses that are not public.
    pub private_hosts: bool,
}

/// A repository that may be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Over https.
    Https(Url),
    /// Over ssh.
    Ssh(Url),
    /// A folder of this machine.
    Folder(PathBuf),
}

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nothing.
    #[error("the address of the repository is empty; name an https URL")]
    Empty,
    /// Too long.
    #[error("the address of the repository is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// Reads as an option.
    #[error("the address of the repository begins with `-`")]
    Option,
    /// Control characters or blanks.
    #[error("the address of the repository holds control characters or blanks")]
    Control,
    /// A transport helper of Git.
    #[error("the address of the repository holds `::`, which runs programs")]
    Helper,
    /// User name or password in the address.
    #[error("the address of the repository holds a user or password; use --git-token-env")]
    UserInfo,
    /// Another protocol.
    #[error("repositories are fetched over https only; see --allow-ssh-git and --allow-local")]
    Protocol,
    /// ssh without leave.
    #[error("repositories over ssh need --allow-ssh-git")]
    Ssh,
    /// A folder without leave.
    #[error("folders of this machine need --allow-local")]
    Local,
    /// No host or no path.
    #[error("the address of the repository is not a URL with a host and a path")]
    Malformed,
    /// A branch, tag or commit that is none.
    #[error("the ref is not the name of a branch, tag or commit")]
    Reference,
    /// A folder within the repository that leads out of it.
    #[error("--subdir must be a relative path inside the repository")]
    Subdir,
}

impl Source {
    /// Reads an address.
    ///
    /// # Errors
    /// Everything but https, and what `allow` adds.
    pub fn parse(text: &str, allow: Allow) -> Result<Self, Refusal> {
        check_text(text)?;
        if let Some((scheme, _)) = text.split_once("://") {
            return match scheme.to_ascii_lowercase().as_str() {
                "https" => Ok(Self::Https(checked(text, false)?)),
                "ssh" if allow.ssh => Ok(Self::Ssh(checked(text, true)?)),
                "ssh" => Err(Refusal::Ssh),
                _ => Err(Refusal::Protocol),
            };
        }
        if let Some(url) = scp_form(text) {
            return if allow.ssh { Ok(Self::Ssh(checked(&url, true)?)) } else { Err(Refusal::Ssh) };
        }
        let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        if scheme
            .is_some_and(|scheme| ["http", "https", "git", "file", "ftp", "ftps", "ssh"].contains(&scheme.as_str()))
        {
            return Err(Refusal::Protocol);
        }
        if text.contains("::") {
            return Err(Refusal::Helper);
        }
        if allow.local { Ok(Self::Folder(PathBuf::from(text))) } else { Err(Refusal::Local) }
    }

    /// The host, its port and the address as Git gets it; nothing for a folder.
    #[must_use]
    pub fn remote(&self) -> Option<&Url> {
        match self {
            Self::Https(url) | Self::Ssh(url) => Some(url),
            Self::Folder(_) => None,
        }
    }

    /// The address in one spelling, so that the same repository has the same name: host in lower case, no port of
    /// the protocol, no `/` and no `.git` at the end.
    #[must_use]
    pub fn normalised(&self) -> String {
        let text = self.to_string();
        let text = text.trim_end_matches('/');
        text.strip_suffix(".git").unwrap_or(text).to_owned()
    }

    /// The last part of the path, in letters, digits and `-`, for names of servers; `repo` if nothing is left.
    #[must_use]
    pub fn short_name(&self) -> String {
        let text = self.normalised().to_ascii_lowercase();
        let last = text.rsplit('/').next().unwrap_or_default();
        let mut name = String::new();
        for ch in last.chars() {
            match ch {
                'a'..='z' | '0'..='9' => name.push(ch),
                _ if name.is_empty() || name.ends_with('-') => {}
                _ => name.push('-'),
            }
        }
        name.truncate(40);
        let name = name.trim_matches('-');
        if name.is_empty() { "repo".to_owned() } else { name.to_owned() }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Https(url) | Self::Ssh(url) => f.write_str(url.as_str()),
            Self::Folder(path) => write!(f, "{}", path.display()),
        }
    }
}

fn check_text(text: &str) -> Result<(), Refusal> {
    if text.is_empty() {
        return Err(Refusal::Empty);
    }
    if text.len() > MAX_BYTES {
        return Err(Refusal::TooLong);
    }
    if text.starts_with('-') {
        return Err(Refusal::Option);
    }
    if text.chars().any(|ch| ch.is_control() || ch.is_whitespace() || is_invisible(ch)) {
        return Err(Refusal::Control);
    }
    // An address of version 6 in brackets is the only honest place of two colons.
    let outside = text.split_once('[').and_then(|(before, rest)| Some((before, rest.split_once(']')?.1)));
    let helper = match outside {
        Some((before, after)) => before.contains("::") || after.contains("::"),
        None => text.contains("::"),
    };
    if helper { Err(Refusal::Helper) } else { Ok(()) }
}

/// Characters without width or that turn the direction of writing.
pub(crate) fn is_invisible(ch: char) -> bool {
    matches!(ch, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{ad}' | '\u{e0000}'..='\u{e007f}')
}

fn checked(text: &str, user: bool) -> Result<Url, Refusal> {
    let mut url = Url::parse(text).map_err(|_| Refusal::Malformed)?;
    if url.password().is_some() || (!user && !url.username().is_empty()) {
        return Err(Refusal::UserInfo);
    }
    let dashed = |part: &str| part.starts_with('-');
    let host_is_fine = match url.host() {
        Some(Host::Domain(name)) => {
            !dashed(name) && !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
        }
        Some(_) => true,
        None => false,
    };
    if !host_is_fine || url.path().trim_matches('/').is_empty() || dashed(url.username()) {
        return Err(Refusal::Malformed);
    }
    if url.path().split('/').any(|part| dashed(part) && !user && part.starts_with("--")) {
        return Err(Refusal::Option);
    }
    if url.path().starts_with("/-") && user {
        return Err(Refusal::Option);
    }
    url.set_fragment(None);
    url.set_query(None);
    Ok(url)
}

/// `user@host:path` as a URL.
fn scp_form(text: &str) -> Option<String> {
    let (left, path) = text.split_once(':')?;
    let (user, host) = left.split_once('@')?;
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    (plain(user) && plain(host)).then(|| format!("ssh://{user}@{host}/{}", path.trim_start_matches('/')))
}

/// Checks the name of a branch, tag or commit, `HEAD` included.
///
/// # Errors
/// What Git would refuse, what reads as an option or as a refspec, and anything over 255 bytes.
pub fn check_reference(name: &str) -> Result<(), Refusal> {
    let strange = |ch: char| ch.is_control() || ch.is_whitespace() || "~^:?*[\\".contains(ch) || is_invisible(ch);
    let bad_part = |part: &str| part.is_empty() || part.starts_with(['.', '-']) || part.ends_with(".lock");
    let bad = name.is_empty()
        || name.len() > 255
        || name.starts_with(['-', '+'])
        || name.ends_with('.')
        || name.contains("..")
        || name.contains("@{")
        || name == "@"
        || name.chars().any(strange)
        || name.split('/').any(bad_part);
    if bad { Err(Refusal::Reference) } else { Ok(()) }
}

/// Checks the folder within the repository that is to be looked at, and returns it without empty parts.
///
/// # Errors
/// Absolute paths, `..`, control characters.
pub fn check_subdir(path: &str) -> Result<String, Refusal> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let bad = path.starts_with('/')
        || path.len() > 1024
        || path.chars().any(char::is_control)
        || parts.iter().any(|part| *part == ".." || part.contains('\\'));
    if bad { Err(Refusal::Subdir) } else { Ok(parts.join("/")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Allow = Allow { ssh: true, local: true, private_hosts: true };

    #[test]
    fn https_is_allowed_by_itself() {
        for text in [
            "https://github.com/a/b",
            "HTTPS://github.com/a/b.git",
            "https://git.example:8443/x",
            "https://[2606:4700::1111]/a",
        ] {
            assert!(matches!(Source::parse(text, Allow::default()), Ok(Source::Https(_))), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let cases = [
            ("", Refusal::Empty),
            ("http://github.com/a/b", Refusal::Protocol),
            ("git://github.com/a/b", Refusal::Protocol),
            ("file:///etc/passwd", Refusal::Protocol),
            ("file:etc", Refusal::Protocol),
            ("ext::sh -c id", Refusal::Control),
            ("ext::sh", Refusal::Helper),
            ("EXT::https://a/b", Refusal::Helper),
            ("https::https://a/b", Refusal::Helper),
            ("https://a/[x]::b", Refusal::Helper),
            ("fd::7", Refusal::Helper),
            ("x[ext::sh]", Refusal::Helper),
            ("--upload-pack=id", Refusal::Option),
            ("-oProxyCommand=id", Refusal::Option),
            ("https://github.com/a\nb", Refusal::Control),
            ("https://github.com/a\u{202e}b", Refusal::Control),
            ("https://user:pw@github.com/a/b", Refusal::UserInfo),
            ("https://token@github.com/a/b", Refusal::UserInfo),
            ("https://-evil/a/b", Refusal::Malformed),
            ("https:///", Refusal::Malformed),
            ("https://github.com", Refusal::Malformed),
            ("https://github.com/--upload-pack=x", Refusal::Option),
            ("ssh://git@github.com/a/b", Refusal::Ssh),
            ("git@github.com:a/b", Refusal::Ssh),
            ("/srv/repo", Refusal::Local),
            ("../repo", Refusal::Local),
            ("data:text/plain,x", Refusal::Local),
            ("ftp://a/b", Refusal::Protocol),
        ];
        for (text, refusal) in cases {
            assert_eq!(Source::parse(text, Allow::default()), Err(refusal), "{text}");
        }
        assert_eq!(Source::parse(&format!("https://a/{}", "b".repeat(2048)), ALL), Err(Refusal::TooLong));
    }

    #[test]
    fn leave_adds_ssh_and_folders_and_nothing_more() {
        let ssh = Source::parse("git@github.com:a/b.git", ALL).unwrap();
        assert_eq!(ssh.remote().unwrap().as_str(), "ssh://git@github.com/a/b.git");
        assert!(matches!(Source::parse("ssh://git@github.com/a/b", ALL), Ok(Source::Ssh(_))));
        assert!(matches!(Source::parse("./here", ALL), Ok(Source::Folder(_))));
        for (text, refusal) in [
            ("ssh://-oProxyCommand=id/x", Refusal::Malformed),
            ("ssh://git:pw@host/x", Refusal::UserInfo),
            ("ssh://-x@host/x", Refusal::Malformed),
            ("git@host:-x", Refusal::Option),
            ("file:///etc", Refusal::Protocol),
            ("http://a/b", Refusal::Protocol),
            ("ext::id", Refusal::Helper),
            ("-x", Refusal::Option),
        ] {
            assert_eq!(Source::parse(text, ALL), Err(refusal), "{text}");
        }
    }

    #[test]
    fn the_same_repository_has_one_spelling_and_a_short_name() {
        let of = |text: &str| Source::parse(text, ALL).unwrap();
        let same = [
            "https://GitHub.com/A/b",
            "https://github.com:443/A/b.git",
            "https://github.com/A/b/",
            "https://github.com/A/b?x#y",
        ];
        assert!(same.iter().all(|text| of(text).normalised() == "https://github.com/A/b"));
        assert_eq!(of("https://github.com/a/My_Repo..git").short_name(), "my-repo");
        assert_eq!(of("https://github.com/a/%E2%82%AC").short_name(), "e2-82-ac");
        assert_eq!(of("https://github.com/a/___").short_name(), "repo");
    }

    #[test]
    fn refs_and_subfolders_cannot_be_options_or_lead_out() {
        for name in ["HEAD", "main", "feature/x-1", "v1.2.3", "0f8fad5bd9cb469fa16570867728950e0f8fad5b"] {
            assert_eq!(check_reference(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "-x",
            "--upload-pack=id",
            "+main",
            "a:b",
            "a b",
            "a..b",
            "a^",
            "a~1",
            "@",
            "a@{1}",
            "x.lock",
            ".x",
            "a//b",
            "a/-b",
            "a\n",
            "*",
        ] {
            assert_eq!(check_reference(name), Err(Refusal::Reference), "{name}");
        }
        assert_eq!(check_subdir("./a//b/"), Ok("a/b".to_owned()));
        assert_eq!(check_subdir(""), Ok(String::new()));
        for path in ["/etc", "..", "a/../../b", "a\0b", "a\\..\\b/..\\c"] {
            assert_eq!(check_subdir(path), Err(Refusal::Subdir), "{path}");
        }
    }

    #[test]
    fn messages_say_what_to_do() {
        let error = Source::parse("https://token@github.com/a/b", ALL).unwrap_err();
        insta::assert_snapshot!(error, @"the address of the repository holds a user or password; use --git-token-env");
        assert_eq!(Refusal::TooLong.to_string(), "the address of the repository is longer than 2048 bytes");
    }
}
