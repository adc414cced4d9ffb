//! The conformance suite of everything that runs programs on this machine: pods and jobs, as processes and as containers.
//! Owns what the suite asks of a subject, and which rules each subject passes.

mod job_rules;
mod jobs;
mod pod_rules;
mod pods;
mod suite;

use std::path::{Path, PathBuf};
#[cfg(feature = "docker")]
use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::runtime::worker::{AttemptEnd, Secret};
use orlop_core::task::LogStream;
use tempfile::TempDir;

use self::jobs::Jobs;
use self::pods::Pods;
#[cfg(feature = "docker")]
use crate::docker::bench::Bench;

/// A program to run.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) argv: Vec<String>,
    /// Limit of its time.
    pub(crate) timeout: Option<Duration>,
    /// Between asking it to end and killing it, where its time is over.
    pub(crate) grace: Duration,
    pub(crate) secrets: Vec<Secret>,
}

impl Work {
    /// A shell script without limit and secrets.
    pub(crate) fn script(text: &str) -> Self {
        let argv = ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
        Self { argv, timeout: None, grace: Duration::from_secs(30), secrets: Vec::new() }
    }
}

/// Where programs run: this machine or an engine on it, with a directory.
pub(crate) enum Place {
    Machine(TempDir),
    #[cfg(feature = "docker")]
    Engine(Arc<Bench>),
}

impl Place {
    fn machine() -> Self {
        Self::Machine(tempfile::tempdir().unwrap())
    }

    /// None where there is no engine: then it is said that the test is skipped.
    #[cfg(feature = "docker")]
    async fn engine(test: &str) -> Option<Self> {
        Some(Self::Engine(Bench::for_test(test).await?))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Machine(dir) => dir.path(),
            #[cfg(feature = "docker")]
            Self::Engine(bench) => bench.directory.path(),
        }
    }
}

/// An implementation of a port, with a directory that outlives its instances.
pub(crate) trait Subject: Sized {
    /// What one run is known by.
    type Run;

    /// A directory that a program shares with the test, as the program names it.
    const SHARED: &'static str;
    /// Where a program finds the secret that it is given as the file `key`.
    const SECRET_FILE: &'static str;
    /// Where a program writes a line `name=value` that is reported with its end.
    const REPORT: &'static str;
    /// Whether output is kept as lines, the last one with a line feed; else byte by byte.
    const LINES: bool;

    /// Whether the end names the signal that caused it; else only the code that stands for it, 128 and its number.
    fn names_signals(&self) -> bool {
        true
    }
    /// Whether programs go on without an instance; else the next instance ends them and reports them as lost.
    fn survives(&self) -> bool {
        true
    }
    /// Whether what programs write while there is no instance arrives later.
    fn catches_up(&self) -> bool {
        true
    }

    async fn start(&self, work: Work) -> Self::Run;
    /// Asks a run to end.
    async fn end(&self, run: &Self::Run, grace: Duration);
    /// Waits for the end of a run.
    async fn wait(&self, run: &Self::Run) -> AttemptEnd;
    /// What a run has written so far.
    fn output(&self, run: &Self::Run, stream: LogStream) -> Vec<u8>;
    /// The directory that a run shares with the test.
    fn shared(&self, run: &Self::Run) -> PathBuf;
    /// Where everything is that the runtime writes.
    fn place(&self) -> &Place;

    /// Drops this instance while programs run, as the death of its process does, and goes on with another one.
    async fn restarted(self, meanwhile: impl AsyncFnOnce()) -> Self;

    /// A run that never was.
    fn absent(&self) -> Self::Run;
    /// Whether there is a trace of a run that this instance did not start.
    async fn finds(&self, run: &Self::Run) -> bool;
    /// Asks all that can be asked of a run that is over, and expects no error.
    async fn ask_everything(&self, run: &Self::Run);
}

/// Makes one test of each rule for a subject: of all rules of the suite and those of its port, or of those named.
macro_rules! tests_of {
    (pods, $make:path) => {
        super::tests_of!(all, $make);
        super::tests_of!(pod_rules, $make:
            init_containers_run_one_after_the_other_before_main,
            the_first_init_container_that_fails_fails_the_pod,
            a_failed_container_is_started_again_in_place_up_to_the_limit,
            last_words_are_what_the_file_holds_or_the_end_of_the_log,
            stopped_before_its_start_it_never_runs,
            frozen_it_stands_still_and_its_time_limit_too,
            frozen_it_can_be_stopped,
            frozen_before_its_start_it_waits,
        );
    };
    (jobs, $make:path) => {
        super::tests_of!(all, $make);
        super::tests_of!(job_rules, $make:
            preempted_it_says_so,
            bytes_that_are_no_text_arrive,
            the_program_is_given_its_numbers,
            what_it_uses_is_reported_while_it_runs,
            a_flood_is_read_to_the_limit_and_stops_nothing,
            a_full_log_fails_it_or_lets_it_wait,
            what_may_not_overlap_ends_with_the_lease_without_an_agent,
        );
    };
    (all, $make:path) => {
        super::tests_of!(suite, $make:
            exit_code_zero_is_success,
            exit_codes_arrive,
            signals_arrive,
            a_command_that_is_not_there_ends_with_127_and_is_named,
            both_streams_arrive_as_written,
            asked_to_end_it_is_asked_first_and_its_own_exit_code_counts,
            what_does_not_listen_is_killed_after_the_grace,
            asked_again_the_shorter_grace_counts,
            the_time_limit_ends_it_and_says_so,
            the_time_limit_holds_for_another_instance,
            secrets_reach_the_program_and_nothing_else,
            nothing_that_it_started_is_left_after_its_end,
            a_fork_loop_ends_with_it,
            another_instance_finds_it_and_reports_its_one_end,
            another_instance_can_end_it,
            what_ended_while_nobody_looked_is_reported_by_the_next_instance,
            asking_for_what_is_not_there_is_fine,
        );
    };
    ($suite:ident, $make:path: $($rule:ident,)*) => {
        $(#[tokio::test]
        async fn $rule() {
            if let Some(subject) = $make(concat!(module_path!(), "::", stringify!($rule))).await {
                super::$suite::$rule(subject).await;
            }
        })*
    };
}
use tests_of;

mod pods_as_processes {
    super::tests_of!(pods, super::Pods::processes);
}

mod pods_with_rewritten_paths {
    super::tests_of!(pods, super::Pods::with_rewritten_paths);
}

#[cfg(feature = "docker")]
mod pods_as_containers {
    super::tests_of!(pods, super::Pods::containers);
}

mod jobs_as_processes {
    super::tests_of!(jobs, super::Jobs::processes);
}

mod jobs_as_supervised_processes {
    super::tests_of!(jobs, super::Jobs::supervised_processes);
}

#[cfg(feature = "docker")]
mod jobs_as_containers {
    super::tests_of!(jobs, super::Jobs::containers);
}

#[cfg(feature = "docker")]
mod jobs_as_supervised_containers {
    super::tests_of!(jobs, super::Jobs::supervised_containers);
}

/// It runs no program, so that no rule of output, signals, ends on request or other instances says anything of it.
mod jobs_that_run_nothing {
    super::tests_of!(suite, super::Jobs::nothing: exit_code_zero_is_success, asking_for_what_is_not_there_is_fine,);
}
