//! The key of a deployment: which one, from where, and a new pair if that is asked for.

use std::io;
use std::path::{Path, PathBuf};

use orlop_cloud::provision::keypair::{KeyPair, PublicKey};
use orlop_cloud::provision::mark::DeploymentId;
use orlop_cloud::provision::order::KeyOrder;
use orlop_cloud::provision::prepare::check_key;

use super::args::{PathArgs, RunArgs};
use super::failure::Failure;
use super::settings::{Settings, text};
use super::sign_in::Site;

/// The key, before anything is made.
pub(super) struct Keys {
    /// What is carried out; a pair that is made is put in by `make`.
    pub(super) order: KeyOrder,
    /// The private half on this machine, if it is known.
    pub(super) file: Option<PathBuf>,
    /// What people should know.
    pub(super) warnings: Vec<String>,
    /// The digest of the private half of a pair that is made.
    pub(super) digest: Option<String>,
    /// Where a pair is made.
    makes: Option<PathBuf>,
    pair: Option<KeyPair>,
}

impl Keys {
    /// Looks at flags, files and the cloud.
    ///
    /// # Errors
    /// There is no key and none can be imported, it is another one than the file that was named, or the cloud cannot be asked.
    pub(super) async fn look(
        args: &RunArgs,
        paths: &PathArgs,
        settings: &Settings,
        id: &DeploymentId,
        site: &Site,
    ) -> Result<Self, Failure> {
        let own = || args.create_key.then(|| id.marks().key_name());
        let named = args.key_name.clone().or_else(own).or_else(|| settings.get("DEFAULT_KEY_NAME"));
        let name = named.unwrap_or_else(|| "my-key".to_owned());
        if name.is_empty() || !name.chars().all(|ch| ch.is_ascii_alphanumeric() || ch == '-' || ch == '_') {
            return Err(Failure::usage(format!("--key-name `{name}` must be letters, digits, `-` and `_`")));
        }
        let found = match site.cloud.compute.keypair(&name).await {
            Ok(pair) => Some(pair),
            Err(error) if error.is_gone() => None,
            Err(error) => return Err(Failure::of_cloud(&error)),
        };
        let (mut public_key, mut file, mut options) = (None, None, None);
        if !args.create_key {
            let home = || settings.get("HOME").map(|home| Path::new(&home).join(".ssh/id_rsa.pub"));
            let other = || settings.path("DEFAULT_KEY_PATH").or_else(home);
            if let Some(path) = args.key_path.as_deref().map(|path| settings.at_home(path)).or_else(other) {
                let found = read_public(&path, args.key_path.is_some())?;
                options = found.as_ref().is_some_and(|found| found.has_options).then(|| without_options(&path));
                public_key = found.map(|found| found.line);
                let private = path.with_extension("");
                file = private.is_file().then_some(private).filter(|_| public_key.is_some());
            }
        }
        let order = KeyOrder { name: name.clone(), public_key, must_match: args.key_path.is_some(), made_file: None };
        let makes = (args.create_key && found.is_none()).then(|| paths.output_dir.join(format!("{name}.pem")));
        if let Some(path) = &makes
            && path.symlink_metadata().is_ok()
        {
            return Err(exists(path));
        }
        let warning = if makes.is_some() { None } else { check_key(&order, found.as_ref())? };
        let file = file.filter(|_| warning.is_none());
        let warnings = warning.into_iter().chain(options).collect();
        let file = file.map(|file| std::path::absolute(&file).unwrap_or(file));
        Ok(Self { order, file, warnings, digest: None, makes, pair: None })
    }

    /// The key that is carried out; a pair is made now if that was asked for, and kept nowhere yet.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn make(&mut self) -> Result<KeyOrder, Failure> {
        let Some(path) = &self.makes else { return Ok(self.order.clone()) };
        let pair = KeyPair::make(&self.order.name).map_err(|error| unwritable(path, &error))?;
        let whole = std::path::absolute(path).map_err(|error| unwritable(path, &error))?;
        self.file = Some(whole.clone());
        self.order.public_key = Some(pair.public_key.clone());
        self.order.made_file = Some(whole.display().to_string());
        self.digest = Some(pair.digest());
        self.pair = Some(pair);
        Ok(self.order.clone())
    }

    /// Writes the private half, if a pair was made: only once it stands in the state directory that there will be such a file.
    ///
    /// # Errors
    /// The file already exists, or cannot be written.
    pub(super) fn save(&self) -> Result<(), Failure> {
        let Some((pair, path)) = self.pair.as_ref().zip(self.file.as_ref()) else { return Ok(()) };
        pair.save(path).map_err(|error| unwritable(path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => Failure::usage(format!("the private key {} cannot be written: {error}", path.display())),
    }
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!("the private key {} already exists; it is never overwritten", path.display()))
        .hint("choose another --key-name or --output-dir")
}

/// The public key of a file; nothing if it is not there and nobody named it.
fn read_public(path: &Path, is_named: bool) -> Result<Option<PublicKey>, Failure> {
    let failed = |what: String| Failure::usage(format!("the public key {}: {what}", path.display()));
    let found = match text(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => return Ok(None),
        Err(error) => return Err(failed(error.to_string())),
    };
    if found.contains("PRIVATE KEY") {
        return Err(failed("it holds a private key; name the file that ends in .pub".to_owned()));
    }
    let key = PublicKey::read(&found).ok_or_else(|| failed("it holds no public key of SSH".to_owned()))?;
    Ok(Some(key))
}

fn without_options(path: &Path) -> String {
    format!("the options before the public key in {} are left out: a cloud takes the key alone", path.display())
}
