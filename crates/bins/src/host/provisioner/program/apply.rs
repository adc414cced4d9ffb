//! The verb `apply`: a plan, somebody's agreement, and the deployment.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use orlop_cloud::catalog::cost::Cost;
use orlop_cloud::catalog::{Catalogue, embedded};
use orlop_cloud::exit::Exit;
use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::openstack::port::Clock as _;
use orlop_cloud::provision::confirm::{AUTO_APPROVE_SU, Agreement, Confirmation};
use orlop_cloud::provision::deployments::{NameLock, StoredDeployment};
use orlop_cloud::provision::drive::orphans;
use orlop_cloud::provision::journal::FileJournal;
use orlop_cloud::provision::keep::read_failed;
use orlop_cloud::provision::notes::Notes;
use orlop_cloud::provision::plan::{MAX_PLAN, PlanError, PlannedOffering, Request, SavedPlan, World, digest};
use orlop_cloud::provision::prepare::{check_foreign, check_lease_name, prepare};
use orlop_cloud::provision::site::{Seen, look};
use orlop_cloud::repository::{Allow, Source};
use orlop_core::error::Class;
use serde_json::{Value, json};

use super::super::{RepositoryAnalysis, Wanted};
use super::args::{ApplyArgs, Fallback, VerifyArg};
use super::ask;
use super::carry::{CliContext, Tried, Work, settings};
use super::document::Report;
use super::examine::{Model, Run, examine, wanted};
use super::failure::Failure;
use super::fleet::{FleetTarget, fleet};
use super::hidden::Hidden;
use super::identity::{free_name, identity, name};
use super::join::FleetJoin;
use super::key::Keys;
use super::multi_site::MultiSiteRun;
use super::options::apply_options;
use super::record::Record;
use super::request::{allowed, idle_stop, lifetime, margin, max_su, request};
use super::settings::Settings;
use super::show;
use super::sign_in::{Site, Sources};
use super::signals::Signals;
use super::steps::Steps;
use super::surroundings::DeploymentSurroundings;
use super::verbs::{PlanQuery, plan_data, plan_text};

/// What somebody is asked to agree to, and what is carried out then.
struct Proposal {
    data: Value,
    text: String,
    hours: u32,
    offerings: Vec<PlannedOffering>,
    seen: Seen,
}

/// Everything that is the same at all sites.
pub(super) struct Job<'a> {
    pub(super) args: &'a ApplyArgs,
    pub(super) settings: &'a Settings,
    pub(super) sources: &'a Sources<'a>,
    pub(super) context: CliContext<'a>,
    pub(super) saved: Option<SavedPlan>,
    /// Sites in their order.
    pub(super) sites: Vec<String>,
    hidden: Hidden<'a>,
    pub(super) fleet_join: FleetJoin,
    /// Who knows whether the machine's worker joined.
    pub(super) fleet: Option<FleetTarget>,
    /// `--idle-stop`, of the flag or the saved plan.
    idle_stop_s: Option<u64>,
    pub(super) now: Timestamp,
    /// The run of another process that is gone on with.
    pub(super) record: Option<Record>,
}

/// A deployment that is to begin, and its name, which nobody else takes meanwhile.
pub(super) struct Begun {
    pub(super) name: String,
    pub(super) request: Value,
    _lock: NameLock,
}

/// `apply`: plans, asks, leases. A deployment of the same name that is not over goes on instead.
pub(super) async fn apply(args: &ApplyArgs, run: &mut Run, signals: &Signals) -> Result<Report, Failure> {
    let (settings, state_dir) = settings(&args.output, run)?;
    let sources = Sources::read(&args.cloud, &settings)?;
    let keep_on_interrupt = args.run.keep_on_interrupt;
    let context = CliContext { state_dir, output: &args.output, signals, keep_on_interrupt };
    let saved = args.run.plan.as_ref().map(read_plan).transpose()?;
    Job::new(args, &settings, &sources, context, saved)?.carry_out(run).await
}

