//! `chartwright rollback`: goes back to an earlier revision. The operator does it: only the wish is written, as an annotation.

use std::process::ExitCode;

use anyhow::bail;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::access::{Access, Found, Session, Verification};
use super::consent::RecordConsent;
use super::get::no_such_revision;
use super::output::{Format, print};
use super::waiting::{Patience, failure};
use super::{Usage, named};
use crate::release::{HeldBy, History, Own, Release, Status};
use crate::wishes::ROLLBACK_TO;

/// Go back to an earlier revision
///
/// Without a number this is the newest proven revision below the latest one that was once deployed. A new revision is made of it, and it is
/// held until the spec or the chart changes, or until --resume. Only the annotation chartwright.dev/rollback-to is written; the
/// operator does the rest, so no rights on the release's objects are needed.
///
/// Everybody who may write Secrets in the namespace can change a release record. The command refuses a revision whose record the
/// operator's public key does not verify, unless --allow-unproven is set. The operator verifies the record once more.
///
/// The exit code is 0 when the revision is deployed, and 1 if that fails or takes too long.
#[derive(Debug, clap::Args)]
#[command(override_usage = "chartwright rollback [OPTIONS] KIND NAME|KIND/NAME [REVISION]")]
#[command(after_help = "Examples:
  chartwright rollback nginx web
  chartwright rollback nginx/web 3
  chartwright rollback nginx/web --resume")]
pub struct Args {
    /// The custom resource, `nginx web` or `nginx/web`, and the revision
    #[arg(value_name = "KIND NAME [REVISION]", required = true, num_args = 1..=3)]
    pub resource: Vec<String>,
    /// End any hold: the spec decides again
    #[arg(long)]
    pub resume: bool,
    #[command(flatten)]
    pub patience: Patience,
    #[command(flatten)]
    pub consent: RecordConsent,
    #[command(flatten)]
    pub access: Access,
    #[command(flatten)]
    pub verification: Verification,
    /// Print data for scripts
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (named, rest) = named::read(&args.resource)?;
    let wanted = revision(rest, args.resume)?;
    let session = args.access.connect_verifying(&args.verification).await?;
    let found = session.find(&named).await?;
    let history = session.revisions(&found).await?;
    if !found.was_deployed() {
        bail!("the {} is no custom resource of the operator, or nothing was deployed for it yet", found.shown());
    }
    let wish = Wish { args: &args, session: &session, found: &found };
    if args.resume {
        return wish.resume(&history).await;
    }
    let target = target(&history, wanted)?;
    if wanted.is_none() {
        session.tell_unproven(history.iter().filter(|release| release.revision > target.revision));
    }
    args.consent.obtain("ask the operator to go back to", &session, target)?;
    wish.go_back(target.revision, &history).await
}

fn revision(words: &[String], is_resumed: bool) -> Result<Option<u32>, Usage> {
    match words {
        [] => Ok(None),
        [_, ..] if is_resumed => Err(Usage("--resume takes no revision: the spec decides again".to_owned())),
        [one] => one.parse().map(Some).map_err(|_| Usage(format!("{one:?} is no revision; write a number"))),
        [_, more, ..] => Err(Usage(format!("one revision at a time: what is {more:?}?"))),
    }
}

/// The revision to go back to.
fn target(history: &History, wanted: Option<u32>) -> anyhow::Result<&Release> {
    if let Some(wanted) = wanted {
        return history.get(wanted).ok_or_else(|| no_such_revision(history, wanted));
    }
    let latest = history.latest().map_or(0, |latest| latest.revision);
    let was_good = |release: &&Release| matches!(release.status, Status::Deployed | Status::Superseded);
    let mut good = history.iter().rev().filter(|release| release.revision < latest).filter(was_good);
    match (good.clone().find(|release| release.is_proven()), good.next()) {
        (Some(proven), _) => Ok(proven),
        (None, None) => bail!("there is no revision before {latest} to go back to"),
        (None, Some(_)) => bail!("no revision before {latest} is proven; `chartwright history` says why"),
    }
}

/// How a request ended.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// As this revision.
    Deployed(u32),
    Failed(String),
}

