//! The first opinion: tree-sitter's tree of bash, walked without recursion.
//!
//! Everything that looks like a command is found, wherever it is nested, so that a deny sees it.
//! Only a tree made of a few kinds of nodes, without gaps, is free of doubt.

use std::cell::RefCell;
use std::ops::{ControlFlow, Range};

use countersign_core::truncate_with_ellipsis;
use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::script::{
    ParsedScript, RedirectKind, ScriptAssignment, ScriptCommand, ScriptItem, ScriptRedirect,
};
use super::word::{ShellWord, dequote};

/// How often the parser may report progress before it is stopped: far above any real command.
const PROGRESS_MAX: usize = 20_000;
/// More nodes than this are not walked.
const NODES_MAX: usize = 400_000;

/// Longer expansions are shown by their beginning.
const EXPANSION_BYTES_MAX: usize = 100;
/// How many expansions of one command are named.
const EXPANSIONS_NAMED_MAX: usize = 5;

thread_local! {
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// Reads `text`; a script with nothing in it but doubt if the parser gave up.
pub(crate) fn read(text: &str) -> ParsedScript {
    let Some(tree) = parse(text) else {
        return ParsedScript {
            items: Vec::new(),
            doubt: Some("the command takes too long to parse".to_owned()),
            is_cut: true,
        };
    };
    let mut walk = ScriptWalk {
        text,
        script: ParsedScript::default(),
        bytes: text.len() * 8 + 4096,
    };
    if tree.root_node().has_error() {
        walk.script.doubts("this is not a complete shell command");
    }
    walk.run(tree.root_node());
    walk.script
}

fn parse(text: &str) -> Option<Tree> {
    PARSER.with_borrow_mut(|slot| {
        if slot.is_none() {
            let mut parser = Parser::new();
            let language = tree_sitter_bash::LANGUAGE.into();
            parser.set_language(&language).ok()?;
            *slot = Some(parser);
        }
        let parser = slot.as_mut()?;
        // Ticks and not time: what is allowed must not depend on how busy the machine is.
        let mut ticks = 0;
        let bytes = text.as_bytes();
        let tree = parser.parse_with_options(
            &mut |at, _| bytes.get(at..).unwrap_or_default(),
            None,
            Some(ParseOptions::new().progress_callback(&mut |_| {
                ticks += 1;
                if ticks > PROGRESS_MAX {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })),
        );
        if tree.is_none() {
            // A parser that was stopped would go on with this text the next time.
            parser.reset();
        }
        tree
    })
}

enum WalkStep<'t> {
    Visit(Node<'t>),
    Emit(ScriptItem),
    Attach(Vec<ScriptRedirect>, Option<Range<usize>>),
}

struct ScriptWalk<'s> {
    text: &'s str,
    script: ParsedScript,
    /// How many bytes of words may still be read: nested words are read once for each level.
    bytes: usize,
}

impl ScriptWalk<'_> {
    fn run(&mut self, root: Node<'_>) {
        // A stack of our own: hostile text nests deeply enough to exhaust that of the thread.
        let mut todo = vec![WalkStep::Visit(root)];
        let mut seen = 0;
        while let Some(step) = todo.pop() {
            seen += 1;
            if seen > NODES_MAX {
                self.script.is_cut = true;
                return self.script.doubts("the command has too many parts");
            }
            match step {
                WalkStep::Emit(item) => self.script.items.push(item),
                WalkStep::Attach(redirects, lone_dash) => self.attach(redirects, lone_dash),
                WalkStep::Visit(node) => self.visit(node, &mut todo),
            }
        }
    }

    fn source(&self, node: Node<'_>) -> &str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn word(&mut self, node: Node<'_>) -> ShellWord {
        let source = self.text.get(node.byte_range()).unwrap_or_default();
        let Some(left) = self.bytes.checked_sub(source.len()) else {
            self.script.is_cut = true;
            self.script.doubts("the command nests too deeply");
            return ShellWord {
                dynamic: true,
                ..ShellWord::default()
            };
        };
        self.bytes = left;
        dequote(source)
    }

    fn visit<'t>(&mut self, node: Node<'t>, todo: &mut Vec<WalkStep<'t>>) {
        self.check_kind(node);
        match node.kind() {
            "command" => self.command(node, todo),
            "declaration_command" | "unset_command" | "test_command" | "ERROR" => {
                self.loose_command(node, todo);
            }
            "redirected_statement" => self.redirected(node, todo),
            "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                let redirects = self.redirects(node, todo);
                self.script
                    .items
                    .extend(redirects.into_iter().map(ScriptItem::Redirect));
            }
            "subshell" => {
                todo.push(WalkStep::Emit(ScriptItem::Close));
                self.children(node, todo);
                todo.push(WalkStep::Emit(ScriptItem::Open));
            }
            _ => self.children(node, todo),
        }
    }

    /// Only these kinds are free of doubt.
    fn check_kind(&mut self, node: Node<'_>) {
        if node.is_missing() {
            self.script.doubts("this is not a complete shell command");
        }
        // An error is doubt already, by the tree's root; the words in it are still looked at.
        if !node.is_named() || node.is_error() {
            return;
        }
        // A list of what is known, not of what is dangerous: a grammar that gains a node must not
        // gain an allow.
        let doubt = match node.kind() {
            "program"
            | "list"
            | "pipeline"
            | "command"
            | "command_name"
            | "word"
            | "string"
            | "string_content"
            | "raw_string"
            | "ansi_c_string"
            | "concatenation"
            | "number"
            | "comment"
            | "redirected_statement"
            | "file_redirect"
            | "file_descriptor"
            | "herestring_redirect"
            | "heredoc_redirect"
            | "heredoc_start"
            | "heredoc_body"
            | "heredoc_content"
            | "heredoc_end"
            | "variable_name"
            | "subshell"
            | "compound_statement"
            | "negated_command" => None,
            "variable_assignment" => (!is_in_command(node)).then_some("a variable is set"),
            "command_substitution" => Some("the output of a command becomes part of it"),
            "process_substitution" => Some("a command runs behind a file name"),
            "expansion" | "simple_expansion" | "arithmetic_expansion" | "brace_expression" => {
                let reason = known_only_when_run(&[self.source(node)]);
                return self.script.doubts(reason);
            }
            "declaration_command" | "unset_command" | "variable_assignments" => {
                Some("variables of the shell are changed")
            }
            "test_command" => Some("a test is evaluated by the shell"),
            "function_definition" => Some("a function is defined"),
            "if_statement"
            | "case_statement"
            | "for_statement"
            | "while_statement"
            | "c_style_for_statement" => Some("the command branches or loops"),
            _ => Some("the command uses syntax that is not judged"),
        };
        if let Some(reason) = doubt {
            self.script.doubts(reason);
        }
    }

    fn children<'t>(&mut self, node: Node<'t>, todo: &mut Vec<WalkStep<'t>>) {
        let is_sequence = matches!(
            node.kind(),
            "program" | "subshell" | "compound_statement" | "list" | "pipeline"
        );
        if is_sequence {
            self.check_gaps(node);
        }
        let begin = todo.len();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            if let Some(item) = operator(child) {
                todo.push(WalkStep::Emit(item));
            } else {
                if matches!(node.kind(), "program" | "compound_statement" | "subshell") {
                    todo.push(WalkStep::Emit(ScriptItem::Next));
                }
                todo.push(WalkStep::Visit(child));
            }
        }
        // The stack gives the last first, and items are to be in source order.
        todo[begin..].reverse();
    }

    /// Whatever lies between nodes must be blank: else the tree left something out.
    fn check_gaps(&mut self, node: Node<'_>) {
        let mut at = node.start_byte();
        let mut cursor = node.walk();
        let mut blank = true;
        for child in node.children(&mut cursor) {
            blank &= self.is_blank(at, child.start_byte());
            at = child.end_byte();
        }
        if !(blank && self.is_blank(at, node.end_byte())) {
            self.script.doubts("part of the command was not understood");
        }
    }

    fn is_blank(&self, from: usize, to: usize) -> bool {
        let gap = self.text.get(from..to.max(from)).unwrap_or("?");
        gap.replace("\\\n", "")
            .chars()
            .all(|c| matches!(c, ' ' | '\t' | '\n'))
    }

    fn command<'t>(&mut self, node: Node<'t>, todo: &mut Vec<WalkStep<'t>>) {
        self.check_gaps(node);
        let mut simple = ScriptCommand::default();
        let mut end_of_last = None;
        let mut later = Vec::new();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            // Bash would read one word where the tree has two.
            if end_of_last == Some(child.start_byte()) && child.is_named() {
                self.script
                    .doubts("two words stand next to each other without a blank");
            }
            end_of_last = Some(child.end_byte());
            match child.kind() {
                "variable_assignment" => {
                    let assign = self.assign(child);
                    simple.assigns.push(assign);
                }
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    if child.kind() == "heredoc_redirect" {
                        self.script.doubts("more stands behind a heredoc");
                    }
                    let redirects = self.redirects(child, &mut later);
                    simple.redirects.extend(redirects);
                    end_of_last = None;
                    continue;
                }
                "comment" => {}
                _ => simple.push_word(self.word(child), child.byte_range()),
            }
            later.push(WalkStep::Visit(child));
        }
        simple.span = node.byte_range();
        // What is nested in the words comes after the command itself; their order does not matter.
        later.retain(
            |step| matches!(step, WalkStep::Visit(node) if node.child_count() > 0 || !node.is_named()),
        );
        todo.extend(later);
        self.script.items.push(ScriptItem::Simple(simple));
    }

    /// Commands of the shell with a syntax of their own, and words in a tree with errors.
    fn loose_command<'t>(&mut self, node: Node<'t>, todo: &mut Vec<WalkStep<'t>>) {
        let mut simple = ScriptCommand::default();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            let wordy = matches!(
                child.kind(),
                "word"
                    | "string"
                    | "raw_string"
                    | "concatenation"
                    | "command_name"
                    | "variable_name"
                    | "variable_assignment"
                    | "number"
                    | "ansi_c_string"
                    | "simple_expansion"
                    | "expansion"
            );
            if wordy || (!child.is_named() && is_word(self.source(child))) {
                simple.push_word(self.word(child), child.byte_range());
            } else {
                self.flush(&mut simple);
            }
            todo.push(WalkStep::Visit(child));
        }
        self.flush(&mut simple);
    }

    fn flush(&mut self, simple: &mut ScriptCommand) {
        if !simple.words.is_empty() {
            self.script
                .items
                .push(ScriptItem::Simple(std::mem::take(simple)));
        }
    }

    fn assign(&mut self, node: Node<'_>) -> ScriptAssignment {
        let source = self.source(node).to_owned();
        let (name, value) = source.split_once('=').unwrap_or((source.as_str(), ""));
        let plain = name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        if !plain || value.starts_with('(') {
            self.script.doubts("a variable is set in an unusual way");
        }
        ScriptAssignment {
            // `NAME+=value` appends, and matters for the same variable.
            name: name.trim_end_matches('+').to_owned(),
            value: dequote(value),
        }
    }

    fn redirected<'t>(&mut self, node: Node<'t>, todo: &mut Vec<WalkStep<'t>>) {
        let body = node.child_by_field_name("body");
        let mut redirects = Vec::new();
        let mut cursor = node.walk();
        let mut later = Vec::new();
        for child in node.children(&mut cursor) {
            if matches!(
                child.kind(),
                "file_redirect" | "herestring_redirect" | "heredoc_redirect"
            ) {
                redirects.extend(self.redirects(child, &mut later));
            } else if Some(child) != body {
                later.push(WalkStep::Visit(child));
            }
        }
        later.reverse();
        let lone_dash = body.and_then(|body| self.find_lone_dash(node, body));
        if lone_dash.is_none() {
            self.check_gaps(node);
        }
        todo.extend(later);
        todo.push(WalkStep::Attach(redirects, lone_dash));
        todo.extend(body.map(WalkStep::Visit));
    }

    /// A redirection behind a list or pipeline is one of its last command; only behind a group is
    /// it one of the whole.
    fn attach(&mut self, redirects: Vec<ScriptRedirect>, lone_dash: Option<Range<usize>>) {
        if let Some(ScriptItem::Simple(simple)) = self.script.items.last_mut() {
            simple.redirects.extend(redirects);
            if let Some(span) = lone_dash {
                simple.push_word(dequote("-"), span);
            }
            return;
        }
        if lone_dash.is_some() {
            self.script.doubts("part of the command was not understood");
        }
        let redirects = redirects.into_iter().map(ScriptItem::Redirect);
        self.script.items.extend(redirects);
    }

    /// The tree leaves out a `-` between a command and its redirection.
    fn find_lone_dash(&self, node: Node<'_>, body: Node<'_>) -> Option<Range<usize>> {
        let mut cursor = node.walk();
        let next = node
            .children(&mut cursor)
            .find(|child| child.start_byte() >= body.end_byte());
        let gap = self.text.get(body.end_byte()..next?.start_byte())?;
        let is_dash =
            gap.starts_with([' ', '\t']) && gap.ends_with([' ', '\t']) && gap.trim() == "-";
        let at = body.end_byte() + gap.find('-').filter(|_| is_dash)?;
        Some(at..at + 1)
    }

    /// The redirections of one node; whatever else it holds is visited later.
    fn redirects<'t>(
        &mut self,
        node: Node<'t>,
        later: &mut Vec<WalkStep<'t>>,
    ) -> Vec<ScriptRedirect> {
        self.check_kind(node);
        match node.kind() {
            "file_redirect" => self.file_redirect(node, later),
            "herestring_redirect" => {
                let mut cursor = node.walk();
                let targets: Vec<_> = node.named_children(&mut cursor).collect();
                targets
                    .into_iter()
                    .filter(|child| child.kind() != "file_descriptor")
                    .map(|child| {
                        later.push(WalkStep::Visit(child));
                        ScriptRedirect {
                            kind: RedirectKind::Text,
                            target: self.word(child),
                            span: child.byte_range(),
                        }
                    })
                    .collect()
            }
            _ => self.heredoc(node, later),
        }
    }

    fn file_redirect<'t>(
        &mut self,
        node: Node<'t>,
        later: &mut Vec<WalkStep<'t>>,
    ) -> Vec<ScriptRedirect> {
        let mut cursor = node.walk();
        let mut kind = None;
        let mut targets = ScriptCommand::default();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "file_descriptor" => {}
                operator if !child.is_named() => kind = Some(redirect_kind(operator)),
                _ => {
                    later.push(WalkStep::Visit(child));
                    targets.push_word(self.word(child), child.byte_range());
                }
            }
        }
        // An operator that is not known may read and write.
        let kind = kind.unwrap_or(RedirectKind::ReadWrite);
        // The grammar takes the words of `>file command` for further targets. They are a command.
        let mut command = ScriptCommand::default();
        let mut words = targets.words.into_iter().zip(targets.word_spans);
        let Some((target, span)) = words.next() else {
            return Vec::new();
        };
        words.for_each(|(word, span)| command.push_word(word, span));
        if !command.words.is_empty() {
            self.script
                .doubts("a redirection stands before its command");
            self.script.items.push(ScriptItem::Simple(command));
        }
        let mut redirect = settle(self.source(node), kind, target);
        redirect.span = span;
        Vec::from_iter((redirect.kind != RedirectKind::Free).then_some(redirect))
    }

    fn heredoc<'t>(
        &mut self,
        node: Node<'t>,
        later: &mut Vec<WalkStep<'t>>,
    ) -> Vec<ScriptRedirect> {
        let mut redirects = Vec::new();
        let (mut quoted, mut strips_tabs) = (false, false);
        let mut body = String::new();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "heredoc_start" => {
                    let delimiter = self.source(child);
                    quoted = delimiter.contains(['\'', '"', '\\']);
                    if delimiter.contains(['$', '`']) {
                        self.script.doubts("the end of a heredoc is not certain");
                    }
                }
                "heredoc_body" => {
                    self.source(child).clone_into(&mut body);
                    later.push(WalkStep::Visit(child));
                }
                "file_redirect" => redirects.extend(self.file_redirect(child, later)),
                "<<-" => strips_tabs = true,
                "<<" | "\n" | "file_descriptor" | "heredoc_end" => {}
                "pipeline" | "command" | "list" | "redirected_statement" => {
                    later.push(WalkStep::Visit(child));
                }
                _ => {
                    if let Some(item) = operator(child) {
                        later.push(WalkStep::Emit(item));
                        continue;
                    }
                    self.script.doubts("more stands behind a heredoc");
                    later.push(WalkStep::Visit(child));
                }
            }
        }
        if strips_tabs {
            body = without_leading_tabs(&body);
        }
        if !quoted && body.contains(['$', '`', '\\']) {
            self.script
                .doubts("part of a heredoc is expanded only when it runs");
        }
        let mut target = ShellWord {
            text: body,
            quoted: true,
            ..ShellWord::default()
        };
        target.dynamic = !quoted && target.text.contains(['$', '`', '\\']);
        redirects.insert(
            0,
            ScriptRedirect {
                kind: RedirectKind::Text,
                target,
                span: node.byte_range(),
            },
        );
        redirects
    }
}

