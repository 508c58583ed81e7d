//! The terminal behind stderr, to be drawn on by `indicatif`, which would itself wait for whoever does not read.

use std::io;
use std::sync::{Mutex, PoisonError};

use indicatif::TermLike;
use rustix::termios::tcgetwinsize;

use crate::stderr;

/// Of one that does not tell.
const WIDTH: u16 = 80;

#[derive(Debug, Default)]
pub(crate) struct Screen {
    /// The frame that is being drawn.
    frame: Mutex<String>,
}

impl Screen {
    fn add(&self, text: &str) -> io::Result<()> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }

    /// A control sequence that moves the cursor.
    fn go(&self, steps: usize, direction: char) -> io::Result<()> {
        if steps == 0 { Ok(()) } else { self.add(&format!("\x1b[{steps}{direction}")) }
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        let told = tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col);
        if told == 0 { WIDTH } else { told }
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.go(lines, 'A')
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.go(lines, 'B')
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.go(columns, 'C')
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.go(columns, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.add(text)?;
        self.add("\n")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.add(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.add("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let frame = std::mem::take(&mut *self.frame.lock().unwrap_or_else(PoisonError::into_inner));
        if !frame.is_empty() {
            stderr::show(frame.into_bytes());
        }
        Ok(())
    }
}
