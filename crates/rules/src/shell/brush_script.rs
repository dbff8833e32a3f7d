//! The second opinion: brush's tree of bash. It is asked only about what the first found plain,
//! which keeps it away from the inputs that it takes exponential time or stack for.

use brush_parser::ast::{
    AndOr, AssignmentName, AssignmentValue, Command, CommandPrefixOrSuffixItem, CompoundCommand,
    CompoundList, IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, SimpleCommand,
};
use brush_parser::word::{TildeExpr, WordPiece, WordPieceWithSource};
use brush_parser::{Parser, ParserOptions};

use super::script::{
    ParsedScript, RedirectKind, ScriptAssignment, ScriptCommand, ScriptItem, ScriptRedirect,
};
use super::tree_sitter_script::settle;
use super::word::{ShellWord, WordBuilder, decode_ansi};

/// Reads `text`. Anything but lists, pipelines and groups of simple commands is doubt.
pub(crate) fn read(text: &str) -> ParsedScript {
    let mut script = ParsedScript::default();
    // The text is hostile and the parser is not ours: a panic in it must not end the host. It is
    // doubt like any other; nothing of it is kept.
    let parsed = std::panic::catch_unwind(|| {
        let options = ParserOptions::default();
        let mut parser = Parser::new(text.as_bytes(), &options);
        parser.parse_program()
    });
    let Ok(Ok(program)) = parsed else {
        script.doubts("this is not a complete shell command");
        return script;
    };
    for list in &program.complete_commands {
        read_list(list, &mut script);
    }
    script
}

fn read_list(list: &CompoundList, script: &mut ParsedScript) {
    for item in &list.0 {
        script.items.push(ScriptItem::Next);
        read_pipeline(&item.0.first, script);
        for more in &item.0.additional {
            match more {
                AndOr::And(pipeline) => {
                    script.items.push(ScriptItem::And);
                    read_pipeline(pipeline, script);
                }
                AndOr::Or(pipeline) => {
                    script.items.push(ScriptItem::Or);
                    read_pipeline(pipeline, script);
                }
            }
        }
        script.items.push(ScriptItem::Next);
    }
}

fn read_pipeline(pipeline: &Pipeline, script: &mut ParsedScript) {
    for (at, command) in pipeline.seq.iter().enumerate() {
        if at > 0 {
            script.items.push(ScriptItem::Pipe);
        }
        let before = script.items.len();
        read_command(command, script);
        // `time` is a word of the grammar here and a command to the first opinion.
        if let (0, Some(timed)) = (at, &pipeline.timed)
            && let Some(ScriptItem::Simple(simple)) = script.items.get_mut(before)
        {
            if timed.is_posix_output() {
                simple.words.insert(0, bare("-p"));
            }
            simple.words.insert(0, bare("time"));
        } else if at == 0 && pipeline.timed.is_some() {
            script.doubts("the time of a group is taken");
        }
    }
}

fn bare(text: &str) -> ShellWord {
    ShellWord {
        text: text.to_owned(),
        ..ShellWord::default()
    }
}

fn read_command(command: &Command, script: &mut ParsedScript) {
    match command {
        Command::Simple(simple) => {
            let simple = read_simple(simple, script);
            script.items.push(ScriptItem::Simple(simple));
        }
        Command::Compound(CompoundCommand::BraceGroup(group), redirects) => {
            read_list(&group.list, script);
            read_redirects(redirects.as_ref().map(|list| &list.0), script);
        }
        Command::Compound(CompoundCommand::Subshell(group), redirects) => {
            script.items.push(ScriptItem::Open);
            read_list(&group.list, script);
            script.items.push(ScriptItem::Close);
            read_redirects(redirects.as_ref().map(|list| &list.0), script);
        }
        Command::Compound(..) | Command::Function(_) | Command::ExtendedTest(..) => {
            script.doubts("the command branches, loops or defines something");
        }
    }
}

fn read_redirects(redirects: Option<&Vec<IoRedirect>>, script: &mut ParsedScript) {
    for redirect in redirects.into_iter().flatten() {
        let redirect = read_redirect(redirect, script);
        if redirect.kind != RedirectKind::Free {
            script.items.push(ScriptItem::Redirect(redirect));
        }
    }
}

fn read_simple(command: &SimpleCommand, script: &mut ParsedScript) -> ScriptCommand {
    let mut simple = ScriptCommand::default();
    for item in command.prefix.iter().flat_map(|prefix| &prefix.0) {
        read_item(item, &mut simple, true, script);
    }
    if let Some(name) = &command.word_or_name {
        simple.words.push(read_word(&name.value, script));
    }
    for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
        read_item(item, &mut simple, false, script);
    }
    simple
}

