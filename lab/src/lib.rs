//! A real Kubernetes control plane on loopback, for the demo and the tests.
//!
//! ```text
//! ControlPlane::start ──spawns──▶ `lab supervise` ──spawns──▶ etcd, kube-apiserver, … (each through `lab guard`)
//!        │ holds the pipe                │ ends everything when the pipe closes,
//!        ▼                               │ its owner is gone, or it is told to
//!    kubeconfig                          ▼
//!                                no process, no directory left
//! ```
//! Three ties make sure that nothing stays behind however a run ends: the supervisor notices the end of the pipe
//! (the starting process died), the end of `make` (see [`owner`]), and its children die with it ([`guard`]).
//!
//! - [`control_plane`]: start one and own it
//! - [`supervise`]: the process that holds the parts together
//! - [`programs`]: programs that run together
//! - [`components`]: which programs, with which arguments
//! - [`pki`]: the CA, certificates and kubeconfigs
//! - [`guard`], [`owner`]: the ties
//! - [`person`]: `lab up`, `down`, `status`, `env`
//! - [`demo`]: the README's first command
//! - [`node`]: the proof on a real node, with a kubelet and containers

pub mod components;
pub mod control_plane;
pub mod demo;
pub mod guard;
pub mod node;
pub mod owner;
pub mod person;
pub mod pki;
pub mod programs;
pub mod supervise;

pub use control_plane::ControlPlane;

use std::path::PathBuf;

/// The directory that holds the tools, as `make tools` fills it.
pub fn tools_dir() -> PathBuf {
    match std::env::var_os("LAB_TOOLS_DIR") {
        Some(dir) => dir.into(),
        None => checkout().join("target/tools"),
    }
}

/// The checkout that this program was built in.
pub fn checkout() -> PathBuf {
    let lab = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    lab.parent().map(PathBuf::from).unwrap_or(lab)
}
