//! What stands on disk of a run over several sites: where it is, which deployment it began there, and how it was asked for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use orlop_cloud::exit::Exit;
use orlop_cloud::provision::keep::write_private;
use orlop_cloud::provision::mark::DeploymentId;
use orlop_cloud::provision::name::check_server_name;
use orlop_cloud::provision::sites::SiteRun;
use orlop_core::error::Class;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::args::{ApplyArgs, Verb};
use super::failure::Failure;
use super::watch::WatchedHosts;

/// Bytes of a record that are read.
const MAX_RECORD: u64 = 4 << 20;
/// The version of the form.
const SCHEMA: &str = "orlop.provisioner.way/1";

/// A run over several sites.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    schema: String,
    /// The server's name.
    pub(super) name: String,
    /// The arguments of `apply`, as they were given, and in which folder.
    args: Vec<String>,
    folder: PathBuf,
    /// What was asked for, in words.
    pub(super) request: Value,
    /// Its sites, and where among them it is.
    #[serde(flatten)]
    pub(super) run: SiteRun,
    /// The deployment that was begun there, if one was.
    pub(super) deployment: Option<DeploymentId>,
    /// Where a host is waited for.
    #[serde(default)]
    pub(super) places: BTreeMap<String, Vec<WatchedHosts>>,
}

impl Record {
    /// A run of `apply` that was begun with these arguments.
    pub(super) fn new(args: &[String], name: &str, request: &Value) -> Self {
        let folder = std::env::current_dir().unwrap_or_default();
        let (args, name, request) = (args.to_vec(), name.to_owned(), request.clone());
        Self { schema: SCHEMA.to_owned(), name, args, folder, request, ..Self::default() }
    }

    fn path(state_dir: &Path, name: &str) -> PathBuf {
        state_dir.join("ways").join(format!("{name}.json"))
    }

