//! One attempt of a step, on any substrate: from the step to what a substrate needs to start it, and from its end to the event for
//! the engine. Owns what is the same on every substrate; starts nothing and reads no ConfigMap or Secret.
//!
//! ```
//! use orlop_core::attempt::Address;
//! use orlop_core::machine::flow::FlowPhase;
//! use orlop_dag::attempt::{Subject, bind, event, start_spec};
//! use orlop_dag::prelude::*;
//! let template = serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {
//!     "containers": [{"name": "main", "image": "busybox", "command": ["echo", "${parameters.word}"]}]}}}});
//! let step = Step::new("say").template(template).input(InputParameter::value("word", "hello"));
//! let plan = Plan::build(FlowSpec::new([step]).into())?;
//! let meta = FlowMeta { uid: "6d0d7a5e-93b1".into(), name: "greet".into(), ..FlowMeta::default() };
//! let (mut effects, now, at) = (Vec::new(), Time::EPOCH, Address::step(0));
//! let mut state = init(&plan, &meta, now, &mut effects);
//! apply(&plan, &mut state, &FlowEvent::Admit, now, &mut effects);
//!
//! // The effect StartAttempt was given: fill in the parameters and build the Job.
//! let binding = bind(&plan, &state, at, None)?;
//! let spec = start_spec(Subject { plan: &plan, meta: &meta, at, attempt: 1 }, &state, &binding.scope)?;
//! assert_eq!(spec.job_name, "greet-say-6d0d7a5e");
//! let command = "/spec/template/spec/containers/0/command/1";
//! assert_eq!(spec.template.pointer(command).and_then(|word| word.as_str()), Some("hello"));
//!
//! // The substrate has started it, and later reports its end.
//! let accepted = FlowEvent::AttemptAccepted { at, attempt: 1, reference: Default::default() };
//! apply(&plan, &mut state, &accepted, now, &mut effects);
//! let ended = event(&plan, at, 1, AttemptEnd::succeeded(now), false);
//! apply(&plan, &mut state, &ended, now, &mut effects);
//! assert_eq!(state.phase(), FlowPhase::Succeeded);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod artifacts;
mod bind;
mod collect;
mod items;
mod resource;
mod spec;
mod template;

pub use answer::{patience, resources_failed, shortage, start_failed};
pub use artifacts::{ArtifactError, collections, deliveries, imported_name};
pub use bind::{Binding, Unresolved, bind};
pub use collect::event;
pub use items::items;
pub use resource::{config_map_template, resource_name, rewrite_claim, rewrite_config_map, rewrite_job};
pub use spec::{Refusal, address, adoption_spec, grace, key, start_spec};
pub use template::{Subject, TemplateError, disown, indexed};
