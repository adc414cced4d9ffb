//! Build script: generates the fleet's protocol where the feature `fleet` is on.

#[cfg(feature = "fleet")]
#[path = "proto/generate.rs"]
mod generate;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=proto/generate.rs");
    #[cfg(feature = "fleet")]
    generate::generate()?;
    Ok(())
}
