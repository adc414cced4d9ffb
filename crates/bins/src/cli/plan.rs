//! `orlop flow plan`: what would run, without running it. Owns the page; names and Jobs are those a run would have.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use orlop_core::attempt::{Address, StepIndex};
use orlop_core::event::FlowEvent;
use orlop_core::time::Time;
use orlop_dag::engine::{FlowMeta, apply, init};
use orlop_dag::params::{FlowSource, InputSource, Scope, flow_source, input_source};
use orlop_dag::plan::Plan;
use serde_json::{Value, json};

use super::failure::{Exit, Failure};
use super::globals::{GlobalArgs, Target};
use super::manifest::{self, Loaded};
use super::output::{self, Format};
use super::setup::{SetupArgs, pair};
use crate::host::flow::{Subject, parameters};
use crate::view::text::age;

/// Options of `orlop flow plan`.
#[derive(Args, Debug)]
pub(super) struct PlanArgs {
    /// File with the flow; `-` is standard input
    pub file: PathBuf,
    #[command(flatten)]
    pub globals: GlobalArgs,
    #[command(flatten)]
    pub setup: SetupArgs,
    /// Name of the run, in place of the one in the file
    #[arg(long)]
    pub name: Option<String>,
    /// Value of a parameter (repeatable)
    #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    pub param: Vec<(String, String)>,
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,
    /// Form of the plan
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

/// Shows the plan of a file's flow. Fields that are ignored are reported as warnings while it is read.
///
/// # Errors
/// When it is refused, or a parameter has no value.
pub(super) async fn plan(args: PlanArgs) -> Result<Exit, Failure> {
    let (target, setup) = (args.globals.target, args.setup.setup(args.globals.target, Some(&args.file))?);
    let limits = match target {
        Target::Local | Target::Process | Target::Docker => manifest::limits(&setup, args.strict),
        Target::Fleet | Target::Kube => target.limits(args.strict),
    };
    let loaded = manifest::one(&args.file, limits, args.name.as_deref())?;
    let Loaded { manifest, plan } = loaded;
    let uid = "00000000-0000-4000-8000-000000000000".to_owned();
    let mut flow = manifest.flow.clone();
    flow.metadata.name = manifest::flow_name(&manifest, args.name.as_deref(), &uid);
    let given: BTreeMap<String, String> = args.param.iter().cloned().collect();
    let values = parameters(&flow, &given, &setup.configs()).await;
    let values = values.map_err(|error| Failure::parameter(&error))?;
    let meta = FlowMeta {
        uid,
        name: flow.metadata.name.clone(),
        namespace: flow.metadata.namespace.clone().unwrap_or_else(|| args.globals.namespace().to_owned()),
        parameters: values,
        ..FlowMeta::default()
    };
    let page = Page { plan: &plan, meta: &meta };
    match args.output {
        Format::Table => output::print(&page.text())?,
        Format::Name => output::print(&page.names(&page.order()).join("\n"))?,
        format => output::print(&output::serialized(&page.value(), format)?)?,
    }
    Ok(Exit::Done)
}

struct Page<'a> {
    plan: &'a Plan,
    meta: &'a FlowMeta,
}

