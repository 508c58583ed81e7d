//! Medians, with how far the values lie apart.

/// Of the values of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Summary {
    /// `None` of no values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        // Of an odd number both are the one in the middle.
        let count = sorted.len();
        let median = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
        Some(Self { median, least, most })
    }

    /// From the least to the most, as a share of the median.
    pub(crate) fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.most - self.least) / self.median }
    }
}
