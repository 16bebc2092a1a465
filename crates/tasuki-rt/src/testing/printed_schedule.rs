//! A schedule as it is printed and read: `4@2:1,5:1` are the decisions 2 and 5 of a run with four workers, `1@-` none of a run with one.
//!
//! How many workers there are decides which questions a run asks, so the decisions alone would mean something else on others.

use super::choices::Schedule;
use crate::scheduler::idle::MAX_WORKERS;
use std::fmt;
use std::str::FromStr;

/// More workers than there can be.
const MORE: usize = MAX_WORKERS + 1;

/// A schedule, and the number of workers that it was made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrintedSchedule {
    pub(super) workers: usize,
    pub(super) schedule: Schedule,
}

impl fmt::Display for PrintedSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@", self.workers)?;
        let decisions = &self.schedule.0;
        if decisions.is_empty() {
            return f.write_str("-");
        }
        for (at, (place, taken)) in decisions.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{place}:{taken}")?;
        }
        Ok(())
    }
}

impl FromStr for PrintedSchedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split =
            text.split_once('@').and_then(|(workers, rest)| Some((workers.trim().parse().ok()?, rest)));
        let (workers, decisions) = match split {
            None | Some((0, _)) => {
                return Err("it does not begin with the number of workers, as in `4@2:1,5:1`".into());
            }
            Some((MORE.., _)) => return Err(format!("a simulation has at most {MAX_WORKERS} workers")),
            Some(split) => split,
        };
        Ok(Self { workers, schedule: decisions_of(decisions)? })
    }
}

fn decisions_of(text: &str) -> Result<Schedule, String> {
    if text.trim() == "-" {
        return Ok(Schedule::default());
    }
    let pair = |pair: &str| {
        let (place, taken) = pair.split_once(':')?;
        Some((place.trim().parse().ok()?, taken.trim().parse().ok()?))
    };
    let mut pairs: Vec<(usize, u32)> = text
        .split(',')
        .map(|part| pair(part).ok_or_else(|| format!("`{part}` is not `place:option`")))
        .collect::<Result<_, _>>()?;
    pairs.sort_unstable();
    pairs.dedup_by_key(|(place, _)| *place);
    Ok(Schedule(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_is_written() {
        for decisions in [vec![], vec![(0, 1)], vec![(3, 1), (70, 12)]] {
            for workers in [1, 4] {
                let schedule = PrintedSchedule { workers, schedule: Schedule(decisions.clone()) };
                assert_eq!(schedule.to_string().parse(), Ok(schedule));
            }
        }
        let read = PrintedSchedule { workers: 2, schedule: Schedule(vec![(3, 1), (7, 2)]) };
        assert_eq!(" 2@7:2, 3:1".parse(), Ok(read));
        for wrong in ["", "-", "3:1", "0@-", "x@-", "@-", "4@", "4@3", "4@3:x", "4@3:1,,4:1", "65536@-"] {
            assert!(wrong.parse::<PrintedSchedule>().is_err(), "{wrong:?}");
        }
    }
}
