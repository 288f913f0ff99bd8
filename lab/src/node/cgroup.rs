//! What a container uses, from its cgroup.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

pub struct Usage {
    /// As the kubelet counts it: without files that could be dropped at once.
    pub working_set: u64,
    pub anonymous: u64,
    pub cpu: Duration,
    pub read_at: Instant,
}

impl Usage {
    /// Reads what the container `id` uses, with cgroup v1 or v2.
    pub fn of(id: &str) -> Result<Self> {
        let read_at = Instant::now();
        let v2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let dir = |controller: &str| directory(controller, id);
        let (memory, cpu) = if v2 { (dir("")?, dir("")?) } else { (dir("memory")?, dir("cpuacct")?) };
        let stat = fs::read_to_string(memory.join("memory.stat"))?;
        let number = |path: PathBuf| -> Result<u64> { Ok(fs::read_to_string(path)?.trim().parse()?) };
        let (used, inactive, anonymous, cpu) = match v2 {
            true => {
                let cpu = field(&fs::read_to_string(cpu.join("cpu.stat"))?, "usage_usec")?;
                (number(memory.join("memory.current"))?, "inactive_file", "anon", Duration::from_micros(cpu))
            }
            false => {
                let cpu = number(cpu.join("cpuacct.usage"))?;
                let used = number(memory.join("memory.usage_in_bytes"))?;
                (used, "total_inactive_file", "total_rss", Duration::from_nanos(cpu))
            }
        };
        let working_set = used.saturating_sub(field(&stat, inactive)?);
        Ok(Usage { working_set, anonymous: field(&stat, anonymous)?, cpu, read_at })
    }

    /// Thousandths of a core since an earlier reading.
    pub fn millicores_since(&self, earlier: &Usage) -> f64 {
        let cpu = self.cpu.saturating_sub(earlier.cpu).as_secs_f64();
        1000.0 * cpu / (self.read_at - earlier.read_at).as_secs_f64()
    }
}

fn field(stat: &str, name: &str) -> Result<u64> {
    let value = stat.lines().filter_map(|line| line.split_once(' ')).find(|(key, _)| *key == name);
    value.and_then(|(_, value)| value.parse().ok()).with_context(|| format!("no {name} in the cgroup"))
}

fn directory(controller: &str, id: &str) -> Result<PathBuf> {
    let group = std::env::var("NODE_CGROUP").context("run lab/node/proof.sh: it sets NODE_CGROUP")?;
    let root = Path::new("/sys/fs/cgroup").join(controller).join(group.trim_start_matches('/'));
    below(&root, id).with_context(|| format!("no cgroup of container {id} below {}", root.display()))
}

fn below(dir: &Path, id: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir()).find_map(|path| match path.to_string_lossy().contains(id) {
        true => Some(path),
        false => below(&path, id),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let stat = "cache 1\ntotal_rss 2\nrss 3\n";
        assert_eq!(super::field(stat, "rss").unwrap(), 3);
        assert_eq!(super::field(stat, "anon").unwrap_err().to_string(), "no anon in the cgroup");
    }
}
