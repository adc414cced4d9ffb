//! Conformance suite of the substrate port: what every substrate must do, one check a function. Owns the list of checks;
//! what real attempts run and how long to wait for them is the fixture's.

mod cancel;
mod end;
mod resources;
mod start;
mod suspend;
mod worlds;

use std::sync::Arc;

use crate::attempt::{AttemptEnd, AttemptKey, AttemptSpec};
use crate::ports::substrate::{AttemptReport, Substrate};
use crate::testing::suite::{Broken, Check, Suite, SuiteFailure};

pub use worlds::{Behaviour, ScriptedWorlds, SubstrateWorlds, shell_job};

/// How often it is looked whether an execution has begun.
const BEGIN_LOOKS: u32 = 12;

/// Named checks, each with a world of its own.
macro_rules! checks {
    ($worlds:ident: $($module:ident::{$($check:ident),+ $(,)?}),+ $(,)?) => {{
        let mut checks = Vec::<(&'static str, Check<'_>)>::new();
        $($({
            let stage = Stage { worlds: $worlds, number: u32::try_from(checks.len()).unwrap_or(u32::MAX) };
            checks.push((stringify!($check), Box::pin(async move { $module::$check(&stage).await })));
        })+)+
        checks
    }};
}

/// Checks a substrate against its port. Gives the names of the checks.
///
/// # Errors
/// Every check that does not hold, with the reason.
pub async fn substrate_suite<W: SubstrateWorlds>(worlds: &W) -> Result<Vec<&'static str>, SuiteFailure> {
    let mut suite = Suite::new("substrate");
    let checks = checks! { worlds:
        start::{
            an_attempt_succeeds,
            an_attempt_fails_with_its_exit_code,
            nothing_is_reported_unasked,
            a_start_names_what_it_created,
            started_twice_it_runs_once,
            started_again_after_its_end_it_is_reported_again,
            started_again_by_the_next_host_it_runs_once,
            started_again_by_the_next_host_its_end_is_reported,
            adopted_by_the_next_host_its_end_is_reported,
            adopted_by_the_next_host_after_its_end_it_is_reported,
            adopted_without_a_trace_it_is_lost,
            attempts_of_a_step_are_apart,
            instances_of_a_step_are_apart,
            flows_are_apart,
            many_are_each_reported_once,
            a_dropped_wait_loses_nothing,
        },
        end::{
            the_document_says_that_it_succeeded,
            the_document_says_that_it_failed,
            an_output_file_is_collected,
            a_missing_output_file_is_absent,
            one_newline_is_taken_off_an_output_file,
            nothing_is_listed_of_an_unknown_flow,
            a_running_attempt_is_listed,
            an_ended_attempt_is_listed,
            only_the_attempts_of_the_flow_are_listed,
            the_next_host_sees_the_same_list,
            a_forgotten_attempt_is_not_listed,
            forgetting_twice_is_fine,
            forgetting_an_unknown_attempt_is_fine,
            forgetting_leaves_the_others,
        },
        cancel::{
            a_running_attempt_is_cancelled,
            an_unknown_attempt_is_cancelled,
            cancelled_twice_it_is_cancelled,
            cancelled_after_its_end_it_is_what_it_was,
            cancelled_with_no_grace_it_is_cancelled,
            a_stubborn_attempt_is_cancelled_after_its_grace,
            the_next_host_can_cancel,
            cancelling_leaves_the_others,
        },
        suspend::{
            a_suspended_attempt_does_not_end,
            a_resumed_attempt_ends,
            suspended_twice_it_is_resumed_once,
            suspending_what_has_ended_is_fine,
            resuming_what_was_not_suspended_is_fine,
            a_suspended_attempt_is_cancelled,
        },
        resources::{
            no_templates_give_no_resources,
            resources_are_named_after_the_flow,
            resources_are_ensured_twice_alike,
        },
    };
    suite.check_all(worlds.at_once(), checks).await;
    suite.finish()
}

/// A check's world and what checks say often.
struct Stage<'a, W> {
    worlds: &'a W,
    number: u32,
}

/// Uid of the flow most checks use. Every world has its own, since a daemon may serve all of them.
fn key(number: u32, step: &str) -> AttemptKey {
    AttemptKey { flow: Arc::from(format!("5017e000-{number:08}")), step: Arc::from(step), item: None, attempt: 1 }
}

impl<W: SubstrateWorlds> Stage<'_, W> {
    /// A substrate of this world: the first, or the next host's.
    async fn open(&self) -> W::Substrate {
        self.worlds.open(self.number).await
    }

    fn key(&self, step: &str) -> AttemptKey {
        key(self.number, step)
    }

    /// A spec that behaves so.
    fn spec(&self, key: &AttemptKey, behaviour: &Behaviour) -> AttemptSpec {
        let flow = format!("suite-{}", self.number);
        let template = self.worlds.template(self.number, key, behaviour);
        AttemptSpec {
            function: None,
            key: key.clone(),
            job_name: crate::name::job(&flow, &key.instance(), &key.flow.replace("5017e000-", ""), key.attempt, None),
            flow_name: flow,
            namespace: "default".to_owned(),
            template: Arc::new(template),
            inputs: Vec::new(),
            output_files: Vec::new(),
            output_artifacts: Vec::new(),
        }
    }

    async fn start(&self, substrate: &W::Substrate, key: &AttemptKey, behaviour: &Behaviour) -> Result<(), Broken> {
        substrate.start(self.spec(key, behaviour)).await?;
        Ok(())
    }

    /// The next report.
    async fn report(&self, substrate: &W::Substrate) -> Result<AttemptReport, Broken> {
        self.worlds.due(substrate.next()).await.ok_or_else(|| Broken::new("no report came"))
    }

    /// The end in the next report, which is about `key`.
    async fn end(&self, substrate: &W::Substrate, key: &AttemptKey) -> Result<AttemptEnd, Broken> {
        let report = self.report(substrate).await?;
        if report.key == *key {
            return Ok(report.end);
        }
        Err(Broken::new(format!("the report is about {}, not {key}", report.key)))
    }

    /// Holds when no further report comes.
    async fn silent(&self, substrate: &W::Substrate) -> Result<(), Broken> {
        match self.worlds.within(substrate.next()).await {
            None => Ok(()),
            Some(report) => {
                Err(Broken::new(format!("a report came that nobody waits for: {} {:?}", report.key, report.end.result)))
            }
        }
    }

    /// Waits until an execution has begun, where that can be seen: one that is cancelled at once need not have come to anything.
    async fn begun(&self, key: &AttemptKey) {
        for _ in 0..BEGIN_LOOKS {
            if self.worlds.executions(self.number, key).await != Some(0) {
                return;
            }
            self.worlds.within(std::future::pending::<()>()).await;
        }
    }

    /// Holds when as many executions were created under the key, where that can be told.
    async fn ran(&self, key: &AttemptKey, times: u32) -> Result<(), Broken> {
        match self.worlds.executions(self.number, key).await {
            Some(ran) if ran != times => Err(Broken::new(format!("{key} ran {ran} times, not {times}"))),
            _ => Ok(()),
        }
    }

    /// Ends what a check leaves running.
    async fn clean(&self, substrate: &W::Substrate, key: &AttemptKey) -> Result<(), Broken> {
        substrate.cancel(key, Some(std::time::Duration::ZERO)).await?;
        self.end(substrate, key).await?;
        substrate.forget(key).await?;
        Ok(())
    }
}
