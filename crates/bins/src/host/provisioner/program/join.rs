//! The fleet that a machine joins, and what it runs first besides: from flags, settings and a saved plan.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_cloud::provision::join::{BadJoin, Join, JoinOrder, MAX_USER_DATA, Token, fits};
use orlop_cloud::provision::plan::SavedPlan;

use super::args::{ApplyArgs, JoinArgs};
use super::failure::Failure;
use super::settings::{Settings, text};

/// What a machine runs first.
pub(super) struct FleetJoin {
    /// What the user wants it to run, in base64.
    pub(super) own: Option<String>,
    /// The fleet that it joins.
    pub(super) join: Option<JoinOrder>,
}

impl FleetJoin {
    /// As flags, settings and the saved plan say; nothing was asked of a cloud before.
    ///
    /// # Errors
    /// Something is missing or cannot be read, or it is more than a server takes.
    pub(super) fn read(args: &ApplyArgs, settings: &Settings, saved: Option<&SavedPlan>) -> Result<Self, Failure> {
        let own = args.run.user_data.as_deref().map(user_data).transpose()?;
        let planned = saved.and_then(|saved| saved.join.clone());
        let file = args.run.join_token_file.as_deref();
        let join = match (join(&args.join, settings)?.or(planned), file) {
            (None, None) => return Ok(Self { own, join: None }),
            (None, Some(_)) => return Err(Failure::usage("--join-token-file needs --join URL")),
            (Some(_), None) => {
                let hint = "plan prints the command that makes a token for one machine";
                return Err(Failure::usage("a machine that joins a fleet needs --join-token-file FILE").hint(hint));
            }
            (Some(join), Some(file)) => (join, file),
        };
        let (join, file) = join;
        let join = Join::new(join.server, join.worker_url, join.worker_sha256).map_err(|error| wrong(&error))?;
        let file = std::path::absolute(file).map_err(|error| Failure::usage(format!("--join-token-file: {error}")))?;
        Ok(Self { own, join: Some(JoinOrder { join, token_file: file.display().to_string() }) })
    }

    /// Looks whether the token is there and all of it is no more than a server takes. Anyone who goes on with a server that is made
    /// already needs neither.
    ///
    /// # Errors
    /// The token cannot be read or is none, or it is too much.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Some(order) = &self.join else { return Ok(()) };
        let token = token(Path::new(&order.token_file)).map_err(Failure::usage)?;
        fits(order, self.own.as_deref(), &token).map_err(|error| Failure::usage(error.message))
    }
}

fn wrong(error: &BadJoin) -> Failure {
    Failure::usage(format!("--join: {error}"))
}

/// The fleet that is named, and where its program of a worker comes from.
///
/// # Errors
/// The program's address or digest is missing or wrong.
pub(super) fn join(args: &JoinArgs, settings: &Settings) -> Result<Option<Join>, Failure> {
    let Some(server) = args.join.clone() else {
        let is_stray = args.worker_url.is_some() || args.worker_sha256.is_some();
        return if is_stray {
            Err(Failure::usage("--worker-url and --worker-sha256 need --join URL"))
        } else {
            Ok(None)
        };
    };
    let set = |name: &'static str| settings.get(name).map(|value| (name, value));
    let named = |name: &str, error: BadJoin| Failure::usage(format!("{name}: {error}"));
    let url = match (args.worker_url.clone(), set("ORLOP_JOIN_WORKER_URL")) {
        (Some(url), _) => Some(url),
        (None, set) => set.map(|(name, text)| text.parse().map_err(|error| named(name, error))).transpose()?,
    };
    let digest = match (args.worker_sha256.clone(), set("ORLOP_JOIN_WORKER_SHA256")) {
        (Some(digest), _) => Some(digest),
        (None, set) => set.map(|(name, text)| text.parse().map_err(|error| named(name, error))).transpose()?,
    };
    let (Some(url), Some(digest)) = (url, digest) else {
        return Err(Failure::usage(
            "--join needs the program of a worker: give --worker-url URL and --worker-sha256 HEX",
        ));
    };
    Join::new(server, url, digest).map(Some).map_err(|error| wrong(&error))
}

/// The token of a file.
///
/// # Errors
/// It cannot be read or holds none, in words without its text.
pub(super) fn token(file: &Path) -> Result<Token, String> {
    let shown = file.display();
    let found = text(file).map_err(|error| format!("cannot read the join token in {shown}: {error}"))?;
    Token::read(&found).map_err(|error| format!("{shown}: {error}"))
}

fn user_data(path: &Path) -> Result<String, Failure> {
    let failed = |what: String| Failure::usage(format!("--user-data {}: {what}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(MAX_USER_DATA as u64 + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    let encoded = STANDARD.encode(&bytes);
    if encoded.len() > MAX_USER_DATA {
        return Err(failed("it is longer than 64 KiB once it is encoded".to_owned()));
    }
    Ok(encoded)
}
