//! The instances that packers are compared on, made anew from their ids: nothing is read, and an id names the same numbers
//! on every machine. Owns ids and cells; the distributions stand in the files beside.
//!
//! An id is `set/class/d/n/seed`, such as `panigrahy/4/3/120/7`. Numbers are drawn from closed ranges by a generator seeded
//! with the id.

mod draw;
mod one_dimensional;
mod random_vectors;
mod triplets;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::error::PackError;
use super::items::Items;
use super::random::Random;
use draw::Drawn;

/// How many seeds a cell of a report has.
pub const SEEDS: u32 = 10;

/// A family of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Set {
    /// Two dimensions, ten classes; class 10 are triplets (Spieksma, "A branch-and-bound algorithm for the two-dimensional
    /// vector packing problem", 1994; Caprara and Toth 2001).
    CapraraToth,
    /// The same classes in 3, 5 and 10 dimensions, and one of jobs of unit counts (Panigrahy et al. 2011).
    Panigrahy,
    /// Items that are large in few dimensions, and normal ones with 10 % large demands (Nagel et al. 2023).
    Mixed,
    /// Three items fill a bin exactly in all dimensions.
    Triplets,
    /// Uniform sizes (Falkenauer, "A hybrid grouping genetic algorithm for bin packing", 1996).
    FalkenauerU,
    /// Triplets (Falkenauer 1996).
    FalkenauerT,
    /// Uniform sizes (Martello and Toth, "Knapsack Problems", 1990).
    MartelloToth,
}

