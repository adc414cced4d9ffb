//! `orlop submit`: a job from options, from a file, or from a file with options on top. Owns how options become a
//! specification; what is wrong with one the server tells.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use orlop_cloud::exit;
use orlop_core::time::{HumanDuration, Time};
use serde_json::{Map, Value, json};

use super::super::failure::{Exit, Failure};
use super::super::manifest;
use super::super::output::{self, Format};
use super::super::setup::pair;
use super::address::Address;
use super::client::{ApiRequest, Client};
use super::inputs::InputArgs;
use super::logs::{self, Showing};
use super::read::text;
use super::target::Target;
use super::tasks::Progress;
use super::wait;
use crate::telemetry::trace::Context;

/// Options of `orlop submit`.
#[derive(Args, Debug)]
#[command(after_help = exit::help("Examples:
  orlop submit -- echo hello
  orlop submit --cpu 4 --memory 8Gi --timeout 1h --wait -- make test
  orlop submit --array 0-999 --max-parallel 50 --in step.sh -- ./step.sh '{{index}}'
  orlop submit --with-cwd --out 'results/*' -- ./simulate
  orlop submit --image python:3 --gpus nvidia:1 -- python train.py
  orlop submit -f job.yaml --priority 2 --key nightly-2026-11-21"))]
pub(in crate::cli) struct SubmitArgs {
    /// File with a job, or with {jobs: [...]}: YAML or JSON, `-` = standard input; options go on top
    #[arg(short, long)]
    file: Option<PathBuf>,
    /// Name, for people
    #[arg(long)]
    name: Option<String>,
    /// Processors, such as 2 or 500m
    #[arg(long)]
    cpu: Option<String>,
    /// Memory, such as 1Gi
    #[arg(long)]
    memory: Option<String>,
    /// Whole GPUs of one kind: VENDOR:COUNT or VENDOR:MODEL:COUNT
    #[arg(long, value_name = "KIND", value_parser = gpus)]
    gpus: Option<Value>,
    /// Units of a counter of the worker, such as a licence; the job finds them in ORLOP_EXTRA_NAME and ORLOP_EXTRA_NAME_UNITS
    /// (repeatable)
    #[arg(long, value_name = "NAME=N", value_parser = extra)]
    extra: Vec<(String, u64)>,
    /// Image of its container; without one the job is a process
    #[arg(long)]
    image: Option<String>,
    /// Variable of its environment (repeatable)
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Secret of the tenant: NAME or NAME=VARIABLE as a variable, NAME:FILE as a file below $ORLOP_SECRETS_DIR (repeatable)
    #[arg(long, value_name = "SECRET", value_parser = secret)]
    secret: Vec<Value>,
    #[command(flatten)]
    inputs: InputArgs,
    /// Files the job leaves: PATTERN or NAME=PATTERN; it fails without them (repeatable)
    #[arg(long = "out", value_name = "PATTERN")]
    outputs: Vec<String>,
    /// Pass {{index}}, {{job}} and {{attempt}} as they are, like all other text; the job finds them in ORLOP_INDEX,
    /// ORLOP_JOB_ID and ORLOP_ATTEMPT
    #[arg(long)]
    no_placeholders: bool,
    /// 0 is the most urgent, 9 the least
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Wall limit of one attempt, such as 30m
    #[arg(long, value_name = "DURATION")]
    timeout: Option<HumanDuration>,
    /// Repeats after its own failures
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Elements of an array: a count, or indices such as 0-99,200 or 0-10:2
    #[arg(long, value_name = "INDICES", conflicts_with = "gang")]
    array: Option<String>,
    /// The most elements at once
    #[arg(long, value_name = "N", requires = "array")]
    max_parallel: Option<u32>,
    /// Members that start together or not at all
    #[arg(long, value_name = "SIZE")]
    gang: Option<u32>,
    /// Only workers with this label (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    require: Vec<(String, String)>,
    /// Label, for searching (repeatable)
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,
    /// Earliest start: a duration from now such as 2h, or a time in RFC 3339 form
    #[arg(long, value_name = "TIME", value_parser = later)]
    not_before: Option<Time>,
    /// Idempotency key: repeated within a day, the submit takes effect once
    #[arg(long)]
    key: Option<String>,
    /// Wait until the job has ended; fails if it does
    #[arg(long)]
    wait: bool,
    /// Wait, and show meanwhile what the job writes; its id goes to standard error
    #[arg(long)]
    follow: bool,
    /// Wait, and exit with the job's own exit code; where a signal ended it, 128 and its number
    #[arg(long)]
    exit_code: bool,
    /// Wait, at most so long for all of it (exit code 8); a job that was taken goes on
    #[arg(long, value_name = "DURATION")]
    wait_timeout: Option<HumanDuration>,
    #[command(flatten)]
    target: Target,
    /// What to run, after `--`
    #[arg(last = true, value_name = "CMD", value_parser = clap::value_parser!(OsString))]
    command: Vec<OsString>,
}

