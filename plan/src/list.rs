//! A short list of fixed capacity, held in place.

/// The value that fills the unused places of a [`List`]; never seen by a reader.
pub trait Filler: Copy {
    /// The filling value.
    const FILL: Self;
}

macro_rules! filler {
    ($($t:ty => $v:expr),*) => { $(impl Filler for $t { const FILL: Self = $v; })* };
}
filler!(u8 => 0, u16 => 0, i32 => 0, u32 => 0, i64 => 0, u64 => 0, usize => 0, isize => 0, f32 => 0.0, bool => false);

/// At most `N` items held in place: usable in constants and without an allocator.
#[derive(Clone, Copy)]
pub struct List<T, const N: usize> {
    len: u8,
    items: [T; N],
}

impl<T: Filler, const N: usize> List<T, N> {
    /// A list with nothing in it.
    pub const EMPTY: Self = List { len: 0, items: [T::FILL; N] };

    /// The list of `items`.
    ///
    /// # Panics
    /// In a constant (so at compile time) when there are more than `N` of them.
    pub const fn of<const M: usize>(items: [T; M]) -> Self {
        assert!(M <= N && N <= 255, "more items than the list may hold");
        let mut list = Self::EMPTY;
        let mut i = 0;
        while i < M {
            list.items[i] = items[i];
            i += 1;
        }
        list.len = M as u8;
        list
    }

    /// The list of the items of `slice`, or `None` when they are more than `N`.
    pub fn from_slice(slice: &[T]) -> Option<Self> {
        let mut list = Self::EMPTY;
        list.items.get_mut(..slice.len())?.copy_from_slice(slice);
        list.len = u8::try_from(slice.len()).ok()?;
        Some(list)
    }

    /// The items of an iterator, or `None` when they are more than `N`.
    pub fn collect(iter: impl IntoIterator<Item = T>) -> Option<Self> {
        let mut list = Self::EMPTY;
        for item in iter {
            list.push(item)?;
        }
        Some(list)
    }

    /// Adds an item at the end, or gives `None` when the list is full.
    #[must_use]
    pub fn push(&mut self, item: T) -> Option<()> {
        *self.items.get_mut(self.len as usize)? = item;
        self.len = self.len.checked_add(1)?;
        Some(())
    }

    /// The list of `f` of each item.
    pub fn map<U: Filler>(&self, mut f: impl FnMut(T) -> U) -> List<U, N> {
        let mut out = List::<U, N>::EMPTY;
        for (to, from) in out.items.iter_mut().zip(self.iter()) {
            *to = f(*from);
        }
        out.len = self.len;
        out
    }
}

impl<T, const N: usize> List<T, N> {
    /// The items.
    pub fn as_slice(&self) -> &[T] {
        self.items.get(..self.len as usize).unwrap_or(&[])
    }

    /// The items, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self.items.get_mut(..self.len as usize).unwrap_or(&mut [])
    }
}

impl<T, const N: usize> core::ops::Deref for List<T, N> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}
impl<T, const N: usize> core::ops::DerefMut for List<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.as_mut_slice()
    }
}
impl<T: Filler, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self::EMPTY
    }
}
impl<T: core::fmt::Debug, const N: usize> core::fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_slice().fmt(f)
    }
}
impl<T: PartialEq, const N: usize> PartialEq for List<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}
impl<T: Eq, const N: usize> Eq for List<T, N> {}

#[cfg(feature = "text")]
impl<T: serde::Serialize, const N: usize> serde::Serialize for List<T, N> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.as_slice())
    }
}
#[cfg(feature = "text")]
impl<'de, T: Filler + serde::Deserialize<'de>, const N: usize> serde::Deserialize<'de> for List<T, N> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let items = alloc::vec::Vec::<T>::deserialize(d)?;
        List::from_slice(&items).ok_or_else(|| serde::de::Error::invalid_length(items.len(), &"a shorter list"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_kept() {
        let mut list = List::<u8, 2>::of([1]);
        assert_eq!(list.push(2), Some(()));
        assert_eq!(list.push(3), None);
        assert_eq!(&*list, &[1, 2]);
        assert!(List::<u8, 2>::from_slice(&[1, 2, 3]).is_none());
    }
}
