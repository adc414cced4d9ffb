//! Signing in: which cloud, from which of the sources of settings, as whom.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use orlop_cloud::catalog::site::{SITES, site_named};
use orlop_cloud::openstack::client::{HttpTransport, Session, SystemClock, open};
use orlop_cloud::openstack::credentials::{
    CredentialsError, Settings as CloudSettings, cloud_names, host_of as host, read_assignments, read_clouds,
    read_profile, read_secure, resolve,
};
use orlop_cloud::openstack::port::{Account, Clock as _, Cloud};
use orlop_cloud::provision::saga::{check_account, clock_offset};

use super::args::CloudArgs;
use super::ask;
use super::examine::Run;
use super::failure::Failure;
use super::settings::{Settings, text};

/// A site that one is signed in to.
pub(super) struct Site {
    pub(super) name: String,
    /// The cloud of clouds.yaml, if it is one.
    pub(super) entry: Option<String>,
    pub(super) auth_url: String,
    pub(super) account: Account,
    pub(super) cloud: Cloud,
    session: Arc<Session>,
}

impl Site {
    /// The time there, as far as it differs from the time here.
    pub(super) fn now(&self) -> Timestamp {
        let ahead = clock_offset(self.cloud.identity.clock_ahead());
        let millis = SystemClock.now().millis().saturating_add(ahead.saturating_mul(1000));
        Timestamp::from_millisecond(millis).unwrap_or_default()
    }

    /// What was asked of it so far: calls, and repeats among them.
    pub(super) fn asked(&self) -> (u32, u32) {
        use std::sync::atomic::Ordering::Relaxed;
        let meter = self.session.meter();
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        (small(meter.calls.load(Relaxed)), small(meter.repeats.load(Relaxed)))
    }
}

/// Where one can sign in, from all sources.
pub(super) struct Sources<'a> {
    args: &'a CloudArgs,
    settings: &'a Settings,
    openrc: CloudSettings,
    /// The file of clouds, and that of their secrets.
    clouds: Option<(PathBuf, String)>,
    secure: Option<(PathBuf, String)>,
    /// The file of profiles.
    public: Option<(PathBuf, String)>,
}

impl<'a> Sources<'a> {
    /// Reads the files.
    ///
    /// # Errors
    /// One that was named cannot be read.
    pub(super) fn read(args: &'a CloudArgs, settings: &'a Settings) -> Result<Self, Failure> {
        let named = args.openrc.clone().or_else(|| settings.path("OPENRC_PATH"));
        let openrc = match named {
            Some(path) => {
                let failed = |error: io::Error| Failure::usage(format!("--openrc {}: {error}", path.display()));
                CloudSettings::of(read_assignments(&text(&path).map_err(failed)?).values)
            }
            None => CloudSettings::default(),
        };
        let clouds = match settings.path("OS_CLIENT_CONFIG_FILE") {
            Some(path) => {
                let failed =
                    |error: io::Error| Failure::usage(format!("OS_CLIENT_CONFIG_FILE {}: {error}", path.display()));
                Some((path.clone(), text(&path).map_err(failed)?))
            }
            None => first_of(&["clouds.yaml", "clouds.yml"], settings)?,
        };
        let secure = match &clouds {
            Some((path, _)) => if_there(path.with_file_name("secure.yaml"))?,
            None => None,
        };
        let public = match &clouds {
            Some((path, _)) => match if_there(path.with_file_name("clouds-public.yaml"))? {
                None => first_of(&["clouds-public.yaml", "clouds-public.yml"], settings)?,
                found => found,
            },
            None => None,
        };
        Ok(Self { args, settings, openrc, clouds, secure, public })
    }

    /// The sites to use where none is named: of the settings, else the one configured cloud, else `uc`.
    pub(super) fn sites(&self, named: &[String]) -> Vec<String> {
        if !named.is_empty() {
            return named.to_vec();
        }
        if let Some(sites) = self.settings.get("DEFAULT_SITE") {
            return sites.split(',').map(|site| site.trim().to_owned()).filter(|site| !site.is_empty()).collect();
        }
        let entry = self.args.cloud.clone().or_else(|| self.settings.get("OS_CLOUD"));
        vec![entry.or_else(|| self.configured()).unwrap_or_else(|| "uc".to_owned())]
    }

