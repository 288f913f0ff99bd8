//! What is remembered about custom resources between reconciles. All of it may be lost: it saves work, and decides nothing
//! that the cluster could not tell again.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use super::fights::Fights;
use crate::health::Cause;
use crate::object::ObjectId;
use crate::status::Failure;

#[derive(Default)]
pub struct Memory(Mutex<HashMap<String, Remembered>>);

#[derive(Default)]
pub struct Remembered {
    /// An input that cannot be deployed, and why.
    pub refused: Option<(Input, Failure)>,
    /// The input of the running attempt, once it is known.
    pub trying: Option<Input>,
    /// The version of the custom resource after our last write. The cache may not have seen it yet.
    pub written: u64,
    /// Why objects are not ready, and when to ask again.
    pub causes: HashMap<ObjectId, Cause>,
    pub asked: u32,
    pub ask_at: Option<Instant>,
    pub fights: Fights,
}

/// Everything that a render depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub digest: String,
    /// What the cluster offered to the render.
    pub capabilities: u64,
}

impl Memory {
    pub fn with<T>(&self, uid: &str, change: impl FnOnce(&mut Remembered) -> T) -> T {
        // A poisoned lock still holds what was remembered.
        let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        change(all.entry(uid.to_owned()).or_default())
    }

    pub fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(uid);
    }
}
