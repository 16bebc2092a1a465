//! `lab stuck`: each of the five hangs says what it is.

use std::process::Command;

/// The lines under a headline.
fn part<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let headline = format!("== {name}");
    let mut lines = text.lines().skip_while(|line| *line != headline).skip(1);
    let part: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert!(!part.is_empty(), "{name}: {text}");
    part
}

/// A line without what differs from run to run: numbers of tasks, and times.
fn lasting(line: &str) -> String {
    let mut last = "";
    let mut words = Vec::new();
    for word in line.trim_start().trim_start_matches("tasuki: ").split(' ') {
        let is_number = word.starts_with(|letter: char| letter.is_ascii_digit());
        words.push(if is_number && matches!(last, "task" | "for") { "?" } else { word });
        last = word;
    }
    words.join(" ")
}

/// The chapter of the guide shows what is printed.
fn is_in_the_guide(text: &str) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/hangs.md");
    let guide: Vec<String> = std::fs::read_to_string(file).unwrap().lines().map(lasting).collect();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("== ")) {
        assert!(guide.contains(&lasting(line)), "docs/guide/hangs.md does not show {line:?}");
    }
}

#[test]
fn numbers_and_times_do_not_count() {
    let line = lasting(
        "  task 4 (spawned at a.rs:1:2) waits at a.rs:3:4 for 1.5s for the mutex `x`, which task 5 took at 6",
    );
    assert_eq!(
        line,
        "task ? (spawned at a.rs:1:2) waits at a.rs:3:4 for ? for the mutex `x`, which task ? took at 6"
    );
    assert_eq!(lasting("tasuki: deadlock: 2 tasks"), "deadlock: 2 tasks");
}

#[test]
#[cfg_attr(not(any(debug_assertions, feature = "inspect")), ignore = "it would build the lab")]
fn each_hang_says_what_it_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_lab")).arg("stuck").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let own = part(&text, "self-lock");
    assert_eq!((own.len(), own[0]), (2, "deadlock: a task waits for itself"));
    assert!(own[1].contains("for the mutex `config`, which this task took at "), "{}", own[1]);
    let two = part(&text, "two locks in opposite order");
    assert_eq!((two.len(), two[0]), (3, "deadlock: 2 tasks wait for each other"));
    assert!(
        two[1..].iter().any(|line| line.contains("`accounts`"))
            && two[1..].iter().any(|line| line.contains("`journal`"))
    );
    let future = part(&text, "futurelock");
    assert_eq!((future.len(), future[0]), (2, "futurelock: a task waits for itself"));
    assert!(future[1].contains("was granted to a future of this task"), "{}", future[1]);
    let lost = part(&text, "lost notification");
    assert!(
        lost[1].contains("in `tasuki::future::WaitNotified`") && lost[1].contains("stuck.rs"),
        "{}",
        lost[1]
    );
    let asleep = part(&text, "a holder asleep");
    assert!(asleep.iter().any(|line| line.contains("`cache`, which task")), "{asleep:?}");
    assert!(asleep.iter().any(|line| line.contains("Sleep")), "{asleep:?}");
    is_in_the_guide(&text);
}
