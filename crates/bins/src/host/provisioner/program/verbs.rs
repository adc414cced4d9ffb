//! The verbs `analyze` and `plan`: from arguments to what the library is asked, and from its answers to results. Neither
//! needs credentials; with them a plan knows what the site has at the moment.

use std::path::Path;

use jiff::Timestamp;
use orlop_cloud::catalog::embedded;
use orlop_cloud::catalog::host::Origin;
use orlop_cloud::llm::AdvisorSession;
use orlop_cloud::provision::join::Join;
use orlop_cloud::provision::keep::write_private;
use orlop_cloud::provision::plan::{Plan, PlanError, PlannedDeployment, Request, World};
use orlop_cloud::provision::prepare::check_leases;
use orlop_cloud::provision::saga::{clock_is_off, clock_offset};
use orlop_cloud::provision::site::{Seen, look};
use serde_json::{Value, json};

use super::super::{PlanInput, RepositoryAnalysis, Wanted, make_plan};
use super::args::{AnalyzeArgs, Fallback, HardwareArgs, PlanArgs, WindowArgs};
use super::document::{Report, advice};
use super::examine::{Model, Run, examine, wanted};
use super::failure::Failure;
use super::hidden::Hidden;
use super::identity::{describe, good_name, name};
use super::join::join;
use super::options::usual_pace;
use super::request::{allowed, idle_stop, lifetime, request, start};
use super::settings::Settings;
use super::show;
use super::sign_in::{Site, Sources};
use super::steps::Steps;

/// `analyze`: what a machine must have, with evidence.
pub(super) async fn analyze(args: &AnalyzeArgs, run: &mut Run) -> Result<Report, Failure> {
    let steps = Steps::new(&args.output, 0..2);
    let (wanted, model) = steps
        .during(0, async {
            let settings = Settings::read(args.output.env_file.as_deref())?;
            run.warnings.extend(settings.warnings.iter().cloned());
            let state = settings.state_dir(args.output.state_dir.as_deref())?;
            let wanted = wanted(&args.source, args.ca_cert.as_deref(), &settings, &state)?;
            Ok((wanted, Model::new(&args.advice, &settings, &state, run)?))
        })
        .await?;
    let tell = |words: &str| steps.wait_for(words);
    let mut advisor = model.advisor(Timestamp::now()).telling(&tell);
    let found = steps.during(1, examine(&wanted, &mut advisor, run)).await;
    model.end(advisor, run);
    let survey = found?;
    let analysis = &survey.analysis;
    let mut data = serde_json::to_value(analysis).unwrap_or_default();
    add(&mut data, "notes", json!(analysis.notes));
    add(&mut data, "advice", advice(&run.account, &survey.advised));
    add(&mut data, "repository", repository(&wanted, &survey));
    let text = show::requirements(&analysis.requirements, args.output.verbose)
        + &show::lines("alternatives", &analysis.requirements.alternatives)
        + &show::lines("flags", &analysis.requirements.flags)
        + &show::lines("notes", &analysis.notes);
    Ok(Report { data, text, failure: None })
}

/// `plan`: offerings, image, window and cost.
pub(super) async fn plan(args: &PlanArgs, run: &mut Run) -> Result<Report, Failure> {
    let steps = Steps::new(&args.output, 0..3);
    let now = Timestamp::now();
    let settings = Settings::read(args.output.env_file.as_deref())?;
    let (wanted, model, request, sources, join, hidden) = steps
        .during(0, async {
            run.warnings.extend(settings.warnings.iter().cloned());
            let sources = Sources::read(&args.cloud, &settings)?;
            let request = request(&args.hardware, &args.window, &settings, sources.sites(&args.hardware.site), now)?;
            let state = settings.state_dir(args.output.state_dir.as_deref())?;
            let wanted = wanted(&args.source, args.cloud.ca_cert.as_deref(), &settings, &state)?;
            idle_stop(&args.window)?;
            args.server_name.as_deref().map(good_name).transpose()?;
            let join = join(&args.join, &settings)?;
            let file = args.hardware.catalog_file.as_deref();
            let hidden = Hidden::new(file, &request.sites, args.cloud.ca_cert.as_deref(), &settings, &state)?;
            Ok((wanted, Model::new(&args.advice, &settings, &state, run)?, request, sources, join, hidden))
        })
        .await?;
    let tell = |words: &str| steps.wait_for(words);
    let mut advisor = model.advisor(now).telling(&tell);
    let found = steps.during(1, examine(&wanted, &mut advisor, run)).await;
    let planned = match &found {
        Ok(survey) => {
            let asked =
                PlanQuery { hardware: &args.hardware, window: &args.window, request: &request, hidden: &hidden, now };
            let work = async {
                if !request.sites.first().is_some_and(|site| sources.has(site)) {
                    return Ok((asked.plan(survey, None, &mut advisor, run).await?, None));
                }
                asked.plan_at_first(survey, &sources, &mut advisor, run).await
            };
            Some(steps.during(2, work).await)
        }
        Err(_) => None,
    };
    model.end(advisor, run);
    let survey = found?;
    let (plan, project) = planned.unwrap_or_else(|| Err(Failure::internal("there is no plan")))?;
    run.take_warnings(&plan.warnings);
    let mut data = plan_data(&plan, run, &wanted, &survey);
    let hooks = hooks(args, (&settings, join.as_ref()), (&wanted, &request.sites), (&plan, project.as_deref()), now)?;
    hooks.put_in(&mut data);
    if let Some(path) = &args.out {
        save(path, &data)?;
    }
    Ok(Report { data, text: plan_text(&plan, args.output.verbose) + &hooks.text, failure: None })
}

