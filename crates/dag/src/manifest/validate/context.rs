//! What the checks of one flow share: its limits and an index of its steps. Owns lookups; never reports.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};

use orlop_core::spec::flow::{FlowParameter, JobFlow, template_name};
use orlop_core::spec::step::Step;

use crate::manifest::path::Path;
use crate::manifest::schema::nearest;
use crate::manifest::substrate::Target;
use crate::manifest::violation::{Note, Severity, shown};
use crate::when::{Parameters, Secrecy, Steps};

/// Steps a flow may have on Kubernetes.
const STEPS_KUBERNETES: usize = 10_000;
/// Steps a flow may have elsewhere.
const STEPS_ELSEWHERE: usize = 100_000;
/// Step names on each side that are compared with a misspelt one.
const NEIGHBOURS: usize = 128;
/// Bytes a stored manifest may have on Kubernetes.
const BYTES_KUBERNETES: usize = 768 << 10;

/// What depends on where a flow runs and on how strict its reader is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Whether the flow is stored in Kubernetes and runs there.
    pub kubernetes: bool,
    /// The most steps of a flow, `finally` included.
    pub steps: usize,
    /// The most items of a `withItems` list.
    pub items: usize,
    /// The most bytes of the stored object, as JSON; none: no limit.
    pub bytes: Option<usize>,
    /// Whether warnings are errors: unknown template fields, fields that the target ignores.
    pub strict: bool,
    /// Whether containers may have no image: outside Kubernetes they then run as processes, or with a default image.
    pub image_optional: bool,
    /// Whether steps may have no template: they are then functions of the program that runs the flow.
    pub template_optional: bool,
    /// Whether the Kubernetes controller reads secrets and writes them into Jobs as text, in place of references.
    pub secrets_as_text: bool,
    /// Whether artifacts can be moved and stored where the flow runs. On Kubernetes a helper in the pods does it, which an operator may
    /// not have.
    pub artifacts: bool,
    /// Where steps run outside Kubernetes; fields it ignores or refuses are reported when given.
    pub target: Option<Target>,
}

impl Limits {
    /// Limits of flows that are stored in Kubernetes and run there.
    #[must_use]
    pub const fn kubernetes() -> Self {
        Self {
            kubernetes: true,
            steps: STEPS_KUBERNETES,
            items: STEPS_KUBERNETES,
            bytes: Some(BYTES_KUBERNETES),
            strict: false,
            image_optional: false,
            template_optional: false,
            secrets_as_text: false,
            artifacts: true,
            target: None,
        }
    }

    /// Limits of flows that are stored elsewhere, whatever runs them.
    #[must_use]
    pub const fn elsewhere() -> Self {
        Self {
            kubernetes: false,
            steps: STEPS_ELSEWHERE,
            items: STEPS_ELSEWHERE,
            bytes: None,
            strict: false,
            image_optional: false,
            template_optional: false,
            secrets_as_text: false,
            artifacts: true,
            target: None,
        }
    }

    /// Limits of flows that run at a place outside Kubernetes, with errors and warnings about fields that this place does not support.
    #[must_use]
    pub fn at(target: Target) -> Self {
        Self { target: Some(target), ..Self::elsewhere() }
    }

    /// The same limits where steps without an image run as processes.
    #[must_use]
    pub fn images_optional(mut self) -> Self {
        self.image_optional = true;
        self
    }

    /// The same limits where steps without a template run as functions.
    #[must_use]
    pub fn templates_optional(mut self) -> Self {
        self.template_optional = true;
        self
    }

    /// The same limits, refusing what is otherwise warned about.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// How grave something is that strict readers refuse.
    pub(super) const fn lenient(&self) -> Severity {
        if self.strict { Severity::Error } else { Severity::Warning }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::kubernetes()
    }
}

/// A step under check.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) step: &'a Step,
    pub(super) path: &'a Path<'a>,
    pub(super) finally: bool,
}

/// What the checks of one flow share.
pub(super) struct Context<'f> {
    pub(super) flow: &'f JobFlow,
    pub(super) limits: &'f Limits,
    /// Parameters of the flow, and whether each is secret.
    pub(super) secrecy: BTreeMap<&'f str, bool>,
    /// The same for conditions.
    pub(super) parameters: Parameters<'f>,
    names: BTreeMap<&'f str, (bool, usize)>,
    /// Output parameters and output artifacts, by step.
    outputs: BTreeSet<(&'f str, &'f str)>,
    artifacts: BTreeSet<(&'f str, &'f str)>,
    claims: BTreeSet<&'f str>,
    /// Steps and outputs that `steps` see, that `finally` see, and `finally` alone.
    scopes: [Steps<'f>; 3],
}

