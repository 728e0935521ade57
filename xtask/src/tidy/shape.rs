//! What the items of a file look like: functions, structs, and where its tests are.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Expr, Meta, Signature, Stmt};

/// The comment that lets a function be one long `match`.
const DISPATCH: &str = "// tidy: dispatch";

pub(super) struct Function {
    /// With its type, trait and modules: `Machine::handle_timeout`.
    pub(super) name: String,
    pub(super) line: usize,
    /// Code lines from the signature to the closing brace; 0 without a body.
    pub(super) lines: usize,
    pub(super) parameters: usize,
    pub(super) is_one_match: bool,
    pub(super) is_marked_dispatch: bool,
}

pub(super) struct Struct {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) fields: usize,
}

#[derive(Default)]
pub(super) struct Shape {
    pub(super) functions: Vec<Function>,
    pub(super) structs: Vec<Struct>,
    /// `#[cfg(test)] mod name;`: the names, or what `#[path]` says.
    pub(super) test_files: Vec<String>,
    /// First and last lines of `#[cfg(test)] mod name { ... }`.
    test_modules: Vec<(usize, usize)>,
    /// First and last lines of test functions outside those.
    test_functions: Vec<(usize, usize)>,
}

impl Shape {
    pub(super) fn of(syntax: &syn::File, lines: &[String], code: &[bool]) -> Self {
        let mut reader = Reader { shape: Self::default(), scope: Vec::new(), lines, code };
        reader.visit_file(syntax);
        reader.shape
    }

    pub(super) fn in_test_module(&self, line: usize) -> bool {
        contains(&self.test_modules, line)
    }

    pub(super) fn in_test(&self, line: usize) -> bool {
        self.in_test_module(line) || contains(&self.test_functions, line)
    }
}

fn contains(ranges: &[(usize, usize)], line: usize) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&line))
}

struct Reader<'a> {
    shape: Shape,
    /// Names of the modules, types and functions around.
    scope: Vec<String>,
    lines: &'a [String],
    code: &'a [bool],
}

impl Reader<'_> {
    fn name(&self, last: &syn::Ident) -> String {
        let mut name = self.scope.join("::");
        if !name.is_empty() {
            name += "::";
        }
        name + &last.to_string()
    }

    fn function(&mut self, signature: &Signature, attributes: &[Attribute], body: Option<&Block>) {
        let line = signature.span().start().line;
        let end = body.map_or(0, |body| body.brace_token.span.close().end().line);
        let lines = (line..=end).filter(|line| self.code[line - 1]).count();
        let first = attributes.first().map_or(line, |first| first.span().start().line);
        if is_test(attributes) {
            self.shape.test_functions.push((first, end));
        }
        self.shape.functions.push(Function {
            name: self.name(&signature.ident),
            line,
            lines,
            parameters: signature.inputs.len(),
            is_one_match: body.is_some_and(is_one_match),
            is_marked_dispatch: self.has_marker(line, first),
        });
    }

    /// Whether the marker is directly above the function, or among its attributes and comments.
    fn has_marker(&self, line: usize, first: usize) -> bool {
        let is_marker = |line: usize| self.lines[line - 1].trim() == DISPATCH;
        (first.saturating_sub(1).max(1)..line).any(is_marker)
    }

    fn inside(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.scope.push(name);
        visit(self);
        self.scope.pop();
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if is_test(&module.attrs) {
            match &module.content {
                Some((braces, _)) => {
                    let first = module.span().start().line;
                    self.shape.test_modules.push((first, braces.span.close().end().line));
                }
                None => self.shape.test_files.push(file_of(module)),
            }
        }
        self.inside(module.ident.to_string(), |me| visit::visit_item_mod(me, module));
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        self.inside(type_name(&block.self_ty), |me| visit::visit_item_impl(me, block));
    }

    fn visit_item_trait(&mut self, block: &'ast syn::ItemTrait) {
        self.inside(block.ident.to_string(), |me| visit::visit_item_trait(me, block));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.attrs, Some(&item.block));
        self.inside(item.sig.ident.to_string(), |me| visit::visit_item_fn(me, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.attrs, Some(&item.block));
        self.inside(item.sig.ident.to_string(), |me| visit::visit_impl_item_fn(me, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig, &item.attrs, item.default.as_ref());
        self.inside(item.sig.ident.to_string(), |me| visit::visit_trait_item_fn(me, item));
    }

    fn visit_foreign_item_fn(&mut self, item: &'ast syn::ForeignItemFn) {
        self.function(&item.sig, &item.attrs, None);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.shape.structs.push(Struct {
            name: self.name(&item.ident),
            line: item.ident.span().start().line,
            fields: item.fields.len(),
        });
        visit::visit_item_struct(self, item);
    }
}

