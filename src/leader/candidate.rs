//! What a candidate for the Lease does next. Pure: it is told what was seen and what time it is.
//!
//! Times in the Lease are those of other machines. They are never compared with a clock, only with what they were before.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

use super::clock::Moment;

/// How patient everybody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long a Lease that does not change belongs to its holder.
    pub lease: Duration,
    /// A holder that could not renew it for so long gives up.
    pub renew_deadline: Duration,
    /// How often it is renewed, and how soon a failed call is made again.
    pub retry: Duration,
}

impl Pace {
    /// How much earlier than everybody else the holder thinks that its time is over. Clocks do not run equally fast, and what
    /// was checked still has to leave the machine; what does not arrive meanwhile is given up by the kernel.
    pub fn margin(self) -> Duration {
        self.lease / 10
    }

    /// How long the holder may write after it sent a renewal that was accepted.
    pub fn hold(self) -> Duration {
        self.lease - self.margin()
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Ask for the Lease.
    Look,
    /// Write this Lease; one without a version is new.
    Claim(Box<Lease>),
    Wait(Moment),
    /// It was the holder, and is not any more.
    Lost(Loss),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    #[error("{holder} holds it now")]
    Taken { holder: String },
    #[error("somebody took the holder out of it")]
    Emptied,
    #[error("it could not be renewed for {} s", .after.as_secs_f32())]
    Late { after: Duration },
}

/// One operator that wants the Lease, and what it knows about it.
#[derive(Debug)]
pub struct Candidate {
    identity: String,
    pace: Pace,
    /// The API server told about the Lease, at least that there is none.
    knows: bool,
    seen: Option<Lease>,
    /// Until then somebody else may work.
    busy_until: Option<Moment>,
    /// When to ask for the Lease, if nobody tells of it or there is doubt.
    look_at: Option<Moment>,
    /// Not before then is anything written.
    claim_at: Moment,
    /// When the request was sent that made it, or left it, the holder.
    held_from: Option<Moment>,
    /// Nobody tells of changes, so it has to ask.
    polls: bool,
}

impl Candidate {
    pub fn new(identity: &str, pace: Pace, now: Moment) -> Self {
        Candidate {
            identity: identity.to_owned(),
            pace,
            knows: false,
            seen: None,
            busy_until: None,
            look_at: Some(now),
            claim_at: now,
            held_from: None,
            polls: false,
        }
    }

    /// Writes nothing before then: until then, the kernel may send what an earlier process with this identity wrote.
    pub fn not_before(self, moment: Moment) -> Self {
        Candidate { claim_at: self.claim_at.max(moment), ..self }
    }

    pub fn is_holder(&self) -> bool {
        self.held_from.is_some()
    }

    /// Until when the holder may write.
    pub fn deadline(&self) -> Option<Moment> {
        self.held_from.map(|from| from + self.pace.hold())
    }

    /// Who holds the Lease, as last seen.
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref().and_then(holder)
    }

    /// Whether the Lease is that of an earlier process with this identity.
    pub fn is_heir(&self) -> bool {
        !self.is_holder() && self.holder() == Some(self.identity.as_str())
    }

    /// From now on it asks, since nobody tells. Returns whether it did already.
    pub fn poll(&mut self, now: Moment) -> bool {
        let soon = now + self.pace.retry;
        self.look_at = Some(self.look_at.map_or(soon, |at| at.min(soon)));
        std::mem::replace(&mut self.polls, true)
    }

    /// When to ask although nothing is told. Its holder renews the Lease all the time, so a standby that hears nothing of it does
    /// not believe its watch.
    fn next_look(&self, now: Moment) -> Option<Moment> {
        match (self.polls, self.is_holder()) {
            (true, _) => Some(now + self.pace.retry),
            (false, true) => None,
            (false, false) => Some(now + self.pace.retry * 2),
        }
    }

    /// What the API server said about the Lease when it was asked.
    pub fn see(&mut self, lease: Option<Lease>, now: Moment) {
        self.look_at = self.next_look(now);
        let changed = self.seen.as_ref().map(|lease| &lease.spec) != lease.as_ref().map(|lease| &lease.spec);
        match lease.as_ref().map(holder) {
            Some(Some(other)) if other != self.identity => {
                // Somebody may have made it shorter, and the holder may not know.
                let said = lease.as_ref().and_then(duration).unwrap_or_default();
                let over = now + said.max(self.pace.lease);
                self.busy_until = Some(self.busy_until.filter(|_| !changed).unwrap_or(over));
            }
            Some(_) => self.busy_until = None,
            // It went. The holder makes it anew at once; others wait for as long as if it was there.
            None if self.is_holder() => self.claim_at = now,
            None => {}
        }
        (self.seen, self.knows) = (lease, true);
    }

