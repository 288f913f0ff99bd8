//! One custom resource while it is being reconciled: who it is, what its release is called, what it says about itself.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::ReconcileError;
use super::discretion::Discretion;
use super::journal::{self, Journal, Stage};
use super::memory::{Input, Memory, Remembered};
use crate::account::Accounts;
use crate::applyset::{self, Contents};
use crate::calls::Calls;
use crate::chart::Chart;
use crate::chart::reload::Live;
use crate::children::Children;
use crate::claims::Claims;
use crate::controller::Settings;
use crate::controller::resources::Resources;
use crate::course::{Noted, Refusal, Situation};
use crate::custom_resource::CustomResource;
use crate::discovery::{Cache, Kind, Kinds};
use crate::drift;
use crate::error::Category;
use crate::identity::{self, FINALIZER, Home, Identity};
use crate::manifest::{self, Rendered};
use crate::protected::ProtectedObjects;
use crate::queue::{Turn, Urgency};
use crate::reach::Trials;
use crate::release::{
    History, LAST_REVISION, Own, OwnerMark, Proof, Records, Release, Revisions, Status, Store, StoreError,
};
use crate::render::gateway::fence::Fence;
use crate::render::gateway::seen::Seen;
use crate::render::lanes::Lanes;
use crate::render::{self, Helm, Needs, Through};
use crate::scalers::Scalers;
use crate::sources::{self, Sources};
use crate::status::Failure;
use crate::telemetry::events::Events;
use crate::telemetry::metrics;
use crate::trust::{Entry, Trust};
use crate::unknown::{self, Fields};
use crate::values::Values;
use crate::watches::Watch;
use crate::wishes;

/// The name under which the custom resource itself is written.
pub const CR_MANAGER: &str = "chartwright";
/// What a reconcile needs besides the custom resource.
pub struct Context {
    pub client: Client,
    pub helm: Helm,
    pub lanes: Lanes,
    pub calls: Calls,
    /// In whose name objects are read and written, if it is not the operator's own.
    pub accounts: Option<Accounts>,
    pub claims: Claims,
    pub kinds: Arc<Cache>,
    pub records: Records,
    pub watch: Watch,
    pub chart: Arc<Live>,
    /// What the chart knows of a spec.
    pub fields: Fields,
    /// The custom resource's own kind.
    pub primary: Kind,
    /// Where the releases of cluster-scoped resources live.
    pub default_namespace: String,
    /// The operator's own objects.
    pub protected: Arc<ProtectedObjects>,
    /// What the chart makes with its default values.
    pub trials: Trials,
    pub children: Arc<Children>,
    pub scalers: Arc<Scalers>,
    pub sources: Arc<Sources>,
    pub events: Events,
    pub memory: Memory,
    pub resources: Arc<Resources>,
    pub settings: Arc<Settings>,
    pub trust: Trust,
}

/// A custom resource and everything around it.
pub struct Subject<'a> {
    pub cr: &'a CustomResource,
    pub context: &'a Context,
    pub turn: &'a Turn,
    identity: Identity,
    /// Its release's objects are read and written with these.
    pub calls: Calls,
    pub store: Store,
    looked_after: AtomicBool,
    /// Whether what is being deployed has the generated values of the objects that exist.
    pub(super) keeps_generated: AtomicBool,
    /// The newest revision that is noted in the ledger, 0 for none.
    newest: AtomicU32,
    pub(super) discretion: Mutex<Discretion>,
    pub(super) journal: Journal,
    /// The fields of the spec that the chart does not know, in a sentence. None until the spec was read.
    unknown: Mutex<Option<Option<String>>>,
}

/// Who it is concerns every line of a reconcile.
impl Deref for Subject<'_> {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.identity
    }
}

/// What a custom resource asks for, as the input of a render.
pub struct Wish {
    pub chart: Arc<Chart>,
    pub values: Values,
    pub digest: String,
}