/// A secret as a variable, `name` or `name=VARIABLE`, or as a file, `name:path`.
fn secret(text: &str) -> Result<Value, String> {
    let (name, given_as, target) = match text.split_once([':', '=']) {
        None => (text, "env", text.to_ascii_uppercase().replace(['-', '.'], "_")),
        Some((name, target)) if text.as_bytes().get(name.len()) == Some(&b'=') => (name, "env", target.to_owned()),
        Some((name, target)) => (name, "file", target.to_owned()),
    };
    if name.is_empty() || target.is_empty() {
        return Err("write NAME, NAME=VARIABLE or NAME:FILE".to_owned());
    }
    Ok(json!({ "name": name, "as": given_as, "target": target }))
}

/// Files the job leaves, `pattern` or `name=pattern`; without a name they are called by the last part of the pattern.
fn output_of(text: &str) -> Value {
    // Of a pattern the folder in front of it names what is found.
    let plain = text.split(['*', '?', '[']).next().unwrap_or_default();
    let named =
        if plain.len() < text.len() { plain.rsplit_once('/').map_or("out", |(folder, _)| folder) } else { text };
    let last = named.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let (name, path) = text.split_once('=').unwrap_or((last, text));
    json!({ "name": name, "path": path, "required": true })
}

/// Units of a counter, `name=count`.
fn extra(text: &str) -> Result<(String, u64), String> {
    let (name, count) = text.split_once('=').ok_or("write NAME=N")?;
    Ok((name.to_owned(), count.parse().map_err(|_| "write NAME=N, with a whole number")?))
}

/// GPUs, `vendor:count` or `vendor:model:count`.
fn gpus(text: &str) -> Result<Value, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let count = |text: &str| text.parse::<u32>().map_err(|_| "write VENDOR:COUNT or VENDOR:MODEL:COUNT".to_owned());
    match parts.as_slice() {
        [vendor, number] => {
            Ok(json!({ "count": count(number)?, "any_of": [{ "vendor": vendor.to_ascii_lowercase() }] }))
        }
        [vendor, model, number] => Ok(
            json!({ "count": count(number)?, "any_of": [{ "vendor": vendor.to_ascii_lowercase(), "model": model }] }),
        ),
        _ => Err("write VENDOR:COUNT or VENDOR:MODEL:COUNT".to_owned()),
    }
}

/// An argument of the command as text.
fn argument(number: usize, argument: &OsString) -> Result<&str, Failure> {
    argument.to_str().ok_or_else(|| {
        let shown = argument.to_string_lossy();
        Failure::usage(format!(
            "argument {number} of the command (`{shown}`) is not UTF-8; a job is JSON, which cannot hold other \
             bytes: write them into a file and give it with --in"
        ))
    })
}

/// A time, or how far ahead it is.
fn later(text: &str) -> Result<Time, String> {
    use crate::host::flow::{Clock as _, SystemClock};
    if let Ok(time) = text.parse::<Time>() {
        return Ok(time);
    }
    let duration: HumanDuration = text.parse().map_err(|error| format!("{error}; or give a time in RFC 3339 form"))?;
    Ok(SystemClock.now().plus(duration.get()))
}

impl SubmitArgs {
    /// What is sent: the file with the options on top.
    fn body(&self) -> Result<Value, Failure> {
        let base = match &self.file {
            Some(file) => {
                let text = manifest::text(file)?;
                serde_saphyr::from_str(&text).map_err(|error| {
                    Failure::new(Exit::Refused, format!("{} cannot be read: {error}", file.display()))
                })?
            }
            None if self.command.is_empty() && self.image.is_none() => {
                return Err(Failure::usage("nothing to run: use `orlop submit -- CMD…`, or give a file with -f"));
            }
            None => json!({}),
        };
        let Value::Object(mut job) = base else {
            return Err(Failure::new(Exit::Refused, "a job is an object with fields such as `command`"));
        };
        let over = self.over()?;
        if job.contains_key("jobs") {
            if over.is_empty() {
                return Ok(Value::Object(job));
            }
            return Err(Failure::usage("options apply to a file with one job, not with several"));
        }
        for (key, value) in over {
            merge(&mut job, key, value);
        }
        Ok(Value::Object(job))
    }

