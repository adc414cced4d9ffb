//! Where secrets may stand in a `batch/v1` Job template, and the Job that has them there: as
//! `secretKeyRef`, never as text. The same form serves Kubernetes and all other drivers, which resolve the references of
//! the environment themselves. Owns the placement; never sees a secret.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::spec::meta::KeyRef;
use serde_json::{Map, Value, json};

use super::expansion::Referring;
use super::placeholder::{Placeholder, scan, sole};
use super::scope::{Lookup, Scope};
use super::substitute::{Fault, Meter, SubstituteError, Use, guard_depth};
use super::tree::{FieldPath, Segment, for_each_text, rewrite};

/// Prefix of the variables that carry secrets into command, args and longer env values.
pub const VARIABLE_PREFIX: &str = "ORLOP_SECRET_";

/// A container of the pod template: which list, which item.
type ContainerKey<'t> = (&'t str, usize);

/// A place where a secret may stand.
#[derive(Clone, Copy)]
enum Spot<'t> {
    /// `env[j].value` of a container.
    EnvValue(ContainerKey<'t>, usize),
    /// An item of `command` or `args` of a container.
    Word(ContainerKey<'t>),
}

impl<'t> Spot<'t> {
    /// The spot at a place of a Job.
    fn at(place: &[Segment<'t>]) -> Option<Self> {
        use Segment::{Field, Index};
        let [Field("spec"), Field("template"), Field("spec"), Field(list), Index(at), inside @ ..] = place else {
            return None;
        };
        if !matches!(*list, "containers" | "initContainers") {
            return None;
        }
        match inside {
            [Field("env"), Index(entry), Field("value")] => Some(Self::EnvValue((*list, *at), *entry)),
            [Field("command" | "args"), Index(_)] => Some(Self::Word((*list, *at))),
            _ => None,
        }
    }

    const fn container(self) -> ContainerKey<'t> {
        match self {
            Self::EnvValue(container, _) | Self::Word(container) => container,
        }
    }
}

/// The uses of secret parameters where no secret may stand: everywhere but in env values, command and args of
/// containers and init containers.
#[must_use]
pub fn misplaced_secrets<'t>(template: &'t Value, is_secret: &dyn Fn(&str) -> bool) -> Vec<Use<'t>> {
    let mut misplaced = Vec::new();
    for_each_text(template, |place, text| {
        if Spot::at(place).is_none() {
            let secrets = scan(text).into_iter().filter(|placeholder| is_secret(placeholder.name));
            misplaced
                .extend(secrets.map(|placeholder| Use { name: placeholder.name, field: FieldPath(place).to_string() }));
        }
    });
    misplaced
}

impl Scope {
    /// A copy of a Job template with all placeholders substituted and secrets placed.
    ///
    /// An env value that is exactly one secret placeholder becomes `valueFrom.secretKeyRef`. Inside a longer env value,
    /// in command and in args a secret becomes `$(ORLOP_SECRET_<k>)`, and that variable stands first in the container's
    /// env. An optional secret that is missing reads as empty text there.
    ///
    /// # Errors
    /// The first text that cannot be substituted, with its place: a name without value, or a secret elsewhere.
    pub fn fill_template(&self, template: &Value) -> Result<Value, SubstituteError> {
        guard_depth(template)?;
        let mut placement = Placement { scope: self, template, meter: Meter::new(), containers: BTreeMap::new() };
        let mut job = rewrite(template, &mut Vec::new(), &mut |place, text| {
            placement.text(place, text).map_err(|fault| SubstituteError::at(place, fault))
        })?;
        for (key, needs) in placement.containers {
            needs.add_to(&mut job, key)?;
        }
        Ok(job)
    }
}

/// The work of one template.
struct Placement<'t> {
    scope: &'t Scope,
    template: &'t Value,
    meter: Meter,
    containers: BTreeMap<ContainerKey<'t>, Needs<'t>>,
}

