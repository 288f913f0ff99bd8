//! What metrics and probes are about: the operator, while it is connected.

use std::sync::Arc;

use tokio::sync::watch;

use crate::controller::Operator;

#[derive(Clone, Default)]
pub struct Subject {
    /// None before it is connected, and after it lost the Lease until it is connected again.
    pub operator: Option<Operator>,
    /// The name of the Lease, if there is one.
    pub lease: Option<Arc<str>>,
}

/// The subject of the moment.
pub type Subjects = watch::Receiver<Subject>;
