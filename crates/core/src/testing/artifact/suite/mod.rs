//! Conformance suite of the artifact port: what every store must do, one check a function. Owns the list of checks; where
//! trees come from and go to is the fixture's.

mod delivery;
mod refusal;
mod storage;
mod trees;

use std::future::Future;
use std::path::{Path, PathBuf};

use super::tree::Node;
use crate::error::Problem;
use crate::ports::artifact::ArtifactStore;
use crate::spec::artifact::{Archive, ArchiveFormat, Compression};
use crate::spec::status::ArtifactLocation;
use crate::testing::suite::{Broken, CheckResult, Suite, SuiteFailure, same};

/// Limit of the stores of the suite, in bytes.
pub const LIMIT: u64 = 1 << 20;

/// Stores and places for [`artifact_suite`], by number.
pub trait ArtifactWorlds {
    /// The store under test.
    type Store: ArtifactStore;

    /// Opens the store of a number: empty the first time, later with what was stored. Its limit is [`LIMIT`].
    fn open(&self, number: u32) -> impl Future<Output = Self::Store>;

    /// A place of this name outside the store. Nothing is there at first; its folder exists.
    fn path(&self, number: u32, name: &str) -> PathBuf;

    /// Puts a file or tree there, in place of what is there.
    fn plant(&self, number: u32, path: &Path, node: &Node);

    /// What is there.
    fn harvest(&self, number: u32, path: &Path) -> Option<Node>;

    /// Changes a byte of what is stored, behind the store's back.
    fn damage(&self, number: u32, location: &ArtifactLocation);
}

/// Runs each named check in a world of its own.
macro_rules! checks {
    ($suite:ident, $worlds:ident: $($module:ident::{$($check:ident),+ $(,)?}),+ $(,)?) => {
        $($({
            let number = $suite.next();
            let stage = Stage { worlds: $worlds, number, store: $worlds.open(number).await };
            $suite.check(stringify!($check), $module::$check(&stage)).await;
        })+)+
    };
}

/// Checks an artifact store against its port. Gives the names of the checks, at least 40.
///
/// # Errors
/// Every check that does not hold, with the reason.
pub async fn artifact_suite<W: ArtifactWorlds>(worlds: &W) -> Result<Vec<&'static str>, SuiteFailure> {
    let mut suite = Suite::new("artifact");
    checks! { suite, worlds:
        storage::{
            nothing_is_contained_at_first,
            what_is_put_is_contained,
            a_store_opened_again_still_has_it,
            put_twice_it_is_stored_once,
            equal_files_are_stored_once,
            equal_trees_are_stored_once,
            other_bytes_are_stored_elsewhere,
            another_mode_is_stored_elsewhere,
            another_name_in_a_tree_is_stored_elsewhere,
            the_digest_is_that_of_the_stored_bytes,
            many_at_once_are_stored_once,
            the_source_may_go_away,
        },
        delivery::{
            a_file_is_delivered_raw,
            an_empty_file_is_delivered,
            any_bytes_are_delivered,
            a_program_stays_one,
            a_file_in_an_archive_is_delivered,
            a_program_in_an_archive_stays_one,
            an_archive_is_delivered_packed_on_demand,
            a_raw_file_has_no_packed_form,
            it_is_delivered_twice_alike,
            many_deliveries_at_once_are_alike,
            a_changed_delivery_changes_nothing_stored,
            a_changed_tree_changes_nothing_stored,
        },
        trees::{
            a_folder_is_delivered_without_an_archive,
            a_tree_survives_tar,
            a_tree_survives_gzip,
            a_tree_survives_zip,
            an_empty_folder_survives,
            a_folder_of_one_file_is_no_file,
            long_names_survive,
            odd_names_survive,
            deep_trees_survive,
            links_survive_as_they_are,
        },
        refusal::{
            nothing_at_the_source_is_not_found,
            a_link_at_the_source_is_invalid,
            a_large_file_is_invalid,
            a_large_tree_is_invalid,
            the_limit_itself_is_allowed,
            what_is_not_stored_is_not_found,
            what_is_at_the_target_stays,
            damaged_bytes_are_not_delivered,
            damaged_archives_are_not_unpacked,
            links_that_leave_are_not_stored_unless_packed,
            links_that_leave_are_not_unpacked,
            links_that_leave_through_others_are_not_unpacked,
            what_is_refused_unpacked_is_delivered_packed,
        },
    }
    suite.finish()
}

/// A check's world.
struct Stage<'a, W: ArtifactWorlds> {
    worlds: &'a W,
    number: u32,
    store: W::Store,
}

impl<W: ArtifactWorlds> Stage<'_, W> {
    fn path(&self, name: &str) -> PathBuf {
        self.worlds.path(self.number, name)
    }

    fn harvest(&self, name: &str) -> Option<Node> {
        self.worlds.harvest(self.number, &self.path(name))
    }

    /// Plants a node under a name and stores it.
    async fn put(&self, name: &str, node: &Node, archive: Option<Archive>) -> Result<ArtifactLocation, Problem> {
        let source = self.path(name);
        self.worlds.plant(self.number, &source, node);
        self.store.put(&source, archive).await
    }

    /// Delivers under a name.
    async fn get(
        &self,
        location: &ArtifactLocation,
        archive: Option<Archive>,
        unpack: bool,
        name: &str,
    ) -> Result<Node, Broken> {
        self.store.get(location, archive, unpack, &self.path(name)).await?;
        self.harvest(name).ok_or_else(|| Broken::new("the delivery gave nothing"))
    }

    /// Holds when a node comes back as it was.
    async fn survives(&self, node: &Node, archive: Option<Archive>) -> CheckResult {
        let location = self.put("source", node, archive).await?;
        same("the delivery", &self.get(&location, archive, true, "target").await?, node)
    }

    /// Holds when a delivery fails so and leaves nothing.
    async fn refuses(&self, location: &ArtifactLocation, archive: Option<Archive>, unpack: bool) -> CheckResult {
        let result = self.store.get(location, archive, unpack, &self.path("refused")).await;
        crate::testing::suite::fails("the delivery", result, crate::error::Class::Invalid)?;
        same("what is left at the target", &self.harvest("refused"), &None)
    }
}

const TAR: Archive = Archive { format: Some(ArchiveFormat::Tar), compression: None };
const GZIP: Archive = Archive { format: Some(ArchiveFormat::Tar), compression: Some(Compression::Gzip) };
const ZIP: Archive = Archive { format: Some(ArchiveFormat::Zip), compression: None };

/// A tree with something of everything.
fn tree() -> Node {
    let nested = Node::folder([("c", Node::file("deep")), ("up", Node::link("../a"))]);
    Node::folder([
        ("a", Node::file("first")),
        ("b", nested),
        ("empty", Node::folder::<String>([])),
        ("nothing", Node::file("")),
        ("run.sh", Node::program("#!/bin/sh\nexit 0\n")),
        ("\u{fc}nicode \u{1f980}", Node::file("\u{1f980}")),
    ])
}