impl<'a> Subject<'a> {
    pub async fn of(cr: &'a CustomResource, context: &'a Context, turn: &'a Turn) -> Self {
        // Where the ledger cannot be read, the turn fails when it asks for the first time, and says so in the status.
        let noted = context.trust.ledger.get(&identity::owner_mark(cr, &context.watch)).await.ok().flatten();
        let noted = noted.map(|entry| Home { release: entry.release, namespace: entry.namespace });
        let has_records = |namespace: &str, release: &str| {
            let revisions = context.records.revisions(namespace, release);
            revisions.is_none_or(|revisions| revisions.latest().is_some())
        };
        let identity = Identity::of(cr, &context.watch, &context.default_namespace, noted, has_records);
        let calls = context.calls.at(turn.urgency);
        let store = Store::new(calls.clone()).noted_in(context.records.clone());
        let store = store.signed_by(context.trust.signer.clone(), &identity.owner.uid);
        let calls = match &context.accounts {
            Some(accounts) => calls.acting_as(accounts.of(&identity.namespace)),
            None => calls,
        };
        let (looked_after, keeps_generated, newest, discretion, journal, unknown) = Default::default();
        Subject {
            cr,
            context,
            turn,
            identity,
            calls,
            store,
            looked_after,
            keeps_generated,
            newest,
            discretion,
            journal,
            unknown,
        }
    }

    /// Reads the spec and what it is put over. The chart is the one on disk right now.
    pub async fn wish(&self) -> Result<Wish, ReconcileError> {
        let chart = self.context.chart.current();
        let Context { watch, sources, primary, .. } = self.context;
        let place = self.cr.place();
        let read =
            async |references: &[_]| sources.read((primary, &place), &self.calls, &self.identity, references).await;
        let known = self.context.fields.of(&chart).await;
        let values = sources::values_of(self.cr, watch, &self.identity, known, read);
        let values = self.stage(Stage::Values, values).await;
        self.tell_unwatched().await;
        let (values, unknown) = values?;
        self.note_unknown(unknown::sentence(&unknown, &chart.name));
        let digest = self.digest(&chart, &values);
        self.learn_values(&values, &digest);
        journal::note_digest(&digest);
        Ok(Wish { chart, values, digest })
    }

    fn note_unknown(&self, sentence: Option<String>) {
        *self.unknown.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(sentence);
    }

