//! `chartwright status`: the status of custom resources, all in a table or one with everything below it.
//!
//! | module | what is in it |
//! |---|---|
//! | [`told`] | what a custom resource tells of itself |
//! | [`rows`] | the table |
//! | [`tree`] | a release's objects, and what is below them |
//! | [`picture`] | one custom resource as a whole |
//! | [`look`] | asking the cluster |
//! | [`follow`] | asking again when something changed |
//!
//! Nothing is written, and nothing is asked of the operator: it works while that is away.

pub mod follow;
pub mod look;
pub mod picture;
pub mod rows;
pub mod told;
pub mod tree;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::access::{Access, Found, Session, Verification};
use super::named::Named;
use super::output::{Colour, Format, print, print_anew, print_coloured, tell, yaml};
use super::{Usage, named, waiting};
use crate::discovery::{Cache, Kind, Kinds};
use crate::error::sentence;
use crate::printable::escaped_json;
use follow::{Bell, Spot};
use look::Which;
use picture::Picture;
use rows::Look;
use told::Told;

/// Where a project has its watches, if this is one.
const WATCHES: &str = "./watches.yaml";
/// Between two looks there are so many times the time that one took: whoever watches ten thousand custom resources asks seldom.
const REST: u32 = 4;
/// After a look that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Show the status of custom resources
///
/// Without a name: a table of all, with release, revision, whether they are ready, how often objects were repaired, and the last error.
/// The kinds are those of watches.yaml, or, where there is none, all kinds with custom resources that Chartwright serves.
///
/// With a name: the release, the conditions, every object with its health, what is below it down to the pods, and the hooks.
///
/// The exit code is 0 if everything could be asked, whether it is ready or not. With --wait it is 0 when all are ready, and 1 if they
/// are not in time, or cannot become so by waiting.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "chartwright status [OPTIONS] [KIND]\n       chartwright status [OPTIONS] KIND NAME|KIND/NAME"
)]
#[command(after_help = "Examples:
  chartwright status -A
  chartwright status nginx -n shop -o wide
  chartwright status nginx web
  chartwright status nginx/web --watch
  chartwright status nginx/web --wait=2m && echo ready")]