fn type_name(of: &syn::Type) -> String {
    match of {
        syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        syn::Type::Reference(reference) => Some(type_name(&reference.elem)),
        _ => None,
    }
    .unwrap_or_else(|| "_".to_owned())
}

fn is_one_match(body: &Block) -> bool {
    matches!(&body.stmts[..], [Stmt::Expr(Expr::Match(_), _)])
}

/// The name of an out-of-line module, or the file its `#[path]` names.
fn file_of(module: &syn::ItemMod) -> String {
    let path = module.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    });
    path.unwrap_or_else(|| module.ident.to_string())
}

/// `#[test]`, `#[any::test]`, or a `#[cfg(...)]` that needs `test`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        match &attribute.meta {
            Meta::List(list) if path.is_ident("cfg") => needs_test(list.tokens.clone()),
            _ => path.segments.last().is_some_and(|last| last.ident == "test"),
        }
    })
}

fn needs_test(condition: TokenStream) -> bool {
    let mut negated = false;
    for tree in condition {
        match tree {
            TokenTree::Ident(ident) if ident == "test" => return true,
            TokenTree::Ident(ident) => negated = ident == "not",
            TokenTree::Group(group) if !negated && needs_test(group.stream()) => return true,
            _ => negated = false,
        }
    }
    false
}

/// The line a span starts on.
pub(super) fn line_of(span: Span) -> usize {
    span.start().line
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;

    fn read(text: &str) -> Source {
        Source::read(text).expect("valid Rust")
    }

    #[test]
    fn functions_are_measured_in_code_lines_with_their_names() {
        let source = read(
            "struct A;\nimpl A {\n    /// Doc.\n    fn go(\n        &self,\n    ) {\n        \
             // why\n\n        let x = 1;\n        fn inner() {}\n    }\n}\n",
        );
        let functions = &source.shape.functions;
        assert_eq!(functions[0].name, "A::go");
        assert_eq!((functions[0].line, functions[0].lines), (4, 6));
        assert_eq!(functions[0].parameters, 1);
        assert_eq!(functions[1].name, "A::go::inner");
    }

    #[test]
    fn dispatch_needs_its_marker_and_one_match() {
        let source = read(
            "// tidy: dispatch\n#[inline]\nfn a(x: u8) -> u8 {\n    match x { _ => 1 }\n}\n\
             fn b(x: u8) -> u8 {\n    let y = x;\n    match y { _ => 1 }\n}\n",
        );
        let [a, b] = &source.shape.functions[..] else { panic!("two functions") };
        assert!(a.is_marked_dispatch && a.is_one_match);
        assert!(!b.is_marked_dispatch && !b.is_one_match);
    }

    #[test]
    fn test_code_is_found_by_attribute() {
        let source = read(
            "#[cfg(all(test, unix))]\nmod a {\n}\n#[cfg(not(test))]\nmod b {\n}\n\
             #[tokio::test]\nasync fn c() {\n}\nfn d() {\n}\n",
        );
        let in_test: Vec<_> = (1..=11).filter(|line| source.shape.in_test(*line)).collect();
        assert_eq!(in_test, [1, 2, 3, 7, 8, 9]);
    }
}