/// Names what is expanded at run time, as it is written.
pub(crate) fn known_only_when_run<S: AsRef<str>>(expanded: &[S]) -> String {
    let names: Vec<String> = expanded
        .iter()
        .take(EXPANSIONS_NAMED_MAX)
        .map(|text| truncate_with_ellipsis(text.as_ref(), EXPANSION_BYTES_MAX))
        .map(|text| format!("`{text}`"))
        .collect();
    match (names.as_slice(), expanded.len() - names.len()) {
        ([name], 0) => format!("{name} is known only when it runs"),
        (_, 0) => format!("{} are known only when it runs", names.join(", ")),
        (_, more) => format!(
            "{} and {more} more are known only when it runs",
            names.join(", ")
        ),
    }
}

fn without_leading_tabs(body: &str) -> String {
    body.split_inclusive('\n')
        .map(|line| line.trim_start_matches('\t'))
        .collect()
}

fn is_in_command(node: Node<'_>) -> bool {
    node.parent()
        .is_some_and(|parent| parent.kind() == "command")
}

fn is_word(source: &str) -> bool {
    source
        .chars()
        .next()
        .is_some_and(|c| c.is_alphanumeric() || c == '[')
}

fn operator(node: Node<'_>) -> Option<ScriptItem> {
    if node.is_named() {
        return None;
    }
    match node.kind() {
        "&&" => Some(ScriptItem::And),
        "||" => Some(ScriptItem::Or),
        "|" | "|&" => Some(ScriptItem::Pipe),
        ";" | "&" | "\n" | ";;" | "{" | "}" => Some(ScriptItem::Next),
        _ => None,
    }
}

