//! What a check found.

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing; or it could not be looked at.
    Note,
    /// It works, and may not for long, or not as it is meant.
    Warning,
    /// Something does not work.
    Problem,
}

impl Severity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// What a check found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// What was looked at, in one word.
    pub check: &'static str,
    pub found: String,
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { severity: Severity::Ok, check, found: found.into(), advice: None }
    }

    pub fn new(severity: Severity, check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity, check, found: found.into(), advice: Some(advice.into()) }
    }

    pub fn note(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Severity::Note, check, found, advice)
    }

    pub fn warning(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Severity::Warning, check, found, advice)
    }

    pub fn problem(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Severity::Problem, check, found, advice)
    }

    /// Something could not be looked at, which is no fault of the scaler.
    pub fn unseen(check: &'static str, what: &str, why: &str) -> Self {
        Self::note(check, format!("{what} could not be looked at: {why}"), "ask somebody who may, or leave this check out of account")
    }
}

/// All that was found about one subject.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `cluster`, or namespace and name of a scaler.
    pub subject: String,
    pub findings: Vec<Finding>,
}

impl Report {
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}
