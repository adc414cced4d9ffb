//! Modules that use one another in a circle: none of them can be read, tested or taken out without the others. How many there are
//! is held down.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Item, UseTree};

use super::modules::{only_tests, parse};
use super::{root, rust_files};

/// A module, by the names of the path to it; empty for the crate.
type Module = Vec<String>;

/// Modules that lie in circles, at most, by crate. Lower a number whenever you can.
const MOST: [(&str, usize); 6] =
    [("bins", 66), ("cloud", 44), ("core", 20), ("dag", 18), ("k8s", 46), ("scheduler", 22)];

/// The module of a file below `src`; none where only tests or programs are made of it.
fn module_of(path: &str) -> Option<Module> {
    let mut names: Module = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if names.iter().any(|name| name == "tests") || names.first().is_some_and(|name| name == "bin") {
        return None;
    }
    if names.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
        names.pop();
    }
    Some(names)
}

/// The paths that a file names.
#[derive(Default)]
struct Named(Vec<Vec<String>>);

impl Named {
    fn tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.0.push(with(&name.ident)),
            UseTree::Rename(name) => self.0.push(with(&name.ident)),
            UseTree::Glob(_) => self.0.push(before.to_vec()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(before, tree)),
        }
    }
}

impl<'a> Visit<'a> for Named {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Mod(module) => &module.attrs,
            Item::Fn(function) => &function.attrs,
            Item::Impl(block) => &block.attrs,
            Item::Use(used) => &used.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !only_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, used: &'a syn::ItemUse) {
        self.tree(&[], &used.tree);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

/// The module a path leads to, named in `from`; none where it leads out of the crate.
fn resolve(path: &[String], from: &Module, modules: &BTreeSet<Module>) -> Option<Module> {
    let mut path = path.iter().peekable();
    let mut at = match path.next()?.as_str() {
        "crate" => Module::new(),
        "self" => from.clone(),
        "super" => from.split_last()?.1.to_vec(),
        _ => return None,
    };
    while path.next_if(|name| *name == "super").is_some() {
        at.pop();
    }
    for name in path {
        at.push(name.clone());
        if !modules.contains(&at) {
            at.pop();
            break;
        }
    }
    Some(at)
}

/// Which module of a folder uses which other one of it, by folder.
fn uses(of_crate: &str) -> BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> {
    let source = format!("crates/{of_crate}/src/");
    let files = rust_files().filter_map(|path| Some((path, module_of(path.strip_prefix(&source)?)?)));
    let files: Vec<(&str, Module)> = files.collect();
    let all =
        files.iter().flat_map(|(_, module)| (0..=module.len()).filter_map(|len| Some(module.get(..len)?.to_vec())));
    let modules: BTreeSet<Module> = all.collect();
    let mut uses: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (path, from) in &files {
        let mut named = Named::default();
        named.visit_file(&parse(&root().join(Path::new(path))));
        for to in named.0.iter().filter_map(|path| resolve(path, from, &modules)) {
            let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
            if let (Some(user), Some(used)) = (from.get(common), to.get(common)) {
                let folder = uses.entry(to[..common].to_vec()).or_default();
                folder.entry(user.clone()).or_default().insert(used.clone());
            }
        }
    }
    uses
}

/// Everything that a module of a folder leads to.
fn reach<'a>(from: &'a str, uses: &'a BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(one) = next.pop() {
        let more = uses.get(one).into_iter().flatten().map(String::as_str);
        next.extend(more.filter(|name| reached.insert(*name)));
    }
    reached
}

/// The circles of a crate: the folder and the modules of each.
fn circles(of_crate: &str) -> BTreeSet<(String, Vec<String>)> {
    let mut found = BTreeSet::new();
    for (folder, uses) in uses(of_crate) {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            uses.keys().map(|name| (name.as_str(), reach(name, &uses))).collect();
        for (name, to) in &reached {
            let together = |other: &&str| reached.get(other).is_some_and(|back| back.contains(name));
            let circle: BTreeSet<String> =
                to.iter().copied().filter(together).chain([*name]).map(str::to_owned).collect();
            if circle.len() > 1 {
                found.insert((folder.join("::"), circle.into_iter().collect()));
            }
        }
    }
    found
}

#[test]
fn no_more_modules_lie_in_circles() {
    for (of_crate, most) in MOST {
        let circles = circles(of_crate);
        let found: usize = circles.iter().map(|(_, modules)| modules.len()).sum();
        let list = || {
            let line = |(folder, modules): &(String, Vec<String>)| format!("  {folder}: {}", modules.join(", "));
            circles.iter().map(line).collect::<Vec<_>>().join("\n")
        };
        assert!(
            found <= most,
            "{found} modules of crates/{of_crate} use one another in circles, at most {most} may:\n{}",
            list()
        );
    }
}
