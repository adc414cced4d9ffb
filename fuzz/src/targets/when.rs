//! The condition language: what compiles is decided alike every time, errors point into the source, and no secret is read.

use std::borrow::Cow;

use orlop_dag::when::{Facts, Parameters, Scope, Secrecy, SourceError, Steps, compile};

use super::{STEPS, text};

/// One byte that chooses the scope and the facts, then a condition.
pub fn when(bytes: &[u8]) {
    let Some((choice, source)) = bytes.split_first() else { return };
    let Some(source) = text(source) else { return };
    let steps: Steps<'_> = STEPS.iter().map(|(name, outputs)| (*name, outputs.iter().copied())).collect();
    let plain = |name| (name, Secrecy::Plain);
    let flow: Parameters<'_> =
        ["env", "n", "list"].into_iter().map(plain).chain([("token", Secrecy::Secret)]).collect();
    let inputs: Parameters<'_> = [plain("env"), ("key", Secrecy::Secret)].into_iter().collect();
    let mut scope = Scope::new(&steps).flow_parameters(&flow);
    if choice & 1 == 1 {
        scope = scope.inputs(&inputs);
    }
    if choice & 2 == 2 {
        scope = scope.in_fan_out();
    }
    if choice & 4 == 4 {
        scope = scope.in_finally();
    }
    let condition = match compile(source, &scope) {
        Ok(condition) => condition,
        Err(error) => return check_error(&error, source),
    };
    let references = condition.references();
    assert!(references.steps().all(|name| steps.contains(name)));
    assert!(references.parameters().all(|name| !["token", "key"].contains(&name)), "{source:?} reads a secret");
    for world in [World { settled: true }, World { settled: choice & 8 == 8 }] {
        let answer = condition.eval(&world);
        assert_eq!(answer, condition.eval(&world), "{source:?}");
        if let Err(error) = &answer {
            assert!(error.range().start <= error.range().end && error.range().end <= source.len(), "{error:?}");
        }
        if let (Ok(answer), Ok(text)) = (answer, condition.text(&world)) {
            let read = matches!(text.trim().to_ascii_lowercase().as_str(), "true" | "1");
            assert_eq!(read, answer, "{source:?} gives {text:?}");
        }
    }
}

/// An error names a part of the source, and can be shown under it.
pub(super) fn check_error(error: &SourceError, source: &str) {
    let range = error.range();
    assert!(range.start <= range.end && range.end <= source.len(), "{range:?} of {source:?}: {error}");
    assert!(!error.message().is_empty());
    assert!(error.point_out(source).starts_with(error.message()));
}

/// A run in which everything has a value, or nothing.
struct World {
    settled: bool,
}

impl World {
    fn known<T>(&self, value: T) -> Option<T> {
        self.settled.then_some(value)
    }
}

impl Facts for World {
    fn step_phase(&self, step: &str) -> Option<&str> {
        self.known(if step == "test" { "Failed" } else { "Succeeded" })
    }

    fn step_reason(&self, _step: &str) -> Option<&str> {
        self.known("Timeout")
    }

    fn step_message(&self, _step: &str) -> Option<&str> {
        self.known("it's \"so\"\n{{ .x }}")
    }

    fn step_retry_count(&self, _step: &str) -> Option<u32> {
        self.known(u32::MAX)
    }

    fn output(&self, _step: &str, output: &str) -> Option<Cow<'_, str>> {
        self.known(match output {
            "count" => Cow::Borrowed("-9223372036854775808"),
            "sum" => Cow::Borrowed("[1,2]"),
            _ => Cow::Borrowed("sha256:é"),
        })
    }

    fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        self.known(match name {
            "n" => Cow::Borrowed("1e308"),
            "index" => Cow::Borrowed("7"),
            _ => Cow::Borrowed("prod' || true || '"),
        })
    }

    fn flow_name(&self) -> &str {
        "flow"
    }

    fn flow_namespace(&self) -> &str {
        "default"
    }

    fn flow_uid(&self) -> &str {
        "0f8fad5b-d9cb-469f-a165-70867728950e"
    }

    fn flow_phase(&self) -> &str {
        "Running"
    }

    fn flow_outcome(&self) -> Option<&str> {
        self.known("Failed")
    }

    fn flow_label(&self, _key: &str) -> Option<&str> {
        self.known("label")
    }

    fn flow_annotation(&self, _key: &str) -> Option<&str> {
        self.known("")
    }
}
