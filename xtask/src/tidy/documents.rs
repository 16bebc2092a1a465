//! Rules on documents (links, the code map, the changelog), and on paths of one machine, which no file may name.

use super::{Breach, Page, text};
use crate::shell::root;
use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

/// Folders of one machine. Cut in two so that this file does not break its own rule.
const FOREIGN: [&str; 3] = [concat!("/wo", "rk"), concat!("/t", "mp"), concat!("../sha", "red")];

pub(crate) fn foreign_paths(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages {
        for (number, line) in page.text.lines().enumerate() {
            for path in FOREIGN.iter().filter(|path| mentions(line, path)) {
                breaches.push(Breach::at(&page.path, number, format!("{path} exists on one machine only")));
            }
        }
    }
    breaches
}

/// True if the path stands there by itself: neither inside a longer relative path nor with a longer name.
fn mentions(line: &str, path: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    line.match_indices(path).any(|(at, _)| {
        let inside = line[..at].chars().next_back().is_some_and(part);
        let longer = line[at + path.len()..].chars().next().is_some_and(|c| part(c) && c != '.');
        !inside && !longer
    })
}

pub(crate) fn links(pages: &[Page]) -> Vec<Breach> {
    let known: HashSet<PathBuf> = pages
        .iter()
        .flat_map(|page| Path::new(&page.path).ancestors().map(Path::to_owned).collect::<Vec<_>>())
        .collect();
    let mut breaches = Vec::new();
    let mut linked = HashSet::new();
    for page in pages.iter().filter(|page| page.path.ends_with(".md")) {
        for (line, target) in link_targets(&page.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { PathBuf::from(&page.path) } else { resolve(&page.path, file) };
            // A picture is no page.
            let is_picture = file.ends_with(".png") && root().join(&path).is_file();
            if !known.contains(&path) && !is_picture {
                breaches.push(Breach::at(&page.path, line, format!("the link {target} leads nowhere")));
            } else if !anchor.is_empty() && !has_anchor(pages, &path, anchor) {
                breaches.push(Breach::at(
                    &page.path,
                    line,
                    format!("the link {target} names no heading there"),
                ));
            }
            if matches!(page.path.as_str(), "README.md" | "ARCHITECTURE.md") {
                linked.insert(path);
            }
        }
    }
    let is_document = |page: &&Page| page.path.starts_with("docs/") && page.path.matches('/').count() == 1;
    for page in pages.iter().filter(is_document).filter(|page| page.path.ends_with(".md")) {
        if !linked.contains(Path::new(&page.path)) {
            breaches.push(Breach::whole(&page.path, "link it from README.md or ARCHITECTURE.md"));
        }
    }
    breaches
}

/// The targets of inline links, with their lines; fenced code is not looked at.
fn link_targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    for (number, line) in prose(text) {
        for (at, _) in line.match_indices("](") {
            if let Some(end) = line[at..].find(')') {
                let target = line[at + 2..at + end].split_whitespace().next().unwrap_or_default();
                targets.push((number, target.trim_matches(['<', '>'])));
            }
        }
    }
    targets
}

/// The lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// A line that rustdoc hides is shown by everything else that reads Markdown.
pub(crate) fn hidden_lines(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages.iter().filter(|page| page.path.ends_with(".md")) {
        let mut fence = None;
        for (number, line) in page.text.lines().enumerate() {
            if let Some(language) = line.strip_prefix("```") {
                fence = if fence.is_none() { Some(language) } else { None };
            } else if fence.is_some_and(|language| language.starts_with("rust")) && line.starts_with("# ") {
                breaches.push(Breach::at(&page.path, number, "a hidden line shows on this page"));
            }
        }
    }
    breaches
}