/// What the records and the status say about a request to go back.
fn outcome(to: u32, status: &Value, before: &Value, history: &History) -> Option<Outcome> {
    let latest = history.latest()?;
    let own = latest.own.as_ref()?;
    if is_held_at(own, to) && latest.status == Status::Deployed {
        return Some(Outcome::Deployed(latest.revision));
    }
    let trouble = own.trouble.as_ref().filter(|_| is_held_at(own, to) && latest.status == Status::Failed);
    trouble.map(|trouble| trouble.message.clone()).or_else(|| failure(status, before)).map(Outcome::Failed)
}

fn is_held_at(own: &Own, to: u32) -> bool {
    own.hold.as_ref().is_some_and(|hold| hold.to == Some(to) && hold.by == HeldBy::Request)
}

fn latest_own(history: &History) -> Option<&Own> {
    history.latest()?.own.as_ref()
}

struct Wish<'a> {
    args: &'a Args,
    session: &'a Session,
    found: &'a Found,
}

impl Wish<'_> {
    async fn go_back(&self, to: u32, history: &History) -> anyhow::Result<ExitCode> {
        let before = self.found.cr.status().unwrap_or_default();
        if let Some(Outcome::Deployed(revision)) = outcome(to, &before, &before, history) {
            return self.tell(
                &format!("revision {to} is held already, as revision {revision}"),
                Some(revision),
                Some(to),
            );
        }
        self.ask(&to.to_string(), to, history).await?;
        if self.args.patience.no_wait {
            return self.tell(&format!("asked to go back to revision {to}"), None, Some(to));
        }
        let look = |status: &Value, history: &History| outcome(to, status, &before, history);
        match self.args.patience.until(self.session, self.found, look).await? {
            Outcome::Deployed(revision) => {
                let sentence = format!(
                    "went back to revision {to}, as revision {revision}; it stays until the spec or the chart changes, or until --resume"
                );
                self.tell(&sentence, Some(revision), Some(to))
            }
            Outcome::Failed(message) => bail!("revision {to} did not come back: {message}"),
        }
    }

    async fn resume(&self, history: &History) -> anyhow::Result<ExitCode> {
        let wish = self.found.cr.annotations().get(ROLLBACK_TO).filter(|wish| *wish != "none");
        let before = self.found.cr.status().unwrap_or_default();
        let is_held = is_held(&before, history);
        if let (false, Some(wish)) = (is_held, wish) {
            // Perhaps the operator has not heard of it yet.
            self.write(None).await?;
            return self.tell(&format!("the wish to go back to revision {wish} is taken back"), None, None);
        }
        if !is_held {
            let revision = history.latest().map(|latest| latest.revision);
            return self.tell("no revision is held: the spec decides already", revision, None);
        }
        self.ask("none", 0, history).await?;
        if self.args.patience.no_wait {
            return self.tell("asked to let the spec decide again", None, None);
        }
        let look = |status: &Value, history: &History| resumed(status, &before, history);
        match self.args.patience.until(self.session, self.found, look).await? {
            Outcome::Deployed(revision) => {
                // It has done its work.
                self.write(None).await?;
                self.tell(&format!("the spec decides again, as revision {revision}"), Some(revision), None)
            }
            Outcome::Failed(message) => bail!("what the spec says did not come back: {message}"),
        }
    }

    /// Writes the wish. One that was answered before is heard only when it was taken back in between.
    async fn ask(&self, text: &str, answer: u32, history: &History) -> anyhow::Result<()> {
        let is_written = self.found.cr.annotations().get(ROLLBACK_TO).is_some_and(|written| written == text);
        if is_written && latest_own(history).is_some_and(|own| own.request == Some(answer)) {
            self.write(None).await?;
            self.args.patience.until(self.session, self.found, is_forgotten).await?;
        }
        self.write(Some(text)).await
    }

    async fn write(&self, value: Option<&str>) -> anyhow::Result<()> {
        self.session.annotate(self.found, ROLLBACK_TO, value).await
    }

    fn tell(&self, sentence: &str, revision: Option<u32>, to: Option<u32>) -> anyhow::Result<ExitCode> {
        let shown = self.found.shown();
        print(&match self.args.output {
            None => format!("{shown}: {sentence}\n"),
            Some(format) => {
                let data =
                    json!({"resource": shown, "release": self.found.release(), "revision": revision, "heldAt": to});
                format.text(&data)?
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn is_forgotten(_: &Value, history: &History) -> Option<()> {
    latest_own(history).is_some_and(|own| own.request.is_none()).then_some(())
}

/// Whether a revision stays although the custom resource says something else. The record of one that helm made does not say it.
fn is_held(status: &Value, history: &History) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    latest_own(history).is_some_and(|own| own.hold.is_some())
        || conditions.any(|condition| condition["type"] == "Held" && condition["status"] == "True")
}

fn resumed(status: &Value, before: &Value, history: &History) -> Option<Outcome> {
    let latest = history.latest()?;
    let is_free = latest.own.is_some() && !is_held(status, history);
    match is_free && latest.status == Status::Deployed {
        true => Some(Outcome::Deployed(latest.revision)),
        false => failure(status, before).map(Outcome::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::codec::tests::release;
    use crate::release::{Doubt, Hold, Proof, Trouble};

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn history(statuses: &[Status]) -> History {
        let numbered = statuses.iter().zip(1..);
        History::new(numbered.map(|(status, revision)| Release { revision, status: *status, ..release() }).collect())
    }

    #[test]
    fn a_revision_is_a_number() {
        assert_eq!(revision(&words(""), false).unwrap(), None);
        assert_eq!(revision(&words("3"), false).unwrap(), Some(3));
        for (text, is_resumed) in [("three", false), ("3 4", false), ("3", true), ("-1", false)] {
            assert!(revision(&words(text), is_resumed).is_err(), "{text}");
        }
    }

    #[test]
    fn without_a_number_it_is_the_last_good_one_before_the_latest() {
        use Status::{Deployed, Failed, PendingUpgrade, Superseded};
        let of = |statuses: &[Status]| target(&history(statuses), None).map(|release| release.revision);
        assert_eq!(of(&[Superseded, Superseded, Deployed]).unwrap(), 2);
        assert_eq!(of(&[Superseded, Failed, Deployed]).unwrap(), 1);
        assert_eq!(of(&[Superseded, Deployed, Failed]).unwrap(), 2, "what was deployed before it failed");
        assert_eq!(of(&[Deployed]).unwrap_err().to_string(), "there is no revision before 1 to go back to");
        assert!(of(&[Failed, PendingUpgrade]).is_err());
    }

    #[test]
    fn a_revision_that_is_not_proven_is_no_default() {
        let of = |proofs: &[Proof]| {
            let releases =
                proofs.iter().zip(1..).map(|(proof, revision)| Release { revision, proof: proof.clone(), ..release() });
            let history = History::new(releases.collect());
            target(&history, None).map(|release| release.revision)
        };
        let forged = || Proof::Missing(Doubt::Signature);
        assert_eq!(of(&[Proof::Record, forged(), Proof::Record]).unwrap(), 1);
        assert_eq!(of(&[Proof::Record, Proof::Content, forged()]).unwrap(), 2);
        let refusal = of(&[forged(), forged(), Proof::Record]).unwrap_err().to_string();
        assert!(refusal.starts_with("no revision before 3 is proven"), "{refusal}");
    }

    #[test]
    fn a_revision_that_is_not_there_is_refused_with_those_that_are() {
        let history = history(&[Status::Superseded, Status::Deployed]);
        assert_eq!(target(&history, Some(2)).unwrap().revision, 2);
        assert_eq!(target(&history, Some(7)).unwrap_err().to_string(), "there is no revision 7; there are 1, 2");
    }

    #[test]
    fn the_records_tell_the_outcome() {
        let held = |status, trouble: Option<&str>| {
            let hold = Hold { to: Some(1), digest: String::new(), by: HeldBy::Request, failed: None };
            let trouble = trouble.map(|message| Trouble {
                attempts: 1,
                reason: String::new(),
                message: message.to_owned(),
                is_late: false,
                asked: Default::default(),
            });
            let own = Own { hold: Some(hold), trouble, ..Own::default() };
            History::new(vec![Release { revision: 3, status, own: Some(own), ..release() }])
        };
        let none = json!({});
        let of = |history: &History| outcome(1, &none, &none, history);
        assert_eq!(of(&held(Status::Deployed, None)), Some(Outcome::Deployed(3)));
        assert_eq!(of(&held(Status::PendingRollback, None)), None);
        assert_eq!(of(&held(Status::Failed, Some("no"))), Some(Outcome::Failed("no".to_owned())));
        assert_eq!(outcome(2, &none, &none, &held(Status::Deployed, None)), None, "another one is held");
    }
}