/// What a plan says beside itself: of the deployment, of its fleet, of its end.
struct Hooks {
    members: Vec<(&'static str, Value)>,
    text: String,
}

impl Hooks {
    fn put_in(&self, data: &mut Value) {
        self.members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .for_each(|(key, value)| add(data, key, value.clone()));
    }
}

/// What is said of the deployment beforehand: its id where the project is known, and how a token for it is made.
fn hooks(
    args: &PlanArgs,
    (settings, join): (&Settings, Option<&Join>),
    (wanted, sites): (&Wanted, &[String]),
    (plan, project): (&Plan, Option<&str>),
    now: Timestamp,
) -> Result<Hooks, Failure> {
    let (lifetime, idle) = (lifetime(&args.window)?, idle_stop(&args.window)?);
    let (mut deployment, mut text) = (Value::Null, String::new());
    if let Some(project) = project {
        let Wanted { source, reference, subdir, .. } = wanted;
        let name = name(args.server_name.as_deref(), source, reference, subdir, project, sites)?;
        let planned = PlannedDeployment::new(&name, project, orlop_cloud::llm::marker()?);
        let start = plan.best().and_then(|best| best.start.parse().ok());
        (deployment, text) = describe(&planned, join, start, now, &usual_pace(None, settings)?);
    } else if join.is_some() {
        text = "\nthe deployment's id, which a join token is for, is known once there are credentials\n".to_owned();
    }
    let members = vec![
        ("deployment", deployment),
        ("join", json!(join)),
        ("max_lifetime_h", json!(lifetime)),
        ("idle_stop_s", json!(idle)),
    ];
    Ok(Hooks { members, text })
}

/// Whether another site may have what one has not.
fn leads_on(failure: &Failure) -> bool {
    matches!(&*failure.code, "nothing_fits" | "hosts_hidden" | "no_capacity" | "unknown_type")
}

/// What a plan is asked with.
pub(super) struct PlanQuery<'a> {
    pub(super) hardware: &'a HardwareArgs,
    pub(super) window: &'a WindowArgs,
    pub(super) request: &'a Request,
    pub(super) hidden: &'a Hidden<'a>,
    pub(super) now: Timestamp,
}

