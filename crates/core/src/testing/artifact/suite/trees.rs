//! Checks of trees: everything in them comes back as it was.

use super::{ArtifactWorlds, GZIP, Stage, TAR, ZIP, tree};
use crate::testing::artifact::Node;
use crate::testing::suite::{CheckResult, same};

/// Holds when a tree comes back from each kind of archive.
async fn survives_all<W: ArtifactWorlds>(stage: &Stage<'_, W>, node: &Node) -> CheckResult {
    for (archive, name) in [(None, "absent"), (Some(TAR), "tar"), (Some(GZIP), "gzip"), (Some(ZIP), "zip")] {
        let location = stage.put(&format!("source-{name}"), node, archive).await?;
        same(name, &stage.get(&location, archive, true, name).await?, node)?;
    }
    Ok(())
}

pub(super) async fn a_folder_is_delivered_without_an_archive<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    stage.survives(&tree(), None).await
}

pub(super) async fn a_tree_survives_tar<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    stage.survives(&tree(), Some(TAR)).await
}

pub(super) async fn a_tree_survives_gzip<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    stage.survives(&tree(), Some(GZIP)).await
}

pub(super) async fn a_tree_survives_zip<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    stage.survives(&tree(), Some(ZIP)).await
}

pub(super) async fn an_empty_folder_survives<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    survives_all(stage, &Node::folder::<String>([])).await
}

pub(super) async fn a_folder_of_one_file_is_no_file<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    survives_all(stage, &Node::folder([("source-tar", Node::file("text"))])).await
}

pub(super) async fn long_names_survive<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let long = "n".repeat(250);
    let deep = Node::folder([(long.clone(), Node::folder([(long.clone(), Node::file("text"))]))]);
    let linked = Node::folder([(long.clone(), deep), ("link".to_owned(), Node::link(format!("{long}/{long}/{long}")))]);
    survives_all(stage, &linked).await
}

pub(super) async fn odd_names_survive<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let names = [" ", "-rf", "...", "a\nb", "a\\b", "a b", "\u{e9}", "e\u{301}", "*", "\"", "'", "a:b", "~", "%2e"];
    survives_all(stage, &Node::folder(names.map(|name| (name, Node::file(name))))).await
}

pub(super) async fn deep_trees_survive<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let mut node = Node::folder([("leaf", Node::file("text"))]);
    for level in 0..100 {
        node = Node::folder([(format!("level-{level}"), node), ("file".to_owned(), Node::file("x"))]);
    }
    survives_all(stage, &node).await
}

pub(super) async fn links_survive_as_they_are<W: ArtifactWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let folder = Node::folder([("file", Node::file("text")), ("top", Node::link("..")), ("gone", Node::link("x/y"))]);
    let node = Node::folder([
        ("folder", folder),
        ("through", Node::link("folder/top/folder/file")),
        ("self", Node::link("self")),
        ("dotted", Node::link("./folder/../folder/./file")),
    ]);
    survives_all(stage, &node).await
}
