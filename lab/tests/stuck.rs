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
}
