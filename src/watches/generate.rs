//! `generate`: values that the operator generates once for each custom resource.
//!
//! A list of maps. Each has a name, one of `text`, `keyPair` and `certificate` that says what it is, and says where it belongs among the values.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Map, Value};

use super::duration;
use super::fields::{Problem, kind};
use super::suggest;
use crate::generate::certificate::is_dns_name;
use crate::generate::make::{SETS, stand_ins};
use crate::generate::pattern::{Pattern, Release};
use crate::generate::{Algorithm, Authority, CertificateRule, Generator, Part, Rule, TextRule};
use crate::values::{Overrides, TargetPath, Values};

const FIELD: &str = "generate";
const RULES: [&str; 3] = ["text", "keyPair", "certificate"];
const KNOWN: [&str; 5] = ["name", "text", "keyPair", "certificate", "targetPath"];

/// How many values one kind may have.
const MOST: usize = 64;
/// Of a name: an annotation's name has 63 characters, and `rotate-` comes before it.
const LONGEST_NAME: usize = 50;
/// What is shorter can be guessed, and is not masked everywhere.
const LENGTHS: std::ops::RangeInclusive<u64> = 8..=1024;
const SHORTEST_DURATION: Duration = Duration::from_secs(60 * 60);

pub fn read(value: &Value) -> Result<Vec<Generator>, Problem> {
    let wanted = "a list of maps with `name` and `targetPath`";
    let items = value.as_array().ok_or(Problem::Type { field: FIELD, wanted, found: kind(value) })?;
    if items.len() > MOST {
        return Err(wrong(format!("it has {} items, and at most {MOST} values can be generated", items.len())));
    }
    let numbered = items.iter().enumerate();
    let read = |(index, it)| item(it).map_err(|why| wrong(format!("item {}: {why}", index + 1)));
    let all: Vec<Generator> = numbered.map(read).collect::<Result<_, _>>()?;
    check_names(&all).and_then(|()| check_issuers(&all)).and_then(|()| check_paths(&all)).map_err(wrong)?;
    Ok(all)
}

fn item(value: &Value) -> Result<Generator, String> {
    let map = value.as_object().ok_or_else(|| format!("it must be a map with `name`, but is {}", kind(value)))?;
    check_known(map, &KNOWN)?;
    let name = text(map, "name")?.ok_or("`name` is missing")?;
    if !is_name(name) {
        return Err(format!(
            "`name`: {name:?} cannot be used: write small letters, digits and `-`, at most {LONGEST_NAME}"
        ));
    }
    let mut rules = RULES.iter().filter_map(|rule| Some((*rule, present(map, rule)?)));
    let (rule, rest) = (rules.next(), rules.next());
    let rule = match (rule, rest) {
        (Some(("text", value)), None) => Rule::Text(text_rule(fields(value, "text", &["length", "characters"])?)?),
        (Some(("keyPair", value)), None) => Rule::KeyPair(algorithm(&fields(value, "keyPair", &["algorithm"])?)?),
        (Some((_, value)), None) => Rule::Certificate(certificate_rule(value)?),
        (None, _) => return Err(format!("say what `{name}` is with one of `text`, `keyPair` and `certificate`")),
        (Some((one, _)), Some((other, _))) => {
            return Err(format!("`{one}` and `{other}` exclude each other: write two items"));
        }
    };
    let mut generator = Generator { name: name.to_owned(), rule, paths: vec![] };
    generator.paths = paths(map, &generator)?;
    Ok(generator)
}

fn text_rule(map: Map<String, Value>) -> Result<TextRule, String> {
    let mut rule = TextRule::default();
    if let Some(length) = present(&map, "length") {
        let whole = length.as_u64().filter(|length| LENGTHS.contains(length));
        let wrong =
            || format!("`length`: {length} is not a whole number from {} to {}", LENGTHS.start(), LENGTHS.end());
        rule.length = whole.and_then(|length| usize::try_from(length).ok()).ok_or_else(wrong)?;
    }
    if let Some(named) = text(&map, "characters")? {
        rule.characters = characters(named)?;
    }
    Ok(rule)
}

/// A set by its name, or the characters themselves.
fn characters(named: &str) -> Result<String, String> {
    if let Some((_, set)) = SETS.iter().find(|(name, _)| *name == named) {
        return Ok((*set).to_owned());
    }
    let sets: Vec<String> = SETS.iter().map(|(name, _)| format!("`{name}`")).collect();
    let sets = sets.join(", ");
    let distinct: BTreeSet<char> = named.chars().collect();
    // A list of characters names each once; a misspelt name of a set does not, or has few of them.
    match distinct.len() == named.chars().count()
        && distinct.len() >= 10
        && named.chars().all(|it| it.is_ascii_graphic())
    {
        true => Ok(named.to_owned()),
        false => Err(format!(
            "`characters`: {named:?} is not known: write one of {sets}, or at least ten different ASCII characters, each once"
        )),
    }
}