pub struct Args {
    /// A kind, or a custom resource: `nginx`, `nginx web` or `nginx/web`
    #[arg(value_name = "KIND NAME", num_args = 0..=2)]
    pub resource: Vec<String>,
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only those with these labels, as in `team=web,tier!=test`
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Go on, and show what changes
    #[arg(short, long)]
    pub watch: bool,
    /// Wait until all are ready, as long as this [default: 5m]
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "5m", value_parser = waiting::read)]
    pub wait: Option<Duration>,
    /// Print data for scripts, or more columns
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    pub output: Option<Shape>,
    /// Leave out the first line of the table
    #[arg(long)]
    pub no_headers: bool,
    /// When to colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
    /// The file that names the kinds [default: ./watches.yaml if it is there]
    #[arg(long, value_name = "FILE")]
    pub watches_file: Option<PathBuf>,
    #[command(flatten)]
    pub access: Access,
    #[command(flatten)]
    pub verification: Verification,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    Json,
    Yaml,
    Wide,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let meant = meant(&args)?;
    let session = args.access.connect_verifying(&args.verification).await?;
    let kinds = Cache::new(session.calls.clone()).await?.kinds();
    let subject = match &meant {
        Meant::One(named) => Subject::One(Box::new(session.find(named).await?)),
        Meant::Kind(written) => Subject::Kinds(vec![session.kind(written)?]),
        Meant::All => {
            let namespace = (!args.all_namespaces).then_some(session.namespace.as_str());
            Subject::Kinds(all_kinds(&session, args.watches_file.as_deref(), namespace).await?)
        }
    };
    let viewer = Viewer { args: &args, session: &session, kinds, subject, told: RefCell::default() };
    match viewer.is_following() {
        true => viewer.follow().await,
        false => {
            let Some(shot) = viewer.look().await? else { bail!("it is gone") };
            viewer.print(&shot)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What a person asked about.
#[derive(Debug, PartialEq)]
enum Meant {
    All,
    Kind(String),
    One(Named),
}

fn meant(args: &Args) -> Result<Meant, Usage> {
    let meant = match args.resource.as_slice() {
        [] => Meant::All,
        [kind] if !kind.contains('/') => Meant::Kind(kind.clone()),
        words => Meant::One(named::read_only(words)?),
    };
    match &meant {
        Meant::One(named) if args.all_namespaces || args.selector.is_some() => {
            Err(Usage(format!("-A and -l choose among many, and {} is one: leave them out", named.name)))
        }
        _ => Ok(meant),
    }
}

/// The kinds of the project that is named or that is here, or else those that are served in a namespace, or in all.
pub async fn all_kinds(session: &Session, file: Option<&Path>, namespace: Option<&str>) -> anyhow::Result<Vec<Kind>> {
    match file.or(Some(Path::new(WATCHES)).filter(|here| here.exists())) {
        Some(file) => look::of_project(session, file),
        None => Ok(look::marked(session, namespace).await),
    }
}

enum Subject {
    Kinds(Vec<Kind>),
    One(Box<Found>),
}

/// One look at it.
enum Shot {
    Table(Vec<Told>),
    One(Box<Picture>),
}

impl Shot {
    fn all(&self) -> &[Told] {
        match self {
            Shot::Table(all) => all,
            Shot::One(picture) => std::slice::from_ref(&picture.told),
        }
    }
}

struct Viewer<'a> {
    args: &'a Args,
    session: &'a Session,
    kinds: Arc<Kinds>,
    subject: Subject,
    /// Notes that need no repetition.
    told: RefCell<BTreeSet<String>>,
}

impl Viewer<'_> {
    /// None where the one that was asked for is gone.
    async fn look(&self) -> anyhow::Result<Option<Shot>> {
        match &self.subject {
            Subject::One(found) => {
                let picture = look::picture(self.session, &self.kinds, found).await?;
                Ok(picture.map(|picture| Shot::One(Box::new(picture))))
            }
            Subject::Kinds(kinds) => Ok(Some(Shot::Table(self.rows(kinds).await?))),
        }
    }

    /// One kind of several that may not be listed is told and left out. Who follows does not take a failure for an answer: all that
    /// was there would be gone, or what is left be ready.
    async fn rows(&self, kinds: &[Kind]) -> anyhow::Result<Vec<Told>> {
        let which = Which { namespace: self.namespace(), labels: self.args.selector.as_deref(), ..Which::default() };
        let mut all = vec![];
        for kind in kinds {
            match look::list(self.session, kind, &which).await {
                Ok(listed) => all.extend(listed),
                Err(error) => {
                    let why = format!("cannot list {}: {}", kind.resource.plural, sentence(&error));
                    let is_refused = matches!(&error, kube::Error::Api(status) if matches!(status.code, 403..=405));
                    if kinds.len() == 1 || (self.is_following() && !is_refused) {
                        bail!(why);
                    }
                    self.note(why);
                }
            }
        }
        Ok(all)
    }

    fn is_following(&self) -> bool {
        self.args.watch || self.args.wait.is_some()
    }

    fn note(&self, what: String) {
        if self.told.borrow_mut().insert(what.clone()) {
            tell(&format!("note: {what}"));
        }
    }

    /// None is all.
    fn namespace(&self) -> Option<&str> {
        (!self.args.all_namespaces).then_some(self.session.namespace.as_str())
    }

    /// Colours are the only escape sequences, and only where they are asked for.
    fn print(&self, shot: &Shot) -> anyhow::Result<()> {
        let text = self.text(shot)?;
        if self.args.color.is_on() { print_coloured(&text) } else { print(&text) }
    }

    fn text(&self, shot: &Shot) -> anyhow::Result<String> {
        let format = match self.args.output {
            Some(Shape::Json) => Some(Format::Json),
            Some(Shape::Yaml) => Some(Format::Yaml),
            Some(Shape::Wide) | None => None,
        };
        let now = Timestamp::now();
        match (shot, format) {
            (Shot::Table(all), Some(format)) => format.text(&all.iter().map(rows::data).collect()),
            (Shot::One(picture), Some(format)) => format.text(&picture.data()),
            (Shot::One(picture), None) => Ok(picture.text(self.args.color.is_on(), now)),
            (Shot::Table(all), None) if all.is_empty() => {
                let place = self.namespace().map(|namespace| format!(" in the namespace {namespace}"));
                tell(&format!("No custom resources found{}.", place.unwrap_or_default()));
                Ok(String::new())
            }
            (Shot::Table(all), None) => Ok(rows::text(all, self.shape(), now)),
        }
    }

    fn shape(&self) -> Look {
        Look {
            wide: self.args.output == Some(Shape::Wide),
            terminal: std::io::stdout().is_terminal(),
            namespaces: self.args.all_namespaces,
            without_heading: self.args.no_headers,
            colour: self.args.color.is_on(),
        }
    }

    fn spots(&self, shot: &Shot) -> BTreeSet<Spot> {
        match (&self.subject, shot) {
            (Subject::Kinds(kinds), _) => {
                follow::spots_of_kinds(kinds, self.namespace(), self.args.selector.as_deref())
            }
            (_, Shot::One(picture)) => follow::spots_of(picture),
            (_, Shot::Table(_)) => BTreeSet::new(),
        }
    }

    async fn follow(&self) -> anyhow::Result<ExitCode> {
        let until = self.args.wait.map(|wait| Instant::now() + wait);
        let patience = self.patience();
        let (mut bell, mut before): (Option<Bell>, Option<Shot>) = (None, None);
        loop {
            let (looked, took) = self.look_patiently(before.is_none(), until).await;
            let Some(shot) = looked? else { return self.gone() };
            if self.args.watch {
                self.show(&shot, before.as_ref())?;
            }
            if self.args.wait.is_some()
                && let Some(is_good) = verdict(&shot, patience)?
            {
                return self.end(&shot, is_good, patience);
            }
            let spots = self.spots(&shot);
            let mut now = match bell.take() {
                Some(bell) => bell.on(&self.session.calls, &self.kinds, spots),
                None => Bell::new(&self.session.calls, &self.kinds, spots),
            };
            if !now.ring(until, took * REST).await {
                return self.last_look(&shot, patience).await;
            }
            (bell, before) = (Some(now), Some(shot));
        }
    }

    /// How long somebody waits, as a time that a pause can be compared with.
    fn patience(&self) -> Timestamp {
        let wait = self.args.wait.and_then(|wait| SignedDuration::try_from(wait).ok()).unwrap_or_default();
        Timestamp::now().checked_add(wait).unwrap_or(Timestamp::MAX)
    }

    /// When the time is over: nobody may have been told of what changed since the look before.
    async fn last_look(&self, before: &Shot, until: Timestamp) -> anyhow::Result<ExitCode> {
        match self.look().await {
            Ok(Some(shot)) => {
                if self.args.watch {
                    self.show(&shot, Some(before))?;
                }
                self.end(&shot, verdict(&shot, until)? == Some(true), until)
            }
            Ok(None) => self.gone(),
            Err(error) => {
                self.note(format!("{error:#}"));
                self.end(before, false, until)
            }
        }
    }

    /// A look, and how long it took. Only the first must succeed.
    async fn look_patiently(&self, is_first: bool, until: Option<Instant>) -> (anyhow::Result<Option<Shot>>, Duration) {
        let until = if is_first { Some(Instant::now()) } else { until };
        follow::patiently(until, PAUSE, async || self.look().await, |what| self.note(what)).await
    }

    fn gone(&self) -> anyhow::Result<ExitCode> {
        match (&self.subject, self.args.wait) {
            (Subject::One(found), Some(_)) => bail!("the {} is gone", found.shown()),
            (Subject::One(found), None) => print(&format!("the {} is gone\n", found.shown()))?,
            _ => {}
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What it came to, where it was waited for.
    fn end(&self, shot: &Shot, is_good: bool, until: Timestamp) -> anyhow::Result<ExitCode> {
        if !self.args.watch {
            self.print(shot)?;
        }
        let mut alone = shot.all().iter().filter(|told| follow::is_left_alone(told, until));
        if let Some(first) = alone.next() {
            let others = Some(alone.count()).filter(|count| *count > 0);
            let others =
                others.map(|count| format!(", and so are {count} more that are not ready")).unwrap_or_default();
            bail!(
                "the {} is paused{others}, so waiting does not help; resume it with `{}`",
                first.shown(),
                first.resume()
            );
        }
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// On a terminal the whole, anew; elsewhere a line, or a document, for each change.
    fn show(&self, shot: &Shot, before: Option<&Shot>) -> anyhow::Result<()> {
        match self.args.output {
            Some(Shape::Json | Shape::Yaml) if before.map(data) == Some(data(shot)) => return Ok(()),
            Some(Shape::Json) => return print(&escaped_json(&format!("{}\n", data(shot)))),
            Some(Shape::Yaml) => return print(&format!("---\n{}", yaml(&data(shot))?)),
            Some(Shape::Wide) | None => {}
        }
        if std::io::stdout().is_terminal() {
            return print_anew(&self.text(shot)?);
        }
        let now = Timestamp::now();
        let lines = match (shot, before) {
            (Shot::One(new), Some(Shot::One(old))) => new.changes(Some(old)),
            (Shot::One(new), _) => new.changes(None),
            (Shot::Table(new), before) => {
                let old = if let Some(Shot::Table(old)) = before { old.as_slice() } else { &[] };
                rows::changes(new, old)
            }
        };
        let time = now.strftime("%H:%M:%SZ");
        print(&lines.into_iter().map(|line| format!("{time} {line}\n")).collect::<String>())
    }
}

fn data(shot: &Shot) -> serde_json::Value {
    match shot {
        Shot::Table(all) => all.iter().map(rows::data).collect(),
        Shot::One(picture) => picture.data(),
    }
}

/// Whether waiting has come to an end, and how.
fn verdict(shot: &Shot, until: Timestamp) -> anyhow::Result<Option<bool>> {
    if shot.all().is_empty() {
        bail!("there is no custom resource to wait for");
    }
    Ok(follow::verdict(shot.all().iter(), until))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn read(words: &str) -> Result<Meant, Usage> {
        meant(&Line::parse_from(format!("status {words}").split_whitespace()).args)
    }

    #[test]
    fn words_name_all_a_kind_or_one() {
        let one = || Meant::One(Named { kind: "nginx".into(), name: "web".into() });
        assert_eq!(read("").unwrap(), Meant::All);
        assert_eq!(read("nginx -A -l a=b").unwrap(), Meant::Kind("nginx".into()));
        assert_eq!(read("nginx web").unwrap(), one());
        assert_eq!(read("nginx/web --wait").unwrap(), one());
        assert!(read("nginx/web -A").unwrap_err().to_string().contains("leave them out"));
    }

    #[test]
    fn waiting_has_a_limit_that_can_be_given() {
        let wait = |words: &str| Line::parse_from(words.split_whitespace()).args.wait;
        assert_eq!(wait("status nginx web"), None);
        assert_eq!(wait("status nginx web --wait"), Some(Duration::from_secs(300)));
        assert_eq!(wait("status --wait=2s nginx web"), Some(Duration::from_secs(2)));
    }
}
