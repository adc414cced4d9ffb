//! What a need for hardware becomes in the words of each substrate, and whether a machine has it: `hardware [TYPE…]`, such as
//! `hardware a100:2 mi300x "2x h100"`.

#![allow(clippy::print_stdout, reason = "a program for people")]

use anyhow::Result;
use orlop_core::hardware::gpu::Vendor;
use orlop_core::hardware::{
    Arch, GpuFacts, HardwareFacts, HardwareInput, Resources, Substrate, Tables, place, resolve, satisfies,
};
use orlop_core::resource::{Bytes, CpuMilli};

fn main() -> Result<()> {
    let mut types: Vec<String> = std::env::args().skip(1).collect();
    if types.is_empty() {
        types = ["a100:2", "mi300x", "nvidia 24GB"].map(str::to_owned).to_vec();
    }
    let tables = Tables::default();
    let machine = machine();
    for text in types {
        let input = HardwareInput { gpu_type: Some(text.clone()), ..HardwareInput::default() };
        let needs = match input.requirements(&tables).and_then(|needs| resolve(&needs, &tables)) {
            Ok(needs) => needs,
            Err(error) => {
                println!("{text}: {error}");
                continue;
            }
        };
        println!(
            "{text}: a machine with two A100 of 80 GB {}",
            if satisfies(&machine, &needs) { "will do" } else { "will not do" }
        );
        for substrate in [Substrate::Kubernetes, Substrate::Docker, Substrate::OpenStack, Substrate::Fleet] {
            let placement = place(&needs, &Resources::default(), &tables.vocabulary(substrate))?;
            println!("  {substrate}: {}", placement.resources);
            for clause in &placement.required {
                let alternatives = clause.any_of.iter().map(|alternative| {
                    alternative.all_of.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
                });
                println!("    where {}", alternatives.collect::<Vec<_>>().join(", or "));
            }
        }
    }
    Ok(())
}

/// A machine with two devices.
fn machine() -> HardwareFacts {
    let device = GpuFacts::whole(Vendor::Nvidia, "NVIDIA A100-SXM4-80GB".to_owned(), 80);
    HardwareFacts {
        gpus: vec![device.clone(), device],
        ..HardwareFacts::new(Arch::Amd64, CpuMilli::cores(64), Bytes(512 << 30))
    }
}
