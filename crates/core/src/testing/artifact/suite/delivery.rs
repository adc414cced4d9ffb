//! Checks of delivering files, and that consumers cannot reach what is stored.

use super::{ArtifactWorlds, GZIP, Stage, TAR, ZIP, tree};
use crate::name::sha256_hex;
use crate::testing::artifact::Node;
use crate::testing::suite::{Broken, CheckResult, holds, same};
use crate::testing::wait::{Pinned, all};

pub(super) async fn a_file_is_delivered_raw<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    stage.survives(&Node::file("text\n"), None).await
}

pub(super) async fn an_empty_file_is_delivered<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    stage.survives(&Node::file(""), None).await
}

pub(super) async fn any_bytes_are_delivered<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    stage.survives(&Node::file(bytes), None).await
}

pub(super) async fn a_program_stays_one<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    stage.survives(&Node::program("#!/bin/sh\n"), None).await
}

pub(super) async fn a_file_in_an_archive_is_delivered<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for (archive, name) in [(TAR, "tar"), (GZIP, "gzip"), (ZIP, "zip")] {
        let location = stage.put("source", &Node::file("text"), Some(archive)).await?;
        same("the delivery", &stage.get(&location, Some(archive), true, name).await?, &Node::file("text"))?;
    }
    Ok(())
}

pub(super) async fn a_program_in_an_archive_stays_one<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for (archive, name) in [(TAR, "tar"), (GZIP, "gzip"), (ZIP, "zip")] {
        let location = stage.put("source", &Node::program("text"), Some(archive)).await?;
        same("the delivery", &stage.get(&location, Some(archive), true, name).await?, &Node::program("text"))?;
    }
    Ok(())
}

pub(super) async fn an_archive_is_delivered_packed_on_demand<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for (archive, name) in [(None, "absent"), (Some(TAR), "tar"), (Some(GZIP), "gzip"), (Some(ZIP), "zip")] {
        let location = stage.put("source", &tree(), archive).await?;
        match stage.get(&location, archive, false, name).await? {
            Node::File { bytes, .. } => same("the digest", &sha256_hex(&bytes, 64), &location.sha256)?,
            other => return Err(Broken::new(format!("the packed form is {other:?}"))),
        }
    }
    Ok(())
}

pub(super) async fn a_raw_file_has_no_packed_form<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let location = stage.put("source", &Node::file("text"), None).await?;
    same("the delivery", &stage.get(&location, None, false, "target").await?, &Node::file("text"))
}

pub(super) async fn it_is_delivered_twice_alike<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let location = stage.put("source", &tree(), Some(GZIP)).await?;
    for name in ["one", "two", "three"] {
        same("the delivery", &stage.get(&location, Some(GZIP), true, name).await?, &tree())?;
    }
    Ok(())
}

pub(super) async fn many_deliveries_at_once_are_alike<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let location = stage.put("source", &tree(), None).await?;
    let get = |number: u32| {
        let location = &location;
        let delivery = async move { stage.get(location, None, true, &format!("target-{number}")).await };
        Box::pin(delivery) as Pinned<'_, Result<Node, Broken>>
    };
    for delivery in all((0..8).map(get).collect()).await {
        same("the delivery", &delivery?, &tree())?;
    }
    Ok(())
}

pub(super) async fn a_changed_delivery_changes_nothing_stored<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for (archive, unpack) in [(None, true), (None, false), (Some(ZIP), false)] {
        let location = stage.put("source", &Node::file("text"), archive).await?;
        let first = format!("first-{unpack}-{}", archive.is_some());
        let before = stage.get(&location, archive, unpack, &first).await?;
        stage.worlds.plant(stage.number, &stage.path(&first), &Node::file("changed"));
        holds("the change is seen", stage.harvest(&first) == Some(Node::file("changed")))?;
        let second = format!("second-{unpack}-{}", archive.is_some());
        same("the second delivery", &stage.get(&location, archive, unpack, &second).await?, &before)?;
    }
    Ok(())
}

pub(super) async fn a_changed_tree_changes_nothing_stored<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let location = stage.put("source", &tree(), None).await?;
    stage.get(&location, None, true, "first").await?;
    stage.worlds.plant(stage.number, &stage.path("first"), &Node::folder([("a", Node::file("changed"))]));
    same("the second delivery", &stage.get(&location, None, true, "second").await?, &tree())
}
