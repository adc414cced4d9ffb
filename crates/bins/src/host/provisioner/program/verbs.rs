//! The verbs `analyze` and `plan`: from arguments to what the library is asked, and from its answers to results. Owns nothing
//! else; neither needs credentials.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use orlop_cloud::analyze::advice::is_tainted;
use orlop_cloud::catalog::{Catalogue, Origin, Overrides, embedded, rank::Prefer, read_hosts};
use orlop_cloud::llm::{self, Account, Council, Mode, Record};
use orlop_cloud::provision::plan::{Request, World};
use orlop_cloud::repository::git::Options;
use orlop_cloud::repository::{Allow, Source};
use orlop_core::hardware::Arch;
use orlop_core::hardware::gpu::Vendor;
use orlop_core::ports::advisor::Advisor;
use serde_json::{Value, json};

use super::super::{Draft, Survey, Wanted, draft, obtain, survey};
use super::args::{
    AdviceArgs, AnalyzeArgs, ArchArg, Fallback, HardwareArgs, Llm, PlanArgs, PreferArg, SourceArgs, VendorArg,
    WindowArgs,
};
use super::document::{Report, advice};
use super::failure::Failure;
use super::settings::Settings;
use super::show;
use super::steps::Steps;

/// Bytes of a catalogue file that are read.
const MAX_CATALOGUE: u64 = 32 << 20;

/// What a run leaves beside its result.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) warnings: Vec<String>,
    pub(super) account: Account,
}

/// `analyze`: what a machine must have, with evidence.
pub(super) async fn analyze(args: &AnalyzeArgs, run: &mut Run) -> Result<Report, Failure> {
    let steps = Steps::new(&args.output, &["Initialize", "Analyze"]);
    let (wanted, model) = steps
        .during(0, "Initialize", async {
            let settings = Settings::read(args.output.env_file.as_deref())?;
            run.warnings.extend(settings.warnings.iter().cloned());
            let state = settings.state_dir(args.output.state_dir.as_deref())?;
            Ok((wanted(&args.source, &settings, &state)?, Model::new(&args.advice, &settings, &state, run)?))
        })
        .await?;
    let mut council = model.council(Timestamp::now());
    let found = steps.during(1, "Analyze", examine(&wanted, &mut council, run)).await;
    model.end(council, run);
    let survey = found?;
    let analysis = &survey.analysis;
    let mut data = serde_json::to_value(analysis).unwrap_or_default();
    add(&mut data, "notes", json!(analysis.notes));
    add(&mut data, "advice", advice(&run.account, &survey.advised));
    add(&mut data, "repository", repository(&wanted, &survey));
    let text = show::requirements(&analysis.requirements, args.output.verbose)
        + &show::lines("flags", &analysis.requirements.flags)
        + &show::lines("notes", &analysis.notes);
    Ok(Report { data, text })
}

/// `plan`: offerings, image, window and cost.
pub(super) async fn plan(args: &PlanArgs, run: &mut Run) -> Result<Report, Failure> {
    let steps = Steps::new(&args.output, &["Initialize", "Analyze", "Hardware and image"]);
    let now = Timestamp::now();
    let (wanted, model, request, catalogue) = steps
        .during(0, "Initialize", async {
            let settings = Settings::read(args.output.env_file.as_deref())?;
            run.warnings.extend(settings.warnings.iter().cloned());
            let request = request(&args.hardware, &args.window, &settings, now)?;
            let catalogue = catalogue(args.hardware.catalog_file.as_deref(), &request.sites)?;
            let state = settings.state_dir(args.output.state_dir.as_deref())?;
            Ok((
                wanted(&args.source, &settings, &state)?,
                Model::new(&args.advice, &settings, &state, run)?,
                request,
                catalogue,
            ))
        })
        .await?;
    let mut council = model.council(now);
    let found = steps.during(1, "Analyze", examine(&wanted, &mut council, run)).await;
    let planned = match &found {
        Ok(survey) => {
            let world = World { catalogue: &catalogue, allocations: None, images: None };
            let asked = Draft { world, request: &request, least_hours: args.window.min_duration, now };
            let work = async { Ok(draft(survey, &asked, &mut council).await??) };
            Some(steps.during(2, "Hardware and image", work).await)
        }
        Err(_) => None,
    };
    model.end(council, run);
    let survey = found?;
    let mut plan = match planned {
        Some(planned) => planned?,
        None => return Err(Failure::internal("there is no plan")),
    };
    if !allowed(&args.hardware, &args.window).contains(&Fallback::Types)
        && let Some(first) = plan.best().map(|best| best.node_type.clone())
    {
        plan.offerings.retain(|offering| offering.node_type == first);
    }
    run.warnings.retain(|warning| !plan.warnings.iter().any(|known| known.starts_with(warning.as_str())));
    run.warnings.extend(plan.warnings.iter().cloned());
    let mut data = serde_json::to_value(&plan).unwrap_or_default();
    add(&mut data, "advice", advice(&run.account, &survey.advised));
    add(&mut data, "repository", repository(&wanted, &survey));
    if let Some(path) = &args.out {
        save(path, &data)?;
    }
    let text = show::requirements(&plan.requirements, args.output.verbose)
        + &show::offerings(&plan)
        + &show::lines("flags", &plan.requirements.flags)
        + &show::lines("notes", &plan.notes);
    Ok(Report { data, text })
}

