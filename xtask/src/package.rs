//! `cargo xtask package`: what would be published. Each library is packaged; the package has its page and both licences, no tests and
//! no models; the lock file of a firmware that uses the primitives names at most three packages; and the libraries compile with the oldest
//! dependencies that their manifests allow, which a lock file may keep.
//!
//! Packages are not built here: `tasuki-rt` depends on `tasuki`, which the registry would have to have in this version.

use crate::args::Args;
use crate::report::Report;
use crate::shell::{self, cargo, output, root, target};
use std::fs;
use std::path::{Path, PathBuf};

/// The libraries, and how many kilobytes their packages may have, compressed: about a tenth more than they have.
const PACKAGES: [(&str, u64); 4] =
    [("tasuki", 400), ("tasuki-rt-macros", 20), ("tasuki-rt", 215), ("tasuki-inspect", 50)];

/// The packages in the lock file of a firmware: itself, `tasuki`, the interface to critical sections.
const FIRMWARE: usize = 3;

/// What is compiled beside the oldest dependencies, and which of these is left out: tokio asks for a newer libc than `tasuki` does.
const OLDEST: [(&str, &str); 3] = [("tasuki", "tokio"), ("tasuki", "libc"), ("tasuki-rt", "")];

pub(crate) fn run(args: Args) -> Result<Report, String> {
    args.end()?;
    let mut report = Report::new("package");
    for (package, kilobytes) in PACKAGES {
        report.step(&format!("files of {package}"), || files(package).into());
        report.step(&format!("licences of {package}"), || licences(package).into());
        report.step(&format!("package {package}"), || packaged(package, kilobytes).into());
    }
    report.step("lock file of a firmware", || firmware().into());
    for (package, except) in OLDEST {
        let without = if except.is_empty() { String::new() } else { format!(", without {except}") };
        let step = format!("oldest dependencies of {package}{without}");
        report.step(&step, || oldest(package, except).into());
    }
    Ok(report)
}

/// Sources, the page, the licences, and the programs that must not compile, which the documentation tests read.
fn files(package: &str) -> Result<(), String> {
    let listed = output(&mut cargo(&format!("package -p {package} --list --allow-dirty")))?;
    let files: Vec<&str> = listed.lines().collect();
    let wanted = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"];
    if let Some(missing) = wanted.iter().find(|file| !files.contains(file)) {
        return Err(format!("{missing} is missing"));
    }
    let made = ["Cargo.lock", "Cargo.toml.orig", ".cargo_vcs_info.json"];
    let known = |file: &&&str| {
        file.starts_with("src/")
            || file.starts_with("tests/compile_fail")
            || wanted.contains(*file)
            || made.contains(*file)
    };
    if let Some(stranger) = files.iter().find(|file| !known(file)) {
        return Err(format!("{stranger} does not belong into the package"));
    }
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let path = root().join("crates").join(package).join(file);
        let text = fs::read_to_string(&path).map_err(|why| format!("{file}: {why}"))?;
        for test in modules_of_tests(file, &text) {
            if files.contains(&test.as_str()) {
                return Err(format!("{test} is of tests only, and does not belong into the package"));
            }
        }
    }
    Ok(())
}

/// The files that a module may have which this file declares for tests only.
fn modules_of_tests(file: &str, text: &str) -> Vec<String> {
    let folder = match file.rsplit_once('/') {
        Some((folder, "lib.rs" | "mod.rs")) => folder,
        _ => file.trim_end_matches(".rs"),
    };
    let mut found = Vec::new();
    let mut is_of_tests = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            is_of_tests |= line.starts_with("#[cfg(test)") || line.starts_with("#[cfg(all(test,");
            continue;
        }
        let name = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
        if let Some(name) = name.filter(|_| is_of_tests) {
            found.extend([format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]);
        }
        is_of_tests = false;
    }
    found
}

/// The texts in the package are those at the root.
fn licences(package: &str) -> Result<(), String> {
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let [own, ours] = [root().join("crates").join(package).join(name), root().join(name)].map(fs::read);
        if own.map_err(|why| format!("{name}: {why}"))? != ours.map_err(|why| format!("{name}: {why}"))? {
            return Err(format!("{name} differs from the one at the root"));
        }
    }
    Ok(())
}

fn packaged(package: &str, kilobytes: u64) -> Result<(), String> {
    let folder = target().join("package-check");
    let words = format!(
        "package -p tasuki -p tasuki-rt-macros -p tasuki-rt -p {package} --allow-dirty --no-verify --quiet"
    );
    output(cargo(&words).arg("--target-dir").arg(&folder))?;
    let start = format!("{package}-0");
    let entries = fs::read_dir(folder.join("package")).map_err(|why| why.to_string())?;
    let is_it = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with(&start) && name.ends_with(".crate")
    };
    let file = entries.flatten().find(is_it).ok_or("no package was made")?;
    let size = file.metadata().map_err(|why| why.to_string())?.len();
    println!("{package}: {} KB", size / 1000);
    if size > kilobytes * 1000 { Err(format!("{size} bytes, more than {kilobytes} KB")) } else { Ok(()) }
}