/// A link of one file as a path from the root.
fn resolve(from: &str, target: &str) -> PathBuf {
    let mut path = Path::new(from).parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

fn has_anchor(pages: &[Page], path: &Path, anchor: &str) -> bool {
    let Some(page) = pages.iter().find(|page| Path::new(&page.path) == path) else { return false };
    let headings = prose(&page.text).filter(|(_, line)| line.starts_with('#'));
    let explicit = [format!("id=\"{anchor}\""), format!("name=\"{anchor}\"")];
    headings.into_iter().any(|(_, line)| slug(line.trim_start_matches('#')) == anchor)
        || explicit.iter().any(|tag| page.text.contains(tag))
}

/// A heading as the anchor that markdown viewers make of it.
fn slug(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The map in ARCHITECTURE.md: below the heading of each library one row for each of its files, as in "| `src/lib.rs` | ...".
pub(crate) fn code_map(pages: &[Page]) -> Vec<Breach> {
    const MAP: &str = "ARCHITECTURE.md";
    let mut library = "";
    let mut mapped: Vec<(usize, String)> = Vec::new();
    for (number, line) in text(pages, MAP).lines().enumerate() {
        if let Some(heading) = line.strip_prefix("### `") {
            library = heading.split('`').next().unwrap_or_default();
        } else if let Some((file, _)) = line.strip_prefix("| `src/").and_then(|row| row.split_once("` |")) {
            mapped.push((number, format!("{library}/src/{file}")));
        }
    }
    let files: Vec<&str> = pages
        .iter()
        .filter(|page| page.in_library() && page.rust.is_some())
        .map(|page| page.path.as_str())
        .collect();
    let missing = files.iter().filter(|file| !mapped.iter().any(|(_, name)| name == *file));
    let stale = mapped.iter().filter(|(_, name)| !files.contains(&name.as_str()));
    missing
        .map(|file| Breach::whole(MAP, format!("the code map lacks {file}")))
        .chain(stale.map(|(line, name)| Breach::at(MAP, *line, format!("{name} does not exist"))))
        .collect()
}

pub(crate) fn changelog(pages: &[Page]) -> Vec<Breach> {
    let unreleased = |page: &Page| page.text.lines().any(|line| line.trim() == "## [Unreleased]");
    match pages.iter().find(|page| page.path == "CHANGELOG.md") {
        Some(page) if unreleased(page) => Vec::new(),
        _ => vec![Breach::whole("CHANGELOG.md", "wants a section `## [Unreleased]`")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_lines_are_seen() {
        let text = "# Title\n```sh\n# a comment\n```\n```rust,no_run\nlet a = 1;\n# drop(a);\n#[test]\n```\n";
        let found = hidden_lines(&[Page::new("docs/a.md", text)]);
        assert_eq!(found.iter().map(|breach| breach.line).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn foreign_paths_are_told_from_their_likes() {
        let [one, two, three] = FOREIGN;
        assert!(mentions(&format!("see {one}/main"), one) && mentions(&format!("`{two}`"), two));
        assert!(mentions(&format!("({three}/style.md)"), three) && mentions(&format!("in {one}."), one));
        assert!(!mentions("lab/src/workload/mod.rs", one) && !mentions("src/work/mod.rs", one));
        assert!(!mentions(&format!("a {one}load"), one));
    }

    #[test]
    fn dead_links_and_lonely_documents_are_seen() {
        let pages = [
            Page::new(
                "README.md",
                "# Top\n[a](docs/a.md) [b](docs/b.md)\n[c](#top) [d](docs/a.md#two-words)\n",
            ),
            Page::new(
                "docs/a.md",
                "# Two words!\n[up](../README.md#no)\n```\n[x](fenced.md)\n```\n[dir](../docs)\n",
            ),
            Page::new("docs/c.md", "[web](https://example.org/x)\n"),
        ];
        let found: Vec<(String, usize)> =
            links(&pages).into_iter().map(|breach| (breach.file, breach.line)).collect();
        let wanted = [("README.md", 2), ("docs/a.md", 2), ("docs/c.md", 0)];
        assert_eq!(found, wanted.map(|(file, line)| (file.to_owned(), line)));
    }

    #[test]
    fn the_map_and_the_files_agree() {
        let pages = [
            Page::new(
                "ARCHITECTURE.md",
                "### `crates/tasuki`: a\n| `src/lib.rs` | all |\n| `src/gone.rs` | was here |\n",
            ),
            Page::new("crates/tasuki/src/lib.rs", ""),
            Page::new("crates/tasuki/src/queue/mod.rs", ""),
            Page::new("crates/tasuki-rt/src/lib.rs", ""),
            Page::new("lab/src/main.rs", ""),
        ];
        let found: Vec<usize> = code_map(&pages).into_iter().map(|breach| breach.line).collect();
        assert_eq!(found, [0, 0, 3]);
    }

    #[test]
    fn the_changelog_is_kept() {
        assert!(changelog(&[Page::new("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n")]).is_empty());
        assert_eq!(changelog(&[Page::new("CHANGELOG.md", "# Changelog\n")]).len(), 1);
        assert_eq!(changelog(&[]).len(), 1);
    }
}
