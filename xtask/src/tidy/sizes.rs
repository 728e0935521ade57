//! Measures what has a limit. `ratchet` decides what to say about it.

use super::shape::{Function, Struct};
use super::tree::{RustFile, Tree, under_tests};
use crate::rules;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    FileLines,
    /// The whole file, tests included; no exception can raise it.
    FileLinesHard,
    FunctionLines,
    Parameters,
    StructFields,
    Columns,
}

impl Rule {
    /// The name in `ratchet.toml`; none where there is no exception.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::FileLines => Some("file-lines"),
            Self::FileLinesHard => None,
            Self::FunctionLines => Some("function-lines"),
            Self::Parameters => Some("parameters"),
            Self::StructFields => Some("struct-fields"),
            Self::Columns => Some("columns"),
        }
    }

    pub(super) fn limit(self) -> usize {
        match self {
            Self::FileLines => rules::FILE_LINES,
            Self::FileLinesHard => rules::FILE_LINES_HARD,
            Self::FunctionLines => rules::FUNCTION_LINES,
            Self::Parameters => rules::PARAMETERS,
            Self::StructFields => rules::STRUCT_FIELDS,
            Self::Columns => rules::COLUMNS,
        }
    }
}

/// A size above its limit, or a dispatch mark that is not earned.
#[derive(Clone, Debug)]
pub(super) struct Excess {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) rule: Rule,
    /// The function or struct; empty for the rules about files and lines.
    pub(super) item: String,
    pub(super) value: usize,
}

impl Excess {
    pub(super) fn what(&self) -> String {
        let item = &self.item;
        match self.rule {
            Rule::FileLines => "code lines without tests".into(),
            Rule::FileLinesHard => "code lines in all".into(),
            Rule::FunctionLines => format!("lines of function `{item}`"),
            Rule::Parameters => format!("parameters of `{item}`"),
            Rule::StructFields => format!("fields of struct `{item}`"),
            Rule::Columns => "columns".into(),
        }
    }
}

/// Everything above a limit, in the order of the files and lines.
pub(super) fn measure(tree: &Tree) -> Vec<Excess> {
    let mut found = Vec::new();
    for file in &tree.rust {
        measure_file(file, &mut found);
    }
    found.retain(|excess| excess.value > excess.rule.limit());
    found
}

fn measure_file(file: &RustFile, found: &mut Vec<Excess>) {
    let source = &file.source;
    let mut add = |line, rule, item: &str, value| {
        found.push(Excess { path: file.path.clone(), line, rule, item: item.into(), value });
    };
    let is_tests_file = file.is_test && !under_tests(&file.path);
    if !is_tests_file {
        add(1, Rule::FileLines, "", source.code_lines(false));
    }
    add(1, Rule::FileLinesHard, "", source.code_lines(true));
    for function in &source.shape.functions {
        let Function { name, line, lines, parameters, .. } = function;
        if !(function.is_marked_dispatch && function.is_one_match) {
            add(*line, Rule::FunctionLines, name, *lines);
        }
        add(*line, Rule::Parameters, name, *parameters);
    }
    for Struct { name, line, fields } in &source.shape.structs {
        add(*line, Rule::StructFields, name, *fields);
    }
    for (index, line) in source.lines.iter().enumerate() {
        // An address cannot be broken.
        let columns = if line.contains("://") { 0 } else { line.chars().count() };
        add(index + 1, Rule::Columns, "", columns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, Rule, usize)> {
        let excesses = measure(&Tree::of(&[(path, text)]));
        excesses.iter().map(|excess| (excess.line, excess.rule, excess.value)).collect()
    }

    fn body(lines: usize) -> String {
        "    g();\n".repeat(lines)
    }

    #[test]
    fn a_function_of_71_lines_is_too_long_and_70_is_not() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", body(lines - 2));
        assert!(found("a.rs", &function(70)).is_empty());
        assert_eq!(found("a.rs", &function(71)), [(1, Rule::FunctionLines, 71)]);
    }

    #[test]
    fn one_long_match_passes_only_with_its_mark() {
        let long = format!("fn f() {{\n    match x {{\n{}    }}\n}}\n", "    1 => {}\n".repeat(80));
        assert_eq!(found("a.rs", &long).len(), 1);
        assert!(found("a.rs", &format!("// tidy: dispatch\n{long}")).is_empty());
        let other = format!("// tidy: dispatch\nfn f() {{\n{}}}\n", body(80));
        assert_eq!(found("a.rs", &other).len(), 1);
    }

    #[test]
    fn test_files_may_be_longer_up_to_the_hard_limit() {
        let lines = |count: usize| "use a::b;\n".repeat(count);
        assert_eq!(found("a.rs", &lines(501)), [(1, Rule::FileLines, 501)]);
        assert_eq!(found("tests/a.rs", &lines(501)).len(), 1);
        assert!(found("src/tests.rs", &lines(1000)).is_empty());
        assert_eq!(found("src/tests.rs", &lines(1001)), [(1, Rule::FileLinesHard, 1001)]);
        let tail = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(500), lines(400));
        assert!(found("a.rs", &tail).is_empty());
    }

    #[test]
    fn parameters_fields_and_columns_are_counted() {
        let parameters: Vec<_> = (0..8).map(|index| format!("a{index}: u8")).collect();
        let text = format!("fn f({}) {{}}\n", parameters.join(", "));
        assert_eq!(found("a.rs", &text), [(1, Rule::Parameters, 8)]);
        let text = format!("struct S(\n{});\n", "u8,\n".repeat(21));
        assert_eq!(found("a.rs", &text), [(1, Rule::StructFields, 21)]);
        let text = format!("// {}\n// {}\n", "ü".repeat(97), "ü".repeat(98));
        assert_eq!(found("a.rs", &text), [(2, Rule::Columns, 101)]);
    }
}
