//! What an LLMScaler has to fulfil: the schema of its definition, and its CEL rules.

use kube::core::cel::{CompiledSchema, Validator, compile_schema};
use serde_json::{Value, json};

use crate::refusal::{FieldError, Refusal};
use crate::resources::Resource;
use crate::{object, schema};

/// The definition's schema, ready for use.
pub(crate) struct Rules {
    schema: Value,
    compiled: CompiledSchema,
    validator: Validator,
}

impl Rules {
    /// Of a `CustomResourceDefinition` with one version.
    pub(crate) fn of(definition: &Value) -> Self {
        let schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let mut for_rules = schema.clone();
        plain_old_self(&mut for_rules);
        Self { compiled: compile_schema(&for_rules), schema, validator: Validator::new() }
    }

    /// Drops what is unknown and fills in what is left out. Answers the paths of the unknown.
    pub(crate) fn complete(&self, value: &mut Value) -> Vec<String> {
        let mut unknown = vec![];
        schema::prune(&self.schema, value, "", true, &mut unknown);
        schema::default(&self.schema, value);
        unknown
    }

    /// Whether the object may be stored, in place of `old` if there is one.
    pub(crate) fn judge(&self, resource: &Resource, value: &Value, old: Option<&Value>) -> Result<(), Refusal> {
        let mut errors = schema::validate(&self.schema, value, "");
        if errors.iter().any(FieldError::blocks_rules) {
            errors.push(schema::rules_not_checked());
        } else if let Err(broken) = self.validator.validate_compiled(&self.compiled, value, old) {
            errors.extend(broken.into_iter().map(|rule| {
                let at = at_path(value, &rule.field_path);
                FieldError::rule(rule.field_path, at, &rule.message)
            }));
        }
        if errors.is_empty() { Ok(()) } else { Err(Refusal::invalid(resource, object::name(value), &errors)) }
    }
}

/// With `optionalOldSelf` the API server hands rules an optional value; the library hands them the plain value, and null without one.
fn plain_old_self(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("optionalOldSelf") == Some(&json!(true))
                && let Some(Value::String(rule)) = members.get_mut("rule")
            {
                *rule = rule.replace("oldSelf.hasValue()", "oldSelf != null").replace("oldSelf.value()", "oldSelf");
            }
            members.values_mut().for_each(plain_old_self);
        }
        Value::Array(items) => items.iter_mut().for_each(plain_old_self),
        _ => {}
    }
}

/// The value at `spec.metrics[0].target`.
fn at_path<'a>(value: &'a Value, path: &str) -> &'a Value {
    let pointer: String = path.replace('[', ".").replace(']', "").split('.').map(|step| format!("/{step}")).collect();
    value.pointer(&pointer).unwrap_or(&Value::Null)
}