    /// The fields that options give.
    fn over(&self) -> Result<Map<String, Value>, Failure> {
        let mut job = self.inputs.fields();
        let texts = [("name", &self.name), ("image", &self.image), ("tenant", &self.target.tenant)];
        for (field, value) in texts {
            job.extend(value.as_ref().map(|value| (field.to_owned(), json!(value))));
        }
        let numbers = [("priority", self.priority.map(u64::from)), ("retries", self.retries.map(u64::from))];
        let timeout = self.timeout.map(|timeout| u64::try_from(timeout.get().as_millis()).unwrap_or(u64::MAX));
        for (field, value) in numbers.into_iter().chain([("timeout_ms", timeout)]) {
            job.extend(value.map(|value| (field.to_owned(), json!(value))));
        }
        if !self.command.is_empty() {
            let texts: Result<Vec<&str>, Failure> =
                (0..).zip(&self.command).map(|(number, text)| argument(number, text)).collect();
            job.insert("command".to_owned(), json!(texts?));
        }
        if self.no_placeholders {
            job.insert("placeholders".to_owned(), json!(false));
        }
        if !self.secret.is_empty() {
            job.insert("secret_refs".to_owned(), json!(self.secret));
        }
        if !self.outputs.is_empty() {
            job.insert("artifacts_out".to_owned(), self.outputs.iter().map(|text| output_of(text)).collect());
        }
        let mut resources = Map::new();
        resources.extend(self.cpu.as_ref().map(|cpu| ("cpu_m".to_owned(), json!(cpu))));
        resources.extend(self.memory.as_ref().map(|memory| ("memory_bytes".to_owned(), json!(memory))));
        resources.extend(self.gpus.as_ref().map(|gpus| ("gpus".to_owned(), gpus.clone())));
        if !self.extra.is_empty() {
            let extras: Map<String, Value> =
                self.extra.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
            resources.insert("extras".to_owned(), extras.into());
        }
        if !resources.is_empty() {
            job.insert("resources".to_owned(), resources.into());
        }
        for (field, pairs) in [("env", &self.env), ("labels", &self.label)] {
            if !pairs.is_empty() {
                let map: Map<String, Value> = pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
                job.insert(field.to_owned(), map.into());
            }
        }
        if !self.require.is_empty() {
            let need = |(key, value): &(String, String)| json!({ "key": key, "op": "in", "values": [value] });
            let labels: Vec<Value> = self.require.iter().map(need).collect();
            job.insert("requires".to_owned(), json!({ "labels": labels }));
        }
        if let Some(text) = &self.array {
            let mut array = match text.parse::<u32>() {
                Ok(count) => json!({ "count": count }),
                Err(_) => json!({ "indices": text }),
            };
            if let Some(most) = self.max_parallel {
                array["max_parallel"] = most.into();
            }
            job.insert("array".to_owned(), array);
        }
        job.extend(self.gang.map(|size| ("gang".to_owned(), json!({ "size": size }))));
        job.extend(self.not_before.map(|at| ("not_before".to_owned(), json!(at.to_string()))));
        Ok(job)
    }
}