impl PlanQuery<'_> {
    /// Plans at the first of the sites that has something, and tells in which project. One that cannot be reached is passed over.
    async fn plan_at_first(
        &self,
        survey: &RepositoryAnalysis,
        sources: &Sources<'_>,
        advisor: &mut AdvisorSession<'_>,
        run: &mut Run,
    ) -> Result<(Plan, Option<String>), Failure> {
        let mut sites = self.request.sites.iter().peekable();
        loop {
            let Some(name) = sites.next() else { return Err(Failure::internal("there is no site")) };
            let found = match sources.sign_in(name, None, run).await {
                Ok(site) => self.plan_at(survey, &site, advisor, run).await.map(|(plan, _)| (plan, site)),
                Err(failure) => Err(failure.at_site(name, self.request.sites.len())),
            };
            match found {
                Err(failure) if failure.is_away() && sites.peek().is_some() => run.pass_over(name, &failure),
                Err(failure) if leads_on(&failure) && sites.peek().is_some() => {
                    let next = sites.peek().map_or("", |next| next.as_str());
                    run.warnings.push(format!("{failure}; site {next} is tried next"));
                }
                Err(failure) => return Err(failure),
                Ok((plan, site)) => {
                    let ahead = clock_offset(site.cloud.identity.clock_ahead());
                    run.warnings.extend((ahead != 0).then(|| clock_is_off(ahead)));
                    return Ok((plan, Some(site.account.project_id)));
                }
            }
        }
    }

    /// Looks at a site and plans there.
    ///
    /// # Errors
    /// There is no plan, or the site cannot be asked.
    pub(super) async fn plan_at(
        &self,
        survey: &RepositoryAnalysis,
        site: &Site,
        advisor: &mut AdvisorSession<'_>,
        run: &mut Run,
    ) -> Result<(Plan, Seen), Failure> {
        let seen = look(&site.cloud, &site.name).await.map_err(|error| Failure::of_cloud(&error));
        run.count(&site.name, site.asked());
        let seen = seen?;
        let plan = self.plan(survey, Some((&seen, site.now())), advisor, run).await?;
        check_leases(&plan.offerings, &seen)?;
        Ok((plan, seen))
    }

    /// Plans over what a site has, in its time, or over what is known without asking any.
    async fn plan(
        &self,
        survey: &RepositoryAnalysis,
        seen: Option<(&Seen, Timestamp)>,
        advisor: &mut AdvisorSession<'_>,
        run: &mut Run,
    ) -> Result<Plan, Failure> {
        let mut request = self.request.clone();
        if let Some((seen, now)) = seen {
            request.sites = vec![seen.site.clone()];
            request.start = start(now, self.window.span.start_delay_minutes);
        }
        let seen = seen.map(|(seen, _)| seen);
        let otherwise = match seen {
            Some(seen) if seen.hosts.is_some() => embedded(),
            _ => self.hidden.catalogue(&request.sites, run).await?,
        };
        let images = seen.map(|seen| seen.images(request.image.as_deref()));
        let catalogue = seen.map_or_else(|| otherwise.clone(), |seen| seen.catalogue(otherwise.clone()));
        if let Some(seen) = seen.filter(|_| matches!(catalogue.origin, Origin::Public | Origin::Embedded)) {
            run.warn_once(&format!("the hosts of {} are hidden by the site", seen.site));
        }
        let allocations = seen.and_then(|seen| seen.allocations.as_deref());
        let world = World { catalogue: &catalogue, allocations, images: images.as_deref() };
        let asked = PlanInput { world, request: &request, least_hours: self.window.min_duration, now: self.now };
        let planned: Result<Plan, PlanError> = make_plan(survey, &asked, advisor).await?;
        let mut plan = planned?;
        if !allowed(self.hardware, self.window).contains(&Fallback::Types)
            && let Some(first) = plan.best().map(|best| best.node_type.clone())
        {
            // A virtual machine in the place of a host is a fallback, too.
            plan.offerings
                .retain(|offering| offering.node_type == first || request.vm_fallback && offering.flavor.is_some());
        }
        Ok(plan)
    }
}

impl Run {
    /// Says that a site cannot be reached and another one is asked.
    pub(super) fn pass_over(&mut self, site: &str, failure: &Failure) {
        self.warnings.push(format!("site {site} is passed over: {failure}"));
    }

    /// Takes warnings over, each once.
    pub(super) fn take_warnings(&mut self, more: &[String]) {
        self.warnings.retain(|warning| !more.iter().any(|known| known.starts_with(warning.as_str())));
        self.warnings.extend(more.iter().cloned());
    }
}

/// A plan as people read it.
pub(super) fn plan_text(plan: &Plan, verbose: bool) -> String {
    show::requirements(&plan.requirements, verbose)
        + &show::offerings(&plan.offerings, plan.hours)
        + &show::lines("alternatives", &plan.requirements.alternatives)
        + &show::lines("flags", &plan.requirements.flags)
        + &show::lines("notes", &plan.notes)
}

/// A plan as it is saved.
pub(super) fn plan_data(plan: &Plan, run: &Run, wanted: &Wanted, survey: &RepositoryAnalysis) -> Value {
    let mut data = serde_json::to_value(plan).unwrap_or_default();
    add(&mut data, "advice", advice(&run.account, &survey.advised));
    add(&mut data, "repository", repository(wanted, survey));
    data
}

fn add(data: &mut Value, key: &str, value: Value) {
    if let Some(members) = data.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
}

fn repository(wanted: &Wanted, survey: &RepositoryAnalysis) -> Value {
    json!({
        "url": wanted.source.to_string(), "ref": wanted.reference, "subdir": wanted.subdir,
        "files_read": survey.scan.files.len(), "bytes": survey.scan.bytes,
    })
}

/// Writes a plan so that it appears whole, for its owner only.
fn save(path: &Path, data: &Value) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("--out {}: {error}", path.display()));
    let text = serde_json::to_vec_pretty(data).map_err(|error| failed(error.into()))?;
    write_private(path, &text).map_err(failed)
}
