//! The module tree as the compiler follows it: which file is reached from which target, and whether only by tests.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use syn::{Attribute, Item, ItemMod};

use super::{PEERS, metadata, none, root, rust_files};

/// Rust files that belong to a target, by path from the root, with whether only tests compile them.
pub(super) fn reached() -> BTreeMap<String, bool> {
    let mut reached = BTreeMap::new();
    for package in metadata().workspace_packages() {
        for target in &package.targets {
            let test = target.is_test() || target.is_bench() || target.is_example();
            follow(target.src_path.as_std_path(), true, test, &mut reached);
        }
    }
    reached
}

/// Walks one file and the files its `mod` declarations name.
fn follow(file: &Path, owns_folder: bool, test: bool, reached: &mut BTreeMap<String, bool>) {
    let name = file.strip_prefix(root()).expect("targets lie in the workspace").to_str().expect("UTF-8").to_owned();
    match reached.get(&name) {
        Some(known) if !known || test => return,
        _ => reached.insert(name, test),
    };
    let folder = file.parent().expect("a file lies in a folder");
    let folder = if owns_folder { folder.to_path_buf() } else { folder.join(file.file_stem().expect("a name")) };
    for (path, test) in declared(&parse(file).items, &folder, test) {
        let owns_folder = path.ends_with("mod.rs") || !path.starts_with(&folder);
        follow(&path, owns_folder, test, reached);
    }
}

pub(super) fn parse(file: &Path) -> syn::File {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Files that these items declare as modules.
fn declared(items: &[Item], folder: &Path, test: bool) -> Vec<(PathBuf, bool)> {
    let mut found = Vec::new();
    for item in items {
        let Item::Mod(module) = item else { continue };
        let test = test || only_tests(&module.attrs);
        match &module.content {
            Some((_, items)) => found.extend(declared(items, &folder.join(module.ident.to_string()), test)),
            None => found.push((file_of(module, folder), test)),
        }
    }
    found
}

fn file_of(module: &ItemMod, folder: &Path) -> PathBuf {
    if let Some(path) = stated_path(&module.attrs) {
        return plain(&folder.join(path));
    }
    let name = module.ident.to_string();
    let flat = folder.join(format!("{name}.rs"));
    if flat.is_file() { flat } else { folder.join(name).join("mod.rs") }
}

/// The value of `#[path = "…"]`.
fn stated_path(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(value) = &pair.value else { return None };
        let syn::Lit::Str(text) = &value.lit else { return None };
        pair.path.is_ident("path").then(|| text.value())
    })
}

/// Resolves `..` without asking the file system.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

/// Whether the item is there for tests only: `#[test]`, or a `cfg` that needs `test`.
pub(super) fn only_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        if path.is_ident("test") {
            return true;
        }
        let Ok(condition) = attribute.parse_args::<syn::Meta>() else { return false };
        path.is_ident("cfg") && needs_test(&condition)
    })
}

fn needs_test(condition: &syn::Meta) -> bool {
    match condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => {
            let parts = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
            list.parse_args_with(parts).is_ok_and(|parts| parts.iter().any(needs_test))
        }
        _ => false,
    }
}

#[test]
fn no_rust_file_is_outside_the_module_tree() {
    let reached = reached();
    let ours = rust_files().filter(|path| !path.starts_with(PEERS));
    let orphans: Vec<_> = ours.filter(|path| !reached.contains_key(*path)).map(str::to_owned).collect();
    none("files that no `mod` declares, so that nobody compiles them", &orphans);
}

#[test]
fn cfg_test_is_recognised() {
    let only = |text: &str| only_tests(&syn::parse_str::<ItemMod>(&format!("{text} mod x;")).expect("parses").attrs);
    assert!(only("#[cfg(test)]"));
    assert!(only("#[cfg(all(unix, test))]"));
    assert!(!only("#[cfg(any(test, feature = \"testing\"))]"));
    assert!(!only("#[cfg(not(test))]"));
    assert!(!only("#[inline]"));
}
