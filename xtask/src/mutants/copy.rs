//! Copies of the sources in which mutants are made: one per worker, each with its own build folder.

use super::sites::Site;
use crate::model::Suite;
use crate::shell::root;
use crate::source::Source;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// What a copy consists of, beside a manifest of its own.
const PARTS: [&str; 4] =
    ["crates/tasuki/src", "crates/tasuki/model", "crates/tasuki-rt/src", "crates/tasuki-rt/model"];

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
        let wanted = sources(&root(), &PARTS)?;
        if let Ok(present) = sources(&copy.root, &PARTS) {
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

/// A number that changes when code or a model of a suite changes; comments do not count.
pub(crate) fn fingerprint(root: &Path, suite: &Suite) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    let model = format!("{}/model", suite.library);
    let mut all = sources(root, &[&model])?;
    all.extend(weakened(root, suite)?);
    // The shims are the models' ground, and one of them is shared by all.
    for shim in [format!("{}/src/shim.rs", suite.library), "crates/tasuki/src/shim/dependent.rs".to_owned()] {
        all.push(PathBuf::from(shim));
    }
    for file in all {
        let text = read(&root.join(&file))?;
        let rust = file.extension().is_some_and(|extension| extension == "rs");
        let code = if rust { Source::new(&text).code } else { text };
        file.hash(&mut hasher);
        for line in code.lines().map(str::trim).filter(|line| !line.is_empty()) {
            line.hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

/// The files of a library that its models have, from the root: those are weakened.
pub(crate) fn weakened(root: &Path, suite: &Suite) -> Result<Vec<PathBuf>, String> {
    let source = format!("{}/src", suite.library);
    let Some(list) = suite.includes else {
        return sources(root, &[&source]);
    };
    let named = included(&read(&root.join(list))?);
    if named.is_empty() {
        Err(format!("{list} includes no file"))
    } else {
        Ok(named.iter().map(|name| Path::new(&source).join(name)).collect())
    }
}

/// The files of `src/` that a file of models includes.
fn included(text: &str) -> Vec<String> {
    let path = |line: &str| Some(line.strip_prefix("#[path = \"../src/")?.strip_suffix("\"]")?.to_owned());
    text.lines().filter_map(|line| path(line.trim())).collect()
}

/// The manifest of the workspace with nothing but what has models.
fn manifest(original: &str) -> String {
    let mut kept = String::from(
        "[workspace]\nresolver = \"3\"\n\
                                 members = [\"crates/tasuki/model\", \"crates/tasuki-rt/model\"]\n",
    );
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

/// The files of some parts, from the root.
fn sources(root: &Path, parts: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for part in parts {
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

    #[test]
    fn what_models_include_is_found() {
        let text = "mod a;\n#[path = \"../src/scheduler/idle.rs\"]\npub(crate) mod idle;\n";
        assert_eq!(included(text), ["scheduler/idle.rs"]);
    }
}
