//! Reading the records of one release within its budgets, a piece at a time.

use std::sync::Arc;
use std::vec;

use k8s_openapi::api::core::v1::Secret;

use super::budget::{HELD_OF_ALL_REVISIONS, READ_OF_ALL_REVISIONS, REVISIONS};
use super::lease::{Lease, NoRoom};
use super::store::StoreError;
use super::weight::Weight;
use super::{Release, Signer, codec, seal};
use crate::aside;

/// What a release has at most that is read right here, as [`READ_OF_ALL_REVISIONS`] counts it.
const RIGHT_HERE: usize = 2 * 1024 * 1024;
/// What is read in one piece. Then it is somebody else's turn.
const PIECE: usize = 16 * 1024 * 1024;

/// The records of a release that were read so far.
pub struct Reading {
    namespace: String,
    release: String,
    signer: Signer,
    /// The UID of the custom resource that asks, where it is known.
    owner: Option<String>,
    lease: Arc<Lease>,
    releases: Vec<Release>,
    counted: usize,
    held: usize,
    /// Of the largest record: they are worked with one after the other.
    working: usize,
}

impl Reading {
    pub fn of(namespace: &str, release: &str, signer: Signer, owner: Option<String>, lease: Arc<Lease>) -> Self {
        let (namespace, release) = (namespace.to_owned(), release.to_owned());
        let (releases, counted, held, working) = Default::default();
        Reading { namespace, release, signer, owner, lease, releases, counted, held, working }
    }

    /// Takes room for Secrets that wait to be read.
    pub fn cover(&self, waiting: usize) -> Result<(), StoreError> {
        let covered = self.lease.cover(&self.namespace, self.held, self.working + waiting);
        covered.map_err(|NoRoom| StoreError::NoRoom { release: self.place() })
    }

    /// Reads a page, apart from all else where it holds much.
    pub async fn read(mut self, page: Vec<Secret>) -> Result<Self, StoreError> {
        let mut page = page.into_iter();
        while let Some(next) = page.as_slice().first() {
            let quick = if self.counted < RIGHT_HERE { codec::decode_quickly(next) } else { None };
            if let Some(release) = quick {
                let secret = page.next().unwrap_or_default();
                self.add(release?, &secret)?;
                // Many that are short take long too.
                tokio::task::yield_now().await;
                continue;
            }
            let namespace = self.namespace.clone();
            let no_room = StoreError::NoRoom { release: self.place() };
            let piece = aside::run_for(&namespace, move || self.read_piece(&mut page).map(|()| (self, page)));
            (self, page) = piece.await.ok_or(no_room)??;
        }
        Ok(self)
    }

    fn read_piece(&mut self, page: &mut vec::IntoIter<Secret>) -> Result<(), StoreError> {
        let until = self.counted + PIECE;
        while self.counted < until
            && let Some(secret) = page.next()
        {
            self.add(codec::decode(&secret)?, &secret)?;
        }
        Ok(())
    }

    fn add(&mut self, release: Release, secret: &Secret) -> Result<(), StoreError> {
        if self.releases.len() == REVISIONS {
            return Err(StoreError::TooManyRevisions { release: self.place() });
        }
        let weight = Weight::of(&release);
        self.counted = self.counted.saturating_add(release.stored.counted());
        self.held += weight.held;
        self.working = self.working.max(weight.working);
        if self.counted > READ_OF_ALL_REVISIONS || self.held > HELD_OF_ALL_REVISIONS {
            return Err(StoreError::TooMuchInAll { release: self.place() });
        }
        self.cover(0)?;
        self.releases.push(seal::judged(release, secret, &self.signer, self.owner.as_deref()));
        Ok(())
    }

    pub fn into_releases(self) -> Vec<Release> {
        self.releases
    }

    fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.release)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::super::codec::tests::release;
    use super::super::{HookRecord, Own};
    use super::*;
    use crate::error::Category;

    /// The same record, so many times.
    async fn read_in(
        lease: Lease,
        namespace: &str,
        change: impl Fn(&mut Release),
        count: usize,
    ) -> Result<Vec<Release>, StoreError> {
        let mut release = Release { namespace: namespace.into(), ..release() };
        change(&mut release);
        let secret = codec::encode(&release, Timestamp::now()).unwrap();
        let reading = Reading::of(namespace, &release.name, Signer::Unchecked, None, Arc::new(lease));
        reading.read(vec![secret; count]).await.map(Reading::into_releases)
    }

    async fn read(namespace: &str, change: impl Fn(&mut Release), count: usize) -> Result<Vec<Release>, StoreError> {
        let [lease] = Lease::alone();
        read_in(lease, namespace, change, count).await
    }

    async fn refusal(namespace: &str, change: impl Fn(&mut Release), count: usize) -> String {
        let error = read(namespace, change, count).await.map(|releases| releases.len()).unwrap_err();
        assert_eq!(error.category(), Category::RecordUnusable, "{error}");
        error.to_string()
    }

    #[tokio::test]
    async fn what_a_release_may_have_is_read() {
        let releases = read("reading-plain", |it| it.manifest = "a: 1\n".repeat(100_000).into(), 30).await.unwrap();
        assert_eq!(releases.len(), 30);
        assert!(releases.iter().all(|release| release.stored.content.is_some()));
    }

    #[tokio::test]
    async fn a_release_whose_records_unpack_to_too_much_is_refused_by_name() {
        let message = refusal("reading-long", |it| it.manifest = "x".repeat(15 * 1024 * 1024).into(), 9).await;
        assert!(message.contains("reading-long/"), "{message}");
        refusal("reading-many", |it| it.config = json!({"a": vec![1; 100_000]}).into(), 60).await;
    }

    #[tokio::test]
    async fn a_release_whose_records_take_too_much_memory_is_refused() {
        let lists = |it: &mut Release| {
            it.own = Some(Own { sourced: vec![String::new(); 100_000], ..Own::default() });
        };
        refusal("reading-own", lists, 12).await;
        let events = |it: &mut Release| {
            it.hooks = vec![HookRecord { events: vec![String::new(); 100_000], ..HookRecord::default() }];
        };
        refusal("reading-events", events, 30).await;
        refusal("reading-described", |it| it.description = "x".repeat(1_000_000), 60).await;
    }

    #[tokio::test]
    async fn too_many_revisions_are_refused() {
        assert!(refusal("reading-revisions", |_| {}, REVISIONS + 1).await.contains("more than 2000 records"));
    }

    #[tokio::test]
    async fn a_namespace_that_works_with_large_records_has_no_room_for_more() {
        let [taken, large, small] = Lease::alone();
        taken.cover("reading-busy", 47 * 1024 * 1024, 0).unwrap();
        let many = |it: &mut Release| it.manifest = "a: 1\n".repeat(500_000).into();
        let error = read_in(large, "reading-busy", many, 1).await.unwrap_err();
        assert!(matches!(error, StoreError::NoRoom { .. }), "{error}");
        read_in(small, "reading-busy", |_| {}, 1).await.unwrap();
    }
}
