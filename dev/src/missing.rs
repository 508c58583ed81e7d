//! Programs that a machine may not have.

use std::io::Write;

/// Reports a missing program where a test's output is not held back. In CI a missing program is a failure.
pub fn skipped(missing: &str) {
    let in_ci = std::env::var("CI").is_ok_and(|value| !value.is_empty());
    assert!(!in_ci, "{missing}, and in CI nothing may be missing");
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {missing}\n");
}