    /// The fields of the spec that the chart does not know, in a sentence. None where nobody has looked.
    pub(super) fn unknown_fields(&self) -> Option<Option<String>> {
        self.unknown.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// What decides the course of the release, beside its records.
    pub async fn situation<'b>(&self, wish: &'b Wish, owner: &'b OwnerMark) -> Result<Situation<'b>, ReconcileError> {
        let noted = self.noted().await?.map_or(Noted::Nothing, |entry| Noted::Entry(Box::new(entry)));
        let trust = (noted, self.context.trust.window.is_open_for(&self.namespace, &self.release));
        Ok(self.identity.situation(self.cr, owner, &wish.digest, &wish.chart.name, trust))
    }

    /// What the ledger says of this release.
    pub async fn noted(&self) -> Result<Option<Entry>, ReconcileError> {
        let (ledger, owner) = (&self.context.trust.ledger, self.owner_mark());
        let entry = match self.may_be_noted() {
            true => ledger.look(&owner).await?,
            false => ledger.get(&owner).await?,
        };
        self.newest.store(entry.as_ref().map_or(0, |entry| entry.revision), Ordering::Relaxed);
        Ok(entry)
    }

    /// Whether another operator may have noted the release. A first install need not ask for that.
    fn may_be_noted(&self) -> bool {
        !self.is_new() || self.revisions().ok().flatten().is_none_or(|known| !known.is_empty())
    }

    /// The number of a revision that is made now. Numbers go on where records were deleted, so that no deleted record fits a new revision.
    pub fn next_revision(&self, history: &History) -> u32 {
        history.next_revision().max(self.newest.load(Ordering::Relaxed).saturating_add(1))
    }

    /// The revision that an upgrade makes now. None where it is an install: for Helm, every install is the first revision.
    pub fn upgrade_to(&self, history: &History) -> Option<u32> {
        history.stood_before(history.next_revision()).then(|| self.next_revision(history))
    }

    /// Stands for the annotations that others put on the custom resource.
    pub fn asked(&self) -> drift::Hash {
        wishes::asked(self.cr.annotations())
    }

    /// Tells which annotations cannot be read, once.
    pub async fn tell_problems(&self) {
        let problems = match self.wishes.problems.is_empty() {
            true => drift::Hash::default(),
            false => drift::Hash::of(self.wishes.problems.iter().map(String::as_str)),
        };
        let remember = |memory: &mut Remembered| std::mem::replace(&mut memory.problems, problems);
        if self.context.memory.with(&self.owner.uid, remember) == problems {
            return;
        }
        for problem in &self.wishes.problems {
            self.warn("InvalidAnnotation", problem).await;
        }
    }

    /// Tells that a change of its sources goes unnoticed, once.
    async fn tell_unwatched(&self) {
        let unwatched = self.context.sources.unwatched(&self.context.primary, &self.cr.place());
        let remember = |memory: &mut Remembered| std::mem::replace(&mut memory.unwatched, unwatched.clone());
        let told = self.context.memory.with(&self.owner.uid, remember);
        for kind in unwatched.iter().filter(|kind| !told.contains(kind)) {
            let kind = kind.as_str();
            let message = format!(
                "values come from a {kind}, and the operator may not watch that kind, so a change is noticed only when the custom resource is looked at for another reason; give it the rights list and watch on that kind"
            );
            self.warn("ValuesNotWatched", &message).await;
        }
    }

    /// Notes that the objects of the deployed revision are being repaired.
    pub fn look_after(&self) {
        self.looked_after.store(true, Ordering::Relaxed);
    }

    /// Whether that has been tried in this turn.
    pub fn was_looked_after(&self) -> bool {
        self.looked_after.load(Ordering::Relaxed)
    }

    /// What the watch knows of the release. None where only its records can tell.
    ///
    /// # Errors
    /// There is no room for it now. The records would take more.
    pub fn revisions(&self) -> Result<Option<Revisions>, StoreError> {
        let records = &self.context.records;
        let weight = records.weight(&self.namespace, &self.release);
        self.store.cover(&self.namespace, &self.release, weight)?;
        Ok(records.revisions(&self.namespace, &self.release))
    }

    /// Whether nothing was ever deployed for this custom resource.
    pub fn is_new(&self) -> bool {
        identity::is_new(self.cr)
    }

    /// The record of one revision.
    pub async fn release(&self, revision: u32) -> Result<Release, ReconcileError> {
        let release = self.store.get(&self.namespace, &self.release, revision).await?;
        self.learn_records([&release].into_iter());
        Ok(release)
    }

    /// The record of a revision that was seen deployed by us. Where helm was faster than the watch, this looks again.
    pub async fn still_standing(&self, revision: u32) -> Result<Release, ReconcileError> {
        let next = self.store.exists(&self.namespace, &self.release, revision.saturating_add(1));
        let (release, has_next) = tokio::join!(self.release(revision), next);
        let release = release?;
        let is_late = release.own.as_ref().is_some_and(|own| own.trouble.as_ref().is_some_and(|it| it.is_late));
        match release.is_ours() && (release.status == Status::Deployed || is_late) && !has_next? {
            true => Ok(release),
            false => {
                let secret = format!("{}/{}", self.namespace, release.secret_name());
                Err(StoreError::Changed { secret }.into())
            }
        }
    }

    /// A record that was just written, and that the status does not tell of yet.
    pub fn untold(&self, revision: u32) -> Option<Release> {
        self.context.memory.with(&self.owner.uid, |memory| {
            let untold = memory.untold.as_ref().filter(|untold| untold.record.revision == revision);
            untold.map(|untold| untold.record.clone())
        })
    }

    /// All revisions, with their records.
    pub async fn history(&self) -> Result<History, ReconcileError> {
        let confirmed = self.noted().await?.map(|entry| entry.confirmed());
        let history = self.store.confirmed_history(&self.namespace, &self.release, confirmed.as_ref()).await?;
        self.check_plausible(&history)?;
        self.learn_records(history.iter());
        Ok(history)
    }

    /// Refuses a history that ends in a number which no helm can have made: the next revision has to have a number too.
    fn check_plausible(&self, history: &History) -> Result<(), ReconcileError> {
        const LEAP: u32 = 10_000;
        // A copy of signed content has whatever number its writer chose.
        let is_signed = |release: &&Release| matches!(release.proof, Proof::Record | Proof::Content);
        let Some(latest) = history.latest().filter(|latest| !is_signed(latest)) else { return Ok(()) };
        let signed = history.iter().rev().find(is_signed).map_or(0, |release| release.revision);
        let known = signed.max(self.newest.load(Ordering::Relaxed));
        let most = if known == 0 { LAST_REVISION - LEAP } else { known.saturating_add(LEAP) };
        match latest.revision > most {
            true => Err(ReconcileError::Refused {
                category: Category::RecordUnusable,
                message: format!(
                    "the Secret {}/{} says that it is revision {} of the release {}, and the newest revision that this operator knows is {known}; delete that Secret",
                    self.namespace,
                    latest.secret_name(),
                    latest.revision,
                    self.release
                ),
            }),
            false => Ok(()),
        }
    }

    /// Why a release is not this custom resource's to change.
    pub fn refused(&self, refusal: &Refusal) -> ReconcileError {
        let release = format!("{}/{}", self.namespace, self.release);
        let category = match refusal {
            Refusal::NoSuchRevision { .. } => Category::NoSuchRevision,
            Refusal::Owned(_) | Refusal::OtherChart { .. } => Category::BelongsToAnother,
            Refusal::NotAdopted => Category::AdoptionNotAllowed,
            Refusal::Unproven { .. } | Refusal::UnprovenTarget { .. } => Category::RecordUnproven,
        };
        let message = refusal.sentence(&release, &self.context.chart.current().name);
        ReconcileError::Refused { category, message }
    }

    /// Renders, when there is room. What was refused before for the same input is not tried again. Something newer ends it:
    /// nothing has been written yet.
    pub async fn render(&self, wish: &Wish, upgrade_to: Option<u32>) -> Result<Rendered, ReconcileError> {
        let Wish { chart, values, .. } = wish;
        let kinds = self.context.kinds.for_render().await?;
        self.check_refusal(self.input(wish).await?)?;
        let request = render::Request {
            chart,
            release: &self.release,
            namespace: &self.namespace,
            values,
            capabilities: &kinds.capabilities,
            is_upgrade: upgrade_to.is_some(),
            revision: upgrade_to.unwrap_or(1),
            is_patient: self.turn.urgency != Urgency::Edit,
        };
        let through = self.through(wish, kinds.clone()).await?;
        let render = async {
            let began = Instant::now();
            let (text, seen) = match through {
                Some(through) => self.context.helm.template_through(&request, through).await,
                None => (self.context.helm.template(&request).await, Seen::default()),
            };
            let result = text.as_ref().map_or_else(|error| error.category().as_str(), |_| "success");
            metrics::rendered(&self.owner.gvk.kind, result, began.elapsed());
            (text, seen)
        };
        // Who waits for room does not render.
        let render = self.context.lanes.run(self.turn, self.stage(Stage::Render, render));
        let Some(Some((text, seen))) = self.turn.interrupt.run_until_cancelled(render).await else {
            return Err(ReconcileError::Interrupted);
        };
        self.learn_looked_up(&seen.secrets.0);
        for refusal in seen.refusals() {
            self.warn("LookupRefused", &refusal).await;
        }
        let unseen = seen.refused.into_iter().map(|refused| refused.what).collect();
        let rendered = Rendered { unseen, ..manifest::read_aside(text?).await? };
        tracing::debug!(renderMs = self.journal.render_ms(), objects = rendered.objects.len(), "rendered");
        self.warn_about(values).await;
        Ok(rendered)
    }

    /// The way to the cluster, if the chart asks it.
    async fn through(&self, wish: &Wish, kinds: Arc<Kinds>) -> Result<Option<Through>, ReconcileError> {
        let lookup = self.context.watch.lookup;
        let Some(needs) = Needs::of(&wish.chart, &wish.values, lookup, &kinds.catalog) else { return Ok(None) };
        let has_records = !self.revisions()?.is_some_and(|known| known.is_empty());
        let history = match needs.objects && has_records {
            true => self.history().await?,
            false => History::default(),
        };
        let fence = Fence::new(lookup, &self.target(&wish.chart.name, &[]), &history);
        let through = needs.through(&wish.chart, self.context.watch.crds, kinds, self.calls.clone(), fence);
        Ok(Some(through.among(self.context.settings.namespaces.clone())))
    }

    /// What cannot be done exactly. Whoever relies on it has to know.
    async fn warn_about(&self, values: &Values) {
        for left_out in values.left_out() {
            self.warn("InexactInteger", &left_out.to_string()).await;
        }
    }

    /// Something that a person should look at: a line in the log and an event. What was just told is only counted.
    pub async fn warn(&self, reason: &str, message: &str) {
        let message = self.shown(message);
        match self.is_worth_a_line(reason, &message) {
            true => tracing::warn!(reason, "{message}"),
            false => tracing::debug!(reason, "again: {message}"),
        }
        self.warn_by_event(reason, &message).await;
    }

    /// Something that happened as it should: a line in the log and an event.
    pub async fn tell(&self, reason: &str, message: &str) {
        tracing::info!(reason, "{}", self.shown(message));
        self.tell_by_event(reason, message).await;
    }

    /// Only an event: the log tells it in a line of its own.
    pub async fn warn_by_event(&self, reason: &str, message: &str) {
        self.context.events.warning(self.cr, self.context, reason, &self.shown(message)).await;
    }

    pub async fn tell_by_event(&self, reason: &str, message: &str) {
        self.context.events.normal(self.cr, self.context, reason, &self.shown(message)).await;
    }

    fn is_worth_a_line(&self, reason: &str, message: &str) -> bool {
        let (sentence, now) = (drift::Hash::of([reason, message].into_iter()), Instant::now());
        self.context.memory.with(&self.owner.uid, |memory| {
            let last = memory.warned.filter(|(_, at)| now.duration_since(*at) < journal::SELDOM);
            let is_news = last.is_none_or(|(told, _)| told != sentence);
            if is_news {
                memory.warned = Some((sentence, now));
            }
            is_news
        })
    }

    /// What was refused before for the same input is known without the release's history.
    pub async fn check_known_refusal(&self, wish: &Wish) -> Result<(), ReconcileError> {
        let is_known = self.context.memory.with(&self.owner.uid, |memory| {
            memory.refused.as_ref().is_some_and(|(refused, _)| refused.digest == wish.digest)
        });
        match is_known {
            true => self.check_refusal(self.input(wish).await?),
            false => Ok(()),
        }
    }

    /// Kinds come and go, but most charts do not ask.
    async fn input(&self, wish: &Wish) -> Result<Input, ReconcileError> {
        let mut hasher = DefaultHasher::new();
        match render::asks(&wish.chart, &wish.values).api_versions {
            true => self.context.kinds.for_render().await?.capabilities.hash(&mut hasher),
            false => self.context.kinds.kinds().capabilities.kube_version.hash(&mut hasher),
        }
        Ok(Input { digest: wish.digest.clone(), capabilities: hasher.finish() })
    }

    fn check_refusal(&self, input: Input) -> Result<(), ReconcileError> {
        let is_asked = self.open_request().is_some();
        self.context.memory.with(&self.owner.uid, |memory| {
            let refused = memory.refused.as_ref().filter(|(refused, _)| *refused == input);
            // Who asks for a full check wants helm to say it again.
            let refused = refused.filter(|_| !is_asked);
            let failure = refused.map(|(_, failure)| failure.clone());
            memory.trying = Some(input);
            failure.map_or(Ok(()), |failure| Err(ReconcileError::Again(failure)))
        })
    }

    /// Remembers what only a change of the input can repair, so that helm is not run for it again.
    pub fn remember(&self, error: &ReconcileError, failure: &Failure) {
        self.context.memory.with(&self.owner.uid, |memory| {
            if let Some(input) = memory.trying.take().filter(|_| error.depends_on_input_only()) {
                memory.refused = Some((input, failure.clone()));
            }
        });
    }

    /// The attempt went well, so its input is of no interest any more.
    pub fn forget_attempt(&self) {
        self.context.memory.with(&self.owner.uid, |memory| memory.trying = None);
    }

    /// Remembers when to try again at the earliest.
    pub fn pause_after(&self, error: &ReconcileError) {
        let pause = error.category().retry().pause();
        self.context.memory.with(&self.owner.uid, |memory| memory.try_at = pause.map(|pause| Instant::now() + pause));
    }

    /// How long a revision that failed has to wait, unless somebody asks for another try.
    pub fn pause_left(&self, own: Option<&Own>) -> Option<Duration> {
        let trouble = own.and_then(|own| own.trouble.as_ref())?;
        let try_at = self.context.memory.with(&self.owner.uid, |memory| memory.try_at)?;
        let left = try_at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        (trouble.asked == self.asked()).then_some(left)
    }

    pub fn forget_pause(&self) {
        self.context.memory.with(&self.owner.uid, |memory| memory.try_at = None);
    }

    /// What the custom resource became by our own write: the next turn need not wait until the watch tells it.
    pub fn note_write(&self, cr: CustomResource) {
        self.context.resources.learn(cr);
    }

    /// Has the custom resource say no more than what its release contains: a crash may have come before that was said.
    pub async fn narrow_contents(&self, own: &Own) -> Result<(), ReconcileError> {
        let contents = Contents::of(own.objects.iter().map(|applied| &applied.id), &self.owner);
        match self.contents() == contents {
            true => Ok(()),
            false => self.mark_parent(&contents).await,
        }
    }

    /// Makes sure that the custom resource carries the finalizer and says what its release contains.
    pub async fn mark_parent(&self, contents: &Contents) -> Result<(), ReconcileError> {
        let annotations = contents.annotations();
        let id = applyset::id(&self.owner);
        let has_finalizer = self.cr.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        let has_label = self.cr.labels().get(applyset::ID) == Some(&id);
        let has =
            |(key, value): (&String, &Value)| self.cr.annotations().get(key).map(String::as_str) == value.as_str();
        if has_finalizer && has_label && annotations.as_object().into_iter().flatten().all(has) {
            return Ok(());
        }
        let gvk = &self.owner.gvk;
        let patch = json!({
            "apiVersion": gvk.api_version(),
            "kind": gvk.kind,
            "metadata": {
                "name": self.owner.name,
                // An apply creates what is not there. A custom resource that went in the meantime must stay away.
                "uid": self.owner.uid,
                "finalizers": [FINALIZER],
                "labels": {applyset::ID: id},
                "annotations": annotations,
            },
        });
        let params = PatchParams::apply(CR_MANAGER).force();
        let (api, patch) = (self.api(), Patch::Apply(patch));
        let written = self.calls.within(api.patch(&self.owner.name, &params, &patch)).await;
        self.note_write(written.map_err(ReconcileError::Write)?);
        Ok(())
    }

    /// What the custom resource says about itself, without the manifest.
    pub fn status(&self) -> Option<&Value> {
        self.identity.status.as_ref()
    }

    pub fn contents(&self) -> Contents {
        identity::contents(self.cr)
    }

    pub fn api(&self) -> Api<CustomResource> {
        let resource = &self.context.primary.resource;
        match &self.owner.namespace {
            Some(namespace) => Api::namespaced_with(self.context.client.clone(), namespace, resource),
            None => Api::all_with(self.context.client.clone(), resource),
        }
    }
}
