//! Checks that facts written in two places agree: the checks and their options, the steps of CI, the fields of the manifests, the chapters of the guide, the commands that add a package, the numbers of models, and the names of others with the aliases by which they are found.

use super::{Breach, Page, library, text};

/// The list of checks: name and options of each, as `xtask/src/main.rs` has them.
fn checks(pages: &[Page]) -> Vec<(&str, &str)> {
    let list = text(pages, "xtask/src/main.rs").split_once("const TASKS").map_or("", |(_, rest)| rest);
    let list = list.split_once("];").map_or("", |(list, _)| list);
    // Each row has three strings: the name, the options, what it does.
    let strings: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    strings.chunks(3).filter_map(|row| Some((*row.first()?, *row.get(1)?))).collect()
}

/// Every check is named where readers look for it, and has a row that says what it does; no option is told that it does not take.
pub(crate) fn commands(pages: &[Page]) -> Vec<Breach> {
    const TABLE: &str = "CONTRIBUTING.md";
    /// Runs the others: it has no row, and stands on the first page.
    const ALL: &str = "ci";
    const FIRST: &str = "README.md";
    let checks = checks(pages);
    let mut breaches = Vec::new();
    for (name, _) in &checks {
        let has_row = || {
            let row = format!("| `cargo xtask {name}");
            text(pages, TABLE)
                .lines()
                .filter_map(|line| line.strip_prefix(&row))
                .any(|rest| rest.starts_with(['`', ' ']))
        };
        let named = [
            ("ARCHITECTURE.md", text(pages, "ARCHITECTURE.md").contains(&format!("`{name}`"))),
            match *name {
                ALL => (FIRST, text(pages, FIRST).contains(&format!("`cargo xtask {name}`"))),
                _ => (TABLE, has_row()),
            },
        ];
        for (path, _) in named.into_iter().filter(|(_, is_named)| !is_named) {
            breaches.push(Breach::whole(path, format!("does not name the check {name}")));
        }
    }
    for (line, row) in text(pages, TABLE).lines().enumerate() {
        let Some(command) = row.strip_prefix("| `cargo xtask ").and_then(|rest| rest.split('`').next())
        else {
            continue;
        };
        let (name, options) = command.split_once(' ').unwrap_or((command, ""));
        let does = row.split('|').nth(2).unwrap_or_default().trim();
        if does.is_empty() || ["yes", "no"].contains(&does) {
            breaches.push(Breach::at(TABLE, line, format!("does not say what {name} does")));
        }
        let taken = checks.iter().find(|check| check.0 == name).map(|check| check.1);
        let option = options.split(['[', ' ', ']']).filter(|word| word.starts_with("--"));
        for option in option.filter(|option| !taken.is_some_and(|taken| taken.contains(*option))) {
            breaches.push(Breach::at(TABLE, line, format!("the usage of {name} does not have {option}")));
        }
    }
    breaches
}

/// CONTRIBUTING's table says of each command whether CI runs it, and with which options; `ci.rs` is what CI runs.
pub(crate) fn steps_of_ci(pages: &[Page]) -> Vec<Breach> {
    const TABLE: &str = "CONTRIBUTING.md";
    let ci = text(pages, "xtask/src/ci.rs");
    let mut breaches = Vec::new();
    for (line, row) in text(pages, TABLE).lines().enumerate() {
        let cells: Vec<&str> = row.split(" | ").collect();
        let Some(command) = cells[0].strip_prefix("| `").map(|cell| cell.trim_end_matches('`')) else {
            continue;
        };
        let [_, _, said, ..] = cells[..] else { continue };
        // A check is called by its module; another command stands there as it is.
        let check =
            command.strip_prefix("cargo xtask ").map(|rest| rest.split(' ').next().unwrap_or_default());
        let step = match check {
            Some(name) => ci.lines().find(|line| line.contains(&format!("{}::run(", name.replace('-', "_")))),
            None if !command.contains("cargo test") => continue,
            None => ci.lines().find(|line| line.contains(command.trim_start_matches("cargo "))),
        };
        let is_run = !said.starts_with("no");
        if is_run != step.is_some() {
            let what = if is_run { "does not run" } else { "runs" };
            breaches.push(Breach::at(TABLE, line, format!("CI {what} `{command}`")));
        }
        let options = said.split('`').skip(1).step_by(2).filter(|option| option.starts_with("--"));
        for option in options.filter(|option| step.is_some_and(|step| !step.contains(*option))) {
            breaches.push(Breach::at(TABLE, line, format!("CI runs {command} without {option}")));
        }
    }
    breaches
}