    /// What a watch said. It may be behind what is known already, so a holder asks before it believes it.
    pub fn hear(&mut self, lease: Option<Lease>, now: Moment) {
        self.polls = false;
        if !self.is_holder() {
            self.see(lease, now);
        } else if lease.as_ref().and_then(holder) != Some(self.identity.as_str()) {
            self.doubt(now);
        }
    }

    /// What is known is not so any more.
    pub fn doubt(&mut self, now: Moment) {
        self.look_at = Some(now);
    }

    /// A claim was accepted that was sent then. A holder that hears of it when its time is over has lost: writes have been refused
    /// meanwhile, and nobody knows which.
    pub fn claimed(&mut self, lease: Lease, sent: Moment, now: Moment) {
        self.look_at = None;
        self.busy_until = None;
        self.seen = Some(lease);
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            return;
        }
        self.held_from = Some(sent);
        self.claim_at = sent + self.pace.retry;
    }

    /// A call failed; the next one waits.
    pub fn failed(&mut self, now: Moment, pause: Duration) {
        let pause = if self.is_holder() { self.pace.retry } else { pause };
        self.claim_at = now + pause;
        if self.look_at.is_some() {
            self.look_at = Some(now + pause);
        }
    }

    /// # Arguments
    /// `today`: what is written into the Lease, for people to read.
    pub fn next(&self, now: Moment, today: Timestamp) -> Next {
        if let Some(loss) = self.loss(now) {
            return Next::Lost(loss);
        }
        if self.look_at.is_some_and(|at| at <= now) {
            return Next::Look;
        }
        let claim_at = self.busy_until.map_or(self.claim_at, |until| until.max(self.claim_at));
        if claim_at <= now && self.knows {
            return Next::Claim(Box::new(self.claim(today)));
        }
        let gives_up = self.held_from.map(|from| from + self.pace.renew_deadline);
        let wait = [Some(claim_at).filter(|_| self.knows), self.look_at, gives_up];
        Next::Wait(wait.into_iter().flatten().min().unwrap_or(now + self.pace.retry))
    }

    fn loss(&self, now: Moment) -> Option<Loss> {
        let from = self.held_from?;
        match self.seen.as_ref().map(holder) {
            Some(None) => return Some(Loss::Emptied),
            Some(Some(other)) if other != self.identity => return Some(Loss::Taken { holder: other.to_owned() }),
            _ => {}
        }
        let after = from.until(now);
        (after >= self.pace.renew_deadline).then_some(Loss::Late { after })
    }

    /// The Lease as it should be, with whatever else is in it.
    fn claim(&self, today: Timestamp) -> Lease {
        let mut lease = self.seen.clone().unwrap_or_default();
        let is_new = self.seen.is_none();
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
            spec.acquire_time = Some(MicroTime(today));
            let before = spec.lease_transitions.unwrap_or_default();
            spec.lease_transitions = Some(if is_new { 0 } else { before.saturating_add(1) });
        }
        spec.holder_identity = Some(self.identity.clone());
        // Never less than what is meant: others wait for so long.
        let seconds = self.pace.lease.as_millis().div_ceil(1000);
        spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
        spec.renew_time = Some(MicroTime(today));
        lease
    }

    /// The Lease that lets the next one begin at once, where it is ours to give.
    pub fn release(&self, today: Timestamp) -> Option<Lease> {
        let mut lease = self.seen.clone().filter(|lease| holder(lease) == Some(self.identity.as_str()))?;
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(String::new()),
            // As client-go leaves it, for candidates that look at this only.
            lease_duration_seconds: Some(1),
            acquire_time: Some(MicroTime(today)),
            renew_time: Some(MicroTime(today)),
            ..lease.spec.unwrap_or_default()
        });
        Some(lease)
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// How long its holder says that it belongs to it.
fn duration(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// A Lease without a version is new.
pub fn is_new(lease: &Lease) -> bool {
    lease.metadata.resource_version.is_none()
}

#[cfg(test)]
mod tests;
