//! What the API server answers when it does not do what it was asked.

use serde_json::{Value, json};

use crate::object;
use crate::resources::Resource;

/// A refusal, in the form of a `Status` of apimachinery.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    pub details: Value,
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// `FieldValueInvalid`, `FieldValueRequired`, …
    pub reason: &'static str,
    /// `spec.metrics[0].target`.
    pub field: String,
    /// What follows the field: `Invalid value: "object": why`.
    pub text: String,
}

impl FieldError {
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, why: impl AsRef<str>) -> Self {
        Self { reason: "FieldValueInvalid", field: field.into(), text: format!("Invalid value: {value}: {}", why.as_ref()) }
    }

    pub(crate) fn required(field: impl Into<String>) -> Self {
        Self { reason: "FieldValueRequired", field: field.into(), text: "Required value".to_owned() }
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self { reason: "FieldValueDuplicate", field: field.into(), text: format!("Duplicate value: {value}") }
    }

    /// Only one value can be.
    pub(crate) fn unsupported(field: impl Into<String>, value: &Value, only: &Value) -> Self {
        let text = format!("Unsupported value: {value}: supported values: {only}");
        Self { reason: "FieldValueNotSupported", field: field.into(), text }
    }

    /// Of a rule of the schema: the value is shown where it is short.
    pub(crate) fn rule(field: impl Into<String>, value: &Value, why: &str) -> Self {
        match value {
            Value::Object(_) | Value::Array(_) => {
                Self { reason: "FieldValueInvalid", field: field.into(), text: format!("Invalid value: {why}") }
            }
            _ => Self::invalid(field, value, why),
        }
    }

    /// Whether the server gives up on the rules beyond the schema because of it.
    pub(crate) fn blocks_rules(&self) -> bool {
        matches!(
            self.reason,
            "FieldValueNotSupported" | "FieldValueRequired" | "FieldValueTooLong" | "FieldValueTooMany" | "FieldValueTypeInvalid"
        )
    }
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: json!({}) }
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        self.details = json!({"name": name, "group": resource.group, "kind": resource.plural});
        self
    }

    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", resource.qualified())).about(resource, name)
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", resource.qualified())).about(resource, name)
    }

    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified());
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// Others own fields that are applied: `causes` are (whose, path).
    pub(crate) fn apply_conflict(causes: &[(String, String)]) -> Self {
        let message = match causes {
            [(manager, path)] => format!("Apply failed with 1 conflict: conflict with {manager}: {path}"),
            _ => {
                let mut managers: Vec<&String> = causes.iter().map(|(manager, _)| manager).collect();
                managers.sort();
                managers.dedup();
                let paths = |manager: &String| {
                    causes.iter().filter(|(other, _)| other == manager).map(|(_, path)| format!("\n- {path}")).collect::<String>()
                };
                let parts: Vec<String> =
                    managers.into_iter().map(|manager| format!("conflicts with {manager}:{}", paths(manager))).collect();
                format!("Apply failed with {} conflicts: {}", causes.len(), parts.join("\n"))
            }
        };
        let cause = |(manager, path): &(String, String)| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": path});
        let causes: Vec<Value> = causes.iter().map(cause).collect();
        Self { details: json!({"causes": causes}), ..Self::new(409, "Conflict", message) }
    }

    pub(crate) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Self {
        let line = |error: &FieldError| format!("{}: {}", error.field, error.text);
        let list = match errors {
            [one] => line(one),
            _ => format!("[{}]", errors.iter().map(line).collect::<Vec<_>>().join(", ")),
        };
        let kind = if resource.group.is_empty() { resource.kind.clone() } else { format!("{}.{}", resource.kind, resource.group) };
        let causes: Vec<Value> =
            errors.iter().map(|error| json!({"reason": error.reason, "message": error.text, "field": error.field})).collect();
        let details = json!({"name": name, "group": resource.group, "kind": resource.kind, "causes": causes});
        Self { details, ..Self::new(422, "Invalid", format!("{kind} {name:?} is invalid: {list}")) }
    }

    /// An object without a name.
    pub(crate) fn nameless(resource: &Resource) -> Self {
        let text = "Required value: name or generateName is required".to_owned();
        let mut refusal = Self::invalid(resource, "", &[FieldError { reason: "FieldValueRequired", field: "metadata.name".into(), text }]);
        object::map(&mut refusal.details).remove("name");
        refusal
    }

    /// An update that cannot be: the server speaks of a custom resource by its plural then.
    pub(crate) fn invalid_update(resource: &Resource, name: &str, error: &FieldError) -> Self {
        let mut refusal = Self::invalid(resource, name, std::slice::from_ref(error));
        if resource.custom {
            refusal.details["kind"] = json!(resource.plural);
            refusal.message = format!("{} {name:?} is invalid: {}: {}", resource.qualified(), error.field, error.text);
        }
        refusal
    }

    /// What is applied has to be in somebody's name.
    pub(crate) fn no_manager() -> Self {
        let words = "Required value: is required for apply patch";
        let causes = json!([{"reason": "FieldValueRequired", "message": words, "field": "fieldManager"}]);
        let details = json!({"group": "meta.k8s.io", "kind": "PatchOptions", "causes": causes});
        Self { details, ..Self::new(422, "Invalid", format!("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: {words}")) }
    }

    /// What is applied has a field that the schema does not have. The server takes this for its own mistake.
    pub(crate) fn untyped(resource: &Resource, name: &str, field: &str) -> Self {
        let of = format!("(/{name}; {}, Kind={})", resource.api_version(), resource.kind);
        let message = format!("failed to create typed patch object {of}: .{field}: field not declared in schema");
        Self { details: Value::Null, ..Self::new(500, "", message) }
    }

    /// What is applied has a value of a wrong type, which the server takes for its own mistake, too.
    pub(crate) fn mistyped(api_version: &str, kind: &str, why: &str) -> Self {
        let message = format!("failed to create typed patch object (/; {api_version}, Kind={kind}): {why}");
        Self { details: Value::Null, ..Self::new(500, "", message) }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self { details: Value::Null, ..Self::new(400, "BadRequest", message) }
    }

    pub(crate) fn forbidden(why: &str) -> Self {
        Self::new(403, "Forbidden", why)
    }

    pub(crate) fn unavailable(why: &str) -> Self {
        Self::new(503, "ServiceUnavailable", why)
    }

    pub(crate) fn over_quota(resource: &Resource, name: &str, why: &str) -> Self {
        Self::forbidden(why).about(resource, name)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// A patch that fits no object, or not this one.
    pub(crate) fn unfit_patch() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request")
    }

    /// A patch that would leave what is none of the kind.
    pub(crate) fn unfit_result(left: &Value, why: &str) -> Self {
        let text = format!("Invalid value: {}: {why}", Value::from(left.to_string()));
        let causes = json!([{"reason": "FieldValueInvalid", "message": text, "field": "patch"}]);
        Self { details: json!({"causes": causes}), ..Self::new(422, "Invalid", format!(" \"\" is invalid: patch: {text}")) }
    }

    /// A body that is none of the kind.
    pub(crate) fn unlike(kind: &str, version: &str, why: &str) -> Self {
        Self::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    }

    /// A scale that cannot be.
    pub(crate) fn invalid_scale(name: &str, error: &FieldError) -> Self {
        let causes = json!([{"reason": error.reason, "message": error.text, "field": error.field}]);
        let details = json!({"name": name, "group": "autoscaling", "kind": "Scale", "causes": causes});
        let message = format!("Scale.autoscaling {name:?} is invalid: {}: {}", error.field, error.text);
        Self { details, ..Self::new(422, "Invalid", message) }
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self { details: Value::Null, ..Self::new(415, "UnsupportedMediaType", message) }
    }

    pub(crate) fn too_old(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    pub(crate) fn expired_continue() -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You must start a new list without \
                       the continue parameter.";
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_large(asked: u64, current: u64) -> Self {
        let mut refusal = Self::new(504, "Timeout", format!("Timeout: Too large resource version: {asked}, current: {current}"));
        refusal.details =
            json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1});
        refusal
    }

    pub(crate) fn too_many_requests(retry_after: u32) -> Self {
        let message = "Too many requests, please try again later.";
        Self { details: json!({"retryAfterSeconds": retry_after}), ..Self::new(429, "TooManyRequests", message) }
    }

    pub(crate) fn internal(why: &str) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {why}"))
    }

    /// As an object.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "code": self.code});
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