/// What a package that is published says of itself.
pub(crate) fn manifests(pages: &[Page]) -> Vec<Breach> {
    const FIELDS: [&str; 8] = [
        "description = ",
        "license.workspace = true",
        "rust-version = ",
        "keywords = ",
        "categories = ",
        "readme = \"README.md\"",
        "include = ",
        "[package.metadata.docs.rs]",
    ];
    let published = |page: &&Page| {
        page.path.starts_with("crates/")
            && page.path.ends_with("/Cargo.toml")
            && !page.text.contains("\npublish = false\n")
    };
    let mut breaches = Vec::new();
    for page in pages.iter().filter(published) {
        let missing = FIELDS.iter().filter(|field| !page.text.lines().any(|line| line.starts_with(*field)));
        breaches.extend(missing.map(|field| Breach::whole(&page.path, format!("lacks `{field}`"))));
    }
    breaches
}

/// What users of other libraries look for in the search of the documentation, and what it must find.
const SEARCHED: [(&str, &str); 9] = [
    ("Notify", "pub struct Event"),
    ("Monitor", "pub struct Condvar"),
    ("add_permits", "pub fn release("),
    ("cancelled", "pub fn on_cancel("),
    ("CancellationTokenSource", "pub struct CancellationSource"),
    ("SetOnce", "pub struct OnceCell<"),
    ("TaskTracker", "pub trait WaitGroupExt"),
    ("LocalSet", "pub struct LocalRuntime"),
    ("consume_budget", "pub async fn checkpoint("),
];

/// The names of others are aliases of ours.
pub(crate) fn search_aliases(pages: &[Page]) -> Vec<Breach> {
    let is_found = |(alias, item): &(&str, &str)| {
        let attribute = format!("#[doc(alias = \"{alias}\")]");
        library(pages).any(|(page, _)| {
            page.text.split(&attribute).skip(1).any(|rest| {
                let mut lines = rest.lines().map(str::trim);
                let declared = lines.find(|line| !line.is_empty() && !line.starts_with(['#', '/']));
                declared.is_some_and(|line| line.starts_with(item))
            })
        })
    };
    let missing = SEARCHED.iter().filter(|row| !is_found(row));
    missing
        .map(|(alias, item)| Breach::whole("crates", format!("`{item}` lacks `#[doc(alias = {alias:?})]`")))
        .collect()
}

/// Every chapter of the guide is in its contents, and its programs are run.
pub(crate) fn chapters(pages: &[Page]) -> Vec<Breach> {
    let chapter = |page: &Page| {
        let name = page.path.strip_prefix("docs/guide/")?;
        (name.ends_with(".md") && name != "README.md" && !name.contains('/')).then(|| name.to_owned())
    };
    let mut breaches = Vec::new();
    for name in pages.iter().filter_map(chapter) {
        let run = format!("include_str!(\"../{name}\")");
        for (path, wanted) in [("docs/guide/README.md", format!("]({name})")), ("docs/guide/src/lib.rs", run)]
        {
            if !text(pages, path).contains(&wanted) {
                breaches.push(Breach::whole(path, format!("does not name the chapter {name}")));
            }
        }
    }
    breaches
}

/// The attributes of the runtime are behind this feature.
const ATTRIBUTE: (&str, &str) = ("#[tasuki_rt::", "macros");

