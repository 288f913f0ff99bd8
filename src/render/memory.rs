//! How much memory renders may take, and how many there may be at once.
//!
//! A quarter of what the operator may have is for itself, the rest is divided among its helm processes. So charts that eat memory,
//! also several at once, fail by themselves and take nobody with them. Where nothing limits the operator, each may take so much as
//! no chart needs.
//!
//! helm does not run with less than a certain size. An operator that has too little for a few of that size has few places, and is
//! safe only from charts that behave.

use std::path::Path;

use super::lanes;

const MIB: u64 = 1024 * 1024;
/// No chart that we know takes a fifth of it.
const MOST: u64 = 1024 * MIB;
/// What almost every chart can do with. There are no more places than have so much each.
const ROOMY: u64 = 192 * MIB;
/// helm does not start with much less, though it uses only half of it.
const LEAST: u64 = 96 * MIB;
/// A release record holds a mebibyte, packed.
const MOST_OUTPUT: u64 = 16 * MIB;
const LEAST_OUTPUT: u64 = 4 * MIB;
/// How much larger text may become when it is read.
const GROWTH: u64 = 16;

/// Where the kernel tells what a container may have, in both of its ways.
const LIMITS: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// What there is for renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// helm processes.
    pub at_once: usize,
    /// Bytes for one of them.
    pub each: u64,
    /// Bytes that one may print, since the operator reads them in its own part.
    pub output: u64,
}

impl Room {
    pub fn here(processors: usize) -> Self {
        let limit = LIMITS.iter().find_map(|file| std::fs::read_to_string(Path::new(file)).ok());
        // `max` is what the kernel says where there is no limit.
        let limit = limit.and_then(|limit| limit.trim().parse().ok());
        Room::within(limit.unwrap_or(u64::MAX), processors)
    }

    fn within(limit: u64, processors: usize) -> Self {
        let own = limit / 4;
        let budget = limit - own;
        let fitting = usize::try_from(budget / ROOMY).unwrap_or(usize::MAX);
        let at_once = fitting.clamp(lanes::FEWEST, lanes::most(processors));
        Room {
            at_once,
            each: (budget / at_once as u64).clamp(LEAST, MOST),
            output: (own / GROWTH).clamp(LEAST_OUTPUT, MOST_OUTPUT),
        }
    }
}

/// Whether a program made with Go says that it got no memory.
pub fn has_run_out(stderr: &str) -> bool {
    let mut lines = stderr.lines().take(20);
    lines.any(|line| {
        let said = line.strip_prefix("fatal error: ").or_else(|| line.strip_prefix("runtime: ")).unwrap_or_default();
        said.contains("out of memory") || said.contains("cannot allocate memory")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(limit_mib: u64, processors: usize) -> (usize, u64, u64) {
        let Room { at_once, each, output } = Room::within(limit_mib * MIB, processors);
        (at_once, each / MIB, output / MIB)
    }

    #[test]
    fn all_renders_together_leave_the_operator_a_quarter() {
        for limit in [512, 1024, 2048, 16 * 1024] {
            for processors in [1, 2, 4, 64] {
                let (at_once, each, output) = room(limit, processors);
                assert!(at_once as u64 * each <= limit / 4 * 3, "{limit} MiB on {processors}");
                assert!(output * GROWTH <= limit / 4, "{limit} MiB on {processors}");
            }
        }
    }

    #[test]
    fn the_more_there_is_the_more_run_at_once() {
        assert_eq!(room(512, 4), (3, 128, 8));
        assert_eq!(room(1024, 4), (4, 192, 16));
        assert_eq!(room(8 * 1024, 4), (9, 682, 16));
        assert_eq!(room(64 * 1024, 4), (9, 1024, 16));
        assert_eq!(room(128, 4), (3, 96, 4));
    }

    #[test]
    fn only_go_itself_says_that_memory_ran_out() {
        assert!(has_run_out("fatal error: out of memory allocating heap arena metadata\n\nruntime stack:"));
        assert!(has_run_out(
            "runtime: out of memory: cannot allocate 3200000000-byte block (1 in use)\nfatal error: out of memory"
        ));
        assert!(!has_run_out("Error: execution error at (a/templates/a.yaml:1:4): out of memory"));
    }
}