/// Writes a package that depends on this library, and on what else is said; its manifest.
fn user(name: &str, library: &str, settings: &str, others: &str) -> Result<PathBuf, String> {
    let folder = target().join(name);
    let library_folder = root().join("crates").join(library);
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         {library} = {{ path = {:?}, {settings} }}\n{others}",
        library_folder.display().to_string()
    );
    let write = |file: &Path, text: &str| fs::write(file, text).map_err(|why| why.to_string());
    fs::create_dir_all(folder.join("src")).map_err(|why| why.to_string())?;
    write(&folder.join("Cargo.toml"), &manifest)?;
    write(&folder.join("src").join("lib.rs"), "#![no_std]\n")?;
    Ok(folder.join("Cargo.toml"))
}

/// A library with all features, beside the oldest versions that its manifest allows, without the dependency of this name.
fn oldest(package: &str, except: &str) -> Result<(), String> {
    let manifest = root().join("crates").join(package).join("Cargo.toml");
    let text = fs::read_to_string(manifest).map_err(|why| why.to_string())?;
    let (features, versions) = features_and_versions(&text);
    let (features, versions) =
        (features.filter(|name| *name != except), versions.filter(|(name, _)| *name != except));
    let settings =
        format!("features = [{}]", features.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", "));
    let pins: String = versions
        .map(|(name, version)| format!("{name} = {{ version = \"={version}\", default-features = false }}\n"))
        .collect();
    print!("{pins}");
    let user = user(&format!("oldest-beside-{package}"), package, &settings, &pins)?;
    let lock = user.with_file_name("Cargo.lock");
    if lock.exists() {
        fs::remove_file(lock).map_err(|why| why.to_string())?;
    }
    let folder = target().join("oldest-dependencies");
    shell::run(cargo("check --quiet --manifest-path").arg(user).env("CARGO_TARGET_DIR", folder))
}

/// The features that a manifest declares, and the dependencies from the registry that users have, with their least versions.
fn features_and_versions(
    manifest: &str,
) -> (impl Iterator<Item = &str>, impl Iterator<Item = (&str, String)>) {
    let mut section = "";
    let mut entries = Vec::new();
    for line in manifest.lines() {
        match line.split_once(" = ") {
            _ if line.starts_with('[') => section = line,
            Some((name, value)) if !line.starts_with('#') => entries.push((section, name, value)),
            _ => {}
        }
    }
    let is_dependency =
        |section: &str| section.ends_with("dependencies]") && !section.ends_with("dev-dependencies]");
    let features =
        entries.clone().into_iter().filter(|(section, ..)| *section == "[features]").map(|(_, name, _)| name);
    let versions = entries.into_iter().filter_map(move |(section, name, value)| {
        let is_wanted = is_dependency(section) && !value.contains("path = ");
        let version = value.trim_start_matches("{ version = ").split('"').nth(1).filter(|_| is_wanted)?;
        Some((name, if version.split('.').count() < 3 { format!("{version}.0") } else { version.to_owned() }))
    });
    (features, versions)
}

/// A program that uses the primitives without the standard library, and its lock file.
fn firmware() -> Result<(), String> {
    let settings = "default-features = false, features = [\"critical-section\"]";
    let manifest = user("firmware", "tasuki", settings, "")?;
    output(cargo("generate-lockfile").arg("--manifest-path").arg(&manifest))?;
    let lock = fs::read_to_string(manifest.with_file_name("Cargo.lock")).map_err(|why| why.to_string())?;
    let names: Vec<&str> = lock.lines().filter_map(|line| line.strip_prefix("name = ")).collect();
    println!("lock file of a firmware: {}", names.join(", "));
    match names.len() {
        0 => Err("the lock file names no package".to_owned()),
        count if count > FIRMWARE => Err(format!("{count} packages, at most {FIRMWARE} are promised")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_tests_are_seen() {
        let text = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(all(test, feature = \"c\"))]\n#[path = \"d\"]\nmod e;\n#[cfg(test)]\nmod f {\n}\nmod g;\n";
        assert_eq!(
            modules_of_tests("src/x/mod.rs", text),
            ["src/x/b.rs", "src/x/b/mod.rs", "src/x/e.rs", "src/x/e/mod.rs"]
        );
        assert_eq!(modules_of_tests("src/x.rs", "#[cfg(test)]\nmod b;\n"), ["src/x/b.rs", "src/x/b/mod.rs"]);
    }

    #[test]
    fn least_versions_of_what_users_have() {
        let manifest = "[features]\n## A feature.\na = [\"b\"]\n[dependencies]\nb = { version = \"1.2\", optional = true }\nc = \"0.1.3\"\nd = { path = \"../d\", version = \"1\" }\n\
                        [target.'cfg(unix)'.dependencies]\ne = \"2.0\"\n[dev-dependencies]\nf = \"1.0\"\n[target.'cfg(unix)'.dev-dependencies]\ng = \"1.0\"\n";
        let (features, versions) = features_and_versions(manifest);
        assert_eq!(features.collect::<Vec<_>>(), ["a"]);
        let wanted = [("b", "1.2.0"), ("c", "0.1.3"), ("e", "2.0.0")];
        assert_eq!(versions.collect::<Vec<_>>(), wanted.map(|(name, version)| (name, version.to_owned())));
    }
}
