//! What the sources of the crate offer to its users, so that a table can be compared with it: an item without a row fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A source file: its path below `src`, and its text without comments.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) code: String,
}

/// Every file below `src`.
pub(crate) fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}")) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                let code = lines.flat_map(|line| [line, "\n"]).collect();
                let path = path.strip_prefix(&root).unwrap().to_owned();
                found.push(Source { path, text, code });
            }
        }
    }
    assert!(found.len() > 30, "the sources are not read");
    found
}

/// The name at the beginning of a text.
fn name(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// The names after every occurrence of `before`.
fn names_after<'t>(code: &'t str, before: &str) -> Vec<&'t str> {
    let rest = code.match_indices(before).map(|(at, _)| name(&code[at + before.len()..]));
    rest.filter(|name| !name.is_empty()).collect()
}

/// The names of a `pub use`, without their paths.
fn reexported(statement: &str) -> Vec<String> {
    let list = statement.rsplit_once('{').map_or(statement, |(_, list)| list);
    let names = list.split(['}', ',']).map(|item| item.trim().rsplit("::").next().unwrap_or("").to_owned());
    names.filter(|name| !name.is_empty() && name != "*").collect()
}

/// What users can name: what `lib.rs` and its public modules re-export or define.
pub(crate) fn exported() -> BTreeSet<String> {
    let sources = sources();
    // The public modules, and those inside of them.
    let (mut modules, mut read) = (vec![PathBuf::from("lib.rs")], 0);
    while let Some(path) = modules.get(read).cloned() {
        read += 1;
        let Some(source) = sources.iter().find(|source| source.path == path) else { continue };
        let folder = path.parent().filter(|_| path.ends_with("mod.rs")).unwrap_or(Path::new("")).to_owned();
        for module in names_after(&source.code, "\npub mod ") {
            modules.extend([folder.join(format!("{module}.rs")), folder.join(module).join("mod.rs")]);
        }
    }
    modules.remove(0);
    let mut names = BTreeSet::new();
    for source in sources.iter().filter(|source| modules.contains(&source.path)) {
        for kind in ["struct", "enum", "type", "trait"] {
            let found = names_after(&source.code, &format!("\npub {kind} "));
            names.extend(found.into_iter().map(str::to_owned));
        }
    }
    for source in &sources {
        if source.path == Path::new("lib.rs") || modules.contains(&source.path) {
            for (at, _) in source.code.match_indices("pub use ") {
                let statement = &source.code[at + "pub use ".len()..];
                names.extend(reexported(&statement[..statement.find(';').unwrap()]));
            }
        }
    }
    names
}

/// The public types: structs, enums and aliases, but no traits, no functions, nothing hidden.
pub(crate) fn public_types() -> BTreeSet<String> {
    let sources = sources();
    let is_type = |name: &str| {
        ["struct", "enum", "type"].iter().any(|kind| {
            sources.iter().any(|source| names_after(&source.code, &format!("pub {kind} ")).contains(&name))
        })
    };
    let hidden = ["AtomicAccess", "AccessKind"]; // The counting build's, which is no part of the surface.
    exported().into_iter().filter(|name| is_type(name) && !hidden.contains(&name.as_str())).collect()
}

/// The public awaitables: aliases of `Wait`, and types that implement `Future`.
pub(crate) fn public_awaitables() -> BTreeSet<String> {
    let types = public_types();
    let sources = sources();
    let mut found = BTreeSet::new();
    for source in &sources {
        for statement in source.code.split(['{', '}', ';']) {
            let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
            // However it is named.
            let statement = ["core::future::", "std::future::", "crate::wait::"]
                .iter()
                .fold(statement, |statement, path| statement.replace(path, ""));
            if statement.contains("= Wait<") {
                found.extend(names_after(&statement, "pub type ").into_iter().map(str::to_owned));
            }
            if statement.contains("impl") {
                found.extend(names_after(&statement, " Future for ").into_iter().map(str::to_owned));
            }
        }
    }
    found.retain(|name| types.contains(name));
    found
}

/// How the futures are called in their panics: the paths by which users can name them.
pub(crate) fn names_in_panics() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for source in sources() {
        let values = source.code.split("const NAME: &'static str =").skip(1);
        for value in values.filter_map(|rest| rest.split(';').next()) {
            names.extend(value.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
    names
}

/// Every public function whose page says that it panics, or that tracks its caller: `file::function`, and whether it is each.
pub(crate) fn functions_that_panic() -> BTreeMap<String, (bool, bool)> {
    let mut found = BTreeMap::new();
    for source in sources() {
        let (mut panics, mut tracked) = (false, false);
        for line in source.text.lines().map(str::trim) {
            if line.starts_with("///") {
                panics |= line == "/// # Panics";
            } else if line.starts_with("#[") {
                tracked |= line == "#[track_caller]";
            } else {
                let line = line.strip_prefix("pub const fn ").or_else(|| line.strip_prefix("pub fn "));
                if let Some(line) = line.filter(|_| panics || tracked) {
                    let file = source.path.to_str().unwrap().replace(".rs", "").replace("/mod", "");
                    found.insert(format!("{file}::{}", name(line)), (panics, tracked));
                }
                (panics, tracked) = (false, false);
            }
        }
    }
    found
}

/// Functions that return an awaitable, by file and name, and whether they track their caller.
pub(crate) fn functions_that_wait() -> BTreeMap<String, bool> {
    let awaitables = public_awaitables();
    let mut found = BTreeMap::new();
    for source in sources() {
        for statement in source.code.split(['{', '}', ';']) {
            let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
            let Some((_, function)) = statement.split_once("fn ") else { continue };
            let signature = function.split(" where ").next().unwrap_or(function);
            let Some((_, returned)) = signature.rsplit_once("-> ") else { continue };
            if awaitables.contains(name(returned)) {
                let file = source.path.to_str().unwrap().replace(".rs", "").replace("/mod", "");
                // Two of one name in a file: both track their caller, or none does.
                let tracked = found.entry(format!("{file}::{}", name(function))).or_insert(true);
                *tracked &= statement.contains("#[track_caller]");
            }
        }
    }
    found
}

/// Functions that never return, by file and name, and whether they track their caller.
pub(crate) fn functions_that_only_panic() -> BTreeMap<String, bool> {
    let mut found = BTreeMap::new();
    for source in sources() {
        let mut tracked = false;
        for line in source.text.lines().map(str::trim) {
            if line.starts_with("#[") {
                tracked |= line == "#[track_caller]";
                continue;
            }
            if let Some((_, function)) = line.split_once("fn ").filter(|_| line.ends_with("-> ! {")) {
                let file = source.path.to_str().unwrap().replace(".rs", "").replace("/mod", "");
                found.insert(format!("{file}::{}", name(function)), tracked);
            }
            tracked = false;
        }
    }
    found
}

/// Asserts that the rows of a table are exactly what the sources have.
#[track_caller]
pub(crate) fn same<'t>(public: &BTreeSet<String>, rows: impl IntoIterator<Item = &'t str>) {
    let rows: BTreeSet<String> = rows.into_iter().map(str::to_owned).collect();
    let missing: Vec<_> = public.difference(&rows).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
    let gone: Vec<_> = rows.difference(public).collect();
    assert!(gone.is_empty(), "rows for what there is not: {gone:?}");
}