impl<'t> Placement<'t> {
    fn text(&mut self, place: &[Segment<'t>], text: &'t str) -> Result<Option<String>, Fault> {
        if self.scope.is_empty() {
            return Ok(None);
        }
        let placeholders = scan(text);
        if placeholders.is_empty() {
            return Ok(None);
        }
        let spot = Spot::at(place);
        if let (Some(Spot::EnvValue(container, entry)), Some(only)) = (spot, sole(text))
            && let Lookup::Secret(secret) = self.scope.lookup(only.name)
        {
            self.needs(container).whole.push((entry, secret));
            return Ok(None);
        }
        let mut out = Referring::default();
        let mut from = 0;
        for placeholder in placeholders {
            out.push_text(text.get(from..placeholder.range.start).unwrap_or_default());
            from = placeholder.range.end;
            self.piece(spot, &placeholder, &mut out)?;
        }
        out.push_text(text.get(from..).unwrap_or_default());
        Ok(Some(out.finish()))
    }

    fn piece(
        &mut self,
        spot: Option<Spot<'t>>,
        placeholder: &Placeholder<'_>,
        out: &mut Referring,
    ) -> Result<(), Fault> {
        let name = || placeholder.name.to_owned();
        match self.scope.lookup(placeholder.name) {
            Lookup::Plain(value) => {
                self.meter.take(&value)?;
                out.push_text(&value);
            }
            Lookup::Secret(secret) => {
                let container = spot.ok_or_else(|| Fault::Secret { name: name() })?.container();
                out.push_reference(&self.needs(container).variable(secret));
            }
            Lookup::Unresolved => return Err(Fault::Unresolved { name: name() }),
        }
        Ok(())
    }

    fn needs(&mut self, container: ContainerKey<'t>) -> &mut Needs<'t> {
        let template = self.template;
        self.containers.entry(container).or_insert_with(|| Needs::of(template, container))
    }
}

/// What one container needs for its secrets.
struct Needs<'t> {
    /// Names of its own variables.
    taken: BTreeSet<&'t str>,
    /// Variables to put first, with the secrets they carry.
    variables: Vec<(String, &'t KeyRef)>,
    /// Entries of its env that are one secret each.
    whole: Vec<(usize, &'t KeyRef)>,
    /// Number of the next variable.
    next: usize,
}

impl<'t> Needs<'t> {
    fn of(template: &'t Value, (list, at): ContainerKey<'t>) -> Self {
        let env =
            template.pointer("/spec/template/spec").and_then(|pod| pod.get(list)?.get(at)?.get("env")?.as_array());
        let taken = env.into_iter().flatten().filter_map(|entry| entry.get("name")?.as_str()).collect();
        Self { taken, variables: Vec::new(), whole: Vec::new(), next: 0 }
    }

    /// The variable that carries a secret: one per secret, under a name the container does not use.
    fn variable(&mut self, secret: &'t KeyRef) -> String {
        if let Some((name, _)) = self.variables.iter().find(|(_, known)| *known == secret) {
            return name.clone();
        }
        loop {
            let name = format!("{VARIABLE_PREFIX}{}", self.next);
            self.next += 1;
            if !self.taken.contains(name.as_str()) {
                self.variables.push((name.clone(), secret));
                return name;
            }
        }
    }

    fn add_to(self, job: &mut Value, key: ContainerKey<'t>) -> Result<(), SubstituteError> {
        let (list, at) = key;
        let pod = [Segment::Field("spec"), Segment::Field("template"), Segment::Field("spec")];
        let place = [&pod[..], &[Segment::Field(list), Segment::Index(at), Segment::Field("env")]].concat();
        let malformed = || SubstituteError::at(&place, Fault::Malformed { wanted: "a list" });
        let container = job
            .pointer_mut("/spec/template/spec")
            .and_then(|pod| pod.get_mut(list)?.get_mut(at)?.as_object_mut())
            .ok_or_else(malformed)?;
        let env = container.entry("env").or_insert_with(|| Value::Array(Vec::new()));
        if env.is_null() {
            *env = Value::Array(Vec::new());
        }
        let env = env.as_array_mut().ok_or_else(malformed)?;
        for (entry, secret) in self.whole {
            let entry = env.get_mut(entry).and_then(Value::as_object_mut).ok_or_else(malformed)?;
            entry.remove("value");
            entry.insert("valueFrom".to_owned(), secret_source(secret));
        }
        env.splice(0..0, self.variables.into_iter().flat_map(|(name, secret)| variable_entries(&name, secret)));
        Ok(())
    }
}

/// The env entries of a variable. An optional secret gets an empty value first: where the secret is missing its entry is
/// passed over, and a reference to a variable without value would stay as text.
fn variable_entries(name: &str, secret: &KeyRef) -> Vec<Value> {
    let carried = json!({"name": name, "valueFrom": secret_source(secret)});
    if secret.optional == Some(true) { vec![json!({"name": name, "value": ""}), carried] } else { vec![carried] }
}

fn secret_source(secret: &KeyRef) -> Value {
    let mut selector = Map::new();
    selector.insert("name".to_owned(), Value::from(secret.name.as_str()));
    selector.insert("key".to_owned(), Value::from(secret.key.as_str()));
    if let Some(optional) = secret.optional {
        selector.insert("optional".to_owned(), Value::from(optional));
    }
    json!({"secretKeyRef": selector})
}

#[cfg(test)]
mod tests;
