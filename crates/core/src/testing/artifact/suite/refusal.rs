//! Checks of what is refused, and that nothing is left behind then.

use super::{ArtifactWorlds, GZIP, LIMIT, Stage, TAR, ZIP, tree};
use crate::error::Class;
use crate::name::sha256_hex;
use crate::ports::artifact::ArtifactStore;
use crate::spec::status::ArtifactLocation;
use crate::testing::artifact::Node;
use crate::testing::suite::{CheckResult, fails, same};

pub(super) async fn nothing_at_the_source_is_not_found<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for archive in [None, Some(TAR), Some(ZIP)] {
        fails("storing nothing", stage.store.put(&stage.path("nothing"), archive).await, Class::NotFound)?;
    }
    Ok(())
}

pub(super) async fn a_link_at_the_source_is_invalid<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    stage.worlds.plant(stage.number, &stage.path("secret"), &Node::file("secret"));
    for archive in [None, Some(TAR)] {
        let stored = stage.put("source", &Node::link("secret"), archive).await;
        fails("storing a link", stored, Class::Invalid)?;
    }
    Ok(())
}

fn of_size(bytes: u64) -> Node {
    Node::file(vec![b'x'; usize::try_from(bytes).unwrap_or(usize::MAX)])
}

pub(super) async fn a_large_file_is_invalid<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for archive in [None, Some(TAR), Some(GZIP), Some(ZIP)] {
        let stored = stage.put("source", &of_size(LIMIT + 1), archive).await;
        fails("storing a file over the limit", stored, Class::Invalid)?;
    }
    Ok(())
}

pub(super) async fn a_large_tree_is_invalid<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let third = of_size(LIMIT / 3 + 1);
    let tree = Node::folder([("a", third.clone()), ("b", third.clone()), ("c", third)]);
    for archive in [None, Some(GZIP), Some(ZIP)] {
        fails("storing a tree over the limit", stage.put("source", &tree, archive).await, Class::Invalid)?;
    }
    Ok(())
}

pub(super) async fn the_limit_itself_is_allowed<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for (archive, name) in [(None, "raw"), (Some(GZIP), "gzip"), (Some(ZIP), "zip"), (Some(TAR), "tar")] {
        let location = stage.put("source", &of_size(LIMIT), archive).await?;
        same("the size", &stage.get(&location, archive, true, name).await?.size(), &LIMIT)?;
    }
    Ok(())
}

pub(super) async fn what_is_not_stored_is_not_found<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let mut location = stage.put("source", &Node::file("text"), None).await?;
    let other = sha256_hex(b"something else", 64);
    location.reference = location.reference.replace(&location.sha256, &other);
    location.sha256 = other;
    let result = stage.store.get(&location, None, true, &stage.path("target")).await;
    fails("the delivery", result, Class::NotFound)?;
    same("what is left at the target", &stage.harvest("target"), &None)
}

pub(super) async fn what_is_at_the_target_stays<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let file = stage.put("file", &Node::file("text"), None).await?;
    let folder = stage.put("folder", &tree(), None).await?;
    let empty = Node::folder::<String>([]);
    let full = Node::folder([("mine", Node::file("mine"))]);
    let there = [(Node::file("mine"), "one"), (empty, "two"), (full, "three"), (Node::link("nowhere"), "four")];
    for (mine, name) in there {
        stage.worlds.plant(stage.number, &stage.path(name), &mine);
        for location in [&file, &folder] {
            let result = stage.store.get(location, None, true, &stage.path(name)).await;
            fails("delivering over something", result, Class::Exists)?;
            same("what was there", &stage.harvest(name), &Some(mine.clone()))?;
        }
    }
    Ok(())
}

async fn damaged<W: ArtifactWorlds>(stage: &Stage<'_, W>, location: &ArtifactLocation, unpack: bool) -> CheckResult {
    stage.worlds.damage(stage.number, location);
    stage.refuses(location, None, unpack).await
}

pub(super) async fn damaged_bytes_are_not_delivered<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let raw = stage.put("raw", &Node::file("text"), None).await?;
    damaged(stage, &raw, true).await?;
    let packed = stage.put("packed", &tree(), None).await?;
    damaged(stage, &packed, false).await
}

pub(super) async fn damaged_archives_are_not_unpacked<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    for archive in [TAR, GZIP, ZIP] {
        let location = stage.put("source", &tree(), Some(archive)).await?;
        stage.worlds.damage(stage.number, &location);
        stage.refuses(&location, Some(archive), true).await?;
    }
    Ok(())
}

pub(super) async fn links_that_leave_are_not_unpacked<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let targets = ["/etc/hostname", "..", "../source", "a/../../b", "./../x", "//etc"];
    for (target, at) in targets.into_iter().zip(0..) {
        for archive in [TAR, ZIP] {
            let node = Node::folder([("a", Node::file("text")), ("leaves", Node::link(target))]);
            let location = stage.put(&format!("source-{at}"), &node, Some(archive)).await?;
            stage.refuses(&location, Some(archive), true).await?;
        }
    }
    Ok(())
}

pub(super) async fn links_that_leave_through_others_are_not_unpacked<W: ArtifactWorlds>(
    stage: &Stage<'_, W>,
) -> CheckResult {
    let deep = Node::folder([("top", Node::link("../.."))]);
    let node = Node::folder([("a", Node::folder([("b", deep)])), ("leaves", Node::link("a/b/top/.."))]);
    for archive in [TAR, ZIP] {
        let location = stage.put("source", &node, Some(archive)).await?;
        stage.refuses(&location, Some(archive), true).await?;
    }
    Ok(())
}

pub(super) async fn links_that_leave_are_not_stored_unless_packed<W: ArtifactWorlds>(
    stage: &Stage<'_, W>,
) -> CheckResult {
    for (target, at) in ["/etc/hostname", "..", "a/../../b"].into_iter().zip(0..) {
        let node = Node::folder([("a", Node::file("text")), ("leaves", Node::link(target))]);
        fails("storing it", stage.put(&format!("source-{at}"), &node, None).await, Class::Invalid)?;
        stage.put(&format!("packed-{at}"), &node, Some(TAR)).await?;
    }
    Ok(())
}

pub(super) async fn what_is_refused_unpacked_is_delivered_packed<W: ArtifactWorlds>(
    stage: &Stage<'_, W>,
) -> CheckResult {
    let node = Node::folder([("leaves", Node::link("/etc/hostname"))]);
    let location = stage.put("source", &node, Some(TAR)).await?;
    stage.refuses(&location, Some(TAR), true).await?;
    same("the size", &stage.get(&location, Some(TAR), false, "target").await?.size(), &location.size_bytes)
}
