//! Text for people: ages, tables, and escaped text from strangers.

use std::time::{Duration, SystemTime};

use serde::Serialize;

/// The longest identity in a line.
const LONGEST: usize = 64;

/// Formats an age in whole seconds: `3m 2s`.
pub(crate) fn age(age: Duration) -> String {
    humantime::format_duration(Duration::from_secs(age.as_secs())).to_string()
}

/// Formats a share of a timeout in whole milliseconds: `13s 333ms`.
pub(crate) fn share(share: Duration) -> String {
    let milliseconds = share.as_millis().try_into().unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(milliseconds)).to_string()
}

/// Returns the time between the two; zero if the clock of the earlier one is ahead of the other.
pub(crate) fn between(earlier: SystemTime, later: SystemTime) -> Duration {
    later.duration_since(earlier).unwrap_or_default()
}

/// Escapes text from a stranger, so that it cannot move the cursor, change colours or reverse the line.
pub(crate) fn visible(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if is_harmless(letter) {
                text.push(letter);
            } else {
                text.extend(letter.escape_default());
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Escapes text like [`visible`], and shortens it to `LONGEST` characters.
pub(crate) fn shown(bytes: &[u8]) -> String {
    // The rest would be cut off.
    let bytes = &bytes[..bytes.len().min(8 * LONGEST)];
    let text = visible(bytes);
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// Returns false for control characters, and for invisible characters that change how others look.
fn is_harmless(letter: char) -> bool {
    !letter.is_control()
        && !matches!(
            letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Formats a table; the last column is not padded.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Formats a session as ZooKeeper's own tools show it; `0x0` for a node without one.
pub(crate) fn session(session: Option<i64>) -> String {
    format!("0x{:x}", session.unwrap_or_default())
}

/// Formats a time for programs.
pub(crate) fn time(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// Formats a value as JSON in one line, as safe for a terminal as [`visible`].
pub(crate) fn json(value: &impl Serialize) -> String {
    // Serialization fails only for maps whose keys are no text, and for a failing writer.
    let json = serde_json::to_string(value).expect("what is written has fields of plain types");
    let mut text = String::new();
    for letter in json.chars() {
        if is_harmless(letter) {
            text.push(letter);
            continue;
        }
        // Such characters occur only within strings.
        for unit in letter.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_behind_shows_no_negative_age() {
        assert_eq!(age(Duration::from_millis(182_900)), "3m 2s");
        let now = SystemTime::now();
        assert_eq!(between(now + Duration::from_secs(60), now), Duration::ZERO);
    }

    #[test]
    fn what_strangers_wrote_does_nothing_to_a_terminal() {
        let rows: [(&[u8], &str); 7] = [
            (b"host:123", "host:123"),
            ("größe".as_bytes(), "größe"),
            (b"a\x1b[31mb\n", "a\\u{1b}[31mb\\n"),
            (b"a\xff\xfeb", "a\\xff\\xfeb"),
            ("a\u{202e}b".as_bytes(), "a\\u{202e}b"),
            ("a\u{9b}31mb".as_bytes(), "a\\u{9b}31mb"),
            (b"", ""),
        ];
        for (bytes, text) in rows {
            assert_eq!(visible(bytes), text);
        }
        assert_eq!(shown("é".repeat(1000).as_bytes()).chars().count(), LONGEST);
        assert_eq!(shown("é".repeat(LONGEST).as_bytes()), "é".repeat(LONGEST));
    }

    #[test]
    fn json_is_safe_and_the_same() {
        let value = serde_json::json!({"id": "a\u{1b}\u{9b}\u{202e}\u{e0001}\u{7f}é"});
        let text = json(&value);
        assert!(text.chars().all(is_harmless), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest() {
        let rows = [["a", "bcd", "e"], ["long", "", "more"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a     bcd  e\nlong       more\n");
    }
}
