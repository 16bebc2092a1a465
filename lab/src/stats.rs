//! Median and quantiles of a set of samples.

/// Median and spread of a set of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// One in ten samples is below this.
    pub(crate) p10: f64,
    /// Half of the samples are below this.
    pub(crate) median: f64,
    /// Nine in ten samples are below this.
    pub(crate) p90: f64,
    /// How many samples there were.
    pub(crate) samples: usize,
}

impl Summary {
    /// Summarises `samples`; `None` when there are none.
    pub(crate) fn of(samples: &[f64]) -> Option<Summary> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Summary {
            p10: quantile(&sorted, 0.1)?,
            median: quantile(&sorted, 0.5)?,
            p90: quantile(&sorted, 0.9)?,
            samples: sorted.len(),
        })
    }
}

/// The median alone; `None` when there are no samples.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    Summary::of(samples).map(|summary| summary.median)
}

/// The `q`-quantile of sorted samples, interpolated between neighbours.
fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let share = place - below as f64;
    Some(sorted[below] * (1.0 - share) + sorted[above] * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_samples() {
        let samples: Vec<f64> = (0..=10).rev().map(f64::from).collect();
        let summary = Summary::of(&samples).unwrap();
        assert_eq!(summary, Summary { p10: 1.0, median: 5.0, p90: 9.0, samples: 11 });
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(Summary::of(&[]), None);
    }
}
