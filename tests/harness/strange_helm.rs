//! A helm that does as it should, except where a test wants it to be strange.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{Project, tool};

/// Of a render. It is the last argument but one.
pub const THE_RELEASE: &str = r#"eval "release=\${$(($# - 1))}""#;

/// A program that runs these lines of shell before each render of a release and then helm 4. `$release` is its name; the values
/// are in the file `values.json`.
pub fn strange_helm(project: &Project, before_a_render: &str) -> PathBuf {
    let real = tool("helm4").display().to_string();
    let script = format!(
        "#!/bin/sh\nPATH=/usr/bin:/bin\n{THE_RELEASE}\nif [ \"$1\" = template ] && [ \"$release\" != release-name ] && [ -f values.json ]; then\n{before_a_render}\nfi\nexec {real} \"$@\"\n"
    );
    project.file("strange-helm", &script);
    let path = project.dir().join("strange-helm");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
    path
}

/// A number of seconds that no other test sleeps, so that its processes can be told apart.
pub fn own_sleep() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1000);
    format!("8{}{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// How many processes sleep for this number of seconds.
pub fn sleeping(seconds: &str) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let commands = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let sleeps = |command: &Vec<u8>| {
        let mut words = command.split(|byte| *byte == 0);
        words.next() == Some(b"sleep") && words.next() == Some(seconds.as_bytes())
    };
    commands.filter(sleeps).count()
}
