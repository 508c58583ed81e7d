//! Medians and spreads.

mod summary;

pub(crate) use summary::Summary;

impl Summary {
    /// From the least to the most, as a share of the median.
    pub(crate) fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.most - self.least) / self.median }
    }
}
