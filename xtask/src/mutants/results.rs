//! Verdicts on disk, one line each, written as they come: an interrupted run goes on where it stopped.

use super::sites::Site;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// By this model.
    Killed(String),
    /// This model did not end in time: a hang is a death too, but is reported apart.
    TimedOut(String),
    Survived,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Killed(model) => write!(f, "killed   {model}"),
            Verdict::TimedOut(model) => write!(f, "timeout  {model}"),
            Verdict::Survived => write!(f, "SURVIVED"),
        }
    }
}

/// The verdicts of one state of the code.
pub(crate) struct Results {
    file: File,
    /// The state of code and models that the verdicts are about.
    state: String,
    verdicts: HashMap<String, Verdict>,
    baseline: Vec<(String, Duration)>,
    /// Models that killed, by file of the mutant, latest last.
    killers: Vec<(String, String)>,
}

impl Results {
    /// Opens a file of results in a folder and reads what is known of this state.
    pub(crate) fn open(folder: &Path, name: &str, state: &str, fresh: bool) -> Result<Self, String> {
        let path = folder.join(name);
        let explain = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(folder).map_err(explain)?;
        if fresh {
            let _ = fs::remove_file(&path);
        }
        let known = fs::read_to_string(&path).unwrap_or_default();
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(explain)?;
        let mut results = Self {
            file,
            state: state.to_owned(),
            verdicts: HashMap::new(),
            baseline: Vec::new(),
            killers: Vec::new(),
        };
        // A line cut short by an interruption has no line break and does not count.
        for line in known.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            results.read(line);
        }
        if !known.is_empty() && !known.ends_with('\n') {
            results.line(&[])?;
        }
        Ok(results)
    }

    pub(crate) fn get(&self, site: &Site) -> Option<Verdict> {
        self.verdicts.get(&key(site)).cloned()
    }

    /// Notes a verdict and writes it at once.
    pub(crate) fn add(&mut self, site: &Site, verdict: Verdict) -> Result<(), String> {
        let (word, model) = match &verdict {
            Verdict::Killed(model) => ("killed", model.as_str()),
            Verdict::TimedOut(model) => ("timeout", model.as_str()),
            Verdict::Survived => ("survived", "-"),
        };
        let fields = [&self.state, &key(site), word, model, &site.file, &site.name()].map(str::to_owned);
        self.line(&fields)?;
        self.read(&fields.join("\t"));
        Ok(())
    }

    /// What each model took unmutated; empty if that is not known.
    pub(crate) fn baseline(&self) -> Vec<(String, Duration)> {
        self.baseline.clone()
    }

    /// Notes the whole baseline in one line, so that half of it is never taken for all.
    pub(crate) fn set_baseline(&mut self, times: &[(String, Duration)]) -> Result<(), String> {
        let mut fields = vec![self.state.clone(), "baseline".to_owned()];
        fields.extend(times.iter().map(|(name, time)| format!("{name}={}", time.as_millis())));
        self.line(&fields)?;
        self.baseline = times.to_vec();
        Ok(())
    }

    /// Models that killed mutants of a file, latest first. Former states count: habits stay.
    pub(crate) fn killers(&self, file: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (_, model) in self.killers.iter().rev().filter(|(of, _)| of == file) {
            if !names.contains(model) {
                names.push(model.clone());
            }
        }
        names
    }

    fn read(&mut self, line: &str) {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            [state, "baseline", ref times @ ..] if state == self.state => {
                let parse = |field: &&str| {
                    let (name, time) = field.rsplit_once('=')?;
                    Some((name.to_owned(), Duration::from_millis(time.parse().ok()?)))
                };
                self.baseline = times.iter().filter_map(parse).collect();
            }
            [state, key, word, model, file, _] => {
                let verdict = match word {
                    "killed" => Verdict::Killed(model.to_owned()),
                    "timeout" => Verdict::TimedOut(model.to_owned()),
                    "survived" => Verdict::Survived,
                    _ => return,
                };
                if word == "killed" {
                    self.killers.push((file.to_owned(), model.to_owned()));
                }
                if state == self.state {
                    self.verdicts.insert(key.to_owned(), verdict);
                }
            }
            _ => {}
        }
    }

    fn line(&mut self, fields: &[String]) -> Result<(), String> {
        let line = fields.join("\t") + "\n";
        self.file.write_all(line.as_bytes()).map_err(|error| format!("results: {error}"))
    }
}

fn key(site: &Site) -> String {
    format!("{:016x}", site.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_outlive_an_interruption_but_not_a_change() {
        let folder = std::env::temp_dir().join(format!("xtask-results-{}", std::process::id()));
        let site = Site { file: "a.rs".to_owned(), key: 7, ..Site::default() };
        let killed = Verdict::Killed("mutex::a".to_owned());
        let mut results = Results::open(&folder, "r.tsv", "one", true).unwrap();
        results.set_baseline(&[("mutex::a".to_owned(), Duration::from_millis(5))]).unwrap();
        results.add(&site, killed.clone()).unwrap();
        results.file.write_all(b"one\t0000000000000008\tkil").unwrap();
        drop(results);

        let again = Results::open(&folder, "r.tsv", "one", false).unwrap();
        assert_eq!(again.get(&site), Some(killed));
        assert_eq!(again.get(&Site { key: 8, ..Site::default() }), None);
        assert_eq!(again.baseline(), [("mutex::a".to_owned(), Duration::from_millis(5))]);

        let changed = Results::open(&folder, "r.tsv", "two", false).unwrap();
        assert_eq!(changed.get(&site), None);
        assert!(changed.baseline().is_empty());
        assert_eq!(changed.killers("a.rs"), ["mutex::a"]);

        assert_eq!(Results::open(&folder, "r.tsv", "one", true).unwrap().get(&site), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
