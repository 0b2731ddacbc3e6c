//! What the user asked for, after validation.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::{Band, Headroom, Measurement, Replicas};

/// A validated specification. Whoever builds one has parsed the resource; the engine never has to doubt it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The range that every write keeps to.
    pub bounds: Bounds,
    /// Where recommendations come from; the largest known one wins. At most one of them has [`Law::Band`] or [`Law::Headroom`],
    /// whose past [`crate::Memory`] holds.
    pub sources: Vec<Source>,
    /// Time between two decisions.
    pub sync_period: Duration,
    /// Scale-down damping and the choice of pods to remove.
    pub scale_down: ScaleDown,
    /// Windows, policies and tolerance of autoscaling/v2. When present its windows replace [`ScaleDown::window`].
    pub behavior: Option<Behavior>,
    /// How long all sources must have been inactive before the last replicas go (0: at once).
    pub cooldown: Duration,
    /// A floor for when sources stay unknown.
    pub fallback: Option<Fallback>,
    /// Whether decisions are written.
    pub mode: Mode,
}

impl Spec {
    /// The headroom law, if a source has it.
    pub(crate) fn headroom(&self) -> Option<&Headroom> {
        self.sources.iter().find_map(|source| match &source.law {
            Law::Headroom(law) => Some(law),
            _ => None,
        })
    }
}

/// Lower and upper bound of the replica count. Where they contradict each other the upper one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Fewest replicas; 0 allows scale to zero.
    pub min: Replicas,
    /// Most replicas; 0 pins the target at zero.
    pub max: Replicas,
}

impl Bounds {
    /// `count` raised to the minimum, then lowered to the maximum.
    #[must_use]
    pub fn clamp(self, count: Replicas) -> Replicas {
        count.max(self.min).min(self.max)
    }

    /// Whether `count` is above the maximum, where an unsettled fleet is no reason to wait.
    #[must_use]
    pub fn exceeded_by(self, count: Replicas) -> bool {
        count > self.max
    }
}

/// One origin of recommendations, read anew at each sync.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The name that traces, conditions and [`crate::Memory::failures`] use; unique within the spec.
    pub name: String,
    /// How its reading becomes a count.
    pub law: Law,
    /// The source is active while its value is above this.
    pub activation: Activation,
    /// While this source is unknown the fleet does not shrink.
    pub required: bool,
}

/// How a reading becomes a count of replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// The reading is a figure per replica: `ceil(ready × (value ÷ target))`, with one replica as the base when none is ready.
    Ratio {
        /// The figure that each replica should show.
        target: Target,
    },
    /// The reading is the total of the pool: `ceil(value ÷ target)`.
    Average {
        /// The share of the total that each replica should carry.
        target: Target,
    },
    /// The reading is the saturation of the pool, its latency as a share of what was promised: document B's band.
    Band(Band),
    /// Replicas for the load of [`crate::Observation::traffic`], with room for noise and growth. Its constants are per 15 s, which the
    /// sync period has to be. The reading is the saturation of the pool, which it falls back to when arrivals are unknown.
    Headroom(Headroom),
    /// The reading is the count itself.
    Absolute,
}

impl Law {
    /// The figure that the reading is compared with, if the law has one.
    #[must_use]
    pub fn target(self) -> Option<Target> {
        match self {
            Self::Ratio { target } | Self::Average { target } => Some(target),
            Self::Band(band) => Some(band.up_at()),
            Self::Headroom(_) | Self::Absolute => None,
        }
    }
}

/// A finite mark, in the unit of its metric, that a value has to exceed to count as activity. Below 0 every known value does.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Activation(f64);

impl Activation {
    /// Any load at all is activity; the default of document A and of KEDA.
    pub const ANY_LOAD: Self = Self(0.0);

    /// `None` unless the number is finite.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self(value))
    }

    /// Whether a value counts as activity.
    #[must_use]
    pub fn exceeded_by(self, value: Measurement) -> bool {
        value.get() > self.0
    }
}

/// A finite target above zero, in the unit of its metric.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Target(f64);

impl Target {
    /// `None` unless the number is finite and above 0.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (value.is_finite() && value > 0.0).then_some(Self(value))
    }

    /// The number, finite and above 0.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

/// Scale-down damping and the choice of pods to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleDown {
    /// The count stays at the highest recommendation younger than this; 0 is off. Starts again after a downward write.
    pub window: Duration,
    /// Most replicas that one write removes; `None` is no limit.
    pub max_step: Option<NonZeroU32>,
    /// Which pods should go first.
    pub victims: VictimOrder,
}

/// Which pods go first when the count falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimOrder {
    /// The coldest cache first, named in [`crate::Decision::victims`].
    ColdestFirst,
    /// The workload's own controller decides.
    Workload,
}

/// autoscaling/v2 `behavior`, defaulted.
#[derive(Clone, Debug, PartialEq)]
pub struct Behavior {
    /// Rules for growing.
    pub up: ScalingRules,
    /// Rules for shrinking.
    pub down: ScalingRules,
}

/// Rules for one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingRules {
    /// Recommendations younger than this damp the direction; 0 to 3600 s.
    pub window: Duration,
    /// Which of the policies counts.
    pub select: SelectPolicy,
    /// Limits on the change within a period.
    pub policies: Vec<Policy>,
    /// Relative deviation from the target that asks for nothing, ends included; at least 0.
    pub tolerance: Measurement,
}

/// Which policy of a direction counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectPolicy {
    /// The one that allows the largest change.
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: the direction is closed.
    Disabled,
}

/// A limit on the change within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How much.
    pub limit: PolicyLimit,
    /// Within how long; 1 to 1800 s.
    pub period: Duration,
}

/// How much one policy allows within its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyLimit {
    /// So many pods.
    Pods(u32),
    /// So many whole per cent of the count at the start of the period.
    Percent(u32),
}

/// A floor for when sources stay unknown. It only ever raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The floor holds once a source has been unknown for more than this many syncs in a row.
    pub failure_threshold: u32,
    /// The floor.
    pub replicas: Replicas,
}

/// Whether decisions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are.
    Auto,
    /// They are computed and shown only.
    Recommend,
}
