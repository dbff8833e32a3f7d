//! Paths: made absolute, cleaned by name and followed through links, before anything is compared.

use crate::facts::FileFacts;
use crate::request::RequestPlace;
use crate::shell::is_invisible;

/// Longer chains of links than this are not followed.
const LINKS_MAX: usize = 40;
/// Longer paths than this are not looked at.
const PATH_BYTES_MAX: usize = 4096;

/// A path in the forms that matter: as its name reads, and where it really leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedPath {
    /// Absolute, without `.`, `..` or doubled slashes.
    pub(crate) lexical: String,
    /// Where it leads after following every link, by the kernel's way with `..` and by its name;
    /// for a new file its folder is followed. Only what differs from the name.
    real: Vec<String>,
    /// Where the kernel arrives.
    leads_to: String,
    /// Whether the file has another name elsewhere.
    pub(crate) has_other_names: bool,
}

impl ResolvedPath {
    /// Its forms: an allow needs all of them, a deny any.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.lexical)
            .chain(&self.real)
            .map(String::as_str)
    }

    /// Where the kernel arrives.
    pub(crate) fn real_path(&self) -> &str {
        &self.leads_to
    }
}

/// Why a path cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathDoubt {
    Empty,
    Control,
    OtherHome,
    NoDirectory,
    TooLong,
    Links,
    Magic,
    Spelling,
}

impl PathDoubt {
    /// Whether a rule could speak of such a path: no rule holds what cannot be seen.
    pub(crate) fn matters_to_rules(self) -> bool {
        !matches!(self, Self::Empty | Self::Control | Self::TooLong)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "the path is empty",
            Self::Control => "the path holds a control or invisible character",
            Self::OtherHome => "the path begins in a home that is not known",
            Self::NoDirectory => "the path is relative and the working directory is not known",
            Self::TooLong => "the path is too long",
            Self::Links => "the path goes through too many links",
            Self::Spelling => "the path may be another spelling of one that rules name",
            Self::Magic => "the path means another file in every process",
        }
    }
}

/// Finds out where `path`, taken from directory `base`, leads.
pub(crate) fn resolve(
    path: &str,
    base: &str,
    place: &RequestPlace,
    facts: &dyn FileFacts,
) -> Result<ResolvedPath, PathDoubt> {
    let absolute = absolute(path, base, place)?;
    let lexical = clean(&absolute);
    if is_standard_stream(&lexical) {
        // These are links into the process itself, which would be doubt for any other path.
        return Ok(ResolvedPath {
            leads_to: lexical.clone(),
            lexical,
            real: Vec::new(),
            has_other_names: false,
        });
    }
    if is_magic(&lexical) {
        return Err(PathDoubt::Magic);
    }
    let leads_to = follow(&absolute, facts)?;
    // `a/../b` is `b` by its name; where `a` is a link, the kernel goes to the parent of its
    // target. Programs clean paths by name or leave it to the kernel, so both places count.
    let mut real = vec![leads_to.clone(), follow(&lexical, facts)?];
    real.dedup();
    real.retain(|path| *path != lexical);
    let has_other_names = facts.has_other_names(&leads_to);
    Ok(ResolvedPath {
        lexical,
        real,
        leads_to,
        has_other_names,
    })
}

fn absolute(path: &str, base: &str, place: &RequestPlace) -> Result<String, PathDoubt> {
    if path.is_empty() {
        return Err(PathDoubt::Empty);
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(PathDoubt::TooLong);
    }
    // Two names that look the same to the person who reads the ask would be two files.
    if path.chars().any(|c| c.is_control() || is_invisible(c)) {
        return Err(PathDoubt::Control);
    }
    if place.ignores_case && !path.is_ascii() {
        // Such a volume takes several spellings of these for one; which, is not known here.
        return Err(PathDoubt::Spelling);
    }
    if let Some(rest) = path.strip_prefix('~') {
        return match rest.strip_prefix('/') {
            _ if place.home.is_empty() => Err(PathDoubt::OtherHome),
            Some(rest) => Ok(format!("{}/{rest}", place.home)),
            None if rest.is_empty() => Ok(place.home.clone()),
            None => Err(PathDoubt::OtherHome),
        };
    }
    if path.starts_with('/') {
        return Ok(path.to_owned());
    }
    if base.is_empty() {
        return Err(PathDoubt::NoDirectory);
    }
    Ok(format!("{base}/{path}"))
}

/// What a program was given to read from and write to, under names that are links.
pub(crate) fn is_standard_stream(path: &str) -> bool {
    matches!(
        path,
        "/dev/stdin" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/null"
    )
}

