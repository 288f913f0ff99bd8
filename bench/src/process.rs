//! What the kernel knows of a process: CPU time, memory, parent, arguments.

use std::fs;

use anyhow::{Context, Result};

/// Linux counts CPU time in these, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of CPU in user and system mode, of the process and of its children that have ended.
///
/// # Errors
/// There is no such process.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("process {pid} is gone"))?;
    let ticks: u64 = (11..15).map(|field| number(&stat, field)).sum();
    Ok(ticks as f64 / TICKS_PER_SECOND)
}

pub fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    u32::try_from(number(&stat, 1)).ok()
}

/// A field of `stat`, counted from the first after the program's name, which may hold anything.
fn number(stat: &str, field: usize) -> u64 {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().nth(field).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// A field of `status` in KiB: `VmRSS`, `RssAnon`, `VmHWM`. None for a process that has ended.
pub fn memory_kib(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Empty once it has ended.
pub fn arguments(pid: u32) -> Vec<String> {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// All processes that there are.
pub fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The process of a program with this among its arguments.
pub fn find(program: &str, argument: &str) -> Option<u32> {
    all().into_iter().find(|pid| {
        let arguments = arguments(*pid);
        arguments.first().is_some_and(|it| it.ends_with(program)) && arguments.iter().any(|it| it == argument)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_spaces_and_brackets_in_its_name() {
        let stat = "7 (a ) b) S 3 7 7 0 -1 4194560 1 2 3 4 150 50 10 5 20 0 8 0 99";
        assert_eq!(number(stat, 1), 3);
        assert_eq!((11..15).map(|field| number(stat, field)).sum::<u64>(), 215);
    }

    #[test]
    fn this_process_has_memory_a_parent_and_arguments() {
        let me = std::process::id();
        assert!(memory_kib(me, "VmHWM").unwrap() >= memory_kib(me, "RssAnon").unwrap());
        assert_eq!(parent(me), Some(std::os::unix::process::parent_id()));
        assert!(!arguments(me).is_empty() && cpu_seconds(me).is_ok());
    }
}
