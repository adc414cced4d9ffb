//! Turns the protocol of the fleet into Rust, without an outside compiler.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use protox::prost_reflect::prost_types::DescriptorProto;

/// The files of the protocol, below `proto`.
const FILES: [&str; 2] = ["orlop/v1/orlop.proto", "grpc/health/v1/health.proto"];

/// Messages that hold credentials or secret values: their `Debug` is written by hand.
const SILENT: [&str; 5] = [
    "orlop.v1.SecretValue",
    "orlop.v1.RegisterWorkerRequest",
    "orlop.v1.RegisterWorkerResponse",
    "orlop.v1.Hello",
    "orlop.v1.HeartbeatRequest",
];

/// Fields that are cut out of received messages without a copy, and sent to many without one.
const SHARED: [&str; 5] = [
    ".orlop.v1.LogChunk.data",
    ".orlop.v1.JobResult.tail",
    ".orlop.v1.Spec.json",
    ".orlop.v1.UploadRequest.data",
    ".orlop.v1.DownloadResponse.data",
];

/// Generates the code of the protocol and a listing of it, which a test compares.
///
/// # Errors
/// The protocol does not compile, or a file cannot be written.
pub(crate) fn generate() -> Result<(), Box<dyn Error>> {
    FILES.iter().for_each(|file| println!("cargo::rerun-if-changed=proto/{file}"));
    let files = protox::compile(FILES, ["proto"])?;
    let mut listing = String::new();
    for file in &files.file {
        for service in &file.service {
            for method in &service.method {
                let kind = |streams: Option<bool>| if streams == Some(true) { "stream " } else { "" };
                let (input, output) = (kind(method.client_streaming), kind(method.server_streaming));
                let (from, to) = (method.input_type(), method.output_type());
                writeln!(listing, "{}.{}({input}{from}) -> {output}{to}", service.name(), method.name())?;
            }
        }
        for message in &file.message_type {
            list(message, file.package(), &mut listing)?;
        }
        for choice in &file.enum_type {
            for value in &choice.value {
                writeln!(listing, "{}.{} = {}", choice.name(), value.name(), value.number())?;
            }
        }
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("protocol.txt"), listing)?;
    let mut builder = tonic_prost_build::configure().btree_map(".").skip_debug(SILENT);
    for field in SHARED {
        builder = builder.bytes(field);
    }
    builder.compile_fds(files)?;
    Ok(())
}

/// Lists the fields of a message and of those inside it, in the order of the file.
fn list(message: &DescriptorProto, package: &str, listing: &mut String) -> std::fmt::Result {
    for field in &message.field {
        let kind = if field.type_name().is_empty() {
            field.r#type().as_str_name().trim_start_matches("TYPE_").to_lowercase()
        } else {
            field.type_name().trim_start_matches('.').trim_start_matches(package).trim_start_matches('.').to_owned()
        };
        let label = match (field.label().as_str_name(), field.proto3_optional()) {
            ("LABEL_REPEATED", _) => "repeated ",
            (_, true) => "optional ",
            _ => "",
        };
        writeln!(listing, "{}.{} = {} {label}{kind}", message.name(), field.name(), field.number())?;
    }
    for choice in &message.enum_type {
        for value in &choice.value {
            writeln!(listing, "{}.{}.{} = {}", message.name(), choice.name(), value.name(), value.number())?;
        }
    }
    let maps = |nested: &&DescriptorProto| nested.options.as_ref().is_none_or(|options| !options.map_entry());
    message.nested_type.iter().filter(maps).try_for_each(|nested| list(nested, package, listing))
}