/// The fleet that is asked for the worker, if that is to be checked or is named for later.
fn fleet_of(args: &ApplyArgs, settings: &Settings, fleet_join: &FleetJoin) -> Result<Option<FleetTarget>, Failure> {
    let is_checked = args.run.verify == VerifyArg::Join;
    if is_checked && fleet_join.join.is_none() {
        return Err(Failure::usage("--verify join needs --join URL"));
    }
    let is_named = args.fleet.fleet.is_some() || settings.get("ORLOP_SERVER").is_some();
    let asks = is_checked || fleet_join.join.is_some() && is_named;
    asks.then(|| fleet(&args.fleet, settings, None)).transpose()
}

pub(super) fn read_plan(path: &PathBuf) -> Result<SavedPlan, Failure> {
    use std::io::Read as _;
    let failed = |what: String| Failure::usage(format!("--plan {}: {what}", path.display()));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(MAX_PLAN as u64 + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    SavedPlan::read(&text).map_err(|error| failed(error.to_string()))
}

impl<'a> Job<'a> {
    /// What a run is to do.
    ///
    /// # Errors
    /// Flags and plan contradict each other, or a file they name cannot be read.
    pub(super) fn new(
        args: &'a ApplyArgs,
        settings: &'a Settings,
        sources: &'a Sources<'a>,
        context: CliContext<'a>,
        saved: Option<SavedPlan>,
    ) -> Result<Self, Failure> {
        let file = args.hardware.catalog_file.as_deref();
        let sites = sites(args, sources, saved.as_ref());
        let hidden = Hidden::new(file, &sites, args.cloud.ca_cert.as_deref(), settings, &context.state_dir)?;
        let fleet_join = FleetJoin::read(args, settings, saved.as_ref())?;
        let fleet = fleet_of(args, settings, &fleet_join)?;
        let idle_stop_s = idle_stop(&args.window)?.or(saved.as_ref().and_then(|saved| saved.idle_stop_s));
        let (now, record) = (Timestamp::now(), None);
        Ok(Self { args, settings, sources, sites, context, saved, hidden, fleet_join, fleet, idle_stop_s, now, record })
    }
}

/// Leaves out what costs more than a budget.
///
/// # Errors
/// Nothing is left.
fn keep_within(max_su: u64, offerings: &mut Vec<PlannedOffering>, notes: &mut Vec<String>) -> Result<(), PlanError> {
    let best = offerings.first().map(|best| best.su_estimate.clone()).unwrap_or_default();
    offerings.retain(|offering| {
        let fits = offering.cost().is_within(max_su);
        if !fits {
            let (what, site, cost) = (&offering.node_type, &offering.site, &offering.su_estimate);
            notes.push(format!("{what} at {site} left out: the estimate of {cost} is over --max-su {max_su}"));
        }
        fits
    });
    if offerings.is_empty() { Err(PlanError::Budget { estimate: best, max_su }) } else { Ok(()) }
}

/// The sites of a run: those that are named, else those of the plan.
fn sites(args: &ApplyArgs, sources: &Sources<'_>, saved: Option<&SavedPlan>) -> Vec<String> {
    let named = &args.hardware.site;
    let mut sites = match saved {
        Some(saved) if named.is_empty() => {
            let mut sites: Vec<String> = Vec::new();
            for offering in &saved.offerings {
                if !sites.contains(&offering.site) {
                    sites.push(offering.site.clone());
                }
            }
            sites
        }
        _ => sources.sites(named),
    };
    // Where a plan offers nothing there is nothing to try.
    let is_offered = |site: &String| saved.is_none_or(|saved| saved.offerings.iter().any(|one| one.site == *site));
    if sites.iter().any(is_offered) {
        sites.retain(is_offered);
    }
    if !allowed(&args.hardware, &args.window).contains(&Fallback::Sites) {
        sites.truncate(1);
    }
    sites
}

impl Job<'_> {
    /// The repository, as flags or the saved plan name it: its address, ref and folder.
    fn repository(&self) -> Result<(Source, String, String), Failure> {
        let source = &self.args.source;
        let everything = Allow { ssh: true, local: true, private_hosts: true };
        let saved = self.saved.as_ref().map(|saved| &saved.repository);
        let text = |key: &str| saved.and_then(|saved| saved.get(key)).and_then(Value::as_str).map(str::to_owned);
        match (&source.repo, text("url")) {
            (Some(repo), _) => Ok((Source::parse(repo, everything)?, source.reference.clone(), source.subdir.clone())),
            (None, Some(url)) => {
                let (reference, subdir) = (text("ref").unwrap_or_default(), text("subdir").unwrap_or_default());
                Ok((Source::parse(&url, everything)?, reference, subdir))
            }
            (None, None) => Err(Failure::usage("no repository is given: use --repo, or --plan")),
        }
    }

    /// The server's name, if the user or the plan gives one.
    fn given_name(&self) -> Option<&str> {
        let planned = self.saved.as_ref().and_then(|saved| saved.deployment.as_ref());
        self.args.run.server_name.as_deref().or(planned.map(|planned| planned.server_name.as_str()))
    }

    /// Looks at what a machine is to join with, before a cloud is asked. A server that is made already needs none of it.
    ///
    /// # Errors
    /// The token cannot be read or is none, or all of it is more than a server takes.
    pub(super) fn check_fleet_join(&self) -> Result<(), Failure> {
        let Err(failure) = self.fleet_join.check() else { return Ok(()) };
        let known = match self.given_name().filter(|_| !self.args.run.new) {
            Some(name) => self.context.deployments().find(name)?,
            None => None,
        };
        if known.is_some_and(|known| known.is_alive()) { Ok(()) } else { Err(failure) }
    }

    /// Takes the server's name. A deployment that has it and is not over comes with it.
    pub(super) fn begin(
        &self,
        site: &Site,
        sites: &[String],
        run: &mut Run,
    ) -> Result<(Begun, Option<StoredDeployment>), Failure> {
        let (source, reference, subdir) = self.repository()?;
        let mut name = name(self.given_name(), &source, &reference, &subdir, &site.account.project_id, sites)?;
        if let Some(lease) = self.args.run.lease_name.as_ref().filter(|name| name.is_empty() || name.len() > 80) {
            return Err(Failure::usage(format!("--lease-name `{lease}` must have 1 to 80 characters")));
        }
        let deployments = self.context.deployments();
        if self.args.run.new {
            name = free_name(&deployments, name)?;
        }
        let lock = deployments.take_name(&name)?;
        run.warnings.extend(deployments.sweep_unbegun()?);
        let window = &self.args.window;
        let request = json!({
            "repo": source.normalised(), "ref": reference, "subdir": subdir, "node_type": self.args.hardware.node_type,
            "image": self.args.hardware.image, "hours": window.span.lease_duration, "network": self.args.run.network,
        });
        let request = self.record.as_ref().map_or(request, |record| record.request.clone());
        let existing = deployments.find(&name)?.filter(StoredDeployment::is_alive);
        Ok((Begun { name, request, _lock: lock }, existing))
    }

    /// Plans, asks and leases at one site.
    pub(super) async fn at_site(
        &self,
        steps: &Steps,
        begun: &Begun,
        multi: &mut MultiSiteRun,
        survey: &mut Option<(Wanted, RepositoryAnalysis)>,
        run: &mut Run,
    ) -> Result<Tried, Failure> {
        let site = &*Arc::clone(&multi.site);
        let proposal = self.propose(steps, site, survey, run).await?;
        let catalogue = proposal.seen.catalogue(self.otherwise(&proposal.seen, run).await?);
        multi.plan(&proposal.offerings, proposal.hours, &catalogue)?;
        // A token that was made for the plan's deployment is for nothing else.
        let joins = self.fleet_join.join.is_some();
        let deployments = self.context.deployments();
        let (id, nonce) = identity(&begun.name, &site.account.project_id, self.saved.as_ref(), &deployments, joins)?;
        let mut keys = Keys::look(&self.args.run, &self.args.paths, self.settings, &id, site).await?;
        run.warnings.append(&mut keys.warnings);
        let marked = orphans(&site.cloud, &site.account.project_id).await.map_err(|error| Failure::of_cloud(&error))?;
        check_foreign(&begun.name, None, &marked)?;
        if let Some(name) = &self.args.run.lease_name {
            let leases = site.cloud.reservations.leases().await.map_err(|error| Failure::of_cloud(&error))?;
            check_lease_name(name, &leases)?;
        }
        let mut options = apply_options(self.args, self.settings, &begun.name, keys.order.clone(), &self.fleet_join)?;
        options.max_hours = self.max_hours()?;
        let offered = (proposal.offerings.as_slice(), proposal.hours);
        let mut order = prepare(id.clone(), &site.account.project_id, offered, &proposal.seen, &catalogue, options)?;
        run.count(&site.name, site.asked());
        self.confirm(&proposal, run).await?;
        order.key = keys.make()?;
        multi.run.share(&mut order, SystemClock.now());
        let info_file = std::path::absolute(self.args.paths.output_dir.join(format!("{}_info.json", begun.name)))
            .map_err(|error| Failure::usage(format!("--output-dir: {error}")))?;
        let notes = Notes {
            server_name: begun.name.clone(),
            project_id: site.account.project_id.clone(),
            site: site.name.clone(),
            region: site.account.region.clone(),
            auth_url: site.auth_url.clone(),
            cloud: site.entry.clone(),
            info_file: info_file.display().to_string(),
            key_file: keys.file.as_ref().map(|file| file.display().to_string()),
            key_digest: keys.digest.clone(),
            requirements: proposal.data.get("requirements").cloned().unwrap_or_default(),
            plan_digest: digest(&proposal.data),
            request: begun.request.clone(),
            key_kept: false,
            sites_left: multi.run.left().to_vec(),
            idle_stop_s: self.idle_stop_s,
            fleet: self.fleet.as_ref().map(|asked| asked.address.clone()),
            created_at: Some(SystemClock.now()),
        };
        multi.begin(&self.context.state_dir, Some(&id))?;
        // Anyone who holds the journal lives; what is noted without one that lives is swept by the next run.
        let journal = Arc::new(FileJournal::open(&deployments.place(&id), id.as_str())?);
        deployments.note(&id, &notes, Some(&proposal.data))?;
        keys.save()?;
        let surroundings = DeploymentSurroundings::new(&self.context, deployments.place(&id), notes, journal, 3..10);
        surroundings.asks(self.fleet.as_ref().map(|asked| &asked.fleet));
        drop(surroundings.watch.set(multi.watch.but(&site.name)));
        let failed = read_failed(&self.context.state_dir.join("failed.json"), SystemClock.now());
        let work = Work::Begin { order: Box::new(order), nonce, failed };
        let saga = self.context.carry(site, &surroundings, work, run).await?;
        Ok(self.context.tried(&saga, &surroundings, run))
    }

    fn wait_asked(&self) -> bool {
        !self.args.run.wait_for_capacity.0.is_zero()
    }

    /// A plan: a saved one as far as it still holds, else a new one.
    async fn propose(
        &self,
        steps: &Steps,
        site: &Site,
        survey: &mut Option<(Wanted, RepositoryAnalysis)>,
        run: &mut Run,
    ) -> Result<Proposal, Failure> {
        if let Some(saved) = &self.saved {
            return steps.during(2, self.renew(saved, site, run)).await;
        }
        let (hardware, window) = (&self.args.hardware, &self.args.window);
        let asked = Request {
            waits: self.wait_asked(),
            ..request(hardware, window, self.settings, vec![site.name.clone()], self.now)?
        };
        let model = Model::new(&self.args.advice, self.settings, &self.context.state_dir, run)?;
        let tell = |words: &str| steps.wait_for(words);
        let mut advisor = model.advisor(self.now).telling(&tell);
        if survey.is_none() {
            let authorities = self.args.cloud.ca_cert.as_deref();
            let wanted = wanted(&self.args.source, authorities, self.settings, &self.context.state_dir)?;
            let found = steps.during(1, examine(&wanted, &mut advisor, run)).await;
            match found {
                Ok(found) => *survey = Some((wanted, found)),
                Err(failure) => {
                    model.end(advisor, run);
                    return Err(failure);
                }
            }
        }
        let Some((wanted, found)) = survey.as_ref() else { return Err(Failure::internal("nothing was read")) };
        let asked = PlanQuery { hardware, window, request: &asked, hidden: &self.hidden, now: self.now };
        let planned = steps.during(2, asked.plan_at(found, site, &mut advisor, run)).await;
        model.end(advisor, run);
        let (plan, seen) = planned?;
        run.take_warnings(&plan.warnings);
        Ok(Proposal {
            data: plan_data(&plan, run, wanted, found),
            text: plan_text(&plan, self.args.output.verbose),
            hours: plan.hours,
            offerings: plan.offerings,
            seen,
        })
    }

    async fn renew(&self, saved: &SavedPlan, site: &Site, run: &mut Run) -> Result<Proposal, Failure> {
        let seen = look(&site.cloud, &site.name).await.map_err(|error| Failure::of_cloud(&error))?;
        run.count(&site.name, site.asked());
        let otherwise = self.otherwise(&seen, run).await?;
        let (catalogue, images) = (seen.catalogue(otherwise), seen.images(Some("")));
        let world = World { catalogue: &catalogue, allocations: seen.allocations.as_deref(), images: Some(&images) };
        let (mut offerings, mut notes) =
            saved.renewed(&site.name, &world, site.now(), self.wait_asked(), margin(self.settings)?)?;
        run.take_warnings(&saved.warnings);
        if let Some(max_su) = max_su(&self.args.window, self.settings)? {
            keep_within(max_su, &mut offerings, &mut notes)?;
        }
        let data = json!({
            "schema": saved.schema, "requirements": saved.requirements, "hours": saved.hours, "offerings": offerings,
            "notes": notes, "warnings": saved.warnings, "repository": saved.repository,
        });
        let text = show::offerings(&offerings, saved.hours) + &show::lines("notes", &notes);
        if let Some(most) = self.max_hours()?.filter(|most| saved.hours > *most) {
            return Err(PlanError::Lifetime { hours: saved.hours, most }.into());
        }
        Ok(Proposal { data, text, hours: saved.hours, offerings, seen })
    }

    /// What is known of a site that hides its hosts.
    async fn otherwise(&self, seen: &Seen, run: &mut Run) -> Result<Catalogue, Failure> {
        match &seen.hosts {
            Some(_) => Ok(embedded()),
            None => self.hidden.catalogue(std::slice::from_ref(&seen.site), run).await,
        }
    }

    /// `--max-lifetime`: the lower of the flag's and the saved plan's.
    fn max_hours(&self) -> Result<Option<u32>, Failure> {
        let planned = self.saved.as_ref().and_then(|saved| saved.max_lifetime_h);
        let flag = lifetime(&self.args.window)?;
        Ok(flag.into_iter().chain(planned).min())
    }

    /// Goes on if somebody agrees, or agreed before.
    async fn confirm(&self, proposal: &Proposal, run: &Run) -> Result<(), Failure> {
        let all = || proposal.offerings.iter().map(PlannedOffering::cost);
        let milli_su = all().map(|cost| cost.milli_su).max().unwrap_or(0);
        let estimate = Cost { milli_su, known: all().all(|cost| cost.known) };
        let agreement = Agreement {
            estimate,
            max_su: max_su(&self.args.window, self.settings)?,
            auto_approve: self.settings.number("ORLOP_AUTO_APPROVE_SU")?.unwrap_or(AUTO_APPROVE_SU),
            agreed: self.args.run.yes,
            has_reader: ask::has_reader(),
        };
        let needed = |message: String| Failure::new(Exit::Unconfirmed, Class::Invalid, "confirmation", message);
        match agreement.verdict() {
            Confirmation::Go => Ok(()),
            Confirmation::Needed => {
                let message = format!("{} was not confirmed; nothing was created", estimate.text());
                Err(needed(message).hint("confirm with --yes, or give a budget with --max-su"))
            }
            Confirmation::Ask => {
                super::say(&proposal.text);
                for warning in &run.warnings {
                    super::say(&format!("warning: {}", crate::view::text::one_line(warning, 400)));
                }
                if ask::agrees(&format!("lease this for {}?", estimate.text())).await? {
                    Ok(())
                } else {
                    Err(needed("declined; nothing was created".to_owned()))
                }
            }
        }
    }
}