fn add(data: &mut Value, key: &str, value: Value) {
    if let Some(members) = data.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
}

fn repository(wanted: &Wanted, survey: &Survey) -> Value {
    json!({
        "url": wanted.source.to_string(), "ref": wanted.reference, "subdir": wanted.subdir,
        "files_read": survey.scan.files.len(), "bytes": survey.scan.bytes,
    })
}

/// Obtains the repository and finds out what it needs.
async fn examine(wanted: &Wanted, council: &mut Council<'_>, run: &mut Run) -> Result<Survey, Failure> {
    let scan = obtain(wanted).await?;
    run.warnings.extend(scan.warnings.iter().cloned());
    let survey = survey(scan, council).await?;
    let requirements = &survey.rules.requirements;
    if is_tainted(requirements)
        && let Some(flag) = requirements.flags.first()
    {
        run.warnings.push(format!("{flag}; such lines were not used"));
    }
    Ok(survey)
}

fn wanted(args: &SourceArgs, settings: &Settings, state: &Path) -> Result<Wanted, Failure> {
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
        ca_file: args.ca_cert.clone(),
        ..Options::new(state.to_owned())
    };
    Ok(Wanted {
        source: Source::parse(&args.repo, allow)?,
        reference: args.reference.clone(),
        subdir: args.subdir.clone(),
        token,
        options,
    })
}

/// Whoever is asked for advice, and where that is recorded.
struct Model {
    client: Option<llm::Client>,
    mode: Mode,
    identity: String,
    name: String,
    record: Option<PathBuf>,
    known: Record,
}

impl Model {
    fn new(args: &AdviceArgs, settings: &Settings, state: &Path, run: &mut Run) -> Result<Self, Failure> {
        let model = llm::Settings::read(|name| settings.get(name))?;
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

    fn council(&self, now: Timestamp) -> Council<'_> {
        let advisor = self.client.as_ref().map(|client| client as &dyn Advisor);
        Council::new(advisor, self.mode, self.known.clone(), (&self.identity, &self.name), now)
    }

    /// Keeps what was asked, and takes over the account.
    fn end(&self, mut council: Council<'_>, run: &mut Run) {
        if let Some(path) = &self.record
            && let Err(error) = council.keep(path)
        {
            run.warnings.push(format!("the record of advice {} cannot be written: {error}", path.display()));
        }
        run.account = council.account().clone();
        run.warnings.extend(run.account.warnings.iter().cloned());
    }
}

/// What may be tried when the best is not to be had.
fn allowed(hardware: &HardwareArgs, window: &WindowArgs) -> Vec<Fallback> {
    match &window.fallback {
        Some(named) if named.contains(&Fallback::None) => Vec::new(),
        Some(named) => named.clone(),
        None if hardware.node_type.is_some() => Vec::new(),
        None if hardware.site.len() > 1 => vec![Fallback::Types, Fallback::Sites],
        None => vec![Fallback::Types],
    }
}

