//! What the system says of this process, under the names that every client library uses. Read from /proc when asked; where there
//! is none, nothing is said.

use rustix::param::{clock_ticks_per_second, page_size};

use super::family::Name;
use super::text::Text;

const fn name(name: &'static str, help: &'static str) -> Name<0> {
    Name { name, help, labels: [] }
}

static CPU: Name<0> = name("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.");
static OPEN: Name<0> = name("process_open_fds", "Number of open file descriptors.");
static MOST_OPEN: Name<0> = name("process_max_fds", "Maximum number of open file descriptors.");
static VIRTUAL: Name<0> = name("process_virtual_memory_bytes", "Virtual memory size in bytes.");
static RESIDENT: Name<0> = name("process_resident_memory_bytes", "Resident memory size in bytes.");
static START: Name<0> = name("process_start_time_seconds", "Start time of the process since unix epoch in seconds.");

/// Of `/proc/self/stat`.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_ticks: u64,
    /// Since the system started.
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

pub fn write(text: &mut Text) {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let ticks = clock_ticks_per_second() as f64;
    if let Some(stat) = stat(&read("/proc/self/stat")) {
        text.counter(&CPU, [([], stat.cpu_ticks as f64 / ticks)]);
        text.gauge(&VIRTUAL, [([], stat.virtual_bytes as f64)]);
        text.gauge(&RESIDENT, [([], (stat.resident_pages * page_size() as u64) as f64)]);
        if let Some(boot) = line_of(&read("/proc/stat"), "btime") {
            text.gauge(&START, [([], boot + stat.start_ticks as f64 / ticks)]);
        }
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the directory itself.
        text.gauge(&OPEN, [([], open.count().saturating_sub(1) as f64)]);
    }
    if let Some(most) = line_of(&read("/proc/self/limits"), "Max open files") {
        text.gauge(&MOST_OPEN, [([], most)]);
    }
}

fn stat(text: &str) -> Option<Stat> {
    // The name of the program, in brackets, may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // Numbered as in proc(5), where the state behind the name is the third.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        cpu_ticks: field(14)? + field(15)?,
        start_ticks: field(22)?,
        virtual_bytes: field(23)?,
        resident_pages: field(24)?,
    })
}

/// The first number behind a name at the start of a line.
fn line_of(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_strange_name_is_read_too() {
        let text = "42 (a) b) S 1 42 42 0 -1 4194304 100 0 0 0 7 5 0 0 20 0 3 0 9000 4096 25 1844 1 1";
        let expected = Stat { cpu_ticks: 12, start_ticks: 9000, virtual_bytes: 4096, resident_pages: 25 };
        assert_eq!(stat(text), Some(expected));
        assert_eq!(stat(""), None);
    }
}
