//! `cargo xtask package`: what would be published. Each library is packaged; the package has its page and both licences, no tests and
//! no models; and the lock file of a firmware that uses the primitives names at most three packages.
//!
//! Packages are not built here: `tasuki-rt` depends on `tasuki`, which the registry would have to have in this version.

use crate::args::Args;
use crate::report::Report;
use crate::shell::{cargo, output, root, target};
use std::fs;
use std::path::Path;

/// The libraries, and how many kilobytes their packages may have, compressed: about a tenth more than they have.
const PACKAGES: [(&str, u64); 4] =
    [("tasuki", 400), ("tasuki-rt-macros", 20), ("tasuki-rt", 215), ("tasuki-inspect", 50)];

/// The packages in the lock file of a firmware: itself, `tasuki`, the interface to critical sections.
const FIRMWARE: usize = 3;

pub(crate) fn run(args: Args) -> Result<Report, String> {
    args.end()?;
    let mut report = Report::new("package");
    for (package, kilobytes) in PACKAGES {
        report.step(&format!("files of {package}"), || files(package).into());
        report.step(&format!("licences of {package}"), || licences(package).into());
        report.step(&format!("package {package}"), || packaged(package, kilobytes).into());
    }
    report.step("lock file of a firmware", || firmware().into());
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

/// A program that uses the primitives without the standard library, and its lock file.
fn firmware() -> Result<(), String> {
    let folder = target().join("firmware");
    let library = root().join("crates").join("tasuki");
    let manifest = format!(
        "[package]\nname = \"firmware\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         tasuki = {{ path = {:?}, default-features = false, features = [\"critical-section\"] }}\n",
        library.display().to_string()
    );
    let write = |file: &Path, text: &str| fs::write(file, text).map_err(|why| why.to_string());
    fs::create_dir_all(folder.join("src")).map_err(|why| why.to_string())?;
    write(&folder.join("Cargo.toml"), &manifest)?;
    write(&folder.join("src").join("lib.rs"), "#![no_std]\n")?;
    output(cargo("generate-lockfile").arg("--manifest-path").arg(folder.join("Cargo.toml")))?;
    let lock = fs::read_to_string(folder.join("Cargo.lock")).map_err(|why| why.to_string())?;
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
}
