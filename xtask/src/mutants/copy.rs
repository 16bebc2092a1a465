//! Copies of the library that may be harmed: one for each worker, with a build folder of its own.

use super::sites::Site;
use crate::shell::root;
use crate::source::Source;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// What a copy consists of, beside a manifest of its own.
const PARTS: [&str; 4] =
    ["crates/tasuki/Cargo.toml", "crates/tasuki/src", "crates/tasuki/model", "crates/tasuki/tests"];

/// One copy.
pub(crate) struct Copy {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl Copy {
    /// Makes or refreshes the copy of a worker. Files that did not change keep their time, so builds are quick.
    pub(crate) fn make(folder: &Path, worker: usize) -> Result<Self, String> {
        let copy = Self {
            root: folder.join(format!("copy-{worker}")),
            target: folder.join(format!("target-{worker}")),
        };
        fs::create_dir_all(&copy.target).map_err(|error| error.to_string())?;
        let wanted = sources(&root())?;
        if let Ok(present) = sources(&copy.root) {
            for file in present.iter().filter(|file| !wanted.contains(file)) {
                fs::remove_file(copy.root.join(file)).map_err(|error| error.to_string())?;
            }
        }
        for file in &wanted {
            copy.write(file, &read(&root().join(file))?)?;
        }
        copy.write(Path::new("Cargo.toml"), &manifest(&read(&root().join("Cargo.toml"))?))?;
        if let Ok(lock) = read(&root().join("Cargo.lock")) {
            if !copy.root.join("Cargo.lock").exists() {
                copy.write(Path::new("Cargo.lock"), &lock)?;
            }
        }
        Ok(copy)
    }

    pub(crate) fn mutate(&self, site: &Site) -> Result<(), String> {
        let mut text = site.text.to_string();
        text.replace_range(site.span.clone(), &site.replacement);
        self.write(Path::new(&site.file), &text)
    }

    pub(crate) fn heal(&self, site: &Site) -> Result<(), String> {
        self.write(Path::new(&site.file), &site.text)
    }

    fn write(&self, file: &Path, text: &str) -> Result<(), String> {
        let path = self.root.join(file);
        if read(&path).is_ok_and(|present| present == text) {
            return Ok(());
        }
        let explain = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(path.parent().unwrap_or(&self.root)).map_err(explain)?;
        fs::write(&path, text).map_err(explain)
    }
}

/// A number that changes when code or a model changes; comments do not count.
pub(crate) fn fingerprint(root: &Path) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    for file in sources(root)?.iter().filter(|file| !file.starts_with("crates/tasuki/tests")) {
        let text = read(&root.join(file))?;
        let rust = file.extension().is_some_and(|extension| extension == "rs");
        let code = if rust { Source::new(&text).code } else { text };
        file.hash(&mut hasher);
        for line in code.lines().map(str::trim).filter(|line| !line.is_empty()) {
            line.hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

/// The manifest of the workspace with the library as its only member.
fn manifest(original: &str) -> String {
    let mut kept = String::from("[workspace]\nresolver = \"3\"\nmembers = [\"crates/tasuki\"]\n");
    let mut keep = false;
    for line in original.lines() {
        if line.starts_with('[') {
            keep = line.starts_with("[workspace.");
        }
        if keep {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}

/// The files of the parts, from the root.
fn sources(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for part in PARTS {
        let path = root.join(part);
        let files = if path.is_file() { vec![path] } else { files(&path).unwrap_or_default() };
        found.extend(files.iter().filter_map(|file| file.strip_prefix(root).ok()).map(Path::to_owned));
    }
    if found.is_empty() { Err(format!("{}: no sources", root.display())) } else { Ok(found) }
}

/// All files below a folder, in a fixed order.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_keeps_what_members_inherit() {
        let text = "[workspace]\nmembers = [\n \"lab\",\n]\n[workspace.package]\nedition = \"2024\"\n\
                    [profile.release]\nlto = true\n[workspace.lints.rust]\nx = 1\n";
        let kept = manifest(text);
        assert!(kept.contains("edition") && kept.contains("x = 1"));
        assert!(!kept.contains("lab") && !kept.contains("lto"));
    }
}
