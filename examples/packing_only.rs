//! Answers three questions of whoever runs machines, with packing alone: how many equal machines do these jobs need, which
//! mix of machine types is cheapest, and how many of the jobs still fit the machines that are there.

#![allow(clippy::print_stdout, reason = "a program for people")]

use anyhow::Result;
use orlop_scheduler::packing::{BinType, Items, Options, pack, pack_into, pack_types};

/// Millicores, mebibytes and GPUs of jobs, and how many of each there are.
const JOBS: [([u64; 3], usize); 4] =
    [([500, 512, 0], 40), ([2000, 4096, 0], 24), ([4000, 16_384, 1], 6), ([1000, 8192, 0], 10)];

fn main() -> Result<()> {
    let mut jobs = Items::new(3)?;
    for (demand, count) in JOBS {
        for _ in 0..count {
            jobs.push(&demand)?;
        }
    }
    // Three replicas of a database stay on machines of their own.
    for _ in 0..3 {
        jobs.push_apart(&[1500, 6144, 0], 1)?;
    }

    let machines = pack(&jobs, &[16_000, 65_536, 2], Options::new())?;
    let proof = if machines.optimal { "no fewer can do" } else { "fewer might do" };
    println!(
        "{} jobs need {} machines; {proof}: at least {} ({})",
        jobs.len(),
        machines.bins,
        machines.lower_bound,
        machines.bound_name
    );

    let types = [
        ("small", BinType { capacity: vec![8000, 32_768, 0], count: None, cost: 40 }),
        ("large", BinType { capacity: vec![32_000, 131_072, 0], count: None, cost: 140 }),
        ("gpu", BinType { capacity: vec![16_000, 65_536, 4], count: Some(2), cost: 300 }),
    ];
    let mix = pack_types(&jobs, &types.clone().map(|(_, of)| of), Options::new())?;
    for (at, (name, of)) in types.iter().enumerate() {
        let used = mix.type_of.iter().filter(|of| **of as usize == at).count();
        println!("{used} × {name} at {}", of.cost);
    }
    println!("that costs {}, and nothing less than {} can do", mix.cost, mix.lower_bound);

    let room = vec![vec![6000, 24_576, 0], vec![16_000, 32_768, 1], vec![2000, 49_152, 0]];
    let placed = pack_into(&jobs, &room, Options::new())?;
    println!(
        "{} of {} jobs fit the capacity that is left (at most {}); {:.0} % of it is stranded then",
        placed.placed,
        jobs.len(),
        placed.upper_bound,
        placed.stranded * 100.0
    );
    Ok(())
}
