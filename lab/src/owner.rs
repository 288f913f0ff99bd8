//! The process that a run belongs to, usually `make`: when it is gone, however it went, the run must end.
//!
//! The Makefile exports its own process id as `LAB_OWNER`. A killed `make` leaves its children running, so they look.

use std::time::Duration;

use rustix::process::{Pid, test_kill_process};

/// How often the owner is looked for.
pub const LOOK: Duration = Duration::from_millis(500);

/// The owner named by the environment.
pub fn from_env() -> Option<Pid> {
    std::env::var("LAB_OWNER").ok()?.parse().ok().and_then(Pid::from_raw)
}

pub fn is_gone(owner: Pid) -> bool {
    test_kill_process(owner) == Err(rustix::io::Errno::SRCH)
}

/// Ends this process soon after its owner is gone. For programs that hold nothing but a [`crate::ControlPlane`].
pub fn exit_with_it() {
    let Some(owner) = from_env() else { return };
    std::thread::spawn(move || {
        while !is_gone(owner) {
            std::thread::sleep(LOOK);
        }
        eprintln!("the process that started this run is gone; ending");
        std::process::exit(1);
    });
}