fn algorithm(map: &Map<String, Value>) -> Result<Algorithm, String> {
    let Some(named) = text(map, "algorithm")? else { return Ok(Algorithm::default()) };
    Algorithm::parse(named)
        .ok_or_else(|| format!("`algorithm`: `{named}` is not known: write `ecdsa-p256`, `ecdsa-p384` or `ed25519`"))
}

fn certificate_rule(value: &Value) -> Result<CertificateRule, String> {
    let known = ["isCA", "issuer", "commonName", "dnsNames", "ipAddresses", "duration", "algorithm"];
    let map = fields(value, "certificate", &known)?;
    let is_ca = match present(&map, "isCA") {
        None => false,
        Some(Value::Bool(is_ca)) => *is_ca,
        Some(other) => return Err(format!("`isCA` must be true or false, but is {}", kind(other))),
    };
    if let Some(field) =
        ["issuer", "commonName", "dnsNames", "ipAddresses"].into_iter().find(|it| is_ca && present(&map, it).is_some())
    {
        return Err(format!(
            "`{field}` has no meaning for a CA: it signs itself, and its subject follows from its name"
        ));
    }
    let mut rule = CertificateRule { is_ca, algorithm: algorithm(&map)?, ..CertificateRule::default() };
    if let Some(issuer) = text(&map, "issuer")? {
        rule.authority = Authority::Generated(issuer.to_owned());
    }
    rule.common_name = text(&map, "commonName")?.map(|name| pattern("commonName", name)).transpose()?;
    for name in texts(&map, "dnsNames")? {
        let read = pattern("dnsNames", name)?;
        if !is_dns_name(&read.fill(Release { name: "n", namespace: "n" })) {
            return Err(format!("`dnsNames`: {name:?} is not a DNS name"));
        }
        rule.dns_names.push(read);
    }
    for address in texts(&map, "ipAddresses")? {
        let wrong = |_| format!("`ipAddresses`: {address:?} is not an IP address");
        rule.ip_addresses.push(address.parse::<IpAddr>().map_err(wrong)?);
    }
    if let Some(written) = text(&map, "duration")? {
        rule.duration = duration::parse(written).map_err(|error| format!("`duration`: {error}"))?;
        if rule.duration < SHORTEST_DURATION {
            return Err(format!("`duration`: `{written}` is too short: the shortest is `1h`"));
        }
    }
    Ok(rule)
}

fn pattern(field: &str, text: &str) -> Result<Pattern, String> {
    Pattern::parse(text).map_err(|error| format!("`{field}`: {error}"))
}

/// One path or several, or a map of them where there are several parts.
fn paths(map: &Map<String, Value>, generator: &Generator) -> Result<Vec<(Part, TargetPath)>, String> {
    const TARGET: &str = "targetPath";
    let (parts, name) = (generator.parts(), &generator.name);
    let shown: Vec<String> = parts.iter().map(|part| format!("`{}`", part.as_str())).collect();
    let shown = shown.join(", ");
    match (present(map, TARGET), parts) {
        (None, _) if matches!(&generator.rule, Rule::Certificate(rule) if rule.is_ca) => Ok(vec![]),
        (None, _) => Err(format!("`{TARGET}` is missing: say where `{name}` belongs among the chart's values")),
        (Some(Value::Object(by_part)), [_, _, ..]) => {
            let names: Vec<&str> = parts.iter().map(|part| part.as_str()).collect();
            check_known(by_part, &names).map_err(|why| format!("`{TARGET}`: {why}"))?;
            let mut paths = vec![];
            for part in parts {
                paths.extend(path_list(by_part, part.as_str())?.into_iter().map(|path| (*part, path)));
            }
            match paths.is_empty() {
                true => Err(format!("`{TARGET}` names no path: write one for {shown}")),
                false => Ok(paths),
            }
        }
        (Some(other), [_, _, ..]) => {
            Err(format!("`{TARGET}` must be a map with paths for {shown}, but is {}", kind(other)))
        }
        (Some(_), _) => Ok(path_list(map, TARGET)?.into_iter().map(|path| (Part::Text, path)).collect()),
    }
}

fn path_list(map: &Map<String, Value>, field: &str) -> Result<Vec<TargetPath>, String> {
    let written = match present(map, field) {
        Some(Value::Array(_)) => texts(map, field)?,
        _ => text(map, field)?.into_iter().collect(),
    };
    let parse = |path: &str| TargetPath::parse(path).map_err(|error| format!("`targetPath`: {error}"));
    written.into_iter().map(parse).collect()
}