impl Page<'_> {
    fn name(&self, step: u32) -> String {
        self.plan.instance_name(Address::step(step))
    }

    fn names(&self, steps: &[u32]) -> Vec<String> {
        steps.iter().map(|step| self.name(*step)).collect()
    }

    /// Steps in an order that respects every edge, those of `finally` last.
    fn order(&self) -> Vec<u32> {
        let (mut order, finally): (Vec<u32>, Vec<u32>) =
            self.plan.order().iter().partition(|step| (**step as usize) < self.plan.main_len());
        order.extend(finally);
        order
    }

    /// Names by wave: of the main steps, and of `finally`.
    fn waves(&self) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
        let main = |wave: &Vec<u32>| wave.first().is_some_and(|step| (*step as usize) < self.plan.main_len());
        let (main, finally): (Vec<_>, Vec<_>) = self.plan.ranks().waves().into_iter().partition(main);
        let names = |waves: Vec<Vec<u32>>| waves.iter().map(|wave| self.names(wave)).collect();
        (names(main), names(finally))
    }

    /// The Job of a step's first attempt, its secrets as references and what only a run can know left as it is written.
    fn job(&self, step: u32) -> Option<(String, Value)> {
        let at = Address::step(step);
        let subject = Subject { plan: self.plan, meta: self.meta, at, attempt: 1 };
        let scope = self.scope(at);
        subject.job(&scope).or_else(|_| subject.unfilled_job()).ok()
    }

    fn scope(&self, at: Address) -> Scope {
        let mut scope = Scope::new();
        for parameter in &self.plan.spec().parameters {
            match (self.meta.parameters.get(&parameter.name), flow_source(parameter)) {
                (Some(value), _) => scope.bind(&parameter.name, value),
                (None, Ok(FlowSource::Secret(secret))) => scope.bind_secret(&parameter.name, secret.clone()),
                _ => {}
            }
        }
        let inputs = self.plan.step(at.step).map(orlop_core::spec::step::Step::input_parameters).unwrap_or_default();
        for input in inputs {
            let name = &input.name;
            // What a run finds out is shown as the placeholder it is.
            let later = format!("${{parameters.{name}}}");
            match input_source(input) {
                Ok(InputSource::Value(text)) => scope.bind(name, text),
                Ok(InputSource::Secret(secret)) => scope.bind_secret(name, secret.clone()),
                _ => scope.bind(name, later),
            }
        }
        scope
    }

    /// Steps that would start at once, as the engine says.
    fn first(&self) -> Vec<String> {
        let mut effects = Vec::new();
        let mut state = init(self.plan, self.meta, Time::EPOCH, &mut effects);
        apply(self.plan, &mut state, &FlowEvent::Admit, Time::EPOCH, &mut effects);
        let starts = effects.iter().filter_map(|effect| match effect {
            orlop_core::effect::FlowEffect::StartAttempt { at, .. } => Some(self.plan.instance_name(*at)),
            _ => None,
        });
        starts.collect()
    }

    fn value(&self) -> Value {
        let ranks = self.plan.ranks();
        let count = u32::try_from(self.plan.len()).unwrap_or(u32::MAX);
        let steps: Vec<Value> = (0..count)
            .map(|step| {
                let job = self.job(step);
                let (job_name, job) = job.map_or((Value::Null, Value::Null), |(name, job)| (json!(name), job));
                let timeout = self.plan.timeout(StepIndex(step)).map(|limit| limit.as_secs_f64());
                json!({"name": self.name(step), "job": job_name, "timeoutSeconds": timeout, "template": job})
            })
            .collect();
        let (waves, finally) = self.waves();
        json!({
            "name": self.meta.name, "namespace": self.meta.namespace, "parameters": self.meta.parameters,
            "order": self.names(&self.order()), "waves": waves, "finally": finally, "criticalPath": self.names(&ranks.critical_path),
            "first": self.first(), "steps": steps,
        })
    }

    fn text(&self) -> String {
        let ranks = self.plan.ranks();
        let mut text = format!("{}/{}: {} steps\n", self.meta.namespace, self.meta.name, self.plan.len());
        let (waves, finally) = self.waves();
        for (number, wave) in waves.iter().enumerate() {
            let _ = writeln!(text, "  wave {}: {}", number + 1, wave.join(", "));
        }
        if !finally.is_empty() {
            let waves: Vec<String> = finally.iter().map(|wave| wave.join(", ")).collect();
            let _ = writeln!(text, "  finally: {}", waves.join(" \u{2192} "));
        }
        let _ = writeln!(text, "  critical path: {}", self.names(&ranks.critical_path).join(" \u{2192} "));
        for step in self.order() {
            let Some((name, job)) = self.job(step) else {
                let _ = writeln!(text, "\n{} (Manual)", self.name(step));
                continue;
            };
            let limit =
                self.plan.timeout(StepIndex(step)).map(|limit| format!(", at most {}", age(limit))).unwrap_or_default();
            let _ = writeln!(text, "\n{} (Job {name}{limit})", self.name(step));
            let yaml = serde_saphyr::to_string(&job).unwrap_or_default();
            for line in yaml.lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
        text
    }
}
