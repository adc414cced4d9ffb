//! Build script: generates the fleet's protocol where the feature `fleet` is on.

#[cfg(feature = "fleet")]
#[path = "build/mod.rs"]
mod protocol;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    #[cfg(feature = "fleet")]
    protocol::generate()?;
    Ok(())
}
