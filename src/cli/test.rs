//! `chartwright test`: runs the tests of a chart against its release, as `helm test` does.
//!
//! The person's own rights are used, as with helm. Nothing is asked of the operator, and of the record only the last run of each
//! test changes.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::core::GroupVersionKind;
use serde_json::json;

use super::access::{Access, Found, Session, Verification};
use super::consent::{Consent, Finding, doubt};
use super::output::{Format, print, table, tell};
use super::{consent, named, waiting};
use crate::causes;
use crate::discovery::{Cache, Kinds};
use crate::error::{Category, sentence};
use crate::hooks::run::{Begun, HookError, Look, Runner};
use crate::hooks::{self, Event, Policy};
use crate::log_tail::{self, Container};
use crate::plan::Owner;
use crate::preflight::Adoption;
use crate::release::{HookPhase, HookRecord, HookRun, Release, Store, StoreError};

const PAUSE: Duration = Duration::from_millis(250);
/// The operator may write the record at the same time.
const TRIES: u32 = 3;

/// Run the tests of a chart
///
/// Tests are the chart's hooks of the event `test`. They run one after the other, by weight, and end at the first that fails. This
/// needs the right to make and delete what the chart's tests are, most often pods.
///
/// The tests come from the release record, which everybody who may write Secrets in the namespace can change, and they run with your
/// rights. So tests with objects outside of the release's namespace are shown and refused without --allow-outside-namespace, before any
/// test runs. Objects that give rights inside of the namespace are shown. A record that the operator's public key does not verify is refused
/// without --allow-unproven.
///
/// The exit code is 0 when all succeed, also where there are none, and 1 if one fails.
#[derive(Debug, clap::Args)]
#[command(override_usage = "chartwright test [OPTIONS] KIND NAME|KIND/NAME")]
#[command(after_help = "Examples:
  chartwright test nginx web
  chartwright test nginx/web --only web-connection --logs")]
pub struct Args {
    /// The custom resource, `nginx web` or `nginx/web`
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=2)]
    pub resource: Vec<String>,
    /// Run only the tests of this name; may be repeated
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Print the last lines of every test's log, and not only of those that fail
    #[arg(long)]
    pub logs: bool,
    /// How long each test may take, as in 90s or 5m, if it does not say so itself
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = some_time)]
    pub timeout: Duration,
    #[command(flatten)]
    pub consent: Consent,
    #[command(flatten)]
    pub access: Access,
    #[command(flatten)]
    pub verification: Verification,
    /// Print data for scripts
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
}

/// In helm, a limit of 0 ends every test at once.
fn some_time(text: &str) -> Result<Duration, String> {
    match waiting::read(text)? {
        Duration::ZERO => Err("a test needs some time; write how long, as in 5m".to_owned()),
        time => Ok(time),
    }
}

/// How a test ended.
struct Outcome {
    hook: usize,
    seconds: f64,
    /// None where it succeeded.
    failure: Option<String>,
    log: Vec<String>,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let named = named::read_only(&args.resource)?;
    let session = args.access.connect_verifying(&args.verification).await?;
    let found = session.find(&named).await?;
    let history = session.revisions(&found).await?;
    let Some(release) = history.deployed() else {
        bail!("no revision of the {} is deployed, so there is nothing to test", found.shown());
    };
    let chosen = chosen(release, &args.only)?;
    let kinds = Cache::new(session.calls.clone()).await?.kinds();
    let tester = Tester { args: &args, session: &session, owner: owner(&found), release, kinds };
    // Of the very record that the tests are taken from: another read may give another one.
    let doubt = if chosen.is_empty() { None } else { doubt(&session, release) };
    tester.obtain_consent(&chosen, doubt)?;
    let (mut outcomes, mut broken) = (vec![], None);
    for hook in chosen {
        match tester.test(hook).await {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => broken = Some(error),
        }
        if broken.is_some() || outcomes.last().is_some_and(|outcome| outcome.failure.is_some()) {
            break;
        }
    }
    // What ended before something could not be asked is told all the same.
    tester.record(&outcomes).await?;
    if !outcomes.is_empty() || broken.is_none() {
        print(&tester.shown(&found, &outcomes)?)?;
    }
    if let Some(error) = broken {
        return Err(error);
    }
    match outcomes.iter().all(|outcome| outcome.failure.is_none()) {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

/// The tests in their order, or those of these names.
fn chosen(release: &Release, only: &[String]) -> anyhow::Result<Vec<usize>> {
    let all = hooks::at(Event::Test, &release.hooks);
    if let Some(unknown) = only.iter().find(|name| !all.iter().any(|hook| release.hooks[*hook].name == **name)) {
        let names: Vec<&str> = all.iter().map(|hook| release.hooks[*hook].name.as_str()).collect();
        let known = if names.is_empty() { "has none".to_owned() } else { format!("has {}", names.join(", ")) };
        bail!("the chart has no test {unknown:?}; it {known}");
    }
    let is_meant = |hook: &usize| only.is_empty() || only.contains(&release.hooks[*hook].name);
    Ok(all.into_iter().filter(is_meant).collect())
}

fn owner(found: &Found) -> Owner {
    let resource = &found.kind.resource;
    Owner {
        gvk: GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind),
        namespace: found.cr.namespace(),
        name: found.cr.name_any(),
        uid: found.cr.metadata.uid.clone().unwrap_or_default(),
    }
}

struct Tester<'a> {
    args: &'a Args,
    session: &'a Session,
    owner: Owner,
    release: &'a Release,
    kinds: Arc<Kinds>,
}