/// Whether a path leads through a process: what it means depends on which one asks.
pub(crate) fn is_magic(path: &str) -> bool {
    if !path.starts_with('/') {
        return false;
    }
    let path = clean(path);
    let names: Vec<&str> = path.split('/').skip(1).collect();
    match names.as_slice() {
        ["proc", process, inner @ ..] if is_process_name(process) => {
            inner.iter().any(|name| SHOWS_ANOTHER.contains(name))
        }
        ["dev", "fd", ..] => true,
        _ => false,
    }
}

/// Whether a folder shows processes, which differ from one moment to the next.
pub(crate) fn is_of_processes(folder: &str) -> bool {
    folder == "/proc" || folder.starts_with("/proc/")
}

/// Names below a process in `/proc` that lead to other files or show what it holds.
const SHOWS_ANOTHER: [&str; 10] = [
    "cwd",
    "root",
    "fd",
    "fdinfo",
    "exe",
    "task",
    "map_files",
    "environ",
    "mem",
    "ns",
];

fn is_process_folder(path: &str) -> bool {
    let name = path.strip_prefix("/proc/");
    name.is_some_and(|name| !name.contains('/') && is_process_name(name))
}

fn is_process_name(name: &str) -> bool {
    name.ends_with("self") || !name.is_empty() && name.chars().all(|c| c.is_ascii_digit())
}

/// Takes out `.`, `..` and doubled slashes by name alone.
pub(crate) fn clean(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            // At the root `..` stays there, as it does for the kernel.
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// Follows links name by name; `..` leaves where the link led, as the kernel does it.
fn follow(path: &str, facts: &dyn FileFacts) -> Result<String, PathDoubt> {
    let mut todo: Vec<String> = names_reversed(path);
    let mut done = String::new();
    let mut links = 0;
    while let Some(name) = todo.pop() {
        match name.as_str() {
            "" | "." => continue,
            ".." => {
                done.truncate(done.rfind('/').unwrap_or(0));
                continue;
            }
            _ => {}
        }
        let here = format!("{done}/{name}");
        if here.len() > PATH_BYTES_MAX {
            return Err(PathDoubt::TooLong);
        }
        if is_magic(&here) {
            return Err(PathDoubt::Magic);
        }
        // What this one leads to depends on who asks.
        let is_process = is_process_folder(&here);
        let Some(target) = facts.read_link(&here).filter(|_| !is_process) else {
            done = here;
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            return Err(PathDoubt::Links);
        }
        // A relative target counts from the folder of the link, which is what `done` still holds.
        if target.starts_with('/') {
            done.clear();
        }
        todo.extend(names_reversed(&target));
    }
    Ok(if done.is_empty() {
        "/".to_owned()
    } else {
        done
    })
}

fn names_reversed(path: &str) -> Vec<String> {
    path.rsplit('/').map(str::to_owned).collect()
}

/// The names of `path` below `folder`; nothing if it is not there or below.
pub(crate) fn below<'p>(path: &'p str, folder: &str, fold: bool) -> Option<Vec<&'p str>> {
    let mut names = path.split('/').filter(|name| !name.is_empty());
    for own in folder.split('/').filter(|name| !name.is_empty()) {
        let name = names.next()?;
        let same = if fold {
            own.to_lowercase() == name.to_lowercase()
        } else {
            own == name
        };
        if !same {
            return None;
        }
    }
    Some(names.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::facts::FolderEntry;

    struct Links(HashMap<&'static str, &'static str>);

    impl FileFacts for Links {
        fn read_link(&self, path: &str) -> Option<String> {
            self.0.get(path).map(|target| (*target).to_owned())
        }

        fn list_folder(&self, _path: &str) -> Option<Vec<FolderEntry>> {
            None
        }
    }

    fn place() -> RequestPlace {
        RequestPlace {
            cwd: "/p".into(),
            project: "/p".into(),
            home: "/h".into(),
            ignores_case: false,
            in_sandbox: false,
        }
    }

    #[test]
    fn dots_after_a_link_leave_where_it_led() {
        let facts = Links(HashMap::from([("/p/l", "/x/y")]));
        let spot = resolve("l/../z", "/p", &place(), &facts).unwrap();
        assert_eq!(spot.forms().collect::<Vec<_>>(), ["/p/z", "/x/z"]);
    }

    #[test]
    fn a_loop_of_links_is_doubt() {
        let facts = Links(HashMap::from([("/p/a", "b"), ("/p/b", "a")]));
        assert_eq!(resolve("a", "/p", &place(), &facts), Err(PathDoubt::Links));
    }

    #[test]
    fn a_neighbour_is_not_below() {
        assert_eq!(below("/proj-evil/x", "/proj", false), None);
        assert_eq!(below("/proj/x", "/proj", false), Some(vec!["x"]));
        assert_eq!(below("/Proj/x", "/proj", true), Some(vec!["x"]));
    }
}
