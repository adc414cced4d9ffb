//! The bounds and rules, each field with all that is wrong with it. Owns the
//! rules; never repairs anything.

use std::collections::{BTreeMap, BTreeSet};

use super::error::SpecErrors;
use super::part::{Array, Gang, Retry, Runtime, SecretAs};
use super::place::{KINDS_MAX, Resources, comparison, extra_variable};
use super::read::shown;
use super::{JobSpec, placeholder};
use crate::attempt::AttemptSpec;
use crate::hardware::gpu::GpuNeed;
use crate::hardware::placement::{LabelExpr, Operator};
use crate::id::{label_key, label_value};
use crate::spec::flow::template_name;

/// Bytes of a specification in its canonical form.
pub const SPEC_MAX: usize = 256 << 10;
/// Bytes of command, script and environment together.
pub const ARGS_MAX: usize = 128 << 10;
/// Elements of one array.
pub const ELEMENTS_MAX: u64 = 10_000_000;

/// Ten years: no duration of a job is longer.
const LONGEST_MS: u64 = 3_653 * 86_400_000;
/// Bytes of a path or image name.
const PATH_MAX: usize = 4096;
const CODES: &str = "exit codes from 0 to 255";

impl JobSpec {
    /// Checks every bound and rule.
    ///
    /// # Errors
    /// Everything that is wrong, sorted by place.
    pub fn check(&self) -> Result<(), SpecErrors> {
        let mut found = Checker { errors: SpecErrors::default(), placeholders: self.placeholders };
        found.identity(self);
        found.run(self);
        found.inputs(self);
        found.resources(&self.resources);
        found.places(self);
        found.times(self);
        found.retry(&self.retry);
        if self.step.is_some() {
            found.step(self);
        }
        if let Some(array) = &self.array {
            found.array(array, self.gang.is_some());
        }
        if let Some(gang) = &self.gang {
            found.gang(gang);
        }
        let size = self.encode().len();
        if self.step.is_some() && size > SPEC_MAX {
            let message = format!(
                "has {size} bytes with its inputs, at most {SPEC_MAX} can be sent to a worker; move data into an artifact"
            );
            found.say("step", message);
        } else {
            found.most("", size as u64, SPEC_MAX as u64, "bytes");
        }
        found.errors.or(())
    }
}

/// The faults found so far.
struct Checker {
    errors: SpecErrors,
    /// Whether texts may hold placeholders.
    placeholders: bool,
}

impl Checker {
    fn say(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.errors.add(path, message);
    }

    fn range(&mut self, path: &str, given: u64, least: u64, most: u64) {
        if given < least || given > most {
            let allowed = if most == u64::MAX { format!("{least} or more") } else { format!("{least} to {most}") };
            self.say(path, format!("is {given}; use {allowed}"));
        }
    }

    fn most(&mut self, path: &str, given: u64, most: u64, what: &str) {
        if given > most {
            self.say(path, format!("has {given} {what}; at most {most} are allowed"));
        }
    }

    /// A text of 1 to `most` bytes without control characters.
    fn text(&mut self, path: &str, text: &str, most: usize) {
        if text.is_empty() {
            self.say(path, "is empty");
        }
        self.most(path, text.len() as u64, most as u64, "bytes");
        if let Some(ch) = text.chars().find(|ch| ch.is_control()) {
            self.say(path, format!("contains {ch:?}; control characters are not allowed"));
        }
    }

    /// A text for the system: no NUL, and no placeholder but the known ones.
    fn argument(&mut self, path: &str, text: &str) {
        if text.contains('\0') {
            self.say(path, "contains a NUL, which cannot be passed to a program");
        }
        if let Some(word) = placeholder::unknown(text).filter(|_| self.placeholders) {
            let word = shown(word);
            let known = "use {{index}}, {{job}} or {{attempt}}, or `placeholders: false` to pass every text as it is";
            self.say(path, format!("`{{{{{word}}}}}` is not a placeholder; {known}"));
        }
    }

    /// A path that stays below its directory.
    fn path(&mut self, path: &str, text: &str) {
        self.text(path, text, PATH_MAX);
        self.argument(path, text);
        if text.starts_with('/') {
            self.say(path, "is absolute; use a path below the attempt's directory");
        }
        if text.split('/').any(|part| part == "..") {
            self.say(path, "leads out of the attempt's directory; use no `..`");
        }
    }

    /// A variable of the environment.
    fn variable(&mut self, path: &str, name: &str) {
        if name.is_empty() || name.contains(['=', '\0']) {
            self.say(path, "is not a valid variable name; use a text without `=` and NUL");
        }
        if name.starts_with("ORLOP_") {
            self.say(path, "is reserved; `ORLOP_*` is set by the agent");
        }
        self.most(path, name.len() as u64, 1024, "bytes");
    }

