//! `lib.rs` and `mod.rs` are tables of contents: documentation, `mod`, `pub use`.

use syn::spanned::Spanned;
use syn::{Item, Visibility};

use super::shape::line_of;
use super::tree::{RustFile, Tree};
use crate::report::Violation;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust.iter().filter(|file| is_contents(&file.path)) {
        check_file(file, &mut violations);
    }
    violations
}

fn is_contents(path: &str) -> bool {
    let in_src = path.starts_with("src/") || path.contains("/src/");
    in_src && (path.ends_with("/lib.rs") || path.ends_with("/mod.rs"))
}

fn check_file(file: &RustFile, violations: &mut Vec<Violation>) {
    for item in &file.source.syntax.items {
        let Some(kind) = misplaced(item) else { continue };
        let what = format!("{kind} does not belong here");
        violations.push(Violation::new(&file.path, line_of(item.span()), what));
    }
}

/// What an item is, if it should live elsewhere.
fn misplaced(item: &Item) -> Option<&'static str> {
    match item {
        Item::Mod(module) => module.content.is_some().then_some("a module with its body"),
        Item::Use(import) if matches!(import.vis, Visibility::Inherited) => Some("a private `use`"),
        Item::ExternCrate(_) | Item::Use(_) => None,
        Item::Fn(_) => Some("a function"),
        Item::Struct(_) | Item::Enum(_) | Item::Union(_) | Item::Type(_) => Some("a type"),
        Item::Trait(_) | Item::TraitAlias(_) => Some("a trait"),
        Item::Impl(_) => Some("an impl"),
        Item::Const(_) | Item::Static(_) => Some("a constant"),
        Item::Macro(_) => Some("a macro"),
        _ => Some("this item"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn contents_pass_and_everything_else_is_named() {
        let good = "//! Doc.\n#![no_std]\nextern crate alloc;\nmod a;\npub use a::B;\n\
                    #[cfg(test)]\nmod tests;\n";
        assert!(found("crates/a/src/lib.rs", good).is_empty());
        let bad = "mod a;\nuse a::B;\nfn c() {}\nmod d { }\nconst E: u8 = 1;\n\
                   macro_rules! f { () => {} }\n";
        assert_eq!(found("crates/a/src/x/mod.rs", bad), [2, 3, 4, 5, 6]);
        assert!(found("crates/a/src/x.rs", bad).is_empty());
        assert!(found("crates/a/tests/common/mod.rs", bad).is_empty());
    }
}