/// Puts a field on top: objects are joined, everything else is replaced.
fn merge(job: &mut Map<String, Value>, key: String, value: Value) {
    match (job.get_mut(&key), value) {
        (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
        (_, value) => {
            job.insert(key, value);
        }
    }
}

/// Submits a job.
pub(super) async fn submit(args: SubmitArgs) -> Result<Exit, Failure> {
    let Some(limit) = args.wait_timeout else { return submitted(&args).await };
    let over = || Failure::new(Exit::TimedOut, format!("not ended within {limit}"));
    tokio::time::timeout(limit.get(), submitted(&args)).await.unwrap_or_else(|_| Err(over()))
}

async fn submitted(args: &SubmitArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let mut body = args.body()?;
    if let Some(inputs) = args.inputs.upload(&client, args.target.tenant.as_deref()).await? {
        body["artifacts_in"] = inputs.into();
    }
    // As programs that trace hand their context to those they start.
    let traceparent = std::env::var("TRACEPARENT").ok().filter(|text| Context::parse(text).is_some());
    let asked = ApiRequest::post("/jobs", Some(&body)).with("idempotency-key", client.key(args.key.as_ref()));
    let asked = asked.with("traceparent", traceparent);
    let made = client.ask(asked).await?.body;
    for warning in made["warnings"].as_array().into_iter().flatten() {
        output::tell(&format!("warning: {}", warning.as_str().unwrap_or_default()));
    }
    let ids: Vec<String> =
        made["ids"].as_array().into_iter().flatten().filter_map(|id| id.as_str().map(str::to_owned)).collect();
    let waits = args.wait || args.follow || args.exit_code || args.wait_timeout.is_some();
    let structured = matches!(args.target.output, Format::Json | Format::Yaml);
    if args.follow {
        ids.iter().for_each(|id| output::tell(id));
    } else if !(waits && structured) {
        let shown = args.target.shown(&made, |_| ids.clone())?;
        output::print(&shown.unwrap_or_else(|| ids.join("\n")))?;
    }
    if !waits {
        return Ok(Exit::Done);
    }
    wait::unless_given_up(&ids, all_ended(args, &client, &ids)).await
}

async fn all_ended(args: &SubmitArgs, client: &Client, ids: &[String]) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for id in ids {
        let address = Address { job: id.clone(), indices: None };
        let mut progress = (!args.follow).then(Progress::new);
        if args.follow {
            logs::show(client, &address, &Showing { follow: true, prefix: true, ..Showing::default() }).await?;
        }
        let job = wait::ended(client, &address, progress.as_mut()).await?;
        drop(progress);
        match args.target.output {
            Format::Json | Format::Yaml if !args.follow => {
                output::print(&output::serialized(&job, args.target.output)?)?;
            }
            _ => {
                let reason = text(&job, "reason");
                let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
                output::tell(&format!("{id} {}{why}", text(&job, "state")));
            }
        }
        if exit == Exit::Done {
            exit = if args.exit_code { wait::own_exit_of(client, &job).await? } else { wait::exit_of(&job) };
        }
    }
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use orlop_core::spec::job::JobSpec;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SubmitArgs,
    }

    fn body(line: &str) -> Value {
        let words = std::iter::once("submit").chain(line.split_whitespace());
        Line::try_parse_from(words).map_err(|error| error.to_string()).unwrap().args.body().unwrap()
    }

    #[test]
    fn options_become_a_specification_that_the_server_takes() {
        let json = body(
            "--name n --cpu 500m --memory 1Gi --gpus nvidia:a100:2 --extra fpga=2 --env A=b --priority 2 --timeout 1m --retries 3 \
             --array 0-9 --max-parallel 2 --require zone=b --label x=y --not-before 2026-11-21T09:00:00Z \
             --tenant physics --secret db-key --secret db-key=PASS --secret tls:keys/tls -- echo {{index}}",
        );
        let secrets = ["env DB_KEY", "env PASS", "file keys/tls"];
        let shown =
            |secret: &Value| format!("{} {}", secret["as"].as_str().unwrap(), secret["target"].as_str().unwrap());
        assert_eq!(json["secret_refs"].as_array().unwrap().iter().map(shown).collect::<Vec<_>>(), secrets);
        let spec = JobSpec::from_json(&json).map_err(|errors| errors.to_string()).unwrap();
        assert_eq!((spec.resources.cpu_m, spec.resources.memory_bytes), (500, 1 << 30));
        assert_eq!((spec.priority, spec.timeout_ms, spec.retries), (2, 60_000, 3));
        assert_eq!(spec.command, ["echo", "{{index}}"]);
        assert_eq!((spec.resources.gpus.count, spec.resources.extras["fpga"]), (2, 2));
        assert_eq!(spec.array.unwrap().max_parallel, Some(2));
        assert_eq!(spec.tenant.unwrap().as_str(), "physics");
        let gang = JobSpec::from_json(&body("--gang 4 --image busybox")).unwrap();
        assert_eq!(gang.gang.unwrap().size, 4);
        assert_eq!(body("--array 5 -- true")["array"], json!({ "count": 5 }));
    }

    #[test]
    fn arguments_that_are_no_text_are_refused_with_what_to_do() {
        use std::os::unix::ffi::OsStringExt as _;
        let words = ["submit", "--", "cat"].map(OsString::from).into_iter();
        let words = words.chain([OsString::from_vec(b"caf\xe9.txt".to_vec())]);
        let refused = Line::try_parse_from(words).unwrap().args.body().unwrap_err().to_string();
        assert!(refused.contains("argument 1 of the command") && refused.contains("give it with --in"), "{refused}");
    }

    #[test]
    fn options_go_on_top_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("job.yaml");
        std::fs::write(&file, "command: [make]\nresources: {cpu_m: 2, memory_bytes: 1Gi}\n").unwrap();
        let json = body(&format!("-f {} --cpu 4 --priority 1", file.display()));
        assert_eq!(json["resources"], json!({ "cpu_m": "4", "memory_bytes": "1Gi" }));
        assert_eq!((&json["priority"], &json["command"]), (&json!(1), &json!(["make"])));
    }
}
