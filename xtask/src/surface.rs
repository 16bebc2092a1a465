//! `cargo xtask surface [--write]`: what users can name, listed in `docs/surface/`, one file a library. A change of the surface is a
//! change of that file, which a reviewer sees.
//!
//! Read from the sources: the compiler refuses a `pub` that is not reachable (`unreachable_pub`), so whatever is `pub` is the surface.

use crate::args::Args;
use crate::report::Report;
use crate::shell::root;
use crate::source::{Source, words};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const LIBRARIES: [&str; 3] = ["tasuki", "tasuki-rt", "tasuki-inspect"];

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let write = args.flag("--write");
    args.end()?;
    let mut report = Report::new("surface");
    for library in LIBRARIES {
        report.step(library, || checked(library, write).into());
    }
    Ok(report)
}

fn checked(library: &str, write: bool) -> Result<(), String> {
    let now = listed(&root().join("crates").join(library).join("src"))?;
    let file = root().join("docs").join("surface").join(format!("{library}.txt"));
    if write {
        fs::create_dir_all(file.parent().unwrap_or(&file)).map_err(|why| why.to_string())?;
        return fs::write(&file, now).map_err(|why| why.to_string());
    }
    let before = fs::read_to_string(&file).unwrap_or_default();
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), now.lines().collect());
    old.difference(&new).for_each(|line| println!("- {line}"));
    new.difference(&old).for_each(|line| println!("+ {line}"));
    if before == now {
        Ok(())
    } else {
        Err("the surface has changed: look, then `cargo xtask surface --write`".to_owned())
    }
}

fn listed(folder: &Path) -> Result<String, String> {
    let mut files = Vec::new();
    rust_files(folder, &mut files)?;
    let mut lines = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?;
        // What the model checker and the counts have is for no user.
        if !file.iter().any(|part| part == "shim") {
            let module = file.strip_prefix(folder).unwrap_or(&file).with_extension("");
            let module = module.display().to_string().replace(['/', '\\'], "::").replace("::mod", "");
            items(&Source::new(&text), if module == "lib" { "root" } else { &module }, &mut lines);
        }
    }
    Ok(lines.into_iter().collect::<Vec<_>>().join("\n") + "\n")
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for entry in fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Every public item of a file, with what it belongs to; what it names anew belongs to its module.
fn items(source: &Source, module: &str, lines: &mut BTreeSet<String>) {
    let tests = source.test_lines();
    let code = &source.code;
    for (at, word) in words(&source.bare) {
        if tests[source.line_of(at)] {
            continue;
        }
        let rest = &source.bare[at + word.len()..];
        match word {
            "pub" if !rest.starts_with('(') => {
                let signature = signature(&code[at..], &source.bare[at..]);
                let owner = owner(&source.bare, at);
                match signature.strip_prefix("pub use ") {
                    Some(list) => lines.extend(reexported(list, module)),
                    None => _ = lines.insert(format!("{owner}{signature}")),
                }
            }
            // The members of a public trait are public without the word.
            "fn" | "const" | "type" if begins(rest) && is_in_public_trait(&source.bare, at) => {
                let owner = owner(&source.bare, at);
                _ = lines.insert(format!("{owner}{}", signature(&code[at..], &source.bare[at..])));
            }
            _ => {}
        }
    }
}

/// A name follows: it is an item, not a type or part of one.
fn begins(rest: &str) -> bool {
    rest.starts_with(' ')
        && rest.trim_start().starts_with(|c: char| c.is_alphabetic() || c == '_')
        && !rest.trim_start().starts_with("fn ")
}

/// `a::{B, c::D}` as the names that it makes.
fn reexported(list: &str, module: &str) -> Vec<String> {
    let list = list.trim_end_matches(';');
    let names = list.rsplit_once("::{").map_or_else(
        || list.rsplit("::").next().into_iter().collect::<Vec<_>>(),
        |(_, inner)| inner.trim_end_matches('}').split(',').map(str::trim).collect(),
    );
    names.into_iter().filter(|name| !name.is_empty()).map(|name| format!("{module} {name}")).collect()
}

/// An item up to its body, on one line.
fn signature(code: &str, bare: &str) -> String {
    let end = ends(bare);
    let text = code[..end].split_whitespace().collect::<Vec<_>>().join(" ");
    text.trim_end_matches([',', ';', ' '])
        .replace("( ", "(")
        .replace(", )", ")")
        .replace("< ", "<")
        .replace(", >", ">")
}

