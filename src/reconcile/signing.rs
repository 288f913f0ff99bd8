//! Signing records that nothing vouches for, while an administrator has the window open.
//!
//! A record that claims to be ours may be one of an earlier version, or a forgery that somebody left there for this moment. So it is signed only
//! if it holds exactly what the chart renders for the custom resource, generated values aside. If spec or chart have changed since, the chart
//! is rendered over what exists, and nothing of the record's content is used. An administrator may name releases whose newest record is
//! signed as it is.

use std::collections::HashSet;

use super::subject::Wish;
use super::takeover::{Marks, is_same_content};
use super::{ReconcileError, Subject};
use crate::error::Category;
use crate::plan::{self, members};
use crate::release::{History, Own, Release, Status};

/// What becomes of an unsigned release.
pub(super) enum Signing {
    /// Its newest record is signed.
    Signed(Box<Release>),
    /// Its record is of another input. The chart decides.
    Outdated,
}

impl Subject<'_> {
    /// Signs the newest record of a release, without a change to its objects.
    pub(super) async fn sign(&self, wish: &Wish, history: &History) -> Result<Signing, ReconcileError> {
        let Some(latest) = history.latest() else { return Err(ReconcileError::Unsettled) };
        let as_recorded = self.context.trust.window.is_open_as_recorded(&self.namespace, &self.release);
        let is_held = "says that this revision is held although the spec asks for another";
        if latest.is_proven() {
            // The ledger was lost: only that this is the newest revision is in doubt. Where it is held, the chart would not decide.
            let hold = latest.own.as_ref().and_then(|own| own.hold.as_ref());
            if !as_recorded && hold.is_some_and(|hold| hold.digest == wish.digest) {
                return Err(self.not_signed(latest, is_held));
            }
            self.note_as_it_is(latest).await?;
            self.announce_signed(latest).await;
            return Ok(Signing::Signed(Box::new(latest.clone())));
        }
        let claimed = latest.claimed.as_deref();
        if as_recorded {
            return self.sign_as_recorded(latest, history).await;
        }
        if claimed.is_some_and(|claimed| claimed.hold.is_some()) {
            return Err(self.not_signed(latest, is_held));
        }
        let digest = claimed.map(|claimed| claimed.digest.as_str()).or(latest.digest_label());
        if digest != Some(wish.digest.as_str()) {
            return Ok(Signing::Outdated);
        }
        let upgrade_to = history.stood_before(latest.revision).then_some(latest.revision);
        let rendered = self.render(wish, upgrade_to).await?;
        let rendered = self.keep_generated(wish, rendered, upgrade_to, &HashSet::new()).await?;
        if !is_same_content(latest, &rendered, wish) {
            return Err(self.not_signed(latest, "holds something else than the chart renders"));
        }
        let sourced = self.sourced(wish, history, latest);
        let request = claimed.and_then(|claimed| claimed.request);
        let own = Own { sourced, request, ..self.own(wish.digest.clone()) };
        // The chart renders these objects, and outside of the namespace they have to carry the operator's marks too.
        let mut marks = self.marks_of(latest, history).await?;
        marks.made.retain(|key, _| key.namespace.as_ref() == Some(&self.namespace));
        let signed = self.take_in_place(latest, own, marks).await?;
        self.announce_signed(&signed).await;
        Ok(Signing::Signed(Box::new(signed)))
    }

    /// Signs what the newest record says, since the administrator named the release. Nobody looked at the others, so they stay unproven: a copy
    /// of one would be believed later.
    async fn sign_as_recorded(&self, latest: &Release, history: &History) -> Result<Signing, ReconcileError> {
        let owner = self.owner_mark();
        let claimed = latest.claimed.as_deref().filter(|claimed| claimed.owner.is_same_resource(&owner));
        let signed = match claimed {
            Some(claimed) => {
                let was_deployed = matches!(latest.status, Status::Deployed | Status::Superseded);
                let own = Own { owner, was_deployed, ..claimed.clone() };
                let signed = self.store.update(&Release { own: Some(own), ..latest.clone() }).await?;
                self.note_as_it_is(&signed).await?;
                signed
            }
            // helm dropped our part of it.
            None => {
                let own = self.own(latest.digest_label().unwrap_or_default().to_owned());
                self.take_in_place(latest, own, self.marks_of(latest, history).await?).await?
            }
        };
        self.announce_signed(&signed).await;
        Ok(Signing::Signed(Box::new(signed)))
    }

    /// Notes a revision whose objects stay as they are.
    async fn note_as_it_is(&self, release: &Release) -> Result<(), ReconcileError> {
        self.note_again(release).await?;
        match release.status {
            Status::Deployed => self.note_finished(release).await,
            _ => Ok(()),
        }
    }

    /// Those of a release that the operator made.
    async fn marks_of(&self, latest: &Release, history: &History) -> Result<Marks, ReconcileError> {
        let mut made = self.proven(history).await?;
        made.extend(plan::made(members(&latest.manifest.read(), &self.namespace, &self.context.kinds.kinds())?));
        Ok(Marks { made, adopting: HashSet::new(), adopted: history.adopted() })
    }

    async fn announce_signed(&self, signed: &Release) {
        self.note_revision_made();
        self.context.trust.window.count();
        let message = format!(
            "Signed revision {} of the release {}, since an administrator opened the window for it",
            signed.revision, self.release
        );
        self.warn("RecordSigned", &message).await;
    }

    fn not_signed(&self, latest: &Release, why: &str) -> ReconcileError {
        let (namespace, release) = (&self.namespace, &self.release);
        let message = format!(
            "revision {} of the release {release} is not signed: its record {why}; after a look at it (`chartwright get manifest`), sign it as it is with `chartwright trust open --namespace {namespace} --release {release} --as-recorded`, or delete the records (Secrets sh.helm.release.v1.{release}.*) to have the chart rendered again",
            latest.revision
        );
        ReconcileError::Refused { category: Category::RecordUnproven, message }
    }
}