fn request(
    hardware: &HardwareArgs,
    window: &WindowArgs,
    settings: &Settings,
    now: Timestamp,
) -> Result<Request, Failure> {
    let fallback = allowed(hardware, window);
    let mut sites = hardware.site.clone();
    if sites.is_empty() {
        let named = settings.get("DEFAULT_SITE").unwrap_or_else(|| "uc".to_owned());
        sites = named.split(',').map(|site| site.trim().to_owned()).collect();
    }
    if !fallback.contains(&Fallback::Sites) {
        sites.truncate(1);
    }
    let max_su = match window.max_su {
        Some(most) => Some(most),
        None => settings.number("ORLOP_MAX_SU")?,
    };
    let margin = settings.number("ORLOP_CLEANING_MARGIN_MIN")?.unwrap_or(5).min(1440);
    let attempts = if fallback.is_empty() { 1 } else { window.max_attempts as usize };
    Ok(Request {
        sites,
        overrides: overrides(hardware),
        os: hardware.os.map(|os| os.0),
        image: hardware.image.clone(),
        node_type: hardware.node_type.clone(),
        hours: window.lease_duration,
        max_hours: window.max_lifetime.map(super::values::DurationArg::hours),
        within: window.start_within.0,
        margin: SignedDuration::from_mins(i64::try_from(margin).unwrap_or(5)),
        prefer: match hardware.prefer {
            PreferArg::Fit => Prefer::Fit,
            PreferArg::Cost => Prefer::Cost,
            PreferArg::Start => Prefer::Start,
        },
        max_su,
        attempts,
        ..Request::new(start(now, window.start_delay_minutes))
    })
}

/// The start: after the delay, rounded up to a minute; without a delay this minute.
fn start(now: Timestamp, delay_minutes: u32) -> Timestamp {
    let seconds = now.as_second() + i64::from(delay_minutes) * 60;
    let up = i64::from(delay_minutes > 0) * 59;
    Timestamp::from_second((seconds + up).div_euclid(60) * 60).unwrap_or(now)
}

fn overrides(args: &HardwareArgs) -> Overrides {
    Overrides {
        cores: args.cpu,
        ram_gib: args.ram,
        disk_gb: args.disk,
        gpu_count: args.gpu,
        vram_gb: args.vram,
        gpu_vendor: args.gpu_vendor.map(|vendor| match vendor {
            VendorArg::Nvidia => Vendor::Nvidia,
            VendorArg::Amd => Vendor::Amd,
            VendorArg::Intel => Vendor::Intel,
        }),
        no_gpu: args.no_gpu,
        allow_legacy: args.allow_legacy_gpu,
        arch: args.arch.map(|arch| match arch {
            ArchArg::Amd64 => Arch::Amd64,
            ArchArg::Arm64 => Arch::Arm64,
        }),
    }
}

/// The hardware that is there: of a file for the first site, else the built-in table.
fn catalogue(file: Option<&Path>, sites: &[String]) -> Result<Catalogue, Failure> {
    let Some(path) = file else { return Ok(embedded()) };
    let failed = |error: String| Failure::usage(format!("--catalog-file {}: {error}", path.display()));
    let opened = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut text = String::new();
    opened.take(MAX_CATALOGUE).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    let hosts = read_hosts(&text).map_err(|error| failed(error.to_string()))?;
    Ok(Catalogue::of_hosts(Origin::File, sites.first().map_or("uc", String::as_str), &hosts))
}

/// Writes a plan so that it appears whole, for its owner only.
fn save(path: &Path, data: &Value) -> Result<(), Failure> {
    let half = path.with_extension(format!("{}.half", std::process::id()));
    let written = (|| {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&half)?;
        serde_json::to_writer_pretty(&mut file, data)?;
        file.sync_all()?;
        std::fs::rename(&half, path)
    })();
    written.map_err(|error: std::io::Error| {
        // What cannot be removed now is garbage beside the file; the error that led here counts.
        drop(std::fs::remove_file(&half));
        Failure::usage(format!("--out {}: {error}", path.display()))
    })
}