/// Where the signature ends: the body, the semicolon, the value of a constant, or the comma after a field.
fn ends(bare: &str) -> usize {
    let mut depth = 0_i32;
    let use_list = bare.trim_start_matches("pub").trim_start().starts_with("use");
    let field = !words(bare).nth(1).is_some_and(|(_, word)| {
        [
            "fn", "struct", "enum", "trait", "type", "const", "static", "mod", "use", "unsafe", "async",
            "extern",
        ]
        .contains(&word)
    });
    for (at, byte) in bare.bytes().enumerate() {
        match byte {
            b'{' if !use_list && depth == 0 => return at,
            b'=' if depth == 0 && !bare[at..].starts_with("=>") && !use_list => return at,
            b'(' | b'[' | b'{' => depth += 1,
            b'<' => depth += 1,
            b'>' if !bare[..at].ends_with('-') && !bare[..at].ends_with('=') => depth -= 1,
            b')' | b']' | b'}' if depth == 0 => return at,
            b')' | b']' | b'}' => depth -= 1,
            b';' if depth == 0 => return at,
            b',' if field && depth == 0 => return at,
            _ => {}
        }
    }
    bare.len()
}

/// The braces around a position, innermost last: the text before each.
fn around(bare: &str, at: usize) -> Vec<&str> {
    let mut open = Vec::new();
    for (position, byte) in bare[..at].bytes().enumerate() {
        match byte {
            b'{' => open.push(position),
            b'}' => _ = open.pop(),
            _ => {}
        }
    }
    let header = |position: usize| {
        let start = bare[..position].rfind([';', '{', '}']).map_or(0, |start| start + 1);
        bare[start..position].trim()
    };
    open.into_iter().map(header).collect()
}

/// `Mutex: ` for what is in `impl Mutex`, `struct Mutex`, `trait Mutex`; `module: ` for an inline module.
fn owner(bare: &str, at: usize) -> String {
    let mut owners = Vec::new();
    for header in around(bare, at) {
        let kinds = ["impl", "struct", "trait", "enum", "mod"];
        let Some((start, kind)) = words(header).find(|(_, word)| kinds.contains(word)) else { continue };
        let rest = header[start + kind.len()..].trim_start();
        let rest = if rest.starts_with('<') { after_generics(rest) } else { rest };
        let rest = rest.split(" for ").last().unwrap_or(rest);
        let path: String =
            rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '&' | ' ')).collect();
        owners.extend(
            words(&path).filter(|(_, word)| *word != "where").last().map(|(_, word)| word.to_owned()),
        );
    }
    if owners.is_empty() { String::new() } else { format!("{}: ", owners.join("::")) }
}

fn after_generics(text: &str) -> &str {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if !text[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text[at + 1..].trim_start();
        }
    }
    text
}

fn is_in_public_trait(bare: &str, at: usize) -> bool {
    around(bare, at)
        .last()
        .is_some_and(|header| header.contains("pub trait ") || header.contains("pub unsafe trait "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_items_are_listed_with_their_owners() {
        let text = "pub use a::{B, C};\npub use d::E;\npub struct Lock<T: ?Sized> {\n    word: u8,\n    pub value: T,\n}\n\
            impl<T: ?Sized> Lock<T> {\n    /// Says so.\n    pub const fn new(\n        value: T,\n    ) -> Self {\n        todo()\n    }\n    fn hidden() {}\n}\n\
            impl<T> Shared for Lock<T> {}\npub trait Shared {\n    const N: usize = 1;\n    fn go(&self) -> fn() -> u8;\n}\n\
            pub const MAX: usize = 3;\n#[cfg(test)]\nmod tests {\n    pub fn no() {}\n}\n";
        let mut lines = BTreeSet::new();
        items(&Source::new(text), "root", &mut lines);
        let wanted = [
            "Lock: pub const fn new(value: T) -> Self",
            "Lock: pub value: T",
            "Shared: const N: usize",
            "Shared: fn go(&self) -> fn() -> u8",
            "pub const MAX: usize",
            "pub struct Lock<T: ?Sized>",
            "pub trait Shared",
            "root B",
            "root C",
            "root E",
        ];
        assert_eq!(lines.into_iter().collect::<Vec<_>>(), wanted);
    }
}
