//! What is written in the brackets of an attribute: `workers = 4`, `local`, `simulate`, `seeds = 1_000`, `exhaustive`, `schedules = 1_000`, `crate = path`.

use crate::{Wrong, bare, default_crate, word};
use proc_macro::{Literal, Span, TokenStream, TokenTree};

/// How many schedules a simulated test explores, if it does not say.
const SEEDS: u64 = 100;

/// Which schedules a simulated test explores.
#[derive(Clone, Copy)]
pub(crate) enum Schedules {
    Random(u64),
    /// All, but at most so many if it says how many.
    Exhaustive(Option<u64>),
}

pub(crate) struct Options {
    pub(crate) workers: Option<TokenTree>,
    /// On the calling thread alone.
    pub(crate) local: bool,
    /// `None`: it is not simulated.
    pub(crate) schedules: Option<Schedules>,
    /// The path of the runtime's crate.
    pub(crate) krate: TokenStream,
}

/// One option: its name, its place, and what follows the `=`.
struct Setting {
    name: String,
    at: Span,
    value: Vec<TokenTree>,
}

impl Options {
    pub(crate) fn of_main(tokens: TokenStream) -> Result<Self, Wrong> {
        let names = ["workers", "local", "crate"];
        Self::parse(tokens, &names, "the options are `workers = N`, `local` and `crate = path`")
    }

    pub(crate) fn of_test(tokens: TokenStream) -> Result<Self, Wrong> {
        let names = ["workers", "local", "crate", "simulate", "seeds", "exhaustive", "schedules"];
        let message = "the options are `workers = N`, `local`, `simulate`, `seeds = N`, `exhaustive`, `schedules = N` and `crate = path`";
        Self::parse(tokens, &names, message)
    }

    fn parse(tokens: TokenStream, names: &[&str], message: &'static str) -> Result<Self, Wrong> {
        let entries = settings(tokens, message)?;
        for (at, entry) in entries.iter().enumerate() {
            if !names.contains(&entry.name.as_str()) {
                return Err(Wrong::new(message, entry.at));
            }
            if entries[..at].iter().any(|before| before.name == entry.name) {
                return Err(Wrong::new("an option is given twice", entry.at));
            }
        }
        let find = |name: &str| entries.iter().find(|entry| entry.name == name);
        let workers = find("workers").map(Setting::number).transpose()?;
        let seeds = find("seeds").map(Setting::number).transpose()?;
        let flag = |name: &str| find(name).map(Setting::flag).transpose();
        let (simulate, exhaustive) = (flag("simulate")?, flag("exhaustive")?);
        if let (Some(at), Some(_)) = (exhaustive, simulate) {
            return Err(Wrong::new("all schedules, or random ones: `exhaustive` or `simulate`", at));
        }
        if let (Some(at), Some(_)) = (exhaustive, &seeds) {
            return Err(Wrong::new("all schedules are explored: `exhaustive` has no `seeds`", at));
        }
        let most = find("schedules").map(Setting::number).transpose()?;
        if let (None, Some((_, literal))) = (exhaustive, &most) {
            return Err(Wrong::new("`schedules` is the limit of `exhaustive`", literal.span()));
        }
        let schedules = if exhaustive.is_some() {
            Some(Schedules::Exhaustive(most.map(|(number, _)| number)))
        } else if let Some((number, _)) = seeds {
            Some(Schedules::Random(number))
        } else {
            simulate.map(|_| Schedules::Random(SEEDS))
        };
        if let (Some(_), Some((_, literal))) = (&schedules, &workers) {
            let message = "a simulation decides by itself how many virtual workers there are";
            return Err(Wrong::new(message, literal.span()));
        }
        let local = flag("local")?;
        if let Some(at) = local.filter(|_| workers.is_some() || schedules.is_some()) {
            return Err(Wrong::new("`local` is one thread: it has no `workers` and no schedules", at));
        }
        let krate = match find("crate") {
            None => default_crate(),
            Some(entry) if entry.value.is_empty() => return Err(Wrong::new(message, entry.at)),
            Some(Setting { value, .. }) if matches!(bare(value[0].clone()), TokenTree::Literal(_)) => {
                return Err(Wrong::new("expected a path without quotes: `crate = path`", value[0].span()));
            }
            Some(entry) => entry.value.iter().cloned().collect(),
        };
        let workers = workers.map(|(_, literal)| literal.into());
        Ok(Self { workers, local: local.is_some(), schedules, krate })
    }
}

impl Setting {
    fn flag(&self) -> Result<Span, Wrong> {
        if self.value.is_empty() { Ok(self.at) } else { Err(Wrong::new("this option has no value", self.at)) }
    }

    /// A whole number of at least one.
    fn number(&self) -> Result<(u64, Literal), Wrong> {
        let wrong = || Wrong::new("expected `= N`, a number of at least 1", self.at);
        let [value] = &self.value[..] else { return Err(wrong()) };
        let TokenTree::Literal(literal) = bare(value.clone()) else { return Err(wrong()) };
        let number = literal.to_string().replace('_', "").parse().ok().filter(|number| *number > 0);
        Ok((number.ok_or_else(wrong)?, literal))
    }
}

/// The options, between commas.
fn settings(tokens: TokenStream, message: &'static str) -> Result<Vec<Setting>, Wrong> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
    let mut parts: Vec<&[TokenTree]> = tokens.split(comma).collect();
    // Nothing at all, or a comma at the end.
    if parts.last().is_some_and(|part| part.is_empty()) {
        parts.pop();
    }
    parts.into_iter().map(|part| setting(part, message)).collect()
}

fn setting(part: &[TokenTree], message: &'static str) -> Result<Setting, Wrong> {
    let at = part.first().map_or_else(Span::call_site, TokenTree::span);
    let wrong = || Wrong::new(message, at);
    let name = part.first().and_then(word).ok_or_else(wrong)?.to_string();
    let value = match &part[1..] {
        [] => Vec::new(),
        [TokenTree::Punct(equals), value @ ..] if equals.as_char() == '=' && !value.is_empty() => {
            value.to_vec()
        }
        _ => return Err(wrong()),
    };
    Ok(Setting { name, at, value })
}