    fn identity(&mut self, spec: &JobSpec) {
        if !spec.name.is_empty() {
            self.text("name", &spec.name, 128);
        }
        self.most("labels", spec.labels.len() as u64, 64, "labels");
        for (key, value) in &spec.labels {
            if let Err(error) = label_key(key).and_then(|()| label_value(value)) {
                self.say(format!("labels.{}", shown(key)), error.to_string());
            }
        }
        if let Some(id) = &spec.correlation_id {
            self.text("correlation_id", id, 128);
            if !id.is_ascii() {
                self.say("correlation_id", "contains non-ASCII characters; it is sent in headers");
            }
        }
        self.range("priority", u64::from(spec.priority), 0, 9);
    }

    fn run(&mut self, spec: &JobSpec) {
        match (spec.runtime, &spec.image) {
            (Runtime::Process, Some(_)) => self.say("image", "is only for `docker`; leave it out or use that runtime"),
            (Runtime::Docker, None) if spec.step.is_none() => self.say("image", "is missing; `docker` needs one"),
            _ => {}
        }
        if let Some(image) = &spec.image {
            self.text("image", image, 512);
            if image.contains(char::is_whitespace) {
                self.say("image", "holds a blank");
            }
        }
        match (spec.command.is_empty(), &spec.script) {
            (false, Some(_)) => self.say("script", "is given together with a command; use one of the two"),
            (true, None) if spec.runtime == Runtime::Process && spec.step.is_none() => {
                self.say("command", "is missing; use a command or a script");
            }
            _ => {}
        }
        if spec.command.first().is_some_and(String::is_empty) {
            self.say("command[0]", "is empty; it names the program");
        }
        for (at, argument) in spec.command.iter().enumerate() {
            self.argument(&format!("command[{at}]"), argument);
        }
        if let Some(script) = &spec.script {
            if script.trim().is_empty() {
                self.say("script", "is empty");
            }
            if script.contains('\0') {
                self.say("script", "contains a NUL, which cannot be passed to a program");
            }
        }
        if let Some(shell) = &spec.shell {
            self.text("shell", shell, PATH_MAX);
            if spec.script.is_none() {
                self.say("shell", "is only for a script");
            }
        }
        let args = spec.command.iter().chain(&spec.script).map(|text| text.len() + 1).sum::<usize>();
        let env = spec.env.iter().map(|(key, value)| key.len() + value.len() + 2).sum::<usize>();
        let both = (args + env) as u64;
        self.most("env", both, ARGS_MAX as u64, "bytes together with the command");
    }

    fn inputs(&mut self, spec: &JobSpec) {
        self.most("env", spec.env.len() as u64, 512, "variables");
        for (name, value) in &spec.env {
            let path = format!("env.{}", shown(name));
            self.variable(&path, name);
            self.argument(&path, value);
        }
        if let Some(path) = &spec.working_dir {
            self.path("working_dir", path);
        }
        self.most("secret_refs", spec.secret_refs.len() as u64, 64, "secrets");
        let mut targets = BTreeSet::new();
        for (at, secret) in spec.secret_refs.iter().enumerate() {
            let path = format!("secret_refs[{at}]");
            self.text(&format!("{path}.name"), &secret.name, 128);
            let target = format!("{path}.target");
            match secret.given_as {
                SecretAs::File => self.path(&target, &secret.target),
                SecretAs::Env => {
                    self.variable(&target, &secret.target);
                    if spec.env.contains_key(&secret.target) {
                        self.say(&target, "is already set in `env`");
                    }
                }
            }
            if !targets.insert((secret.given_as, &secret.target)) {
                self.say(&target, "is already the target of another secret");
            }
        }
        self.artifacts(spec);
        self.range("log.limit", spec.log.limit, 0, 1 << 40);
    }

    fn artifacts(&mut self, spec: &JobSpec) {
        self.most("artifacts_in", spec.artifacts_in.len() as u64, 1024, "artifacts");
        for (at, file) in spec.artifacts_in.iter().enumerate() {
            let path = format!("artifacts_in[{at}]");
            self.text(&format!("{path}.name"), &file.name, 128);
            self.path(&format!("{path}.path"), &file.path);
            let wrong = |sha: &String| sha.len() != 64 || !sha.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if file.sha256.as_ref().is_some_and(wrong) {
                self.say(format!("{path}.sha256"), "is not a SHA-256 digest; use 64 lowercase hexadecimal digits");
            }
            if file.unpack && file.executable {
                self.say(format!("{path}.executable"), "is for a file; an archive says which of its files can be run");
            }
            if !file.unpack && file.path.split('/').all(|part| matches!(part, "" | ".")) {
                self.say(format!("{path}.path"), "is the work directory itself; name the file");
            }
        }
        self.input_paths(spec);
        self.most("artifacts_out", spec.artifacts_out.len() as u64, 256, "artifacts");
        let mut names = BTreeMap::new();
        for (at, file) in spec.artifacts_out.iter().enumerate() {
            let path = format!("artifacts_out[{at}]");
            self.text(&format!("{path}.name"), &file.name, 128);
            self.path(&format!("{path}.path"), &file.path);
            if file.name.starts_with('/') || file.name.split('/').any(|part| part == "..") {
                self.say(
                    format!("{path}.name"),
                    "leads out of the folder that artifacts are fetched into; name it otherwise",
                );
            }
            if let Some(other) = names.insert(&file.name, at) {
                self.say(format!("{path}.name"), format!("is the name of artifacts_out[{other}] too"));
            }
        }
    }

