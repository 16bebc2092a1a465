//! `cargo xtask page`: the page of `tasuki-inspect` in a real browser. It loads, shows a deadlock that is planted while it is open within two seconds, and survives 100,000 tasks; pictures of it, light and dark,
//! narrow and wide, are left in `target/page` to be looked at.

mod browser;

use crate::args::Args;
use crate::report::{Outcome, Report};
use crate::shell::{self, cargo, root, target};
use browser::Browser;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A deadlock is to be seen after so long, from the moment at which it was planted.
const SEEN: Duration = Duration::from_secs(2);
/// Anything else is to happen in this time: much longer than it takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many tasks wait in the program that has very many.
const CROWD: usize = 100_000;

/// The pictures: a name, the width and the height of the window, and whether it is dark.
const PICTURES: [(&str, u32, u32, bool); 4] = [
    ("wide-light", 1440, 2300, false),
    ("wide-dark", 1440, 2300, true),
    ("narrow-light", 390, 4200, false),
    ("narrow-dark", 390, 4200, true),
];

/// Where the picture of README and guide is kept.
const SHOWN: &str = "docs/images/inspect-page.png";
/// So long the program of that picture has run.
const HISTORY: Duration = Duration::from_secs(100);

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let write = args.flag("--write");
    args.end()?;
    let mut report = Report::new("page");
    let Some(program) = browser::find() else {
        let why = "there is no chromium; on Debian: apt-get install chromium";
        report.row("the page in a browser", Outcome::Skipped(why.to_owned()), Duration::ZERO);
        return Ok(report);
    };
    shell::run(&mut cargo("build --release -p tasuki-inspect --features inspect --example stuck"))?;
    let folder = target().join("page");
    std::fs::create_dir_all(&folder).map_err(|why| why.to_string())?;
    report.step("a deadlock is seen", || deadlock(&program, &folder, write).into());
    report.step("100,000 tasks", || crowd(&program, &folder).into());
    Ok(report)
}

/// The program that is looked at.
struct Stuck {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Stuck {
    fn start() -> Result<Self, String> {
        let mut command = Command::new(target().join("release").join("examples").join("stuck"));
        command.arg("0").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|why| format!("the example does not start: {why}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the example has no pipes".to_owned());
        };
        let mut stuck = Self { child, input, output: BufReader::new(output), address: String::new() };
        stuck.address = stuck.line()?;
        Ok(stuck)
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|why| why.to_string())?;
        Ok(line.trim().to_owned())
    }

    /// Plants something, and waits until it is.
    fn plant(&mut self, what: &str) -> Result<(), String> {
        writeln!(self.input, "{what}").map_err(|why| why.to_string())?;
        match self.line()?.as_str() {
            "ok" => Ok(()),
            other => Err(format!("planting {what}: {other}")),
        }
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until it is so; how long that took.
fn until(browser: &mut Browser, so: &str) -> Result<Duration, String> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if browser.evaluate(so)? == "true" {
            return Ok(start.elapsed());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let page = browser.evaluate("document.body ? document.body.innerText.slice(0, 400) : ''")?;
    Err(format!("not so after {PATIENCE:?}: {so}; the page says: {page}"))
}

/// The page is open when the deadlock is planted, and then shows the cycle in red, with names.
fn deadlock(program: &Path, folder: &Path, write: bool) -> Result<(), String> {
    let mut stuck = Stuck::start()?;
    let mut browser = Browser::start(program, &folder.join("profile"))?;
    browser.open(&stuck.address)?;
    let loaded =
        until(&mut browser, "document.body.dataset.samples >= 2 && document.body.dataset.deadlocks === '0'")?;
    println!("loaded, with two samples, after {loaded:.1?}");
    if write {
        // So that there is a history to be seen.
        std::thread::sleep(HISTORY);
    }
    stuck.plant("deadlock")?;
    let shows =
        "[...document.querySelectorAll('.node.red')].some(node => node.textContent.includes('accounts'))";
    let seen = until(&mut browser, &format!("document.body.dataset.deadlocks === '1' && {shows}"))?;
    println!("the deadlock is seen after {seen:.1?}");
    if seen > SEEN {
        return Err(format!("a deadlock is seen after {seen:.1?}, more than {SEEN:?}"));
    }
    ["futurelock", "ring", "block"].into_iter().try_for_each(|what| stuck.plant(what))?;
    until(
        &mut browser,
        "document.body.dataset.deadlocks === '3' && document.querySelectorAll('.worker.stuck').length === 1",
    )?;
    for (name, width, height, is_dark) in PICTURES {
        browser.resize(width, height, is_dark)?;
        fits(&mut browser, name)?;
        let file = folder.join(format!("{name}.png"));
        browser.picture(&file)?;
        println!("{}", file.display());
    }
    if write {
        browser.resize(1440, 1130, false)?;
        browser.picture(&root().join(SHOWN))?;
    }
    browser.complaints()
}

/// Nothing is wider than the window, and every section has drawn something.
fn fits(browser: &mut Browser, name: &str) -> Result<(), String> {
    until(browser, "document.body.dataset.samples >= 3")?;
    let wider =
        browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")?;
    if wider != "0" {
        return Err(format!("{name}: {wider} pixels wider than the window"));
    }
    let empty = "[...document.querySelectorAll('section:not([hidden]) > div')].filter(part => part.clientHeight < 15).map(part => part.id).join()";
    match browser.evaluate(empty)?.as_str() {
        "" => Ok(()),
        parts => Err(format!("{name}: nothing is drawn in {parts}")),
    }
}

/// Very many tasks: the page counts them, goes on, and shows a deadlock among them.
fn crowd(program: &Path, folder: &Path) -> Result<(), String> {
    let mut stuck = Stuck::start()?;
    stuck.plant(&format!("crowd {CROWD}"))?;
    let mut browser = Browser::start(program, &folder.join("profile"))?;
    browser.open(&stuck.address)?;
    until(
        &mut browser,
        &format!("latest && latest.total_waits >= {CROWD} && latest.runtimes[0].total >= {CROWD}"),
    )?;
    let length = browser.evaluate("JSON.stringify(latest).length")?;
    let nodes = browser.evaluate("document.querySelectorAll('*').length")?;
    println!("{CROWD} tasks: a sample of {length} bytes, {nodes} elements");
    stuck.plant("deadlock")?;
    let seen = until(&mut browser, "document.body.dataset.deadlocks === '1'")?;
    println!("a deadlock among them is seen after {seen:.1?}");
    browser.resize(1440, 1900, false)?;
    browser.picture(&folder.join("crowd.png"))?;
    let memory = std::fs::read_to_string(format!("/proc/{}/status", stuck.child.id())).unwrap_or_default();
    memory.lines().filter(|line| line.starts_with("VmRSS")).for_each(|line| println!("the program: {line}"));
    browser.complaints()
}
