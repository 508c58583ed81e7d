//! Reports a panic like any other failure, in one line.

use std::any::Any;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::log::Event;

/// Reports the first panic. Others follow from it, when values are dropped.
pub(crate) fn report_in_one_line() {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    panic::set_hook(Box::new(|panic| {
        if REPORTED.swap(true, Ordering::Relaxed) {
            return;
        }
        let place = panic.location().map(|place| (short(place.file()), place.line()));
        let place = place.map(|(file, line)| format!(" ({file}:{line})")).unwrap_or_default();
        let message = message(panic.payload());
        Event::Internal.say(&format!("an error of zklock itself: {message}{place}"));
    }));
}

fn message(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

/// Returns the file from its crate on, without the folder in which that was built.
fn short(file: &str) -> &str {
    let Some((package, _)) = file.rsplit_once("/src/") else { return file };
    let start = package.rfind('/').map_or(0, |slash| slash + 1);
    &file[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_from_its_crate_on() {
        let rows = [
            (
                "/home/a/registry/src/index-1/tokio-1.54.1/src/signal/unix.rs",
                "tokio-1.54.1/src/signal/unix.rs",
            ),
            ("/rustc/5980/library/core/src/option.rs", "core/src/option.rs"),
            ("zklock/src/run/mod.rs", "zklock/src/run/mod.rs"),
            ("src/main.rs", "src/main.rs"),
        ];
        for (file, expected) in rows {
            assert_eq!(short(file), expected);
        }
    }

    #[test]
    fn a_panic_has_its_message() {
        let rows: [(Box<dyn Any>, &str); 3] = [
            (Box::new("text"), "text"),
            (Box::new("more text".to_owned()), "more text"),
            (Box::new(1), "a panic without a message"),
        ];
        for (payload, expected) in &rows {
            assert_eq!(message(&**payload), *expected);
        }
    }
}