fn redirect_kind(operator: &str) -> RedirectKind {
    match operator {
        "<" => RedirectKind::Read,
        ">" | ">>" | ">|" | "&>" | "&>>" => RedirectKind::Write,
        ">&" | "<&" | ">&-" | "<&-" => RedirectKind::Free,
        _ => RedirectKind::ReadWrite,
    }
}

/// `>&` with a name instead of a number is a file after all. Bash expands that name twice and
/// takes a leading `-` for a token of its own, so only a bare one is certain.
pub(super) fn settle(source: &str, kind: RedirectKind, mut target: ShellWord) -> ScriptRedirect {
    if kind != RedirectKind::Free {
        return redirect(kind, target);
    }
    if target.literal().is_some_and(is_descriptor) && !target.quoted {
        return redirect(RedirectKind::Free, ShellWord::default());
    }
    let is_bare = target
        .text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'));
    let certain =
        !target.quoted && is_bare && !target.text.starts_with('-') && source.contains(">&");
    target.dynamic |= !certain;
    let kind = if source.contains(">&") {
        RedirectKind::Write
    } else {
        RedirectKind::ReadWrite
    };
    redirect(kind, target)
}

fn redirect(kind: RedirectKind, target: ShellWord) -> ScriptRedirect {
    ScriptRedirect {
        kind,
        target,
        span: 0..0,
    }
}

/// `2` duplicates a descriptor, `2-` moves it, `-` closes it.
fn is_descriptor(text: &str) -> bool {
    let digits = text.strip_suffix('-').unwrap_or(text);
    text == "-" || (!digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
}
