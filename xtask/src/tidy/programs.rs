//! The test programs: every file below `tests/` of a library or of the lab is a module of one of them. A file that no root names would not be run,
//! and nothing else would say so. And programs that must not compile have a twin that does: they are refused for their reason, not for a slip.

use super::{Breach, Page, text};
use crate::source::balanced;

pub(crate) fn every_file_is_run(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages {
        let Some((tests, file)) = page.path.split_once("/tests/") else { continue };
        let is_package = tests == "lab" || (tests.starts_with("crates/") && tests.matches('/').count() == 1);
        if !is_package {
            continue;
        }
        let is_named =
            text(pages, &format!("{tests}/Cargo.toml")).contains(&format!("path = \"tests/{file}\""));
        let is_root = file == "main.rs" || (file.ends_with("/main.rs") && file.matches('/').count() == 1);
        if is_root || is_named {
            if !is_named {
                breaches.push(Breach::whole(&page.path, "is no test program: Cargo.toml does not name it"));
            }
            continue;
        }
        let Some(module) = file.strip_suffix(".rs") else { continue };
        let module = module.trim_end_matches("/mod");
        let (folder, name) = module.rsplit_once('/').unwrap_or(("", module));
        let root = |path: String| pages.iter().find(|page| page.path == path);
        let beside = |file: &str| root(format!("{tests}/tests/{folder}/{file}").replace("//", "/"));
        let named = root(format!("{tests}/tests/main.rs")).is_some_and(|page| declares(page, folder, name))
            || ["main.rs", "mod.rs"].into_iter().filter_map(beside).any(|page| declares(page, "", name));
        if !named {
            breaches.push(Breach::whole(&page.path, "is no module of a test program: nothing runs it"));
        }
    }
    breaches
}

/// `tests/compile_fail.md`: after each paragraph there is at least one program that compiles, if there is one that must not.
pub(crate) fn refusals_have_twins(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages.iter().filter(|page| page.path.contains("/tests/compile_fail")) {
        let (mut refused_at, mut has_twin, mut fenced) = (None, false, false);
        for (line, text) in page.text.lines().chain(["The end."]).enumerate() {
            if let Some(language) = text.strip_prefix("```") {
                fenced = !fenced;
                match language {
                    _ if !fenced => {}
                    _ if language.starts_with("compile_fail") => refused_at = Some(line),
                    _ => has_twin = true,
                }
            } else if !fenced && !text.trim().is_empty() {
                if let Some(at) = refused_at.take().filter(|_| !has_twin) {
                    breaches.push(Breach::at(&page.path, at, "has no twin that compiles"));
                }
                has_twin = false;
            }
        }
    }
    breaches
}

/// Does the file have `mod name;`, inside `mod folder { ... }` if there is a folder?
fn declares(page: &Page, folder: &str, name: &str) -> bool {
    let Some(source) = &page.rust else { return false };
    let declaration = format!("mod {name};");
    if folder.is_empty() {
        let mut outermost = source.bare.lines().filter(|line| !line.starts_with(' '));
        return outermost.any(|line| line.ends_with(&declaration));
    }
    let opening = format!("mod {folder} {{");
    let mut folders = source.bare.match_indices(&opening).map(|(at, _)| at);
    folders.any(|at| balanced(&source.bare, at).is_some_and(|body| source.bare[body].contains(&declaration)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_a_twin_is_seen() {
        let (refused, twin) = ("```compile_fail,E0277\nlet a = b;\n```\n", "```\nlet a = 1;\n```\n");
        let text = format!("First.\n\n{refused}\n{refused}\n{twin}\nSecond.\n\n{refused}\nThird.\n\n{twin}");
        let page = |text: &str| Page::new("crates/a/tests/compile_fail.md", text);
        let lines: Vec<usize> =
            refusals_have_twins(&[page(&text)]).iter().map(|breach| breach.line).collect();
        assert_eq!(lines, [17]);
        assert_eq!(refusals_have_twins(&[page(refused)]).len(), 1);
    }

    #[test]
    fn a_file_that_no_root_names_is_seen() {
        let root = Page::new("crates/a/tests/main.rs", "mod kit;\nmod b {\n    mod c;\n}\nmod d;\n");
        let process = Page::new("crates/a/tests/process/main.rs", "mod e;\n");
        let kit = Page::new("crates/a/tests/kit/mod.rs", "pub(crate) mod f;\n");
        let file = |path: &str| Page::new(&format!("crates/a/tests/{path}"), "");
        let fine = ["b/c.rs", "d.rs", "process/e.rs", "kit/f.rs"].map(file);
        let lost = ["b/d.rs", "c.rs", "e.rs", "process/c.rs"].map(file);
        let mut pages = vec![root, process, kit];
        pages.extend(fine);
        assert_eq!(every_file_is_run(&pages).len(), 2, "no manifest names the two programs");
        let manifest = "path = \"tests/main.rs\"\npath = \"tests/process/main.rs\"\n";
        pages.push(Page::new("crates/a/Cargo.toml", manifest));
        assert_eq!(every_file_is_run(&pages), []);
        pages.extend(lost);
        assert_eq!(every_file_is_run(&pages).len(), 4);
    }
}
