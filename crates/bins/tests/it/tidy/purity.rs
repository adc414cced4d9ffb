//! What the sources of the pure crates never name: clocks, files, sockets, threads, the environment, randomness, global
//! state, hash order. Reads paths as written, so a renamed import is seen where it is imported.

use std::path::Path;

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::modules::{only_tests, parse, reached};
use super::{PURE, none, root};

/// Paths, and all below them, with what to do instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("std::env", "take it as an argument"),
    ("std::fs", "I/O belongs to an adapter"),
    ("std::net", "I/O belongs to an adapter"),
    ("std::os", "I/O belongs to an adapter"),
    ("std::process", "I/O belongs to an adapter"),
    ("std::thread", "engines have no threads"),
    ("std::io::stdin", "I/O belongs to an adapter"),
    ("std::io::stdout", "I/O belongs to an adapter"),
    ("std::io::stderr", "I/O belongs to an adapter"),
    ("io::stdin", "I/O belongs to an adapter"),
    ("io::stdout", "I/O belongs to an adapter"),
    ("io::stderr", "I/O belongs to an adapter"),
    ("std::time::Instant", "time is an argument"),
    ("std::time::SystemTime", "time is an argument"),
    ("std::time::UNIX_EPOCH", "time is an argument"),
    ("jiff::Timestamp::now", "time is an argument"),
    ("jiff::Zoned::now", "time is an argument"),
    ("jiff::tz::TimeZone::system", "the time zone of the machine is an argument"),
    ("Timestamp::now", "time is an argument"),
    ("Zoned::now", "time is an argument"),
    ("Instant::now", "time is an argument"),
    ("SystemTime::now", "time is an argument"),
    ("std::collections::HashMap", "hash order is random: BTreeMap"),
    ("std::collections::HashSet", "hash order is random: BTreeSet"),
    ("std::collections::hash_map", "hash order is random: BTreeMap"),
    ("std::hash::RandomState", "randomness is an argument"),
    ("HashMap", "hash order is random: BTreeMap"),
    ("HashSet", "hash order is random: BTreeSet"),
    ("tokio", "no runtime"),
    ("rand", "randomness is an argument"),
];

/// Macros that write or keep state.
const MACROS: [&str; 6] = ["print", "println", "eprint", "eprintln", "thread_local", "dbg"];

/// Types that make a `static` global state. A `LazyLock` of none of these is a constant that is worked out once.
const CELLS: [&str; 8] = ["Mutex", "RwLock", "Atomic", "OnceLock", "OnceCell", "Cell", "RefCell", "UnsafeCell"];

struct Search<'a> {
    file: &'a str,
    /// Ports and their doubles are async traits; nothing else in a pure crate waits.
    may_wait: bool,
    findings: Vec<String>,
}

impl Search<'_> {
    fn report(&mut self, span: Span, what: &str, instead: &str) {
        self.findings.push(format!("{}:{}: {what} ({instead})", self.file, span.start().line));
    }

    fn path(&mut self, path: &str, span: Span) {
        let path = path.replacen("core::", "std::", usize::from(path.starts_with("core::")));
        let hit = FORBIDDEN.iter().find(|(word, _)| path.strip_prefix(word).is_some_and(ends_a_segment));
        if let Some((word, instead)) = hit {
            self.report(span, word, instead);
        }
    }

    fn imports(&mut self, tree: &syn::UseTree, before: &str) {
        match tree {
            syn::UseTree::Path(part) => self.imports(&part.tree, &format!("{before}{}::", part.ident)),
            syn::UseTree::Name(name) => self.path(&format!("{before}{}", name.ident), name.span()),
            syn::UseTree::Rename(name) => self.path(&format!("{before}{}", name.ident), name.span()),
            syn::UseTree::Glob(star) => self.path(&format!("{before}*"), star.span()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.imports(item, before)),
        }
    }
}