impl Set {
    /// All sets, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::CapraraToth,
        Self::Panigrahy,
        Self::Mixed,
        Self::Triplets,
        Self::FalkenauerU,
        Self::FalkenauerT,
        Self::MartelloToth,
    ];

    /// The name as it stands in ids.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CapraraToth => "caprara-toth",
            Self::Panigrahy => "panigrahy",
            Self::Mixed => "mixed",
            Self::Triplets => "triplets",
            Self::FalkenauerU => "falkenauer-u",
            Self::FalkenauerT => "falkenauer-t",
            Self::MartelloToth => "martello-toth",
        }
    }

    /// How many classes the set has, numbered from 1.
    #[must_use]
    pub const fn classes(self) -> u32 {
        match self {
            Self::CapraraToth => 10,
            Self::Panigrahy | Self::MartelloToth => 9,
            Self::Mixed => 6,
            Self::Triplets => 3,
            Self::FalkenauerU | Self::FalkenauerT => 1,
        }
    }

    const fn dimensions(self) -> &'static [usize] {
        match self {
            Self::CapraraToth => &[2],
            Self::Panigrahy | Self::Mixed | Self::Triplets => &[3, 5, 10],
            Self::FalkenauerU | Self::FalkenauerT | Self::MartelloToth => &[1],
        }
    }

    const fn sizes(self, class: u32) -> &'static [usize] {
        match self {
            Self::CapraraToth if class == 10 => &[24, 51, 99, 201],
            Self::CapraraToth => &[25, 50, 100, 200],
            Self::Panigrahy | Self::Mixed => &[20, 40, 60, 120, 250, 500],
            Self::Triplets => &[60, 120, 249, 501],
            Self::FalkenauerU => &[120, 250, 500, 1000],
            Self::FalkenauerT => &[60, 120, 249, 501],
            Self::MartelloToth => &[50, 100, 200, 500],
        }
    }

    /// The ids of all instances of the set, cell by cell, 10 seeds each.
    pub fn ids(self) -> impl Iterator<Item = InstanceId> {
        let classes = 1..=self.classes();
        let cells = classes.flat_map(move |class| self.dimensions().iter().map(move |dimensions| (class, *dimensions)));
        cells.flat_map(move |(class, dimensions)| {
            let sizes = self.sizes(class).iter();
            sizes.flat_map(move |items| {
                (0..SEEDS).map(move |seed| InstanceId { set: self, class, dimensions, items: *items, seed })
            })
        })
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The name of an instance: `set/class/d/n/seed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceId {
    /// The family.
    pub set: Set,
    /// The class in it, from 1.
    pub class: u32,
    /// How many dimensions.
    pub dimensions: usize,
    /// How many items.
    pub items: usize,
    /// Which of the instances of its cell.
    pub seed: u32,
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}/{}", self.set, self.class, self.dimensions, self.items, self.seed)
    }
}

/// Why there is no such instance.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// The text is no id.
    #[error("`{text}` is not an instance id; write set/class/d/n/seed, such as panigrahy/4/3/120/7")]
    Id {
        /// The text.
        text: String,
    },
    /// The set has no such class, dimension or number of items.
    #[error("{id}: {set} has no such {what}", set = id.set)]
    Cell {
        /// The id.
        id: InstanceId,
        /// What there is none of.
        what: &'static str,
    },
    /// The items do not make a problem.
    #[error(transparent)]
    Items(#[from] PackError),
}

impl FromStr for InstanceId {
    type Err = InstanceError;

    fn from_str(text: &str) -> Result<Self, InstanceError> {
        let wrong = || InstanceError::Id { text: text.to_owned() };
        let parts: Vec<&str> = text.split('/').collect();
        let [set, class, dimensions, items, seed] = parts[..] else { return Err(wrong()) };
        let set = Set::ALL.into_iter().find(|of| of.as_str() == set).ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let (class, dimensions) = (number(class)?, number(dimensions)? as usize);
        Ok(Self { set, class, dimensions, items: number(items)? as usize, seed: number(seed)? })
    }
}

/// A problem with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The name.
    pub id: InstanceId,
    /// What to pack.
    pub items: Items,
    /// Into bins of which size.
    pub capacity: Vec<u64>,
    /// The least number of bins, where it is known by construction.
    pub optimum: Option<usize>,
}

/// The most items an instance may be asked for.
const MOST_ITEMS: usize = 1_000_000;

/// Makes the instance of an id. Any number of items up to a million is made, also one that no report has; triplets come in
/// threes, and dimensions may be 1 to 16 where the set has several. O(n·d).
///
/// # Errors
/// A class the set does not have, a number of dimensions it does not have, or no items.
pub fn generate(id: InstanceId) -> Result<Instance, InstanceError> {
    let wrong = |what| Err(InstanceError::Cell { id, what });
    if !(1..=id.set.classes()).contains(&id.class) {
        return wrong("class");
    }
    let fixed = id.set.dimensions();
    let many = fixed.len() > 1 && (2..=super::MAX_DIMENSIONS).contains(&id.dimensions);
    if !many && !fixed.contains(&id.dimensions) {
        return wrong("number of dimensions");
    }
    let threes = matches!(id.set, Set::Triplets | Set::FalkenauerT) || (id.set == Set::CapraraToth && id.class == 10);
    if id.items == 0 || id.items > MOST_ITEMS || (threes && !id.items.is_multiple_of(3)) {
        return wrong("number of items");
    }
    let mut random = Random::named(&id.to_string());
    let drawn = match id.set {
        Set::CapraraToth if id.class == 10 => triplets::caprara_toth(id, &mut random),
        Set::CapraraToth => random_vectors::caprara_toth(id, &mut random),
        Set::Panigrahy => random_vectors::panigrahy(id, &mut random),
        Set::Mixed => random_vectors::mixed(id, &mut random),
        Set::Triplets => triplets::triplets(id, &mut random),
        Set::FalkenauerU => one_dimensional::uniform(id, 20, 100, 150, &mut random),
        Set::FalkenauerT => triplets::falkenauer(id, &mut random),
        Set::MartelloToth => one_dimensional::martello_toth(id, &mut random),
    };
    let Drawn { rows, capacity } = drawn;
    let items = Items::from_rows(id.dimensions, rows)?;
    Ok(Instance { id, items, capacity, optimum: threes.then_some(id.items / 3) })
}

#[cfg(test)]
mod tests;