/// `cargo add .. --path ../tasuki/crates/tasuki-rt --features macros`: the package has these features, and they are enough for the programs of the page.
pub(crate) fn additions(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages.iter().filter(|page| page.path.ends_with(".md")) {
        for (line, text) in page.text.lines().enumerate() {
            for command in text.split("cargo add ").skip(1) {
                let command = command.split(['`', '#']).next().unwrap_or_default();
                let Some((_, rest)) = command.split_once("--path ../tasuki/") else { continue };
                let package = rest.split(' ').next().unwrap_or_default();
                let manifest = text_of_features(pages, &format!("{package}/Cargo.toml"));
                let features = command.split_once("--features ").map_or("", |(_, features)| features);
                let features: Vec<&str> = features.split(' ').next().unwrap_or_default().split(',').collect();
                let mut told = |what: String| breaches.push(Breach::at(&page.path, line, what));
                match manifest {
                    None => told(format!("there is no package {package}")),
                    Some(manifest) => {
                        let has =
                            |name: &str| manifest.lines().any(|line| line.starts_with(&format!("{name} = ")));
                        let missing = features.iter().filter(|name| !name.is_empty() && !has(name));
                        missing.for_each(|name| told(format!("{package} has no feature {name}")));
                        let (attribute, feature) = ATTRIBUTE;
                        if page.text.contains(attribute) && has(feature) && !features.contains(&feature) {
                            told(format!(
                                "the page shows `{attribute}..]`, which needs `--features {feature}`"
                            ));
                        }
                    }
                }
            }
        }
    }
    breaches
}

/// The features of a manifest, one a line.
fn text_of_features<'p>(pages: &'p [Page], path: &str) -> Option<&'p str> {
    let manifest = pages.iter().find(|page| page.path == path)?;
    let features = manifest.text.split_once("[features]\n").map_or("", |(_, rest)| rest);
    Some(features.split("\n[").next().unwrap_or_default())
}

