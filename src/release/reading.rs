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
        // Records are listed by a label, which somebody may have changed.
        if release.name != self.release {
            return Ok(());
        }
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

    fn reading(namespace: &str, lease: Lease) -> Reading {
        Reading::of(namespace, "web", Signer::Unchecked, None, Arc::new(lease))
    }

    fn secret(reading: &Reading, change: impl Fn(&mut Release)) -> Secret {
        let mut release = Release { namespace: reading.namespace.clone(), ..release() };
        change(&mut release);
        codec::encode(&release, Timestamp::now()).unwrap()
    }

    /// What a release is told that has read so much, and now such a record.
    async fn refusal(counted: usize, held: usize, change: impl Fn(&mut Release)) -> String {
        let [one, other] = Lease::alone();
        let near = Reading { counted, held, ..reading("near", one) };
        let secret = secret(&near, change);
        let alone = reading("alone", other).read(vec![secret.clone()]).await;
        assert!(alone.is_ok(), "{:?}", alone.err());
        let error = near.read(vec![secret]).await.err().expect("it is refused");
        assert_eq!(error.category(), Category::RecordUnusable, "{error}");
        error.to_string()
    }

    const MIB: usize = 1024 * 1024;

    #[tokio::test]
    async fn many_records_are_read_in_pieces() {
        let [lease] = Lease::alone();
        let reading = reading("many", lease);
        let secret = secret(&reading, |it| it.manifest = "a: 1\n".repeat(100_000).into());
        let releases = reading.read(vec![secret; 40]).await.unwrap().into_releases();
        assert_eq!(releases.len(), 40);
        assert!(releases.iter().all(|release| release.stored.content.is_some()));
    }

    #[tokio::test]
    async fn a_release_whose_records_unpack_to_too_much_is_refused_by_name() {
        let long = |it: &mut Release| it.manifest = "x".repeat(2 * MIB).into();
        let message = refusal(READ_OF_ALL_REVISIONS - MIB, 0, long).await;
        assert!(message.contains("near/web hold more than this operator reads of one release"), "{message}");
        // 200 kB of text.
        let many = |it: &mut Release| it.config = json!({"a": vec![1; 100_000]}).into();
        refusal(READ_OF_ALL_REVISIONS - 3 * MIB, 0, many).await;
        let own = |it: &mut Release| it.own = Some(Own { sourced: vec![String::new(); 100_000], ..Own::default() });
        refusal(READ_OF_ALL_REVISIONS - 6 * MIB, 0, own).await;
    }

    #[tokio::test]
    async fn a_release_whose_records_take_too_much_memory_is_refused() {
        let own = |it: &mut Release| it.own = Some(Own { sourced: vec![String::new(); 100_000], ..Own::default() });
        let hook = || HookRecord { events: vec![String::new(); 100_000], ..HookRecord::default() };
        refusal(0, HELD_OF_ALL_REVISIONS - 4 * MIB, own).await;
        refusal(0, HELD_OF_ALL_REVISIONS - 2 * MIB, |it| it.hooks = vec![hook()]).await;
        refusal(0, HELD_OF_ALL_REVISIONS - MIB / 2, |it| it.description = "x".repeat(1_000_000)).await;
    }

    #[tokio::test]
    async fn too_many_revisions_are_refused() {
        let [lease] = Lease::alone();
        let reading = reading("revisions", lease);
        let page = vec![secret(&reading, |_| {}); REVISIONS + 1];
        let error = reading.read(page).await.err().expect("it is refused");
        assert!(matches!(error, StoreError::TooManyRevisions { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_namespace_that_works_with_large_records_has_no_room_for_more() {
        let [taken, large, small] = Lease::alone();
        taken.cover("busy", 47 * MIB, 0).unwrap();
        let (large, small) = (reading("busy", large), reading("busy", small));
        let many = secret(&large, |it| it.manifest = "a: 1\n".repeat(500_000).into());
        let error = large.read(vec![many]).await.err().expect("there is no room");
        assert!(matches!(error, StoreError::NoRoom { .. }), "{error}");
        let little = secret(&small, |_| {});
        assert!(small.read(vec![little]).await.is_ok());
    }
}