    /// The one cloud that is configured without a name.
    fn configured(&self) -> Option<String> {
        let base = self.base();
        if let Some(url) = base.get("OS_AUTH_URL") {
            let known = SITES.iter().find(|site| host(site.auth_url) == host(url));
            let region = base.get("OS_REGION_NAME").map(str::to_ascii_lowercase);
            return known.map(|site| site.name.to_owned()).or(region).or_else(|| host(url));
        }
        let (file, text) = self.clouds.as_ref()?;
        let names = cloud_names(&file.display().to_string(), text).ok()?;
        match names.as_slice() {
            [one] => Some(one.clone()),
            _ => None,
        }
    }

    /// Settings of all sources but files of clouds.
    fn base(&self) -> CloudSettings {
        self.settings.of_cloud().over(&self.openrc)
    }

    fn entry(&self, name: &str) -> Result<Option<CloudSettings>, Failure> {
        let Some((file, text)) = &self.clouds else { return Ok(None) };
        let named = |path: &Path| path.display().to_string();
        let found = match read_clouds(&named(file), text, name) {
            Ok(found) => found,
            Err(CredentialsError::UnknownCloud { .. }) => return Ok(None),
            Err(error) => return Err(Failure::usage(error.to_string())),
        };
        let secret = match &self.secure {
            Some((file, text)) => {
                read_secure(&named(file), text, name).map_err(|error| Failure::usage(error.to_string()))?
            }
            None => CloudSettings::default(),
        };
        let found = secret.merged(&found);
        let Some((profile, (file, text))) = found.profile().zip(self.public.as_ref()) else { return Ok(Some(found)) };
        let profile = read_profile(&named(file), text, profile).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Some(profile.map_or(found.clone(), |profile| found.with_profile(&profile))))
    }

    /// What one signs in to a site with, and the name of its cloud in clouds.yaml.
    fn settings_of(&self, site: &str, entry: Option<&str>) -> Result<(CloudSettings, Option<String>), Failure> {
        let base = self.base();
        let flag = entry.map(str::to_owned).or_else(|| self.args.cloud.clone());
        let (mut found, entry) = if let Some(name) = flag {
            let missing = || Failure::usage(format!("cloud `{name}` is in no clouds.yaml"));
            (self.entry(&name)?.ok_or_else(missing)?.over(&base), Some(name.clone()))
        } else if let Some(own) = self.entry(site)? {
            (own.over(&base), Some(site.to_owned()))
        } else if let Some(name) = self.settings.get("OS_CLOUD") {
            let missing = || Failure::usage(format!("OS_CLOUD: cloud `{name}` is in no clouds.yaml"));
            (base.clone().over(&self.entry(&name)?.ok_or_else(missing)?), Some(name.clone()))
        } else {
            (base.clone(), None)
        };
        if found.get("OS_PASSWORD").is_none()
            && let Some(password) = base.get("OS_PASSWORD")
        {
            found.set("OS_PASSWORD", password);
        }
        if let Some(known) = site_named(site) {
            match found.get("OS_AUTH_URL") {
                Some(url) if host(url) != host(known.auth_url) => {
                    let words = format!("--site {site} is at {}, but OS_AUTH_URL is not", known.auth_url);
                    return Err(Failure::usage(words));
                }
                Some(_) => {}
                None => found.set("OS_AUTH_URL", known.auth_url),
            }
            if found.get("OS_REGION_NAME").is_none() {
                found.set("OS_REGION_NAME", known.region);
            }
        }
        Ok((found, entry))
    }

    /// Whether there is anything to sign in to a site with.
    pub(super) fn has(&self, site: &str) -> bool {
        let named = self.args.cloud.is_some() || self.args.openrc.is_some() || self.settings.get("OS_CLOUD").is_some();
        named || self.is_for(site)
    }

    /// Whether what there is to sign in with is for this site.
    pub(super) fn is_for(&self, site: &str) -> bool {
        let says_who = |found: &CloudSettings| {
            ["OS_USERNAME", "OS_USER_ID", "OS_APPLICATION_CREDENTIAL_SECRET", "OS_TOKEN"]
                .iter()
                .any(|name| found.get(name).is_some())
        };
        self.settings_of(site, None).is_ok_and(|(found, _)| says_who(&found))
    }

    /// Clouds of clouds.yaml, by name.
    pub(super) fn own(&self) -> Vec<String> {
        let names = self.clouds.as_ref().map(|(file, text)| cloud_names(&file.display().to_string(), text));
        names.and_then(Result::ok).unwrap_or_default()
    }

    /// Where one signs in to a site, and its region, as far as settings say.
    pub(super) fn place_of(&self, site: &str) -> (Option<String>, Option<String>) {
        let text = |found: &CloudSettings, name: &str| found.get(name).map(str::to_owned);
        match self.settings_of(site, None) {
            Ok((found, _)) => (text(&found, "OS_AUTH_URL"), text(&found, "OS_REGION_NAME")),
            Err(_) => (None, None),
        }
    }

    /// Signs in to a site. `entry` is the cloud of clouds.yaml that a deployment was made with.
    ///
    /// # Errors
    /// Settings are missing or contradict each other, the credential is refused, or the service cannot be reached.
    pub(super) async fn sign_in(&self, site: &str, entry: Option<&str>, run: &mut Run) -> Result<Site, Failure> {
        let (mut found, entry) = self.settings_of(site, entry)?;
        found.ignored().iter().for_each(|ignored| run.warn_once(ignored));
        if let Some(profile) = found.profile() {
            let name = entry.as_deref().unwrap_or(site);
            let missing = format!(
                "cloud `{name}` takes the rest from the profile `{profile}`, which is in no clouds-public.yaml"
            );
            if found.get("OS_AUTH_URL").is_none() {
                return Err(
                    Failure::usage(missing).hint("write its auth_url and region_name into the entry of clouds.yaml")
                );
            }
            run.warn_once(&missing);
        }
        let has_user = found.get("OS_USERNAME").is_some() || found.get("OS_USER_ID").is_some();
        let other_way = ["OS_APPLICATION_CREDENTIAL_SECRET", "OS_TOKEN", "OS_PASSWORD"];
        if has_user && !other_way.iter().any(|name| found.get(name).is_some()) && io::stdin().is_terminal() {
            let who = found.get("OS_USERNAME").or(found.get("OS_USER_ID")).unwrap_or_default().to_owned();
            found.set("OS_PASSWORD", ask::secret(&format!("password of {who} at {site}")).await?);
        }
        let credentials = resolve(&found).map_err(|error| Failure::usage(error.to_string()))?;
        let own = credentials.ca_file.as_ref().map(|file| self.settings.at_home(Path::new(file)));
        let file = self.args.ca_cert.clone().or(own);
        let authorities = match file {
            Some(path) => {
                let failed = |error: io::Error| Failure::usage(format!("--ca-cert {}: {error}", path.display()));
                Some(text(&path).map_err(failed)?.into_bytes())
            }
            None => None,
        };
        let auth_url = credentials.auth_url.clone();
        if credentials.is_readable {
            run.warn_once(&format!(
                "{auth_url} is not encrypted: the password and all tokens can be read on the network"
            ));
        }
        let transport = HttpTransport::new(authorities.as_deref())?;
        let (cloud, session) = open(credentials, Arc::new(transport), Arc::new(SystemClock));
        let account = cloud.identity.authenticate().await.map_err(|error| Failure::of_cloud(&error))?;
        check_account(&account)?;
        Ok(Site { name: site.to_owned(), entry, auth_url, account, cloud, session })
    }
}

/// A file with its text, if it is there: one that may not be read says who one is, and nobody else's word counts in its place.
fn if_there(path: PathBuf) -> Result<Option<(PathBuf, String)>, Failure> {
    match text(&path) {
        Ok(found) => Ok(Some((path, found))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(Failure::usage(format!("{}: {error}", path.display()))),
    }
}

/// The first file of these names that is there, in the places for it.
fn first_of(names: &[&str], settings: &Settings) -> Result<Option<(PathBuf, String)>, Failure> {
    let home = settings.get("HOME").map(|home| Path::new(&home).join(".config/openstack"));
    let places = [Some(PathBuf::from(".")), home, Some(PathBuf::from("/etc/openstack"))];
    for path in places.into_iter().flatten().flat_map(|place| names.iter().map(move |name| place.join(name))) {
        if let Some(found) = if_there(path)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
