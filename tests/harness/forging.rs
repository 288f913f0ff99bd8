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
