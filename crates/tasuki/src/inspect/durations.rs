//! How long waits and holds took: a histogram by powers of two.

use core::fmt;
use core::ops::Range;
use core::time::Duration;

/// How many classes there are: the first below a microsecond, each of the others up to twice the one before, the last from 4.2 seconds on.
pub(super) const CLASSES: usize = 24;

/// A histogram of times: how many were below a microsecond, how many of the others below two, below four, and so on.
///
/// Its `Display` is how many there are, the median and the longest, each rounded up to the end of its class.
///
/// # Examples
///
/// ```
/// for lock in tasuki::inspect::snapshot().locks {
///     println!("{}: waited {}, held {}", lock.label, lock.waited, lock.held);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations(pub(super) [u32; CLASSES]);

impl Durations {
    /// Returns how many times are in the histogram.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki::inspect::Durations::default().count(), 0);
    /// ```
    pub fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns every class: its range of times, and how many times fell into it. The last one has no end.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (times, count) = tasuki::inspect::Durations::default().buckets().next().unwrap();
    /// assert_eq!((times, count), (Duration::ZERO..Duration::from_micros(1), 0));
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Range<Duration>, u32)> + '_ {
        self.0.iter().enumerate().map(|(class, count)| (times_of(class), *count))
    }

    /// Returns a time that this part of the times did not exceed: with 0.99, all but one in a hundred. It is the end of a class; zero if the histogram is empty.
    ///
    /// # Panics
    ///
    /// If `part` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki::inspect::Durations::default().quantile(0.99), std::time::Duration::ZERO);
    /// ```
    #[track_caller]
    pub fn quantile(&self, part: f64) -> Duration {
        assert!((0.0..=1.0).contains(&part), "a part of the times is between 0 and 1, not {part}");
        let all = self.count();
        // At least one, and no more than there are, however the fraction was rounded.
        let wanted = ((all as f64 * part).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let class = self.0.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        });
        class.map_or(Duration::ZERO, |class| times_of(class).end)
    }
}

fn times_of(class: usize) -> Range<Duration> {
    let start = if class == 0 { 0 } else { 1 << (class - 1) };
    let end = if class == CLASSES - 1 { Duration::MAX } else { Duration::from_micros(1 << class) };
    Duration::from_micros(start)..end
}

impl fmt::Display for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let up_to = |part| match self.quantile(part) {
            Duration::MAX => (">", times_of(CLASSES - 1).start),
            end => ("<", end),
        };
        match self.count() {
            0 => f.write_str("never"),
            count => {
                let ((below, median), (under, longest)) = (up_to(0.5), up_to(1.0));
                write!(f, "{count} times, half {below} {median:?}, all {under} {longest:?}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn classes_have_no_gaps() {
        assert!((1..CLASSES).all(|at| times_of(at - 1).end == times_of(at).start));
    }

    #[test]
    fn quantiles_are_the_ends_of_classes() {
        let mut times = Durations::default();
        assert_eq!(times.to_string(), "never");
        (times.0[0], times.0[3], times.0[CLASSES - 1]) = (98, 1, 1);
        let ends = [0.0, 0.5, 0.98, 0.981, 0.99, 1.0].map(|part| times.quantile(part));
        let (fast, slow) = (Duration::from_micros(1), Duration::from_micros(8));
        assert_eq!(ends, [fast, fast, fast, slow, slow, Duration::MAX]);
        assert_eq!(times.to_string(), "100 times, half < 1µs, all > 4.194304s");
    }
}
