//! Somebody who may write Secrets in a namespace, and so Helm's records.

use chartwright::calls::Calls;
use chartwright::release::{Release, Store};
use serde_json::Value;

use super::Project;

impl Project {
    /// Rewrites the record of a revision.
    pub async fn forge(&self, release: &str, revision: u32, change: impl FnOnce(&mut Release)) {
        let store = Store::new(Calls::new(self.client.clone()));
        let mut record = store.get(&self.namespace, release, revision).await.expect("a record");
        change(&mut record);
        store.update(&record).await.expect("the record is written");
    }
}

/// A manifest that says that an object is of crds/.
pub fn as_crds(object: &Value) -> String {
    format!("# Source: app/crds/x.yaml\n{object}\n")
}

/// How many bytes the API server takes as the data of a Secret.
pub const LARGEST_SECRET: usize = 1024 * 1024;

/// Text that does not get shorter, and is JSON as it stands.
pub fn noise(bytes: usize) -> String {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..bytes).map(|_| char::from(LETTERS[(next() % 64) as usize])).collect()
}
