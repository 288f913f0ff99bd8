//! A question to whoever sits at the terminal.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::Context;

use super::output;

/// Whether the answer is yes. None where nobody can be asked.
pub fn is_agreed(question: &str) -> anyhow::Result<Option<bool>> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    output::ask(&format!("{question} [y/N]"));
    std::io::stderr().flush().context("cannot ask")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")))
}
