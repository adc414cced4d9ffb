//! The repository and the model: from arguments to what the library is asked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use orlop_cloud::analyze::advice::is_tainted;
use orlop_cloud::llm::{self, AdvisorSession, AdvisorUsage, Mode, Record};
use orlop_cloud::repository::git::{Options, Proxies};
use orlop_cloud::repository::{Allow, Source};
use orlop_core::ports::advisor::Advisor;

use super::super::{RepositoryAnalysis, Wanted, analyze_repository, obtain};
use super::args::{AdviceArgs, Llm, SourceArgs};
use super::failure::Failure;
use super::settings::Settings;

/// What a run leaves beside its result.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) warnings: Vec<String>,
    pub(super) account: AdvisorUsage,
    /// What was asked of each site: calls, and repeats among them.
    asked: BTreeMap<String, (u32, u32)>,
}

impl Run {
    /// What was asked of a site so far: calls, and repeats among them.
    pub(super) fn count(&mut self, site: &str, asked: (u32, u32)) {
        self.asked.insert(site.to_owned(), asked);
    }

    /// Takes over a warning that may have been reported before.
    pub(super) fn warn_once(&mut self, warning: &str) {
        if !self.warnings.iter().any(|known| known == warning) {
            self.warnings.push(warning.to_owned());
        }
    }

    /// What was asked of all sites together.
    pub(super) fn asked(&self) -> (u32, u32) {
        let add = |sum: (u32, u32), one: &(u32, u32)| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1));
        self.asked.values().fold((0, 0), add)
    }
}

/// Obtains the repository and finds out what it needs.
pub(super) async fn examine(
    wanted: &Wanted,
    advisor: &mut AdvisorSession<'_>,
    run: &mut Run,
) -> Result<RepositoryAnalysis, Failure> {
    let scan = obtain(wanted).await?;
    run.warnings.extend(scan.warnings.iter().cloned());
    let survey = analyze_repository(scan, advisor).await?;
    let requirements = &survey.rules.requirements;
    if is_tainted(requirements)
        && let Some(flag) = requirements.flags.first()
    {
        run.warnings.push(format!("{flag}; such lines were not used"));
    }
    Ok(survey)
}

/// Which repository is looked at, and how it may be had.
///
/// # Errors
/// None is named, or it is refused.
pub(super) fn wanted(
    args: &SourceArgs,
    ca_file: Option<&Path>,
    settings: &Settings,
    state: &Path,
) -> Result<Wanted, Failure> {
    let missing = || Failure::usage("no repository is given: use --repo");
    let repo = args.repo.as_deref().ok_or_else(missing)?;
    let allow = Allow { ssh: args.allow_ssh_git, local: args.allow_local, private_hosts: args.allow_private_hosts };
    let token = match &args.git_token_env {
        None => None,
        Some(name) => {
            let missing = || Failure::usage(format!("--git-token-env: {name} is not set"));
            Some(settings.get(name).ok_or_else(missing)?)
        }
    };
    let options = Options {
        private_hosts: args.allow_private_hosts,
        ca_file: ca_file.map(Path::to_owned),
        proxies: Proxies::read(|name| std::env::var(name).ok()),
        ..Options::new(state.to_owned())
    };
    Ok(Wanted {
        source: Source::parse(repo, allow)?,
        reference: args.reference.clone(),
        subdir: args.subdir.clone(),
        token,
        options,
    })
}

/// Who is asked for advice, and where that is recorded.
pub(super) struct Model {
    client: Option<llm::Client>,
    mode: Mode,
    identity: String,
    name: String,
    record: Option<PathBuf>,
    known: Record,
}

impl Model {
    /// As settings and flags say.
    ///
    /// # Errors
    /// They contradict each other.
    pub(super) fn new(args: &AdviceArgs, settings: &Settings, state: &Path, run: &mut Run) -> Result<Self, Failure> {
        let model = llm::Settings::read(|name| settings.get(name)).map_err(|error| Failure::usage(error.message))?;
        let mode = match args.llm {
            Llm::Auto if !model.is_on() => Mode::Off,
            Llm::Auto => Mode::Auto,
            Llm::Off => Mode::Off,
            Llm::Record if !model.is_on() => return Err(Failure::usage("--llm record needs OPENAI_API_KEY")),
            Llm::Record => Mode::Record,
            Llm::Replay => Mode::Replay,
        };
        let (identity, name, host) = (model.identity(), model.model.clone(), model.host());
        let path = args.advice_file.clone().unwrap_or_else(|| state.join("advice.jsonl"));
        let record = (mode != Mode::Off).then_some(path);
        let known = match &record {
            None => Record::default(),
            Some(path) => Record::read(path).unwrap_or_else(|error| {
                run.warnings.push(format!("the record of advice {} cannot be read: {error}", path.display()));
                Record::default()
            }),
        };
        let asks = matches!(mode, Mode::Auto | Mode::Record);
        let client = if asks { Some(llm::Client::new(model)?) } else { None };
        if asks {
            run.warnings.push(format!("text of the repository is sent to {host} for advice; --llm off keeps it here"));
        }
        Ok(Self { client, mode, identity, name, record, known })
    }

    /// Who gives advice from a time on.
    pub(super) fn advisor(&self, now: Timestamp) -> AdvisorSession<'_> {
        let advisor = self.client.as_ref().map(|client| client as &dyn Advisor);
        AdvisorSession::new(advisor, self.mode, self.known.clone(), (&self.identity, &self.name), now)
    }

    /// Keeps what was asked, and takes over the account.
    pub(super) fn end(&self, mut advisor: AdvisorSession<'_>, run: &mut Run) {
        if let Some(path) = &self.record
            && let Err(error) = advisor.keep(path)
        {
            run.warnings.push(format!("the record of advice {} cannot be written: {error}", path.display()));
        }
        run.account = advisor.usage().clone();
        run.warnings.extend(run.account.warnings.iter().cloned());
    }
}
