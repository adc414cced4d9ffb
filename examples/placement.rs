//! A fleet in 40 lines: three workers, two tenants and twenty jobs, in simulated time. Who runs where, until all are done. Nothing
//! here waits or runs anything: an end is a number in a list.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use orlop_scheduler::prelude::*;

const GIB: u64 = 1 << 30;

fn main() -> Result<()> {
    let mut scheduler = Scheduler::new(Config::without_timeouts(), 7)?;
    let mut effects = Vec::new();
    let plain = Capabilities::new(8000, 32 * GIB);
    let gpus = Capabilities::new(16_000, 128 * GIB).gpus(GpuDevices::new("nvidia/a100", 80 * GIB, 2)?);
    for (name, offer) in [("small-1", plain.clone()), ("small-2", plain), ("gpu-1", gpus)] {
        scheduler.join(0, name.parse()?, offer, &mut effects)?;
    }
    let tenants: [TenantName; 2] = ["physics".parse()?, "biology".parse()?];
    for tenant in &tenants {
        let quota = Quota::default().max_running_jobs(5);
        scheduler.apply(0, Event::QuotaChanged { tenant: tenant.clone(), quota }, &mut effects)?;
    }
    for (number, tenant) in (1..=20_u64).zip(tenants.iter().cycle()) {
        let mut demand = Demand::new(tenant.clone());
        demand.resources.cpu_m = 1000 * (1 + number % 4);
        demand.resources.memory_bytes = 4 * GIB;
        demand.resources.gpus.count = u32::from(number % 5 == 0);
        scheduler.submit(0, Submission::new(JobId::from_u64(number), demand), &mut effects)?;
    }

    // What runs, by when it ends.
    let (mut now, mut running) = (0, BTreeSet::new());
    loop {
        effects.clear();
        let _ = scheduler.round(now, u32::MAX, &mut effects);
        for placement in effects.iter().filter_map(Effect::placement) {
            let (job, worker) = (placement.attempt.job.as_u64(), scheduler.worker_view(placement.worker));
            println!("{:>3} s  job {job:>2} starts on {}", now / 1000, worker.context("it was placed there")?.id);
            running.insert((now + 1000 * (5 + job), placement));
        }
        let Some((end, placement)) = running.pop_first() else { break };
        now = end;
        println!("{:>3} s  job {:>2} ends", now / 1000, placement.attempt.job.as_u64());
        scheduler.finish(now, placement, Outcome::Succeeded, &mut effects)?;
    }
    println!("all is done after {} s", now / 1000);
    Ok(())
}
