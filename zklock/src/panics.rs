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
        let place = panic.location().map(|place| format!(" ({place})")).unwrap_or_default();
        let message = message(panic.payload());
        Event::Internal.say(&format!("an error of zklock itself: {message}{place}"));
    }));
}

fn message(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

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