impl<'f> Context<'f> {
    pub(super) fn new(flow: &'f JobFlow, limits: &'f Limits) -> Self {
        let mut names = BTreeMap::new();
        let (mut given, mut artifacts) = (BTreeSet::new(), BTreeSet::new());
        let mut scopes = [Steps::new(), Steps::new(), Steps::new()];
        for (steps, finally) in [(&flow.spec.steps, false), (&flow.spec.finally, true)] {
            for (index, step) in steps.iter().enumerate() {
                names.entry(step.name.as_str()).or_insert((finally, index));
                let [main, all, last] = &mut scopes;
                let outputs = || step.output_parameters().iter().map(|output| output.name.as_str());
                if !flow.spec.finally.is_empty() {
                    all.declare(&step.name, outputs());
                }
                if finally { last } else { main }.declare(&step.name, outputs());
                given.extend(outputs().map(|output| (step.name.as_str(), output)));
                artifacts.extend(
                    step.output_artifacts().iter().map(|artifact| (step.name.as_str(), artifact.name.as_str())),
                );
            }
        }
        let secret = |parameter: &'f FlowParameter| {
            let from = parameter.value_from.as_ref();
            (parameter.name.as_str(), from.is_some_and(|from| from.secret_key_ref.is_some()))
        };
        let secrecy: BTreeMap<_, _> = flow.spec.parameters.iter().map(secret).collect();
        let word = |secret: bool| if secret { Secrecy::Secret } else { Secrecy::Plain };
        let parameters = secrecy.iter().map(|(name, secret)| (*name, word(*secret))).collect();
        let templates = flow.spec.resource_templates.as_ref();
        let claims = templates.map_or(&[][..], |templates| &templates.volume_claim_templates);
        let claims = claims.iter().filter_map(template_name).collect();
        Self { flow, limits, secrecy, parameters, names, outputs: given, artifacts, claims, scopes }
    }

    /// Steps whose results a step may read.
    pub(super) fn visible(&self, finally: bool) -> &Steps<'f> {
        let [main, all, _] = &self.scopes;
        if finally { all } else { main }
    }

    /// Steps a step may wait for.
    pub(super) fn siblings(&self, finally: bool) -> &Steps<'f> {
        let [main, _, last] = &self.scopes;
        if finally { last } else { main }
    }

    /// The first step of a name, and whether it is in `finally`.
    pub(super) fn step(&self, name: &str) -> Option<(&'f Step, bool)> {
        let &(finally, index) = self.names.get(name)?;
        Some((self.list(finally).get(index)?, finally))
    }

    /// Where the first step of a name stands.
    pub(super) fn position(&self, name: &str) -> Option<(bool, usize)> {
        self.names.get(name).copied()
    }

    /// What to say about a step that does not exist.
    pub(super) fn no_step(&self, name: &str) -> Note {
        // In a long list the alphabetical neighbours are the ones worth comparing.
        let before = self.names.range::<str, _>((Unbounded, Excluded(name))).rev().take(NEIGHBOURS);
        let after = self.names.range::<str, _>((Included(name), Unbounded)).take(NEIGHBOURS);
        let guess = nearest(name, before.chain(after).map(|(known, _)| *known));
        let help = guess.map(|guess| format!("did you mean `{guess}`?"));
        Note::new(format!("there is no step {}", shown(name)), help)
    }

    /// Whether the flow creates a claim that steps may call by this name, short or prefixed.
    pub(super) fn is_claim_template(&self, name: &str) -> bool {
        let short = name.strip_prefix(self.flow.metadata.name.as_str()).and_then(|rest| rest.strip_prefix('-'));
        self.claims.contains(name) || short.is_some_and(|short| self.claims.contains(short))
    }

    /// Whether a step declares an output parameter.
    pub(super) fn gives_parameter(&self, step: &str, name: &str) -> bool {
        self.outputs.contains(&(step, name))
    }

    /// Whether a step declares an output artifact.
    pub(super) fn gives_artifact(&self, step: &str, name: &str) -> bool {
        self.artifacts.contains(&(step, name))
    }

    /// `finally` or `steps`.
    pub(super) fn list(&self, finally: bool) -> &'f [Step] {
        if finally { &self.flow.spec.finally } else { &self.flow.spec.steps }
    }

    /// Steps and then `finally`.
    pub(super) fn steps(&self) -> impl Iterator<Item = &'f Step> {
        self.flow.spec.steps.iter().chain(&self.flow.spec.finally)
    }
}