fn check_names(all: &[Generator]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    match all.iter().find(|it| !names.insert(&it.name)) {
        Some(twice) => Err(format!("two items are called `{}`; give one of them another name", twice.name)),
        None => Ok(()),
    }
}

fn check_issuers(all: &[Generator]) -> Result<(), String> {
    let is_ca =
        |name: &str| all.iter().any(|it| it.name == name && matches!(&it.rule, Rule::Certificate(rule) if rule.is_ca));
    for (it, issuer) in all.iter().filter_map(|it| Some((it, it.issuer()?))) {
        if !is_ca(issuer) {
            return Err(format!(
                "the issuer of `{}` is `{issuer}`, and no item of that name is a certificate with `isCA: true`; add it",
                it.name
            ));
        }
    }
    Ok(())
}

/// All values must have room beside each other.
fn check_paths(all: &[Generator]) -> Result<(), String> {
    let stand_ins = stand_ins(all);
    let values = Values::with_generated(None, &stand_ins, &Overrides::default()).map_err(|error| error.to_string())?;
    let mut places = BTreeSet::new();
    for placed in &stand_ins {
        let pointer = placed.path.pointer();
        let is_there = values.json().pointer(&pointer).is_some_and(|it| it.is_string());
        if !is_there || !places.insert(pointer) {
            return Err(format!("another value is put at `{}` as well, or above it; choose another path", placed.path));
        }
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=LONGEST_NAME).contains(&text.len())
        && text.bytes().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The fields of a rule.
fn fields(value: &Value, rule: &str, known: &[&str]) -> Result<Map<String, Value>, String> {
    let map = value
        .as_object()
        .ok_or_else(|| format!("`{rule}` must be a map, `{{}}` for one without fields, but is {}", kind(value)))?;
    check_known(map, known)?;
    Ok(map.clone())
}

fn check_known(map: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    let Some(unknown) = map.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let meant = suggest::nearest(unknown, known.iter().copied());
    let meant = meant.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    Err(format!("`{unknown}` is not known{meant}"))
}

fn present<'a>(map: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    map.get(field).filter(|value| !value.is_null())
}

fn text<'a>(map: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, String> {
    match present(map, field) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(other) => Err(format!("`{field}` must be text (write it in quotes), but is {}", kind(other))),
    }
}

fn texts<'a>(map: &'a Map<String, Value>, field: &str) -> Result<Vec<&'a str>, String> {
    let list = match present(map, field) {
        None => return Ok(vec![]),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(format!("`{field}` must be a list, but is {}", kind(other))),
    };
    let read = |it: &'a Value| it.as_str().filter(|text| !text.is_empty());
    let wrong = || format!("`{field}` must be a list of texts (write them in quotes)");
    list.iter().map(|it| read(it).ok_or_else(wrong)).collect()
}

