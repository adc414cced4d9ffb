//! Secrets as text (`--secret-mode=read`): parameters of an attempt that are keys of Secrets are read where its
//! template or a download of it names them. Owns that one place; where nobody has asked for it no Secret is ever read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::spec::artifact::ArtifactInput;
use orlop_core::spec::meta::KeyRef;
use orlop_dag::attempt::Unresolved;
use orlop_dag::params::{Lookup, Scope, names_in};
use serde_json::{Value, json};

use super::Controller;
use super::memory::Memory;
use super::start::Start;
use crate::api::{Api, ApiError, Kind, Request};

/// How secrets get into the pods of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretMode {
    /// As references, which the kubelet resolves. The controller reads no Secret.
    #[default]
    Env,
    /// As text in the Job: everyone with the right to read Jobs of the namespace can read it.
    Read,
}

impl<A: Api> Controller<A> {
    /// The scope of an attempt with the text of the secrets that its template names. The inner error is final for this
    /// attempt.
    pub(super) async fn unveil(
        &self,
        memory: &Memory,
        start: &Start,
        mut scope: Scope,
    ) -> Result<Result<Scope, Unresolved>, ApiError> {
        let step = memory.plan.step(start.at.step).filter(|_| self.options.secrets == SecretMode::Read);
        let Some(step) = step else { return Ok(Ok(scope)) };
        let downloads: Vec<Value> = step.input_artifacts().iter().filter_map(download).collect();
        for name in step.template.iter().chain(&downloads).flat_map(names_in) {
            let Lookup::Secret(key_ref) = scope.lookup(name) else { continue };
            let key_ref = key_ref.clone();
            let unresolved = |message| Unresolved { name: name.to_owned(), message, retryable: true };
            let request = Request::get(Kind::Secret, &memory.owner.namespace, &key_ref.name);
            let secret = match self.api.send(&request).await {
                Ok(secret) => Some(secret),
                Err(error) if error.code == Some(404) => None,
                Err(error) if !error.class().is_retryable() => {
                    // What a server says about a Secret may hold what is in it.
                    return Ok(Err(unresolved(format!("Secret `{}`: {}", key_ref.name, error.unquoted()))));
                }
                Err(error) => return Err(error),
            };
            match text(secret.as_ref(), &key_ref) {
                Ok(text) => scope.bind(name, text),
                Err(message) => return Ok(Err(unresolved(message))),
            }
        }
        Ok(Ok(scope))
    }
}

/// Where the texts stand that a download is made of.
fn download(input: &ArtifactInput) -> Option<Value> {
    let http = input.http.as_ref()?;
    Some(json!([http.url, http.headers]))
}

/// The text of a key; what is optional and missing is empty.
fn text(secret: Option<&Value>, KeyRef { name, key, optional }: &KeyRef) -> Result<String, String> {
    let encoded = secret.and_then(|secret| secret.get("data")?.get(key)?.as_str());
    let Some(encoded) = encoded else {
        return match (optional, secret) {
            (Some(true), _) => Ok(String::new()),
            (_, None) => Err(format!("there is no Secret `{name}` in this namespace")),
            _ => Err(format!("Secret `{name}` has no key `{key}`")),
        };
    };
    let bytes = STANDARD.decode(encoded).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| format!("key `{key}` of Secret `{name}` is not UTF-8 text"))
}
