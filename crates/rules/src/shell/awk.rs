//! Programs of awk, read far enough to know that they only print.

/// Says which argument runs or writes something.
pub(crate) fn hazard(arguments: &[String]) -> Option<String> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-F" | "-v" => {
                words.next();
            }
            "--" => {}
            word if word.starts_with("-F") || word.starts_with("-v") => {}
            option if option.starts_with('-') => return Some(option.to_owned()),
            program => return (!only_prints(program)).then(|| program.to_owned()),
        }
    }
    None
}

/// Words of awk that run programs, open files, or reach variables outside the program.
const RISKY_WORDS: [&str; 10] = [
    "system", "getline", "close", "fflush", "include", "load", "ENVIRON", "ARGV", "SYMTAB",
    "PROCINFO",
];

/// Whether a program holds nothing that runs, reads or writes beyond its input.
fn only_prints(program: &str) -> bool {
    // Regular expressions and comments can hold quotes, so beside them strings are not told apart.
    let mixed = program.contains('"') && program.contains(['/', '#']);
    let bare = if mixed {
        program.to_owned()
    } else {
        without_strings(program)
    };
    let mut words = bare.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    !words.any(|word| RISKY_WORDS.contains(&word))
        && !bare.contains('@')
        && !bare.replace("||", "  ").contains('|')
        && !bare.contains(">>")
        && !(if mixed {
            bare.contains('>')
        } else {
            redirects(&bare)
        })
}

/// `>` after a print in the same statement writes a file; elsewhere it compares. Where statements
/// cannot be told apart with certainty, any `>` beside a print counts.
fn redirects(bare: &str) -> bool {
    if bare.contains(['/', '\n', '\\']) {
        return bare.contains("print") && bare.contains('>');
    }
    bare.split([';', '{', '}']).any(|statement| {
        statement
            .find("print")
            .is_some_and(|at| statement[at..].contains('>'))
    })
}

/// Strings become blanks; one that does not close makes everything suspicious.
fn without_strings(program: &str) -> String {
    let mut bare = String::with_capacity(program.len());
    let mut chars = program.chars();
    while let Some(c) = chars.next() {
        if c != '"' {
            bare.push(c);
            continue;
        }
        bare.push(' ');
        loop {
            match chars.next() {
                Some('\\') => {
                    chars.next();
                }
                Some('"') => break,
                Some(_) => {}
                None => return "system".to_owned(),
            }
        }
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_printing_programs_are_harmless() {
        for program in [
            "{print $2}",
            "NR > 5",
            "$3 > 100 {print $1}",
            "/a/ || /b/ {print}",
            "BEGIN{FS=\":\"} {print $1 \"|\" $2}",
            "{s += $1} END {print s}",
        ] {
            assert!(only_prints(program), "{program}");
        }
        for program in [
            "BEGIN{system(\"id\")}",
            "{print | \"sh\"}",
            "\"id\" | getline x",
            "{print > \"f\"}",
            "{print >> \"f\"}",
            "{printf(\"x\") > $1}",
            "@load \"x\"",
            "/\"/{system(\"id\")}/\"/",
            "#\"\n{system(\"id\")}#\"",
            "{print \"a;\" > \"f\" /x/}",
            "{while ((getline l < \"f\") > 0) print l}",
            "{print \"a}",
            "{print $1,\n$2 > \"out\"}",
            "{print $1~/;/ > $2}",
        ] {
            assert!(!only_prints(program), "{program}");
        }
    }
}
