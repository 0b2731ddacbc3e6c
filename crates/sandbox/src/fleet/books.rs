//! What a fleet has done.

use llmscaler_simulator::{Happening, Promised};

/// What a fleet has done since it began, and how it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Books {
    /// Requests that came.
    pub arrived: u64,
    /// Requests that were answered to their end and kept both promises.
    pub in_time: u64,
    /// Requests that were answered, and too late.
    pub late: u64,
    /// Requests that were lost with a pod, or are longer than a replica takes.
    pub lost: u64,
    /// GPU-hours of all its pods, from the moment that they got their GPUs until they were gone.
    pub gpu_hours: f64,
    /// Requests that wait now.
    pub waiting: u32,
    /// Replicas that take requests now.
    pub ready: u32,
    /// Replicas that are asked for now.
    pub replicas: u32,
}

impl Books {
    /// Share of the requests that kept both promises, of those that are over; `None` before the first one is.
    #[must_use]
    pub fn attainment(&self) -> Option<f64> {
        let over = self.in_time + self.late + self.lost;
        (over > 0).then(|| self.in_time as f64 / over as f64)
    }

    /// Enters what happened. `gpus` are those of one replica.
    pub(super) fn enter(&mut self, happening: &Happening, promised: &Promised, gpus: u32) {
        match happening {
            Happening::Arrived(_) => self.arrived += 1,
            Happening::Served(served) if promised.kept_by(served) => self.in_time += 1,
            Happening::Served(_) => self.late += 1,
            Happening::Lost(_) => self.lost += 1,
            Happening::Recomputed(_) => {}
            Happening::Pod(life) => self.gpu_hours += (life.gone - life.created) * f64::from(gpus) / 3600.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use llmscaler_simulator::{PodLife, Request, Served};

    use super::*;

    #[test]
    fn what_is_late_or_lost_is_not_in_time() {
        let promised = Promised { ttft: 3.0, tpot: 0.1 };
        let request = Request { at: 0.0, prompt: 10, output: 10, reusable_prefix: 0 };
        let served = |ttft, tpot| Happening::Served(Served { arrived: 0.0, prompt: 10, output: 10, ttft, tpot, finished: 9.0 });
        let mut books = Books::default();
        assert_eq!(books.attainment(), None);
        let life = Happening::Pod(PodLife { created: 0.0, ready: None, leaving: None, gone: 1800.0 });
        for happening in [
            Happening::Arrived(request),
            served(3.0, None),
            served(1.0, Some(0.1)),
            served(3.1, None),
            served(1.0, Some(0.2)),
            Happening::Lost(1.0),
            life,
        ] {
            books.enter(&happening, &promised, 2);
        }
        assert_eq!(books, Books { arrived: 1, in_time: 2, late: 2, lost: 1, gpu_hours: 1.0, ..Books::default() });
        assert_eq!(books.attainment(), Some(0.4));
    }
}