/// "`channel.rs` (21 models)": the file has so many.
pub(crate) fn model_counts(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages.iter().filter(|page| page.path.starts_with("docs/") && page.path.ends_with(".md")) {
        for (line, row) in page.text.lines().enumerate() {
            for (at, _) in row.match_indices(" models)") {
                let Some((before, said)) = row[..at].rsplit_once("` (") else { continue };
                let file = before.rsplit('`').next().unwrap_or_default();
                let end = format!("/model/{file}");
                let models = pages.iter().filter(|page| page.path.ends_with(&end));
                let count: usize = models.map(|page| page.text.matches("#[test]").count()).sum();
                if said.parse() != Ok(count) {
                    let what = format!("says {said} models for {file}, which has {count}");
                    breaches.push(Breach::at(&page.path, line, what));
                }
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&[Page]) -> Vec<Breach>, pages: &[(&str, &str)]) -> Vec<String> {
        let pages: Vec<Page> = pages.iter().map(|(path, text)| Page::new(path, text)).collect();
        rule(&pages).into_iter().map(|breach| format!("{}: {}", breach.file, breach.what)).collect()
    }

    #[test]
    fn checks_and_options_are_those_of_the_usage() {
        let list = "const TASKS: [Task; 4] = [\n    (\"a\", \"[--x]\", \"does\", a::run),\n    (\n        \"b\",\n        \"\",\n        \"does\",\n        b::run,\n    ),\n    (\"c\", \"\", \"does\", c::run),\n    (\"ci\", \"\", \"does\", ci::run),\n];\n";
        let pages = [
            ("xtask/src/main.rs", list),
            ("README.md", "[`cargo xtask c`](CONTRIBUTING.md)\n"),
            ("ARCHITECTURE.md", "`a`, `c`, `ci`\n"),
            (
                "CONTRIBUTING.md",
                "| `cargo xtask a [--x] [--y N]` | it | yes |\n| `cargo xtask b` | | no |\n`cargo xtask c`\n",
            ),
        ];
        let wanted = [
            "ARCHITECTURE.md: does not name the check b",
            "CONTRIBUTING.md: does not name the check c",
            "README.md: does not name the check ci",
            "CONTRIBUTING.md: the usage of a does not have --y",
            "CONTRIBUTING.md: does not say what b does",
        ];
        assert_eq!(found(commands, &pages), wanted);
    }

    #[test]
    fn a_name_that_the_search_does_not_know_is_seen() {
        let missing = |text: &str| found(search_aliases, &[("crates/tasuki/src/event.rs", text)]);
        let told = "`pub struct Event` lacks `#[doc(alias = \"Notify\")]`";
        let is_told = |text: &str| missing(text).iter().any(|breach| breach.contains(told));
        assert!(!is_told("#[doc(alias = \"Notify\")]\n#[doc(alias = \"ResetEvent\")]\npub struct Event {\n"));
        assert!(is_told("#[doc(alias = \"Notified\")]\npub struct Event {\n"));
        assert!(is_told("#[doc(alias = \"Notify\")]\npub struct Other;\npub struct Event {\n"));
    }

    #[test]
    fn what_ci_runs_is_told() {
        let ci = "report.step(\"a\", || whole(a::run(Args::of(&[\"--quick\"]))));\nshell::run(&mut cargo(\"test --workspace\"))\nwhole(b_c::run(Args::of(&[])))\n";
        let row = |command: &str, said: &str| {
            let table = format!(
                "| Command | What it does | In CI |\n|---|---|---|\n| `{command}` | it | {said} | yes |\n"
            );
            found(steps_of_ci, &[("xtask/src/ci.rs", ci), ("CONTRIBUTING.md", &table)])
        };
        for (command, said) in [
            ("cargo xtask a [--quick]", "`--quick`"),
            ("cargo test --workspace", "yes"),
            ("cargo xtask b-c", "yes"),
            ("cargo xtask d", "no: too long"),
        ] {
            assert_eq!(row(command, said), [""; 0], "{command}");
        }
        assert_eq!(row("cargo xtask a", "no").len(), 1);
        assert_eq!(row("cargo xtask d", "yes").len(), 1);
        assert_eq!(row("cargo test --release", "yes").len(), 1);
        assert_eq!(row("cargo xtask b-c", "`--small`").len(), 1);
    }

    #[test]
    fn a_manifest_without_a_field_is_seen() {
        let whole = "[package]\ndescription = \"a\"\nlicense.workspace = true\nrust-version = \"1\"\nkeywords = []\n\
            categories = []\nreadme = \"README.md\"\ninclude = []\n\n[package.metadata.docs.rs]\n";
        assert_eq!(found(manifests, &[("crates/a/Cargo.toml", whole)]), [""; 0]);
        let less = whole.replace("keywords = []\n", "");
        assert_eq!(found(manifests, &[("crates/a/Cargo.toml", &less)]).len(), 1);
        assert_eq!(
            found(manifests, &[("crates/a/model/Cargo.toml", "[package]\npublish = false\n")]),
            [""; 0]
        );
    }

    #[test]
    fn a_chapter_that_is_not_run_is_seen() {
        let pages = [
            ("docs/guide/README.md", "[a](a.md) [b](b.md)\n"),
            ("docs/guide/a.md", ""),
            ("docs/guide/b.md", ""),
            ("docs/guide/src/lib.rs", "#[doc = include_str!(\"../a.md\")]\nmod a {}\n"),
        ];
        assert_eq!(found(chapters, &pages), ["docs/guide/src/lib.rs: does not name the chapter b.md"]);
    }

    #[test]
    fn a_command_that_adds_too_little_is_seen() {
        let manifest = (
            "crates/rt/Cargo.toml",
            "[features]\ndefault = []\nmacros = []\n\n[dependencies]\nnet = \"1\"\n",
        );
        let page = |command: &str| {
            found(
                additions,
                &[manifest, ("docs/a.md", &format!("#[tasuki_rt::test]\n`cargo add {command}` it\n"))],
            )
        };
        assert_eq!(page("rt --path ../tasuki/crates/rt --features macros").len(), 0);
        assert_eq!(page("tokio --features full").len(), 0);
        assert_eq!(
            page("rt --path ../tasuki/crates/rt"),
            ["docs/a.md: the page shows `#[tasuki_rt::..]`, which needs `--features macros`"]
        );
        assert_eq!(
            page("rt --path ../tasuki/crates/rt --features macros,net"),
            ["docs/a.md: crates/rt has no feature net"]
        );
        assert_eq!(page("rt --path ../tasuki/crates/gone"), ["docs/a.md: there is no package crates/gone"]);
    }

    #[test]
    fn models_are_counted() {
        let pages = [
            ("docs/a.md", "| `x.rs` (2 models), `y.rs` (1 models) |\n"),
            ("crates/tasuki/model/x.rs", "#[test]\nfn a() {}\n#[test]\nfn b() {}\n"),
            ("crates/tasuki/model/y.rs", ""),
        ];
        assert_eq!(found(model_counts, &pages), ["docs/a.md: says 1 models for y.rs, which has 0"]);
    }
}
