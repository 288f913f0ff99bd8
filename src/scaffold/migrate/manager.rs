//! config/manager/manager.yaml: what the new operator needs to be given.
//!
//! Pure. Lines that operator-sdk wrote are replaced, what a person chose is left and told about. Arguments and environment stay: they mean
//! the same.

use super::Edited;

/// What operator-sdk's releases gave their manager.
const SMALL: [&str; 3] = ["90Mi", "100Mi", "128Mi"];
const ENOUGH: &str = "1Gi";
/// What they allowed it to compute until 1.15.
const SLOW: &str = "100m";

pub fn edit(file: &str, text: &str) -> Edited {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let mut edited = Edited::default();
    match blocks(&lines, "limits:").as_slice() {
        [limits] => limit(file, &mut lines[limits.clone()], &mut edited),
        [] => {}
        _ => edited.notes.push(format!(
            "{file} has several containers with limits, and is left as it is; the manager should have {ENOUGH} of memory, since helm runs as a process of its own"
        )),
    }
    probes(&mut lines, &mut edited);
    edited.text = lines.concat();
    edited
}

fn limit(file: &str, limits: &mut [String], edited: &mut Edited) {
    for line in limits {
        let Some((name, value)) = line.trim().split_once(':') else { continue };
        let (name, value) = (name.to_owned(), value.trim().trim_matches('"').to_owned());
        match name.as_str() {
            "memory" if SMALL.contains(&value.as_str()) => {
                *line = line.replacen(&value, ENOUGH, 1);
                edited
                    .why
                    .push(format!("{ENOUGH} of memory in the place of {value}: helm runs as a process of its own"));
            }
            "memory" if is_less_than_a_gibibyte(&value) => edited.notes.push(format!(
                "{file} limits memory to {value}; {ENOUGH} is advised, since helm runs as a process of its own"
            )),
            "cpu" if value == SLOW => edited.notes.push(format!(
                "{file} limits the processor to {value}, which makes helm slow; take that line away, or raise it"
            )),
            _ => {}
        }
    }
}

fn is_less_than_a_gibibyte(quantity: &str) -> bool {
    let in_mebibytes = quantity.strip_suffix("Mi").or_else(|| quantity.strip_suffix('M'));
    in_mebibytes.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number < 1000)
}

/// operator-sdk 1.4 had them the wrong way round. A manager that is alive but not ready yet must not be ended.
fn probes(lines: &mut [String], edited: &mut Edited) {
    let pairs = [("livenessProbe:", "/readyz", "/healthz"), ("readinessProbe:", "/healthz", "/readyz")];
    let path = |lines: &[String], probe: &str, path: &str| {
        let block = blocks(lines, probe).into_iter().next()?;
        block.into_iter().find(|&at| lines[at].trim() == format!("path: {path}"))
    };
    let found: Vec<usize> = pairs.iter().filter_map(|(probe, wrong, _)| path(lines, probe, wrong)).collect();
    if found.len() < pairs.len() {
        return;
    }
    for (at, (_, wrong, right)) in found.into_iter().zip(pairs) {
        lines[at] = lines[at].replacen(wrong, right, 1);
    }
    edited.why.push(
        "/healthz says whether it is alive and /readyz whether it is ready, which were the wrong way round".to_owned(),
    );
}

/// The lines below each line that is `head`: those that are further in.
fn blocks(lines: &[String], head: &str) -> Vec<std::ops::Range<usize>> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let heads = lines.iter().enumerate().filter(|(_, line)| line.trim() == head);
    let block = |(at, line): (usize, &String)| {
        let below = lines[at + 1..].iter().take_while(|below| depth(below) > depth(line)).count();
        at + 1..at + 1 + below
    };
    heads.map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(cpu: &str, memory: &str, alive: &str, ready: &str) -> String {
        format!(
            "      containers:\n      - args:\n        - --leader-elect\n        name: manager\n        livenessProbe:\n          httpGet:\n            path: {alive}\n            port: 8081\n        readinessProbe:\n          httpGet:\n            path: {ready}\n        # Theirs.\n        resources:\n          limits:\n            cpu: {cpu}\n            memory: {memory}\n          requests:\n            memory: 64Mi\n"
        )
    }

    #[test]
    fn the_limit_that_operator_sdk_wrote_is_raised() {
        for memory in SMALL {
            let edited = edit("m", &manifest("500m", memory, "/healthz", "/readyz"));
            assert_eq!(edited.text, manifest("500m", "1Gi", "/healthz", "/readyz"));
            assert_eq!((edited.why.len(), edited.notes.len()), (1, 0));
        }
    }

    #[test]
    fn a_limit_that_a_person_chose_stays_and_is_told_where_it_is_small() {
        for (memory, notes) in [("256Mi", 1), ("2Gi", 0), ("1024Mi", 0)] {
            let text = manifest("500m", memory, "/healthz", "/readyz");
            let edited = edit("m", &text);
            assert_eq!((edited.text, edited.why.len(), edited.notes.len()), (text, 0, notes), "{memory}");
        }
        assert!(edit("m", &manifest("100m", "2Gi", "/healthz", "/readyz")).notes[0].contains("makes helm slow"));
    }

    #[test]
    fn of_several_containers_none_is_changed() {
        let text = manifest("1", "128Mi", "/a", "/b") + &manifest("1", "128Mi", "/a", "/b");
        let edited = edit("m", &text);
        assert_eq!((edited.text, edited.notes.len()), (text, 1));
    }

    #[test]
    fn probes_that_were_swapped_are_swapped_back() {
        let edited = edit("m", &manifest("1", "2Gi", "/readyz", "/healthz"));
        assert_eq!(edited.text, manifest("1", "2Gi", "/healthz", "/readyz"));
        let own = manifest("1", "2Gi", "/readyz", "/readyz");
        assert_eq!(edit("m", &own).text, own);
    }
}
