//! An operator that is killed at random moments runs no hook twice, and forgets none.

use std::time::Duration;

use super::{colour, colour_of, hook, let_pods_end, project};
use crate::harness::jobs::Jobs;
use crate::harness::{until, until_within};

/// Installs, upgrades and deletes `rounds` custom resources, and kills the operator once at a random moment of each step.
async fn kill_at_random(rounds: u32) {
    let name = |kind: &str| format!("{{{{ .Release.Name }}}}-{kind}");
    let project = project(&[
        hook(&name("first"), "pre-install", "helm.sh/hook-weight: '-5'", ""),
        hook(
            &name("second"),
            "pre-install",
            "helm.sh/hook-weight: '5'\nhelm.sh/hook-delete-policy: hook-succeeded",
            "",
        ),
        hook(&name("upgraded"), "post-upgrade", "helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded", ""),
        hook(&name("leaving"), "pre-delete", "", "")
            .replace("backoffLimit: 0", "backoffLimit: 0\n  ttlSecondsAfterFinished: 0"),
    ])
    .await;
    let jobs = Jobs::watch(&project).await;
    let mut random = Random(u64::from(std::process::id()) << 16 | 0x9e37_79b9);
    for round in 0..rounds {
        let cr = format!("web-{round}");
        let mut operator = project.run();
        for step in ["install", "upgrade", "delete"] {
            match step {
                "install" => drop(project.apply(&cr, colour("blue")).await),
                "upgrade" => drop(project.apply(&cr, colour("green")).await),
                _ => project.delete(&cr).await,
            }
            let moment = random.below(1200);
            tokio::time::sleep(Duration::from_millis(moment)).await;
            drop(operator);
            operator = project.run();
            until(&format!("round {round}: {step} is done, killed after {moment} ms"), async || match step {
                "install" => (project.status(&cr).await["deployedRelease"]["revision"] == 1).then_some(()),
                "upgrade" => {
                    let is_told = project.status(&cr).await["deployedRelease"]["revision"] == 2;
                    (is_told && colour_of(&project, &cr).await.as_deref() == Some("green")).then_some(())
                }
                _ => project.crs().get_opt(&cr).await.unwrap().is_none().then_some(()),
            })
            .await;
        }
        let runs = jobs.runs().into_iter().filter(|run| run.contains(&format!(" {cr}-")));
        // Each in the first attempt.
        let runs: Vec<String> = runs.map(|run| without_numbers(&run)).collect();
        let expected = [
            format!("1.pre-install {cr}-first"),
            format!("1.pre-install {cr}-second"),
            format!("2.post-upgrade {cr}-upgraded"),
            format!("2.pre-delete {cr}-leaving"),
        ];
        assert_eq!(runs, expected, "round {round}");
    }
    println!("{rounds} custom resources, {} kills: every hook ran once per event", rounds * 3);
}

/// `1.pre-install.0.1 web` becomes `1.pre-install web`; another attempt stays as it is.
fn without_numbers(run: &str) -> String {
    let (run, name) = run.split_once(' ').unwrap();
    match run.split('.').collect::<Vec<_>>()[..] {
        [revision, event, _, "1"] => format!("{revision}.{event} {name}"),
        _ => format!("{run} {name}"),
    }
}

/// Knuth's linear congruence is random enough for moments.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[tokio::test]
async fn a_hook_runs_once_though_the_operator_is_killed() {
    kill_at_random(2).await;
}

#[tokio::test]
#[ignore = "takes minutes; make hooks-proof runs it"]
async fn hooks_run_once_though_the_operator_is_killed_twenty_times_per_event() {
    kill_at_random(20).await;
}

#[tokio::test]
async fn an_operator_that_starts_while_a_hook_runs_sees_its_end_at_once() {
    let project = project(&[hook("slow", "pre-install", "", "hang")]).await;
    let operator = project.run();
    project.apply("web", colour("blue")).await;
    project.not_ready("web", "RunningHooks").await;
    drop(operator);
    let operator = project.run();
    until("it watches", async || operator.log().contains("watching").then_some(())).await;
    let_pods_end(&project).await;
    until_within(Duration::from_secs(15), "it is deployed", async || {
        (colour_of(&project, "web").await.as_deref() == Some("blue")).then_some(())
    })
    .await;
}