    /// No input stands where another does, or below one that is a file.
    fn input_paths(&mut self, spec: &JobSpec) {
        let mut places: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
        for (at, file) in spec.artifacts_in.iter().enumerate() {
            let place: Vec<&str> = file.path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
            if let Some(other) = places.insert(place, at) {
                self.say(format!("artifacts_in[{at}].path"), format!("is the path of artifacts_in[{other}] too"));
            }
        }
        for (place, at) in &places {
            let above = (1..place.len()).filter_map(|parts| places.get(place.get(..parts)?));
            let file = above.copied().find(|above| spec.artifacts_in.get(*above).is_some_and(|file| !file.unpack));
            if let Some(file) = file {
                self.say(format!("artifacts_in[{at}].path"), format!("is below artifacts_in[{file}], which is a file"));
            }
        }
    }

    fn resources(&mut self, resources: &Resources) {
        self.range("resources.cpu_m", resources.cpu_m, 1, u64::MAX);
        let gpus = &resources.gpus;
        self.range("resources.gpus.count", u64::from(gpus.count), 0, u64::from(GpuNeed::MAX_COUNT));
        self.most("resources.gpus.any_of", gpus.any_of.len() as u64, KINDS_MAX as u64, "kinds");
        if gpus.count == 0 && !gpus.any_of.is_empty() {
            self.say("resources.gpus.count", "is 0 although kinds of GPUs are given; use 1 or more");
        }
        self.most("resources.extras", resources.extras.len() as u64, 8, "counters");
        let mut variables = BTreeMap::new();
        for name in resources.extras.keys() {
            let count = extra_variable(name);
            let taken = [format!("{count}_UNITS"), count].map(|variable| variables.insert(variable, name));
            if let Some(other) = taken.into_iter().flatten().next() {
                let other = shown(other);
                self.say(
                    format!("resources.extras.{}", shown(name)),
                    format!("has the same variable in the job as `{other}`; rename one of them"),
                );
            }
            if let Err(error) = label_key(name) {
                let error = error.about("name of a counter");
                self.say(format!("resources.extras.{}", shown(name)), error.to_string());
            }
        }
    }

    fn places(&mut self, spec: &JobSpec) {
        self.most("requires.labels", spec.requires.labels.len() as u64, 64, "conditions");
        for (at, need) in spec.requires.labels.iter().enumerate() {
            self.label(&format!("requires.labels[{at}]"), need);
        }
        self.most("requires.features", spec.requires.features.len() as u64, 64, "features");
        for feature in &spec.requires.features {
            self.text("requires.features", feature, 128);
        }
        self.most("prefers", spec.prefers.len() as u64, 8, "conditions");
        for (at, prefer) in spec.prefers.iter().enumerate() {
            self.label(&format!("prefers[{at}].label"), &prefer.label);
            self.range(&format!("prefers[{at}].weight"), u64::from(prefer.weight), 1, 100);
        }
    }

    fn label(&mut self, path: &str, need: &LabelExpr) {
        if let Err(error) = label_key(&need.key) {
            self.say(format!("{path}.key"), error.to_string());
        }
        let path = format!("{path}.values");
        self.most(&path, need.values.len() as u64, 64, "values");
        match need.op {
            Operator::In | Operator::NotIn if need.values.is_empty() => {
                self.say(&path, "is empty; name one or more");
            }
            Operator::Exists | Operator::DoesNotExist if !need.values.is_empty() => {
                self.say(&path, format!("is not for `{}`; leave it out", comparison(need.op)));
            }
            Operator::Gt | Operator::Lt => {
                let numbers = need.values.iter().filter(|value| value.parse::<i64>().is_ok()).count();
                if numbers != 1 || need.values.len() != 1 {
                    self.say(&path, format!("is not one whole number, which `{}` needs", comparison(need.op)));
                }
            }
            _ => {}
        }
        for value in &need.values {
            self.most(&path, value.len() as u64, 63, "bytes in one value");
        }
    }

