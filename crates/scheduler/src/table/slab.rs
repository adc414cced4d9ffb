//! Values in numbered slots that are used again. Owns the free list; a slot's generation tells its users apart.

use super::NONE;
use serde::{Deserialize, Serialize};

/// Values by slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    len: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Slot<T> {
    generation: u32,
    next_free: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NONE, len: 0 }
    }
}

impl<T> Slab<T> {
    /// Stores a value; the slot is never [`NONE`].
    pub(crate) fn insert(&mut self, value: T) -> Option<u32> {
        if let Some(slot) = self.slots.get_mut(self.free as usize) {
            let number = self.free;
            self.free = slot.next_free;
            slot.value = Some(value);
            self.len += 1;
            return Some(number);
        }
        let number = u32::try_from(self.slots.len()).ok().filter(|number| *number != NONE)?;
        self.slots.push(Slot { generation: 0, next_free: NONE, value: Some(value) });
        self.len += 1;
        Some(number)
    }

    /// Takes a value out; its slot may be used again, with the next generation.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let slot = self.slots.get_mut(number as usize)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = self.free;
        self.free = number;
        self.len -= 1;
        Some(value)
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(number as usize)?.value.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut(number as usize)?.value.as_mut()
    }

    /// How often the slot was emptied.
    pub(crate) fn generation(&self, number: u32) -> u32 {
        self.slots.get(number as usize).map_or(0, |slot| slot.generation)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All values by slot, in order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().zip(0_u32..).filter_map(|(slot, number)| Some((number, slot.value.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_under_another_generation() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert("a").unwrap(), slab.insert("b").unwrap());
        assert_eq!((slab.remove(a), slab.remove(a), slab.len()), (Some("a"), None, 1));
        let before = slab.generation(a);
        assert_eq!((slab.insert("c"), before, slab.get(a), slab.get(NONE)), (Some(a), 1, Some(&"c"), None));
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(a, &"c"), (b, &"b")]);
    }
}
