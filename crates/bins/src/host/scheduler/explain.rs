//! Explanations as text and as JSON: why a job is where it is, for people and programs.

use orlop_scheduler::engine::{Explanation, Obstacle, WorkerFit};
use orlop_scheduler::token::WorkerKey;
use serde_json::{Value, json};

/// An explanation with the names of its workers.
#[derive(Clone, Debug)]
pub struct Explained {
    /// What the core says.
    pub explanation: Explanation,
    /// Names of the workers it speaks of, in its order.
    pub names: Vec<String>,
}

impl Explained {
    fn name(&self, key: WorkerKey) -> &str {
        let at = self.explanation.workers.iter().position(|fit| fit.worker == key);
        at.and_then(|at| self.names.get(at)).map_or("?", String::as_str)
    }

    /// Without workers whose names somebody may not learn; how many there are stays.
    #[must_use]
    pub fn only(mut self, seen: impl Fn(&str) -> bool) -> Self {
        let keep: Vec<bool> = self.names.iter().map(|name| seen(name)).collect();
        let mut each = keep.iter();
        self.explanation.workers.retain(|_| each.next().copied().unwrap_or_default());
        let mut each = keep.iter();
        self.names.retain(|_| each.next().copied().unwrap_or_default());
        let nearest = self.explanation.nearest;
        self.explanation.nearest = nearest.filter(|key| self.explanation.workers.iter().any(|fit| fit.worker == *key));
        self
    }

    /// In one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let reported = &self.explanation;
        let mut parts = vec![reported.state.to_string()];
        if let Some(position) = reported.position {
            parts.push(format!("{position} of its class before it"));
        }
        parts.extend(reported.obstacle.as_ref().map(obstacle));
        if reported.blocked_since.is_some() && !reported.state.is_terminal() {
            parts.push("it fits nowhere now".to_owned());
        }
        parts.extend(reported.gang.as_ref().map(ToString::to_string));
        parts.extend(
            reported
                .counts
                .iter()
                .map(|(misfit, count)| format!("{misfit}: {count} worker{}", if *count == 1 { "" } else { "s" })),
        );
        if let Some(nearest) = reported.nearest {
            let fit = reported.workers.iter().find(|fit| fit.worker == nearest);
            let lacking = fit.map(|fit| fit.lacks().collect::<Vec<_>>().join(", "));
            parts.push(format!("nearest is {} ({})", self.name(nearest), lacking.unwrap_or_default()));
        }
        parts.join("; ")
    }

    /// In full.
    #[must_use]
    pub fn json(&self) -> Value {
        let reported = &self.explanation;
        let worker = |(fit, name): (&WorkerFit, &String)| {
            json!({
                "worker": name,
                "misfit": fit.misfit.map(|misfit| misfit.to_string()),
                "lacking": fit.lacks().collect::<Vec<_>>(),
            })
        };
        json!({
            "state": reported.state,
            "band": reported.band,
            "tenant_share": reported.tenant_share,
            "tenant_rank": reported.tenant_rank,
            "position": reported.position,
            "obstacle": reported.obstacle.as_ref().map(obstacle),
            "reserved": reported.reservation.as_ref().map(|kept| kept.workers.iter().map(|key| self.name(*key)).collect::<Vec<_>>()),
            "shadow": reported.reservation.as_ref().and_then(|kept| kept.shadow),
            "blocked_since": reported.blocked_since,
            "gang": reported.gang.as_ref().map(ToString::to_string),
            "workers": reported.workers.iter().zip(&self.names).map(worker).collect::<Vec<_>>(),
            "counts": reported.counts.iter().map(|(misfit, count)| (misfit.to_string(), *count)).collect::<std::collections::BTreeMap<_, _>>(),
            "nearest": reported.nearest.map(|nearest| self.name(nearest)),
            "infeasible": reported.is_infeasible(),
        })
    }
}

/// What blocks it before workers are considered, for people.
fn obstacle(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::NotBefore(_) => "it may not start yet".to_owned(),
        Obstacle::Backoff(_) => "it waits before its next attempt".to_owned(),
        Obstacle::TenantPaused => "its tenant is paused".to_owned(),
        Obstacle::Window(most) => format!("{most} of its elements hold capacity, which is `max_parallel`"),
        Obstacle::Quota(limits) => {
            let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
            format!("limits of its tenant: {}", limits.join(", "))
        }
        Obstacle::QuotaReserved(job) => {
            format!("its tenant's limits are reserved for job {job}, which has waited long")
        }
        _ => format!("{obstacle:?}"),
    }
}