    fn times(&mut self, spec: &JobSpec) {
        self.range("timeout_ms", spec.timeout_ms, 0, LONGEST_MS);
        self.range("expected_ms", spec.expected_ms.unwrap_or(1), 1, LONGEST_MS);
        self.range("grace_ms", spec.grace_ms, 0, LONGEST_MS);
        self.range("queue_timeout_ms", spec.queue_timeout_ms.unwrap_or(1), 1, LONGEST_MS);
        self.range("retries", u64::from(spec.retries), 0, 100);
        if spec.success_codes.is_empty() {
            self.say("success_codes", "is empty; name one or more");
        }
        self.codes("success_codes", &spec.success_codes);
    }

    fn codes(&mut self, path: &str, codes: &BTreeSet<i32>) {
        if let Some(code) = codes.iter().find(|code| !(0..=255).contains(*code)) {
            self.say(path, format!("holds {code}; use {CODES}"));
        }
    }

    fn retry(&mut self, retry: &Retry) {
        if retry.on.is_empty() {
            self.say("retry.on", "is empty; use `failed`, `timed_out` or both, or leave it out");
        }
        if let Some(codes) = &retry.exit_codes {
            if codes.is_empty() {
                self.say("retry.exit_codes", "is empty; leave it out to retry with any");
            }
            self.codes("retry.exit_codes", codes);
        }
        self.range("retry.backoff", retry.backoff_ms, 0, LONGEST_MS);
        self.range("retry.max", retry.max_ms, 0, LONGEST_MS);
        if !(1000..=1_000_000).contains(&retry.factor_milli) {
            self.say("retry.factor", format!("is {}; use 1 to 1000", f64::from(retry.factor_milli) / 1000.0));
        }
        if retry.jitter_milli > 1000 {
            self.say("retry.jitter", format!("is {}; use 0 to 1", f64::from(retry.jitter_milli) / 1000.0));
        }
    }

    /// What a step says itself is said nowhere else.
    fn step(&mut self, spec: &JobSpec) {
        let others = [
            ("command", !spec.command.is_empty()),
            ("script", spec.script.is_some()),
            ("shell", spec.shell.is_some()),
            ("retries", spec.retries > 0),
            ("env", !spec.env.is_empty()),
            ("working_dir", spec.working_dir.is_some()),
            ("image", spec.image.is_some()),
            ("array", spec.array.is_some()),
            ("gang", spec.gang.is_some()),
        ];
        for (field, _) in others.into_iter().filter(|(_, is_set)| *is_set) {
            self.say(field, "cannot be combined with `step`; use one of the two");
        }
        let Some(step) = &spec.step else { return };
        let AttemptSpec { key, flow_name, namespace, job_name, .. } = &step.attempt;
        let templates = step.templates.iter().flat_map(|templates| {
            templates.volume_claim_templates.iter().chain(&templates.config_map_templates).filter_map(template_name)
        });
        let names = [
            ("attempt.key.flow", &*key.flow),
            ("attempt.key.step", &*key.step),
            ("attempt.flow_name", flow_name),
            ("attempt.namespace", namespace),
            ("attempt.job_name", job_name),
        ];
        for (field, name) in names.into_iter().chain(templates.map(|name| ("templates", name))) {
            // Workers make directories of these names.
            if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
                self.say(format!("step.{field}"), format!("{name:?} is not a name; use letters, digits and `-`"));
            }
        }
        if spec.runtime == Runtime::Docker && spec.image.is_none() {
            self.say("runtime", "is `docker`; a step says itself what runs it, use `process`");
        }
    }

    fn array(&mut self, array: &Array, gang: bool) {
        if gang {
            self.say("array", "is given together with a gang; use one of the two");
        }
        match (array.count, &array.indices) {
            (Some(count), None) => self.range("array.count", count, 1, ELEMENTS_MAX),
            (None, Some(text)) => match text.parse::<super::Indices>() {
                Ok(indices) => self.most("array.indices", indices.count(), ELEMENTS_MAX, "elements"),
                Err(error) => self.say("array.indices", error.to_string()),
            },
            _ => self.say("array", "needs `count` or `indices`, and one of them only"),
        }
        if array.max_parallel == Some(0) {
            self.say("array.max_parallel", "is 0; use 1 or more");
        }
    }

    fn gang(&mut self, gang: &Gang) {
        self.range("gang.size", u64::from(gang.size), 2, 4096);
        if let Some(most) = gang.max_per_worker {
            self.range("gang.max_per_worker", u64::from(most), 1, 4096);
        }
        if let Some(Err(error)) = gang.same_label.as_deref().map(label_key) {
            self.say("gang.same_label", error.to_string());
        }
    }
}
