//! The rows of the walk.

use std::time::{Duration, Instant};

use anyhow::Result;

/// What a row claims beside what its steps need: all that is false is told, not only the first of it.
#[derive(Default)]
pub struct Claims(Vec<String>);

impl Claims {
    pub fn that(&mut self, holds: bool, otherwise: impl Into<String>) {
        if !holds {
            self.0.push(otherwise.into());
        }
    }
}

struct Row {
    step: String,
    seen: String,
    wrong: Vec<String>,
}

#[derive(Default)]
pub struct Table(Vec<Row>);

impl Table {
    /// Does a step, prints its row and says whether it holds. An error is a row that fails.
    pub fn row(&mut self, step: &str, work: impl FnOnce(&mut Claims) -> Result<String>) -> bool {
        let mut claims = Claims::default();
        let begun = Instant::now();
        let (seen, error) = match work(&mut claims) {
            Ok(seen) => (seen, None),
            Err(error) => (String::new(), Some(format!("{error:#}"))),
        };
        let wrong = claims.0.into_iter().chain(error).collect();
        let row = Row { step: step.to_owned(), seen, wrong };
        println!("{}  [{}]", row.line(), seconds(begun.elapsed()));
        let holds = row.wrong.is_empty();
        self.0.push(row);
        holds
    }

    /// Prints all rows, and says whether all hold.
    pub fn finish(&self) -> bool {
        let failed = self.0.iter().filter(|row| !row.wrong.is_empty()).count();
        println!("\n| step | seen | |\n|---|---|---|");
        self.0.iter().for_each(|row| println!("{}", row.cells()));
        println!("\n{} rows, {failed} failed", self.0.len());
        failed == 0
    }
}

impl Row {
    fn line(&self) -> String {
        let mark = if self.wrong.is_empty() { "ok  " } else { "FAIL" };
        let wrong: String = self.wrong.iter().map(|wrong| format!("\n      wrong: {wrong}")).collect();
        format!("{mark}  {}: {}{wrong}", self.step, self.seen)
    }

    fn cells(&self) -> String {
        let mark = if self.wrong.is_empty() { "holds".to_owned() } else { format!("FAILS: {}", self.wrong.join("; ")) };
        let cells = [self.step.as_str(), &self.seen, &mark].map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        format!("| {} |", cells.join(" | "))
    }
}

pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::Table;

    #[test]
    fn a_row_tells_all_that_is_wrong() {
        let mut table = Table::default();
        table.row("good", |_| Ok("1.0 s".into()));
        table.row("bad", |claims| {
            claims.that(true, "unsaid");
            claims.that(false, "first");
            bail!("a | b")
        });
        assert_eq!(table.0[0].cells(), "| good | 1.0 s | holds |");
        assert_eq!(table.0[1].cells(), "| bad |  | FAILS: first; a \\| b |");
        assert!(!table.finish());
    }
}
