//! Checks of storing: what is equal is stored once, and stays.

use super::{ArtifactWorlds, GZIP, Stage, TAR, ZIP, tree};
use crate::name::sha256_hex;
use crate::ports::artifact::ArtifactStore;
use crate::spec::status::ArtifactLocation;
use crate::testing::artifact::Node;
use crate::testing::suite::{Broken, CheckResult, holds, same};
use crate::testing::wait::{Pinned, all};

pub(super) async fn nothing_is_contained_at_first<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let sha256 = sha256_hex(b"nobody put this", 64);
    let reference = format!("sha256/{sha256}");
    let location = ArtifactLocation { kind: "cas".to_owned(), reference, size_bytes: 15, sha256 };
    same("the answer", &stage.store.contains(&location).await?, &false)
}

pub(super) async fn what_is_put_is_contained<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for archive in [None, Some(TAR), Some(GZIP), Some(ZIP)] {
        for node in [Node::file("text"), tree()] {
            let location = stage.put("source", &node, archive).await?;
            same("the answer", &stage.store.contains(&location).await?, &true)?;
        }
    }
    Ok(())
}

pub(super) async fn a_store_opened_again_still_has_it<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let location = stage.put("source", &tree(), None).await?;
    let store = stage.worlds.open(stage.number).await;
    same("the answer", &store.contains(&location).await?, &true)?;
    store.get(&location, None, true, &stage.path("target")).await?;
    same("the delivery", &stage.harvest("target"), &Some(tree()))
}

pub(super) async fn put_twice_it_is_stored_once<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for archive in [None, Some(TAR), Some(GZIP), Some(ZIP)] {
        let first = stage.put("source", &tree(), archive).await?;
        same("the second location", &stage.put("source", &tree(), archive).await?, &first)?;
    }
    Ok(())
}

pub(super) async fn equal_files_are_stored_once<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let first = stage.put("one", &Node::file("text"), None).await?;
    same("the second location", &stage.put("other", &Node::file("text"), None).await?, &first)
}

pub(super) async fn equal_trees_are_stored_once<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for archive in [None, Some(TAR), Some(GZIP), Some(ZIP)] {
        let first = stage.put("one", &tree(), archive).await?;
        same("the second location", &stage.put("other", &tree(), archive).await?, &first)?;
    }
    Ok(())
}

pub(super) async fn other_bytes_are_stored_elsewhere<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let first = stage.put("source", &Node::file("text"), None).await?;
    let other = stage.put("source", &Node::file("Text"), None).await?;
    holds("the digests differ", first.sha256 != other.sha256)?;
    same("the first", &stage.get(&first, None, true, "target").await?, &Node::file("text"))
}

pub(super) async fn another_mode_is_stored_elsewhere<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for archive in [None, Some(TAR), Some(GZIP), Some(ZIP)] {
        let plain = stage.put("source", &Node::file("text"), archive).await?;
        let program = stage.put("source", &Node::program("text"), archive).await?;
        holds("the locations differ", plain.reference != program.reference)?;
    }
    Ok(())
}

pub(super) async fn another_name_in_a_tree_is_stored_elsewhere<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let first = stage.put("source", &Node::folder([("a", Node::file("text"))]), None).await?;
    let other = stage.put("source2", &Node::folder([("b", Node::file("text"))]), None).await?;
    holds("the digests differ", first.sha256 != other.sha256)
}

pub(super) async fn the_digest_is_that_of_the_stored_bytes<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for (archive, name) in [(None, "raw"), (Some(TAR), "tar"), (Some(GZIP), "gzip"), (Some(ZIP), "zip")] {
        let location = stage.put("source", &Node::file("text"), archive).await?;
        let Node::File { bytes, .. } = stage.get(&location, archive, false, name).await? else {
            return Err(Broken::new("the stored bytes are no file"));
        };
        same("the digest", &location.sha256, &sha256_hex(&bytes, 64))?;
        same("the size", &location.size_bytes, &(bytes.len() as u64))?;
        holds("there is a kind and a reference", !location.kind.is_empty() && !location.reference.is_empty())?;
    }
    Ok(())
}

pub(super) async fn many_at_once_are_stored_once<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let names: Vec<String> = (0..8).map(|number| format!("source-{number}")).collect();
    let put = |name: &'_ String| {
        let name = name.clone();
        Box::pin(async move { stage.put(&name, &tree(), None).await }) as Pinned<'_, _>
    };
    let mut locations = Vec::new();
    for location in all(names.iter().map(put).collect()).await {
        locations.push(location?);
    }
    locations.dedup();
    same("the number of locations", &locations.len(), &1)?;
    let location = locations.into_iter().next().unwrap_or_default();
    same("the delivery", &stage.get(&location, None, true, "target").await?, &tree())
}

pub(super) async fn the_source_may_go_away<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let location = stage.put("source", &Node::file("before"), None).await?;
    stage.worlds.plant(stage.number, &stage.path("source"), &Node::file("after!"));
    same("the delivery", &stage.get(&location, None, true, "target").await?, &Node::file("before"))
}
