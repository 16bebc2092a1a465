//! Command-line words of one check. Unknown words are errors: a mistyped option must not weaken a check.

use std::str::FromStr;

/// The words that no check has asked for yet.
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: Vec<String>) -> Self {
        Self { words }
    }

    /// From a literal, for the checks that call other checks.
    pub(crate) fn of(words: &[&str]) -> Self {
        Self::new(words.iter().map(|word| (*word).to_owned()).collect())
    }

    /// Takes a switch; true if it was there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() < before
    }

    /// Takes `name VALUE` or `name=VALUE`.
    pub(crate) fn value<T: FromStr>(&mut self, name: &str, default: T) -> Result<T, String> {
        Ok(self.optional(name)?.unwrap_or(default))
    }

    /// Takes `name VALUE` or `name=VALUE`, if there.
    pub(crate) fn optional<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        let prefix = format!("{name}=");
        let text = if let Some(at) = self.words.iter().position(|word| word == name) {
            if at + 1 >= self.words.len() {
                return Err(format!("{name} wants a value"));
            }
            self.words.remove(at);
            self.words.remove(at)
        } else if let Some(at) = self.words.iter().position(|word| word.starts_with(&prefix)) {
            self.words.remove(at)[prefix.len()..].to_owned()
        } else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| format!("{name}: {text:?} is not a value it takes"))
    }

    /// Takes one plain word, if there.
    pub(crate) fn word(&mut self) -> Option<String> {
        let at = self.words.iter().position(|word| !word.starts_with('-'))?;
        Some(self.words.remove(at))
    }

    /// Nothing may be left over.
    pub(crate) fn end(self) -> Result<(), String> {
        if self.words.is_empty() { Ok(()) } else { Err(format!("unknown words: {}", self.words.join(" "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_is_asked_and_refuses_the_rest() {
        let mut args = Args::of(&["--tree", "--seeds", "8", "--cap=5", "mutex::", "--tre"]);
        assert!(args.flag("--tree"));
        assert!(!args.flag("--tree"));
        assert_eq!(args.value("--seeds", 1), Ok(8));
        assert_eq!(args.value("--cap", 1), Ok(5));
        assert_eq!(args.value("--jobs", 2), Ok(2));
        assert_eq!(args.word().as_deref(), Some("mutex::"));
        assert!(args.end().is_err());
        assert!(Args::of(&["--seeds", "many"]).value("--seeds", 1).is_err());
        assert!(Args::of(&["--seeds"]).value("--seeds", 1).is_err());
    }
}