fn read_item(
    item: &CommandPrefixOrSuffixItem,
    simple: &mut ScriptCommand,
    in_prefix: bool,
    script: &mut ParsedScript,
) {
    match item {
        CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
            let redirect = read_redirect(redirect, script);
            if redirect.kind != RedirectKind::Free {
                simple.redirects.push(redirect);
            }
        }
        CommandPrefixOrSuffixItem::Word(word) => {
            simple.words.push(read_word(&word.value, script));
        }
        CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
            // Behind the program's name, as in `dd if=x`, it is a word like any other.
            let assign = match (&assignment.name, &assignment.value) {
                (AssignmentName::VariableName(name), AssignmentValue::Scalar(value))
                    if in_prefix =>
                {
                    Some(ScriptAssignment {
                        name: name.clone(),
                        value: read_word(&value.value, script),
                    })
                }
                _ => None,
            };
            match assign {
                Some(assign) => simple.assigns.push(assign),
                None => simple.words.push(read_word(&word.value, script)),
            }
        }
        CommandPrefixOrSuffixItem::ProcessSubstitution(..) => {
            script.doubts("a command runs behind a file name");
        }
    }
}

fn read_redirect(redirect: &IoRedirect, script: &mut ParsedScript) -> ScriptRedirect {
    match redirect {
        IoRedirect::File(_, kind, target) => read_file(kind, target, script),
        IoRedirect::OutputAndError(word, _) => ScriptRedirect {
            kind: RedirectKind::Write,
            target: read_word(&word.value, script),
            span: 0..0,
        },
        IoRedirect::HereString(_, word) => ScriptRedirect {
            kind: RedirectKind::Text,
            target: read_word(&word.value, script),
            span: 0..0,
        },
        IoRedirect::HereDocument(_, document) => {
            // The same test as the first parser's, or every such heredoc would be a difference.
            let dynamic =
                document.requires_expansion && document.doc.value.contains(['$', '`', '\\']);
            ScriptRedirect {
                kind: RedirectKind::Text,
                target: ShellWord {
                    text: document.doc.value.clone(),
                    dynamic,
                    quoted: true,
                    ..ShellWord::default()
                },
                span: 0..0,
            }
        }
    }
}

fn read_file(
    duplicated: &IoFileRedirectKind,
    target: &IoFileRedirectTarget,
    script: &mut ParsedScript,
) -> ScriptRedirect {
    let kind = match duplicated {
        IoFileRedirectKind::Read => RedirectKind::Read,
        IoFileRedirectKind::Write | IoFileRedirectKind::Append | IoFileRedirectKind::Clobber => {
            RedirectKind::Write
        }
        IoFileRedirectKind::ReadAndWrite => RedirectKind::ReadWrite,
        IoFileRedirectKind::DuplicateInput | IoFileRedirectKind::DuplicateOutput => {
            RedirectKind::Free
        }
    };
    let source = match duplicated {
        IoFileRedirectKind::DuplicateOutput => ">&",
        IoFileRedirectKind::DuplicateInput => "<&",
        _ => "",
    };
    match target {
        IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
            settle(source, kind, read_word(&word.value, script))
        }
        IoFileRedirectTarget::Fd(_) => ScriptRedirect {
            kind: RedirectKind::Free,
            target: ShellWord::default(),
            span: 0..0,
        },
        IoFileRedirectTarget::ProcessSubstitution(..) => {
            script.doubts("a command runs behind a file name");
            ScriptRedirect {
                kind,
                target: ShellWord::default(),
                span: 0..0,
            }
        }
    }
}

fn read_word(source: &str, script: &mut ParsedScript) -> ShellWord {
    let options = ParserOptions::default();
    let pieces = std::panic::catch_unwind(|| brush_parser::word::parse(source, &options));
    let mut builder = WordBuilder::default();
    if let Ok(Ok(pieces)) = pieces {
        for piece in &pieces {
            read_piece(piece, false, &mut builder);
        }
    } else {
        script.doubts("a word was not understood");
        // Also dynamic, so that the word equals none that the first parser read as plain text.
        builder.expands();
    }
    builder.finish()
}

fn read_piece(piece: &WordPieceWithSource, in_double: bool, out: &mut WordBuilder) {
    match &piece.piece {
        WordPiece::Text(text) if in_double => out.quote_all(text),
        WordPiece::Text(text) => text.chars().for_each(|c| out.bare(c)),
        WordPiece::SingleQuotedText(text) => out.quote_all(text),
        WordPiece::AnsiCQuotedText(text) => match decode_ansi(text) {
            Some(text) => out.quote_all(&text),
            None => out.expands(),
        },
        WordPiece::DoubleQuotedSequence(pieces) => {
            out.quotes();
            for piece in pieces {
                read_piece(piece, true, out);
            }
        }
        WordPiece::EscapeSequence(text) => read_escape(text, in_double, out),
        // `~user`, `~+` and `~-` depend on the machine and on earlier commands; only `~` is known.
        WordPiece::TildeExpansion(TildeExpr::Home) => out.bare('~'),
        WordPiece::TildeExpansion(_)
        | WordPiece::GettextDoubleQuotedSequence(_)
        | WordPiece::ParameterExpansion(_)
        | WordPiece::CommandSubstitution(_)
        | WordPiece::BackquotedCommandSubstitution(_)
        | WordPiece::ArithmeticExpression(_) => out.expands(),
    }
}

fn read_escape(text: &str, in_double: bool, out: &mut WordBuilder) {
    let mut chars = text.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some('\\'), Some('\n'), None) => {}
        (Some('\\'), Some(c), None) if !in_double || matches!(c, '$' | '`' | '"' | '\\') => {
            out.quote(c);
        }
        (Some('\\'), Some(c), None) => {
            out.quote('\\');
            out.quote(c);
        }
        _ => out.expands(),
    }
}
