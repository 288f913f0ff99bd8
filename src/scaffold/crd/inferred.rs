//! The shape of values that no schema speaks of, from their defaults and comments.
//!
//! helm takes anything for such a value, also a text for a map (with a warning, or none). So nothing is enforced: a field has a name, a
//! description and the fields inside of it, but no type. Only where a person asks for strict types they are those of the defaults.

use serde_json::Value;

use super::Options;
use super::schema::Schema;
use super::types::Types;
use super::wording::About;
use crate::scaffold::values::Field;

pub(super) fn inferred(default: Option<&Value>, field: Option<&Field>, options: &Options) -> Schema {
    let types = default.map(Types::of_value).filter(|types| *types != Types::NULL);
    let is_strict = options.strict_types && types.is_some();
    let is_list = is_strict && types == Some(Types::ARRAY);
    Schema {
        description: About { field, types: types.filter(|_| !is_strict), default, ..About::default() }.description(),
        types: types.filter(|_| is_strict),
        is_open: !is_strict || types == Some(Types::OBJECT),
        is_nullable: true,
        properties: properties(default, field, options),
        items: is_list.then(|| Box::new(Schema::open())),
        ..Schema::default()
    }
}

/// The fields inside, in the order of the file. Names with a template in them are examples of names.
fn properties(default: Option<&Value>, field: Option<&Field>, options: &Options) -> Vec<(String, Schema)> {
    let fields = field.into_iter().flat_map(|field| &field.fields);
    let of = |(name, field): &(String, Field)| {
        let default = default.and_then(|default| default.get(name));
        (name.clone(), inferred(default, Some(field), options))
    };
    fields.filter(|(_, field)| !field.is_hidden).map(of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scaffold::values::comments;

    fn written(text: &str, options: &Options) -> String {
        let values = crate::yaml::parse(text).unwrap();
        let schema = inferred(Some(&values), Some(&comments::read(text, &values)), options);
        serde_yaml::to_string(&schema.yaml()).unwrap()
    }

    #[test]
    fn nothing_is_enforced_but_names_and_comments_are_shown() {
        let yaml = written("# Which one.\ntag: latest\nports:\n  http: 80\n", &Options::default());
        assert_eq!(
            yaml,
            "description: 'Type: object, not enforced.'\nnullable: true\nx-kubernetes-preserve-unknown-fields: true\nproperties:\n  tag:\n    description: 'Which one. Type: string, not enforced. Default: latest.'\n    nullable: true\n    x-kubernetes-preserve-unknown-fields: true\n  ports:\n    description: 'Type: object, not enforced.'\n    nullable: true\n    x-kubernetes-preserve-unknown-fields: true\n    properties:\n      http:\n        description: 'Type: integer, not enforced. Default: 80.'\n        nullable: true\n        x-kubernetes-preserve-unknown-fields: true\n"
        );
    }

    #[test]
    fn strict_types_are_those_of_the_defaults() {
        let options = Options { strict_types: true, ..Options::default() };
        let schema = inferred(Some(&json!({"a": [1]})), None, &options);
        assert_eq!((schema.types, schema.is_open), (Some(Types::OBJECT), true));
        let list = inferred(Some(&json!(["x"])), None, &options);
        assert_eq!((list.types, list.items.is_some()), (Some(Types::ARRAY), true));
        let none = inferred(Some(&Value::Null), None, &options);
        assert_eq!((none.types, none.is_open), (None, true));
        assert_eq!(inferred(Some(&json!(1)), None, &options).types, Some(Types::INTEGER));
    }
}
