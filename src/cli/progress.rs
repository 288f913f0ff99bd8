//! What a command is doing, as one line on a terminal. Pipes and CI see nothing.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::IsTerminal;

use super::output::replace_line;

/// The line is cleared when this is dropped.
pub struct Progress {
    is_on: bool,
    is_dirty: Cell<bool>,
}

impl Progress {
    pub fn new() -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
        let is_dumb = std::env::var_os("TERM").as_deref() == Some(OsStr::new("dumb"));
        Progress { is_on: std::io::stderr().is_terminal() && !is_set("CI") && !is_dumb, is_dirty: Cell::new(false) }
    }

    pub fn show(&self, what: &str) {
        if self.is_on {
            replace_line(what);
            self.is_dirty.set(true);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_dirty.get() {
            replace_line("");
        }
    }
}