    /// The record of a run that is not over.
    ///
    /// # Errors
    /// There is one that cannot be read.
    pub(super) fn read(state_dir: &Path, name: &str) -> Result<Option<Self>, Failure> {
        use io::Read as _;
        if check_server_name(name).is_err() {
            return Ok(None);
        }
        let path = Self::path(state_dir, name);
        let failed = |what: String| {
            let message = format!("{}: where the run was cannot be read: {what}", path.display());
            let hint =
                "look with list and list --remote at what there is, then remove that file to begin at the first site";
            Failure::new(Exit::Failed, Class::Fatal, "way_damaged", message).hint(hint)
        };
        let mut text = String::new();
        match fs::File::open(&path) {
            Ok(file) => file.take(MAX_RECORD).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error.to_string())),
        };
        let record: Self = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        if record.schema != SCHEMA {
            return Err(failed(format!("its schema is not {SCHEMA}")));
        }
        Ok(Some(record))
    }

    /// Writes it down, before what it tells is done.
    ///
    /// # Errors
    /// The disk refuses; then nothing may be begun.
    pub(super) fn write(&self, state_dir: &Path) -> Result<(), Failure> {
        let path = Self::path(state_dir, &self.name);
        let written = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(state_dir.join("ways"))
            .and_then(|()| serde_json::to_vec_pretty(self).map_err(io::Error::other))
            .and_then(|bytes| write_private(&path, &bytes));
        written.map_err(|error| {
            let message = format!("cannot record, nothing was requested: {}: {error}", path.display());
            Failure::new(Exit::Failed, Class::Fatal, "journal", message)
        })
    }

    /// Whether a deployment is the last one of this run.
    pub(super) fn holds(&self, id: &DeploymentId) -> bool {
        self.deployment.as_ref().is_none_or(|own| own == id)
    }

    /// Forgets a run that is over.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn remove(state_dir: &Path, name: &str) -> io::Result<()> {
        if check_server_name(name).is_err() {
            return Ok(());
        }
        match fs::remove_file(Self::path(state_dir, name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// What was asked for, for another process to go on with.
    ///
    /// # Errors
    /// The arguments are none of `apply`: another version wrote them.
    pub(super) fn arguments(&self) -> Result<Box<ApplyArgs>, Failure> {
        let given = std::iter::once("orlop-provisioner".into()).chain(self.args.iter().map(OsString::from)).collect();
        let Ok(Verb::Apply(mut args)) = super::parse(given).map(|cli| cli.verb) else {
            let message = format!("the run of {} was started by a version with other arguments", self.name);
            return Err(Failure::usage(message).hint("run apply again, with the arguments of this version"));
        };
        args.go_on(&self.folder, &self.name, self.run.sites());
        Ok(args)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use orlop_core::time::Time;

    use super::*;

    fn record(args: &[&str]) -> Record {
        let args = args.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let sites = vec!["one".to_owned(), "two".to_owned()];
        let run = SiteRun::new(sites, 0, Duration::ZERO, Time::EPOCH);
        Record { folder: "/begun/here".into(), run, ..Record::new(&args, "demo", &Value::Null) }
    }

    #[test]
    fn a_run_is_read_as_it_was_written_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(folder.path(), "demo").unwrap(), None);
        let mut written = record(&["apply"]);
        written.run.go_to("two");
        written.write(folder.path()).unwrap();
        assert_eq!(Record::read(folder.path(), "demo").unwrap(), Some(written));
        let stored: Value = serde_json::from_slice(&fs::read(folder.path().join("ways/demo.json")).unwrap()).unwrap();
        assert_eq!(stored["sites"], serde_json::json!(["one", "two"]), "as versions before wrote it");
        assert_eq!((&stored["at"], &stored["tried"], &stored["waits"]), (&"two".into(), &0.into(), &false.into()));
        assert_eq!(Record::read(folder.path(), "../demo").unwrap(), None, "no name, no path");
        fs::write(folder.path().join("ways/demo.json"), b"{").unwrap();
        let damaged = Record::read(folder.path(), "demo").unwrap_err();
        assert_eq!(damaged.code, "way_damaged");
        for _ in 0..2 {
            Record::remove(folder.path(), "demo").unwrap();
        }
        assert_eq!(Record::read(folder.path(), "demo").unwrap(), None);
    }

    #[test]
    fn who_goes_on_asks_for_the_same_from_any_folder() {
        let args =
            ["--repo", "./r", "--allow-local", "--new", "--key-path", "k.pub", "--output-dir", "/out", "--cpu", "8"];
        let again = record(&args).arguments().unwrap();
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(again.source.repo.as_deref(), Some("/begun/here/./r"));
        assert_eq!(
            (again.run.key_path.clone(), again.paths.output_dir.clone()),
            (path("/begun/here/k.pub"), "/out".into())
        );
        assert_eq!(
            (again.run.new, again.run.server_name.as_deref()),
            (false, Some("demo")),
            "it is the same deployment"
        );
        assert_eq!((again.hardware.cpu, again.hardware.site.len()), (Some(8), 2));
        let remote = record(&["apply", "--repo", "https://h/r"]).arguments().unwrap();
        assert_eq!(remote.source.repo.as_deref(), Some("https://h/r"));
        assert!(record(&["destroy", "x"]).arguments().is_err());
    }

    /// Files of the one that goes on, which its own flags name.
    const OWN: [&str; 5] = ["openrc", "ca-cert", "env-file", "state-dir", "log-file"];

    #[test]
    fn every_file_of_a_run_is_found_from_any_folder() {
        use clap::CommandFactory as _;
        let cli = crate::host::provisioner::program::args::Cli::command();
        let apply = cli.find_subcommand("apply").expect("a verb");
        let is_path = |arg: &&clap::Arg| arg.get_value_parser().type_id() == std::any::TypeId::of::<PathBuf>();
        let flags: Vec<&str> = apply.get_arguments().filter(is_path).filter_map(clap::Arg::get_long).collect();
        assert!(flags.len() > 10, "{flags:?}");
        for flag in flags {
            let again = record(&["--repo", "https://h/r", &format!("--{flag}"), "near"]).arguments();
            let again = again.unwrap_or_else(|failure| panic!("--{flag}: {failure}"));
            let reported = format!("{again:?}");
            assert!(reported.contains("/begun/here/near") != OWN.contains(&flag), "--{flag}: {reported}");
        }
    }
}
