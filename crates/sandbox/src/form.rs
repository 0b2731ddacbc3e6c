//! The form of an answer: whole objects, their metadata, or a table.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::request::Request;
use crate::resources::Resource;
use crate::table::Tables;

/// What is answered of each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Metadata,
    Table(Included),
}

/// What a row of a table has of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Included {
    Nothing,
    Metadata,
    Whole,
}

impl Form {
    /// The first form in `Accept` that is known.
    pub(crate) fn asked(request: &Request) -> Self {
        let form = |media: &str| {
            if !media.trim().starts_with("application/json") && !media.trim().starts_with("*/*") {
                return None;
            }
            let what = media.split(';').find_map(|part| part.trim().strip_prefix("as="));
            Some(match what {
                Some("Table") => Self::Table(match request.param("includeObject") {
                    Some("None") => Included::Nothing,
                    Some("Object") => Included::Whole,
                    _ => Included::Metadata,
                }),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Self::Metadata,
                _ => Self::Whole,
            })
        };
        request.accept.split(',').find_map(form).unwrap_or(Self::Whole)
    }
}

/// Shows objects of a resource in a form, at a time.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub tables: &'a Tables,
    pub resource: &'static Resource,
    pub form: Form,
    pub now: Timestamp,
}

impl Shown<'_> {
    /// One object by itself.
    pub(crate) fn one(&self, object: &Value) -> Value {
        match self.form {
            Form::Whole => object.clone(),
            Form::Metadata => metadata(object),
            Form::Table(_) => self.list(std::slice::from_ref(object), json!({"resourceVersion": object["metadata"]["resourceVersion"]})),
        }
    }

    /// A list of objects. Of a custom resource each says what it is; of a built-in one the list does.
    pub(crate) fn list(&self, objects: &[Value], list_metadata: Value) -> Value {
        match self.form {
            Form::Whole => {
                let items = objects.iter().cloned().map(|mut object| {
                    if let (false, Value::Object(members)) = (self.resource.custom, &mut object) {
                        members.remove("apiVersion");
                        members.remove("kind");
                    }
                    object
                });
                let kind = format!("{}List", self.resource.kind);
                json!({"kind": kind, "apiVersion": self.resource.api_version(), "metadata": list_metadata, "items": items.collect::<Vec<_>>()})
            }
            Form::Metadata => {
                let items: Vec<Value> = objects.iter().map(metadata).collect();
                json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": list_metadata, "items": items})
            }
            Form::Table(included) => {
                let row = |object: &Value| {
                    let mut row = json!({"cells": self.tables.cells(self.resource, object, self.now)});
                    match included {
                        Included::Nothing => {}
                        Included::Metadata => row["object"] = metadata(object),
                        Included::Whole => row["object"] = object.clone(),
                    }
                    row
                };
                let rows: Vec<Value> = objects.iter().map(row).collect();
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_metadata,
                    "columnDefinitions": self.tables.columns(self.resource), "rows": rows})
            }
        }
    }
}

fn metadata(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