fn wrong(message: String) -> Problem {
    Problem::Generate(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_item_is_read_with_its_defaults() {
        let all = json!([
            {"name": "root", "text": {}, "targetPath": "auth.rootPassword"},
            {"name": "pin", "text": {"length": 12, "characters": "digits"}, "targetPath": ["a.pin", "b.pins[0]"]},
            {"name": "odd", "text": {"characters": "abcdefghij_-"}, "targetPath": "odd"},
            {"name": "ssh", "keyPair": {"algorithm": "ed25519"}, "targetPath": {"privateKey": "ssh.key", "publicKey": ["ssh.pub"]}},
            {"name": "tls", "targetPath": {"certificate": "tls.crt", "privateKey": "tls.key", "ca": "tls.ca"},
             "certificate": {"issuer": "ca", "dnsNames": ["{{ .Release.Name }}.svc"], "ipAddresses": ["::1"], "duration": "720h"}},
            {"name": "ca", "certificate": {"isCA": true}},
        ]);
        let all = read(&all).unwrap();
        let root = Generator {
            name: "root".into(),
            rule: Rule::Text(TextRule::default()),
            paths: vec![(Part::Text, TargetPath::parse("auth.rootPassword").unwrap())],
        };
        assert_eq!(all[0], root);
        assert_eq!(all[1].rule, Rule::Text(TextRule { length: 12, characters: "0123456789".into() }));
        assert_eq!((all[1].paths.len(), all[3].rule == Rule::KeyPair(Algorithm::Ed25519)), (2, true));
        assert!(matches!(&all[2].rule, Rule::Text(rule) if rule.characters == "abcdefghij_-"));
        let Rule::Certificate(tls) = &all[4].rule else { panic!("{:?}", all[4]) };
        assert_eq!(
            (tls.authority.clone(), tls.duration),
            (Authority::Generated("ca".into()), Duration::from_secs(720 * 3600))
        );
        assert!(matches!(&all[5].rule, Rule::Certificate(rule) if rule.is_ca) && all[5].paths.is_empty());
    }

    fn message(value: Value) -> String {
        read(&value).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = |more: Value| {
            let mut item = json!({"name": "a", "text": {}, "targetPath": "a"});
            item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!([item])
        };
        let certificate =
            |fields: Value| json!([{"name": "a", "certificate": fields, "targetPath": {"privateKey": "a"}}]);
        for (value, expected) in [
            (json!({}), "`generate` must be a list of maps with `name` and `targetPath`, but is a map"),
            (json!(vec![json!({}); 65]), "it has 65 items"),
            (json!(["a"]), "item 1: it must be a map with `name`, but is text"),
            (json!([{"text": {}}]), "item 1: `name` is missing"),
            (text(json!({"name": "A b"})), "`name`: \"A b\" cannot be used"),
            (text(json!({"nmae": "a"})), "`nmae` is not known; did you mean `name`?"),
            (
                json!([{"name": "a", "targetPath": "a"}]),
                "say what `a` is with one of `text`, `keyPair` and `certificate`",
            ),
            (text(json!({"keyPair": {}})), "`text` and `keyPair` exclude each other"),
            (text(json!({"text": "x"})), "`text` must be a map, `{}` for one without fields, but is text"),
            (text(json!({"text": {"lenght": 8}})), "`lenght` is not known; did you mean `length`?"),
            (text(json!({"text": {"length": 7}})), "`length`: 7 is not a whole number from 8 to 1024"),
            (text(json!({"text": {"length": "8"}})), "`length`: \"8\" is not a whole number"),
            (
                text(json!({"text": {"characters": "alphanum"}})),
                "`characters`: \"alphanum\" is not known: write one of `alphanumeric`",
            ),
            (text(json!({"text": {"characters": "aabcdefghijkl"}})), "each once"),
            (text(json!({"targetPath": null})), "`targetPath` is missing: say where `a` belongs"),
            (text(json!({"targetPath": "a..b"})), "`targetPath`: a path holds an empty key"),
            (text(json!({"targetPath": "a=b"})), "is not a single path"),
            (text(json!({"targetPath": {"text": "a"}})), "`targetPath` must be text"),
            (
                json!([{"name": "a", "keyPair": {}, "targetPath": "a"}]),
                "must be a map with paths for `privateKey`, `publicKey`, but is text",
            ),
            (json!([{"name": "a", "keyPair": {}, "targetPath": {"key": "a"}}]), "`targetPath`: `key` is not known"),
            (
                json!([{"name": "a", "keyPair": {}, "targetPath": {}}]),
                "names no path: write one for `privateKey`, `publicKey`",
            ),
            (
                json!([{"name": "a", "keyPair": {"algorithm": "rsa"}, "targetPath": {"privateKey": "a"}}]),
                "`rsa` is not known",
            ),
            (certificate(json!({"isCA": "yes"})), "`isCA` must be true or false"),
            (certificate(json!({"isCA": true, "dnsNames": ["a"]})), "`dnsNames` has no meaning for a CA"),
            (certificate(json!({"dnsNames": ["a b"]})), "`dnsNames`: \"a b\" is not a DNS name"),
            (certificate(json!({"dnsNames": ["{{ .Values.a }}"]})), "is not known: write {{ .Release.Name }}"),
            (certificate(json!({"ipAddresses": ["localhost"]})), "\"localhost\" is not an IP address"),
            (certificate(json!({"duration": "10m"})), "the shortest is `1h`"),
            (certificate(json!({"duration": "1d"})), "`duration`: `1d` is not a duration"),
            (certificate(json!({"issuer": "b"})), "the issuer of `a` is `b`, and no item of that name"),
        ] {
            let message = message(value);
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
        }
    }

    #[test]
    fn values_that_have_no_room_beside_each_other_are_refused() {
        let two = |one: &str, other: &str| {
            let item = |name: &str, path: &str| json!({"name": name, "text": {}, "targetPath": path});
            read(&json!([item("a", one), item("b", other)]))
        };
        assert!(two("auth.a", "auth.b").is_ok() && two("auth[0]", "auth[1]").is_ok());
        for (one, other) in
            [("auth.a", "auth.a"), ("auth", "auth.a"), ("auth.a", "auth"), ("auth[0]", "auth.a"), ("l[0]", "l[0].a")]
        {
            assert!(two(one, other).is_err(), "{one} {other}");
        }
        assert!(
            message(json!([
                {"name": "a", "text": {}, "targetPath": "a"}, {"name": "a", "text": {}, "targetPath": "b"},
            ]))
            .contains("two items are called `a`")
        );
    }
}
