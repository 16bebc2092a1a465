//! Makes a failing schedule smaller: as few decisions that are not the default as it takes to fail.

use super::choices::Schedule;

/// So many runs at most.
const RUNS: u32 = 300;

/// Leaves out as many decisions as it can. `fails` runs a schedule, and gives back what was used of it if it fails in the same way.
pub(super) fn shrink(schedule: Schedule, mut fails: impl FnMut(Schedule) -> Option<Schedule>) -> Schedule {
    let mut best = schedule;
    let mut runs = 0;
    let mut chunk = best.len();
    while chunk > 0 {
        let mut at = 0;
        let before = best.len();
        while at < best.len() {
            if runs == RUNS {
                return best;
            }
            runs += 1;
            let mut fewer = best.clone();
            fewer.0.drain(at..best.len().min(at + chunk));
            match fails(fewer) {
                // The same place again: something else is there now.
                Some(smaller) => best = smaller,
                None => at += chunk,
            }
        }
        // Single ones are tried until none can be left out: one may be needed only for another.
        chunk = if chunk > 1 { chunk / 2 } else { usize::from(best.len() < before) };
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_goes() {
        let all = Schedule((0..100).map(|place| (place, 1)).collect());
        let needs = |schedule: &Schedule, place| schedule.0.contains(&(place, 1));
        let mut runs = 0;
        let small = shrink(all, |schedule| {
            runs += 1;
            (needs(&schedule, 17) && needs(&schedule, 90)).then_some(schedule)
        });
        assert_eq!(small, Schedule(vec![(17, 1), (90, 1)]));
        assert!(runs <= RUNS);
        assert_eq!(shrink(small, Some), Schedule::default());
    }

    /// A decision that another one needs goes after that one.
    #[test]
    fn what_another_needs_goes_with_it() {
        let all = Schedule(vec![(1, 1), (2, 1), (3, 1)]);
        let small = shrink(all, |schedule| {
            let has = |place| schedule.0.contains(&(place, 1));
            (has(3) && (has(1) || !has(2))).then_some(schedule)
        });
        assert_eq!(small, Schedule(vec![(3, 1)]));
    }
}