impl Tester<'_> {
    fn runner(&self) -> Runner<'_> {
        Runner {
            release: &self.release.name,
            namespace: &self.release.namespace,
            owner: &self.owner,
            kinds: &self.kinds,
            calls: &self.session.calls,
            adopt: Adoption::NotAllowed,
            holds: false,
        }
    }

    /// Shows what the tests would do beyond running in the release's namespace. All are looked at before the first one runs.
    fn obtain_consent(&self, chosen: &[usize], doubt: Option<Finding>) -> anyhow::Result<()> {
        let (mut findings, mut notes) = (Vec::from_iter(doubt), String::new());
        for number in chosen {
            for planned in self.runner().objects(&self.release.hooks[*number], "")? {
                let id = planned.object.id();
                match (consent::outside(&id, &self.release.namespace), consent::powers(&planned.object)) {
                    (Some(finding), _) => findings.push(finding),
                    (None, Some(why)) => notes.push_str(&format!("\n  {id}: {why}")),
                    (None, None) => {}
                }
            }
        }
        if !notes.is_empty() {
            tell(&format!("note: the tests create these objects with your rights:{notes}"));
        }
        self.args.consent.obtain("act with your rights on", &findings)
    }

    async fn test(&self, number: usize) -> anyhow::Result<Outcome> {
        let (hook, begun) = (&self.release.hooks[number], Instant::now());
        if std::io::stderr().is_terminal() {
            tell(&format!("running {} {}", hook.kind, hook.name));
        }
        let run = format!("{}.test.{}", self.release.revision, Timestamp::now().as_millisecond());
        let ended = match self.ended(hook, &run).await {
            // What failed is a result; what could not be asked is not.
            Err(error) if error.category() != Category::HookFailed => return Err(error.into()),
            ended => ended,
        };
        // What failed is explained by its log, as far as the person may read it.
        let log = match self.args.logs || ended.is_err() {
            true => self.log(hook, &run).await,
            false => vec![],
        };
        let policy = if ended.is_ok() { Policy::Succeeded } else { Policy::Failed };
        if policy.deletes(hook) {
            self.runner().remove(hook, &run).await?;
        }
        let failure = ended.err().map(|error| error.to_string());
        Ok(Outcome { hook: number, seconds: begun.elapsed().as_secs_f64(), failure, log })
    }

    /// Makes a test's objects and waits for their end.
    async fn ended(&self, hook: &HookRecord, run: &str) -> Result<(), HookError> {
        let (runner, begun) = (self.runner(), Instant::now());
        let failed = |id, why| Err(HookError::Failed { event: Event::Test, id: Box::new(id), why });
        let too_long = |id, limit: Duration, why| {
            Err(HookError::TooLong { event: Event::Test, id: Box::new(id), limit: limit.as_secs(), why })
        };
        while let Begun::Later(id) = runner.begin(hook, run).await? {
            if begun.elapsed() > self.args.timeout {
                return too_long(id, self.args.timeout, "what an earlier run left does not go".to_owned());
            }
            tokio::time::sleep(PAUSE).await;
        }
        loop {
            match runner.look(hook, run).await? {
                Look::Succeeded => return Ok(()),
                Look::Absent => {
                    let id = runner.objects(hook, run)?.first().map(|planned| planned.object.id());
                    return id.map_or(Ok(()), |id| failed(id, "it went before its end was seen".to_owned()));
                }
                Look::Failed { id, why, object } => {
                    let cause = causes::of_run(&object, &self.session.calls).await.cause;
                    let why = cause.iter().fold(why, |why, cause| format!("{}; {why}", cause.sentence()));
                    return failed(id, why);
                }
                Look::Running { id, object } => {
                    let limit = hooks::limit_of(&object, Some(self.args.timeout));
                    if begun.elapsed() > limit {
                        let cause = causes::of_run(&object, &self.session.calls).await.cause;
                        let why = cause.map_or("it is still running".to_owned(), |cause| cause.sentence());
                        return too_long(id, limit, why);
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn log(&self, hook: &HookRecord, run: &str) -> Vec<String> {
        let mut lines = vec![];
        for planned in self.runner().objects(hook, run).unwrap_or_default() {
            let id = planned.object.id();
            if let Ok(Some(live)) = self.session.calls.get(&planned.kind, &id).await {
                let object = serde_json::to_value(live).unwrap_or_default();
                let pods = causes::pods_of(&object, &self.session.calls).await.unwrap_or_default();
                for container in causes::newest(pods).iter().flat_map(Container::all_of) {
                    let read = log_tail::last(&container, log_tail::LINES, &self.session.calls).await;
                    lines.extend(read.unwrap_or_else(|error| vec![unreadable(&error)]));
                }
            }
        }
        lines
    }

    /// Writes the last runs into the record, where `helm status` shows them.
    async fn record(&self, outcomes: &[Outcome]) -> anyhow::Result<()> {
        if outcomes.is_empty() {
            return Ok(());
        }
        let store = Store::new(self.session.calls.clone());
        for _ in 0..TRIES {
            let (namespace, name, revision) = (&self.release.namespace, &self.release.name, self.release.revision);
            let mut release = store.get(namespace, name, revision).await?;
            for outcome in outcomes {
                if let Some(hook) = release.hooks.get_mut(outcome.hook) {
                    hook.last_run = last_run(outcome);
                }
            }
            match store.update(&release).await {
                Err(StoreError::Changed { .. }) => {}
                written => return written.map(|_| ()).map_err(Into::into),
            }
        }
        Err(anyhow!("the record of revision {} changes all the time; the tests have run", self.release.revision))
    }

    fn shown(&self, found: &Found, outcomes: &[Outcome]) -> anyhow::Result<String> {
        let phase = |outcome: &Outcome| if outcome.failure.is_none() { "Succeeded" } else { "Failed" };
        if let Some(format) = self.args.output {
            let tests = outcomes.iter().map(|outcome| {
                let hook = &self.release.hooks[outcome.hook];
                json!({
                    "kind": hook.kind, "name": hook.name, "phase": phase(outcome), "seconds": outcome.seconds,
                    "message": outcome.failure, "log": outcome.log,
                })
            });
            let data = json!({
                "resource": found.shown(), "release": self.release.name, "revision": self.release.revision,
                "tests": tests.collect::<Vec<_>>(),
            });
            return format.text(&data);
        }
        if outcomes.is_empty() {
            return Ok(format!("{}: the chart has no tests\n", found.shown()));
        }
        let rows: Vec<Vec<String>> = outcomes
            .iter()
            .map(|outcome| {
                let hook = &self.release.hooks[outcome.hook];
                let seconds = format!("{:.1} s", outcome.seconds);
                vec![format!("{} {}", hook.kind, hook.name), phase(outcome).to_owned(), seconds]
            })
            .collect();
        let mut text = table(&["TEST", "RESULT", "TOOK"], &rows);
        for outcome in outcomes {
            let name = &self.release.hooks[outcome.hook].name;
            outcome.failure.iter().for_each(|failure| text.push_str(&format!("{failure}\n")));
            outcome.log.iter().for_each(|line| text.push_str(&format!("{name} | {line}\n")));
        }
        Ok(text)
    }
}

fn unreadable(error: &kube::Error) -> String {
    format!("(the log cannot be read: {})", sentence(error))
}

fn last_run(outcome: &Outcome) -> HookRun {
    let now = Timestamp::now();
    let phase = if outcome.failure.is_none() { HookPhase::Succeeded } else { HookPhase::Failed };
    let took = k8s_openapi::jiff::SignedDuration::try_from_secs_f64(outcome.seconds).unwrap_or_default();
    HookRun { started_at: now.checked_sub(took).ok(), completed_at: Some(now), phase }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::codec::tests::release;

    #[test]
    fn tests_are_chosen_by_name_and_a_wrong_name_is_told() {
        let hook = |name: &str, event: &str| HookRecord {
            name: name.into(),
            events: vec![event.to_owned()],
            ..HookRecord::default()
        };
        let hooks = vec![hook("b", "test"), hook("migrate", "pre-install"), hook("a", "test")];
        let release = Release { hooks, ..release() };
        assert_eq!(chosen(&release, &[]).unwrap(), [2, 0]);
        assert_eq!(chosen(&release, &["b".to_owned()]).unwrap(), [0]);
        let error = chosen(&release, &["migrate".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "the chart has no test \"migrate\"; it has a, b");
    }
}