fn ends_a_segment(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with("::")
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !only_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.imports(&item.tree, "");
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.path(&segments.join("::"), path.span());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if MACROS.iter().any(|name| call.path.is_ident(name)) {
            self.report(call.span(), "a macro that writes or keeps state", "return it");
        }
        // Most macros take expressions: what can be read as such is searched like other code.
        let arguments = syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        if let Ok(arguments) = call.parse_body_with(arguments) {
            arguments.iter().for_each(|argument| self.visit_expr(argument));
        }
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        let declared = item.ty.to_token_stream().to_string();
        let mutable = !matches!(item.mutability, syn::StaticMutability::None);
        if mutable || CELLS.iter().any(|cell| declared.contains(cell)) {
            self.report(item.span(), "a static that changes", "state is an argument");
        }
        visit::visit_item_static(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if signature.asyncness.is_some() && !self.may_wait {
            self.report(signature.span(), "async fn", "engines do not wait");
        }
        visit::visit_signature(self, signature);
    }

    fn visit_expr_await(&mut self, expression: &'ast syn::ExprAwait) {
        if !self.may_wait {
            self.report(expression.span(), ".await", "engines do not wait");
        }
        visit::visit_expr_await(self, expression);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.report(block.span(), "unsafe", "there is none in this workspace");
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn search(file: &str, parsed: &syn::File) -> Vec<String> {
    let may_wait = file.starts_with("crates/core/src/ports/") || file.contains("/src/testing/");
    let mut search = Search { file, may_wait, findings: Vec::new() };
    search.visit_file(parsed);
    search.findings
}

#[test]
fn sources_of_pure_crates_touch_nothing_outside_their_arguments() {
    let mut findings = Vec::new();
    let mut searched = 0;
    for (file, test) in reached() {
        let pure = PURE.iter().any(|name| file.starts_with(&format!("crates/{name}/src/")));
        if pure && !test {
            searched += 1;
            findings.extend(search(&file, &parse(Path::new(&root().join(&file)))));
        }
    }
    assert!(searched > PURE.len(), "the pure crates have sources");
    none("impure code in a pure crate", &findings);
}

#[test]
fn the_search_sees_what_it_forbids() {
    for impure in [
        "use std::fs;",
        "use std::{collections::{BTreeMap, HashMap}, fmt};",
        "use core::net::IpAddr;",
        "fn f() { std::thread::spawn(g); }",
        "fn f() -> u8 { match x { _ => jiff::Timestamp::now() } }",
        "fn f() { assert!(std::env::var(\"A\").is_ok()); }",
        "fn f() { println!(\"x\"); }",
        "static mut N: u8 = 0;",
        "static N: std::sync::Mutex<u8> = todo();",
        "struct S { started: std::time::Instant }",
        "use std::time::*; fn f() { Instant::now(); }",
        "use std::io; fn f() { io::stdout().write(); }",
        "async fn f() {}",
        "fn f() { g(h.await) }",
    ] {
        let found = search("x.rs", &syn::parse_str(impure).expect("parses"));
        assert!(!found.is_empty(), "{impure}");
    }
    for pure in [
        "use std::collections::BTreeMap; use std::time::Duration; use std::io::ErrorKind;",
        "struct Awaiting; fn f() { x.awaiting() }",
        "#[cfg(test)] mod tests { use std::fs; }",
        "static WORDS: [&str; 1] = [\"std::fs\"];",
        "fn environment() { std::mem::take(&mut x); }",
    ] {
        assert_eq!(search("x.rs", &syn::parse_str(pure).expect("parses")), Vec::<String>::new(), "{pure}");
    }
}

#[test]
fn pure_crates_share_one_list_of_clippy_bans() {
    let first = super::read("crates/core/clippy.toml");
    for name in PURE {
        assert_eq!(super::read(&format!("crates/{name}/clippy.toml")), first, "crates/{name}/clippy.toml");
    }
    let general = super::read("clippy.toml");
    assert!(first.contains(&general), "crates/core/clippy.toml starts with the rules of the root");
}
