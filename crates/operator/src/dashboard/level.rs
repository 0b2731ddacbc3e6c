//! Numbers over time, in few bytes.

use std::collections::VecDeque;

use serde::{Serialize, Serializer};

/// The largest whole number below which every whole number has a form of its own in 24 bits.
const WHOLE: f32 = 16_777_216.0;

/// A number as exact as a picture needs it, in four bytes. What is unknown is NaN inside and `null` outside, never 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level(f32);

impl Level {
    pub(super) const UNKNOWN: Self = Self(f32::NAN);

    pub(super) fn of(value: Option<f64>) -> Self {
        value.map_or(Self::UNKNOWN, |value| Self(value as f32))
    }

    pub(super) fn get(self) -> Option<f32> {
        self.0.is_finite().then_some(self.0)
    }
}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.get() {
            None => serializer.serialize_none(),
            Some(whole) if whole.fract() == 0.0 && whole.abs() < WHOLE => serializer.serialize_i64(whole as i64),
            Some(value) => serializer.serialize_f32(value),
        }
    }
}

/// The last `MOST` of what was put in, oldest first.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Last<T, const MOST: usize>(VecDeque<T>);

impl<T, const MOST: usize> Default for Last<T, MOST> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T, const MOST: usize> Last<T, MOST> {
    pub(super) fn push(&mut self, item: T) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(item);
    }

    pub(super) fn newest(&self) -> Option<&T> {
        self.0.back()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_null_and_zero_is_zero() {
        let levels = [None, Some(0.0), Some(4.0), Some(0.1), Some(f64::MAX), Some(16_777_217.5)].map(Level::of);
        assert_eq!(serde_json::to_string(&levels).unwrap(), "[null,0,4,0.1,null,16777218.0]");
    }

    #[test]
    fn only_the_last_stay() {
        let mut last: Last<u8, 3> = Last::default();
        (0..5).for_each(|item| last.push(item));
        assert_eq!((serde_json::to_string(&last).unwrap().as_str(), last.len(), last.newest()), ("[2,3,4]", 3, Some(&4)));
    }
}
