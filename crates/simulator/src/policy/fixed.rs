//! A fleet that keeps its size.

use super::{Policy, Verdict, View};

/// So many replicas at all times.
#[derive(Clone, Copy, Debug)]
pub struct Fixed(pub u32);

impl Policy for Fixed {
    fn name(&self) -> String {
        format!("static {}", self.0)
    }

    fn period(&self) -> f64 {
        15.0
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        Verdict { write: (view.replicas != self.0).then_some(self.0), why: format!("always {}", self.0), ..Verdict::default() }
    }
}
