//! Admission webhooks as their configurations describe them: which requests they are asked about, what they are asked, and
//! what becomes of an answer or of none. Who answers is the test's matter.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::time::Time;
use serde::Deserialize;
use serde_json::{Value, json};

use super::conditions::{self, Compiled, Condition};
use super::kind::Kind;
use super::object::{Object, meta};
use super::patching::json;
use super::refusal::{Refusal, Result as Outcome};
use super::request::{Call, Verb};
use super::selector::Selector;
use super::state::State;
use crate::admission::{Settings, Webhook};

/// The form of questions and answers.
const VERSION: &str = "admission.k8s.io/v1";

/// A call of a webhook.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WebhookCall<'a> {
    /// The path it is asked under.
    pub path: &'a str,
    /// The AdmissionReview.
    pub review: &'a Value,
    /// The server's time.
    pub at: Time,
}

/// Who answers webhooks: gives the review with its answer. An error says why there is none, as in `connection refused`. It
/// must not ask the server for anything, which waits for it.
pub type Reviewer = Arc<dyn Fn(WebhookCall<'_>) -> Result<Value, String> + Send + Sync>;

/// The operator's own answers about flows, without a connection.
#[must_use]
pub fn flow_reviewer(settings: Settings) -> Reviewer {
    Arc::new(move |WebhookCall { path, review, at }| {
        let webhook = Webhook::of(path).ok_or_else(|| format!("404 for {path}"))?;
        let answer = webhook.answer(review.to_string().as_bytes(), &settings, at);
        if answer.code == 200 { Ok(answer.body) } else { Err(format!("{} {}", answer.code, answer.body)) }
    })
}

/// A document of `admissionregistration.k8s.io/v1`. What it holds beyond this is refused, so that no test relies on what is
/// not done.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Configuration {
    api_version: String,
    kind: String,
    #[serde(rename = "metadata")]
    _metadata: Value,
    webhooks: Vec<Entry>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    name: String,
    client_config: ClientConfig,
    rules: Vec<Rule>,
    #[serde(default)]
    failure_policy: FailurePolicy,
    match_policy: Option<String>,
    namespace_selector: Option<LabelSelector>,
    side_effects: String,
    timeout_seconds: Option<u32>,
    admission_review_versions: Vec<String>,
    reinvocation_policy: Option<String>,
    #[serde(default)]
    match_conditions: Vec<Condition>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClientConfig {
    service: Option<Service>,
    url: Option<String>,
    ca_bundle: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Service {
    namespace: String,
    name: String,
    path: Option<String>,
    port: Option<u16>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    operations: Vec<String>,
    resources: Vec<String>,
    scope: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
enum FailurePolicy {
    #[default]
    Fail,
    Ignore,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LabelSelector {
    #[serde(default)]
    match_labels: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    match_expressions: Vec<Expression>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expression {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

impl LabelSelector {
    /// The same as the text of a request.
    fn text(&self) -> Result<String, String> {
        let mut parts: Vec<String> = self.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        for Expression { key, operator, values } in &self.match_expressions {
            parts.push(match operator.as_str() {
                "In" => format!("{key} in ({})", values.join(",")),
                "NotIn" => format!("{key} notin ({})", values.join(",")),
                "Exists" => key.clone(),
                "DoesNotExist" => format!("!{key}"),
                other => return Err(format!("{other:?} is no operator of a label selector")),
            });
        }
        Ok(parts.join(","))
    }
}

/// One webhook that is asked.
#[derive(Clone)]
pub(crate) struct Registered {
    entry: Entry,
    /// Where it is asked.
    path: String,
    mutates: bool,
    namespaces: Selector,
    conditions: Vec<Compiled>,
    reviewer: Reviewer,
}

/// Reads a configuration; what an API server refuses of one is refused.
pub(crate) fn read(configuration: &Value, reviewer: &Reviewer) -> Result<Vec<Registered>, String> {
    let read: Configuration = serde_json::from_value(configuration.clone()).map_err(|error| error.to_string())?;
    let mutates = match read.kind.as_str() {
        "MutatingWebhookConfiguration" => true,
        "ValidatingWebhookConfiguration" => false,
        other => return Err(format!("{other} is no configuration of webhooks")),
    };
    if read.api_version != "admissionregistration.k8s.io/v1" {
        return Err(format!("no kind {} in {}", read.kind, read.api_version));
    }
    let registered = |entry: Entry| {
        check(&entry, mutates).map_err(|why| format!("webhook {}: {why}", entry.name))?;
        let text = entry.namespace_selector.clone().unwrap_or_default().text()?;
        let namespaces = Selector::of_labels(&text).map_err(|refusal| refusal.message)?;
        let path = entry.path().map_err(|why| format!("webhook {}: {why}", entry.name))?;
        let conditions = entry.match_conditions.iter().map(Condition::compile).collect::<Result<_, _>>();
        let conditions = conditions.map_err(|why| format!("webhook {}: {why}", entry.name))?;
        Ok(Registered { entry, path, mutates, namespaces, conditions, reviewer: Arc::clone(reviewer) })
    };
    read.webhooks.into_iter().map(registered).collect()
}

fn check(entry: &Entry, mutates: bool) -> Result<(), String> {
    let known = |word: Option<&str>, words: &[&str]| word.is_none_or(|word| words.contains(&word));
    let rules = entry.rules.iter();
    let operations = ["CREATE", "UPDATE", "DELETE", "CONNECT", "*"];
    let wrong = [
        (entry.name.split('.').count() < 3, "its name has fewer than three parts"),
        (!known(Some(&entry.side_effects), &["None", "NoneOnDryRun"]), "sideEffects must be None or NoneOnDryRun"),
        (!entry.admission_review_versions.iter().any(|version| version == "v1"), "it does not take v1"),
        (!known(entry.match_policy.as_deref(), &["Exact", "Equivalent"]), "matchPolicy must be Exact or Equivalent"),
        (entry.timeout_seconds.is_some_and(|time| !(1..=30).contains(&time)), "timeoutSeconds must be 1 to 30"),
        (entry.reinvocation_policy.is_some() && !mutates, "only what mutates has a reinvocationPolicy"),
        (
            entry.client_config.ca_bundle.as_ref().is_some_and(|bundle| STANDARD.decode(bundle).is_err()),
            "its caBundle is no base64",
        ),
        (
            rules.clone().any(|rule| rule.operations.iter().any(|word| !operations.contains(&word.as_str()))),
            "an operation is not known",
        ),
        (
            rules.clone().any(|rule| !known(rule.scope.as_deref(), &["*", "Cluster", "Namespaced"])),
            "a scope is not known",
        ),
    ];
    wrong.iter().find(|(is, _)| *is).map_or(Ok(()), |(_, why)| Err((*why).to_owned()))
}

impl Entry {
    /// Where it is asked, without the host.
    fn path(&self) -> Result<String, String> {
        match (&self.client_config.service, &self.client_config.url) {
            (Some(service), None) => Ok(service.path.clone().unwrap_or_else(|| "/".to_owned())),
            (None, Some(url)) => {
                url::Url::parse(url).map(|url| url.path().to_owned()).map_err(|error| error.to_string())
            }
            _ => Err("it needs either a service or a url".to_owned()),
        }
    }

    /// The address as errors show it.
    fn address(&self, path: &str) -> String {
        let Some(service) = &self.client_config.service else {
            return self.client_config.url.clone().unwrap_or_default();
        };
        let (name, namespace) = (&service.name, &service.namespace);
        format!("https://{name}.{namespace}.svc:{}{path}?timeout=10s", service.port.unwrap_or(443))
    }

    fn concerns(&self, kind: &Kind, subresource: &str, operation: &str) -> bool {
        let has = |list: &[String], word: &str| list.iter().any(|item| item == "*" || item == word);
        let resource =
            if subresource.is_empty() { kind.plural.clone() } else { format!("{}/{subresource}", kind.plural) };
        let place = if kind.namespaced { "Namespaced" } else { "Cluster" };
        self.rules.iter().any(|rule| {
            let resources = &rule.resources;
            let named = resources.contains(&resource) || resources.iter().any(|item| item == "*/*");
            let named = named || subresource.is_empty() && resources.iter().any(|item| item == "*");
            let scope = rule.scope.as_deref().unwrap_or("*");
            named
                && has(&rule.api_groups, &kind.group)
                && has(&rule.api_versions, &kind.version)
                && has(&rule.operations, operation)
                && (scope == "*" || scope == place)
        })
    }
}

/// A write under review.
pub(crate) struct Write<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) call: &'a Call,
    pub(crate) verb: Verb,
    pub(crate) old: Option<&'a Object>,
}

/// Asks those that mutate, or those that validate.
pub(crate) fn ask(state: &mut State, write: &Write<'_>, mutates: bool, object: &mut Object) -> Outcome<()> {
    let operation = match write.verb {
        Verb::Create => "CREATE",
        Verb::Update => "UPDATE",
        _ => return Ok(()),
    };
    for webhook in state.webhooks.clone() {
        let subresource = &write.call.path.subresource;
        if webhook.mutates != mutates || !webhook.entry.concerns(write.kind, subresource, operation) {
            continue;
        }
        if write.kind.namespaced && !state.is_selected(&webhook.namespaces, meta(object, "namespace")) {
            continue;
        }
        let review = review(state, write, operation, object);
        match conditions::hold(&webhook.conditions, &review["request"]) {
            Ok(true) => {}
            Ok(false) => continue,
            // What cannot be decided is as if nobody had answered.
            Err(_) if webhook.entry.failure_policy == FailurePolicy::Ignore => continue,
            Err(why) => return Err(Refusal::with_code(500, Some(&format!("Internal error occurred: {why}")))),
        }
        let path = webhook.path.as_str();
        let asked = WebhookCall { path, review: &review, at: Time::from_millis(state.now()) };
        let unreachable = || Err("dial tcp: connect: connection refused".to_owned());
        let answer = if write.call.webhooks_down { unreachable() } else { (webhook.reviewer)(asked) };
        let answer = answer
            .map_err(|why| format!("failed to call webhook: Post {:?}: {why}", webhook.entry.address(path)))
            .and_then(|answer| verified(&review, answer));
        match answer {
            Ok(response) => webhook.take(state, &response, object)?,
            Err(_) if webhook.entry.failure_policy == FailurePolicy::Ignore => {}
            Err(why) => {
                let name = &webhook.entry.name;
                let message = format!("Internal error occurred: failed calling webhook {name:?}: {why}");
                return Err(Refusal::with_code(500, Some(&message)));
            }
        }
    }
    Ok(())
}

fn review(state: &mut State, write: &Write<'_>, operation: &str, object: &Object) -> Value {
    let Write { kind, call, old, .. } = write;
    let names = |name: &str| json!({"group": kind.group, "version": kind.version, "kind": name});
    let resource = json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
    let user = call.user.as_deref().unwrap_or(&call.client);
    let mut request = json!({
        "uid": state.random.uid(), "kind": names(&kind.kind), "resource": resource,
        "requestKind": names(&kind.kind), "requestResource": resource, "name": meta(object, "name"),
        "operation": operation, "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": object, "oldObject": old, "dryRun": call.options.dry_run, "options": null});
    if kind.namespaced {
        request["namespace"] = meta(object, "namespace").into();
    }
    if !call.path.subresource.is_empty() {
        request["subResource"] = call.path.subresource.as_str().into();
    }
    json!({"apiVersion": VERSION, "kind": "AdmissionReview", "request": request})
}

/// The response of an answer that is one.
fn verified(review: &Value, mut answer: Value) -> Result<Value, String> {
    let wrong = |why: &str| Err(format!("received invalid webhook response: {why}"));
    if answer["apiVersion"] != VERSION || answer["kind"] != "AdmissionReview" {
        return wrong("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview");
    }
    let response = answer["response"].take();
    if !response.is_object() {
        return wrong("webhook response was absent");
    }
    if response["uid"] != review["request"]["uid"] {
        return wrong("response.uid is that of another request");
    }
    if !response["patch"].is_null() && response["patchType"] != "JSONPatch" {
        return wrong("a patch without its type");
    }
    Ok(response)
}

impl Registered {
    /// What an answer does to the object.
    fn take(&self, state: &mut State, response: &Value, object: &mut Object) -> Outcome<()> {
        let warnings = response["warnings"].as_array().into_iter().flatten();
        state.warnings.extend(warnings.filter_map(|warning| warning.as_str().map(str::to_owned)));
        let name = &self.entry.name;
        if response["allowed"] != true {
            let status = &response["status"];
            let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(400);
            let message = match status["message"].as_str() {
                Some(why) => format!("admission webhook {name:?} denied the request: {why}"),
                None => format!("admission webhook {name:?} denied the request without explanation"),
            };
            return Err(Refusal::denied(code, &message, status["details"].clone()));
        }
        let Some(patch) = response["patch"].as_str().filter(|_| self.mutates) else { return Ok(()) };
        let broken = |why: &str| Refusal::with_code(500, Some(&format!("Internal error occurred: {why}")));
        let patch = STANDARD.decode(patch).map_err(|error| broken(&error.to_string()))?;
        let patch: Value = serde_json::from_slice(&patch).map_err(|error| broken(&error.to_string()))?;
        let mut value = Value::Object(std::mem::take(object));
        json::apply(&mut value, &patch).map_err(|failure| broken(&failure.to_string()))?;
        let Value::Object(changed) = value else { return Err(broken("the patch leaves no object")) };
        *object = changed;
        Ok(())
    }
}
