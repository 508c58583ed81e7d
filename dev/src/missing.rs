//! Tests that do not run here: for lack of a program, or because their servers cannot show what they check.

use std::io::Write;

/// Reports a missing program where a test's output is not held back. In CI a missing program is a failure.
pub fn skipped(missing: &str) {
    let in_ci = std::env::var("CI").is_ok_and(|value| !value.is_empty());
    assert!(!in_ci, "{missing}, and in CI nothing may be missing");
    print_skipped(missing);
}

/// Reports why a test does not apply to the servers that it has.
pub fn does_not_apply(reason: &str) {
    print_skipped(reason);
}

/// Prints one line in one write, because other tests print at the same time.
fn print_skipped(reason: &str) {
    let line = format!("\nSKIPPED: {reason}\n\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
