//! The workload of `targetRef`.

use crate::invalid::{Invalid, not_blank};
use crate::resource::TargetReference;
use crate::rules;

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetRef {
    /// API group; empty for the core group.
    pub group: String,
    /// Version within the group.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl TargetRef {
    /// Group and version as `apiVersion` has them.
    ///
    /// ```
    /// let target = llmscaler_api::TargetRef {
    ///     group: "apps".into(),
    ///     version: "v1".into(),
    ///     kind: "Deployment".into(),
    ///     name: "vllm".into(),
    /// };
    /// assert_eq!(target.api_version(), "apps/v1");
    /// ```
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl TargetReference {
    /// The workload that is named.
    pub(crate) fn parse(&self) -> Result<TargetRef, Invalid> {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        let well_formed = |part: &str| !part.is_empty() && !part.contains(|c: char| c == '/' || c.is_ascii_whitespace());
        if !well_formed(version) || (self.api_version.contains('/') && !well_formed(group)) {
            return Err(Invalid::new("spec.targetRef.apiVersion", rules::API_VERSION.message));
        }
        Ok(TargetRef {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: not_blank("spec.targetRef.kind", &self.kind, rules::KIND.message)?,
            name: not_blank("spec.targetRef.name", &self.name, rules::NAME.message)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_of_the_core_group_has_no_group() {
        let written = TargetReference { api_version: "v1".into(), kind: "ReplicationController".into(), name: "vllm".into() };
        let target = written.parse().unwrap();
        assert_eq!((target.group.as_str(), target.version.as_str(), target.api_version().as_str()), ("", "v1", "v1"));
    }
}
