//! The one program under the names of its roles, linked as an installation links them.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Names that the program plays a role under.
const NAMES: [&str; 4] = ["orlop-operator", "orlop-provisioner", "orlop-scheduler", "orlop-worker"];

static LINKS: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("roles");
    std::fs::create_dir_all(&folder).expect("the folder of links is made");
    for name in NAMES {
        // Tests of several processes link at once: each link appears whole.
        let half = folder.join(format!("{name}.{}", std::process::id()));
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_orlop"), &half).expect("the program is linked");
        std::fs::rename(&half, folder.join(name)).expect("the link takes its name");
    }
    folder
});

/// The program under the name of a role, such as `orlop-worker`.
pub(crate) fn program(name: &str) -> PathBuf {
    assert!(NAMES.contains(&name), "{name} is no role");
    LINKS.join(name)
}
