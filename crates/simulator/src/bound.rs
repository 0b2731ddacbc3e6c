//! What the traffic would have cost if it had been known beforehand: the measure of every policy.

mod fluid;
mod foresight;
mod lives;
mod need;
mod plan;
mod sliding;

pub use fluid::Fluid;
pub use foresight::{Foresight, Reached};
pub use need::{Need, Rounding};
pub use plan::Plan;
