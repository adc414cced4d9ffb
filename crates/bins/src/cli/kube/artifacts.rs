//! Artifacts of a cluster's flow. Owns what is said where their bytes are out of reach.

use orlop_core::spec::status::ArtifactLocation;

use super::super::artifacts::Artifact;
use super::super::failure::Failure;

/// Says how a person gets at artifacts: their bytes are where the cluster keeps them.
///
/// # Errors
/// Where there is one.
pub(super) fn refuse(chosen: &[Artifact], namespace: &str) -> Result<(), Failure> {
    let Some(artifact) = chosen.first() else { return Ok(()) };
    let way = artifact.location.as_ref().map(|location| way(location, namespace)).unwrap_or_default();
    Err(Failure::usage(format!("`{}` is kept in the cluster; {way}", artifact.label())))
}

/// How a person gets at stored bytes.
fn way(location: &ArtifactLocation, namespace: &str) -> String {
    let (key, packing) = location.reference.rsplit_once('#').unwrap_or((&location.reference, ""));
    let (object, part) = key.split_once('/').unwrap_or((key, ""));
    match location.kind.as_str() {
        "configmap" => format!(
            "get it with `kubectl get configmap {object} -n {namespace} -o go-template='{{{{index .binaryData \"{part}\"}}}}' | \
             base64 -d > {part}{packing}`"
        ),
        "s3" => format!("get it from its S3 store with a client of that: {key}"),
        _ => format!(
            "get it from claim `{object}` in namespace `{namespace}`, path `{part}`: start a pod that mounts the claim, then \
             `kubectl cp`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_bytes_are_found_by_what_is_said_of_them() {
        let way = |kind: &str, reference: &str| {
            let (kind, reference) = (kind.to_owned(), reference.to_owned());
            way(&ArtifactLocation { kind, reference, ..ArtifactLocation::default() }, "team")
        };
        insta::assert_snapshot!(way("configmap", "etl-a-tree/tree#.tar"), @r#"get it with `kubectl get configmap etl-a-tree -n team -o go-template='{{index .binaryData "tree"}}' | base64 -d > tree.tar`"#);
        insta::assert_snapshot!(way("pvc", "results/artifacts/uid/make/1/tree#.tar"), @"get it from claim `results` in namespace `team`, path `artifacts/uid/make/1/tree`: start a pod that mounts the claim, then `kubectl cp`");
        insta::assert_snapshot!(way("s3", r#"{"key":"a/b"}#.tar"#), @r#"get it from its S3 store with a client of that: {"key":"a/b"}"#);
    }
}
