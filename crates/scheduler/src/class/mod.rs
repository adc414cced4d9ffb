//! Classes: the interned shapes of jobs for placement. Owns which kinds of
//! workers a class may see, its request vectors, and whether it is blocked. Tenant, priority and time limits are no part
//! of a class.

use serde::{Deserialize, Serialize};
pub(crate) mod open;
pub(crate) mod refused;
pub(crate) mod request;

use std::collections::BTreeMap;

use orlop_core::id::TenantName;

use crate::fleet::Amounts;
use crate::fleet::dims::{Dims, SLOTS};
use crate::fleet::kind::{Kind, Kinds};
use crate::fleet::table::Spot;
use crate::job::{Demand, Gang, Requires, Resources, Runtime};
use request::{Request, Requests};

/// What makes two jobs of one class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) resources: Resources,
    pub(crate) requires: Requires,
    pub(crate) runtime: Runtime,
    pub(crate) gang: Option<Gang>,
    /// The tenant, if any worker names it; other tenants all see the same workers.
    pub(crate) domain: Option<TenantName>,
}

/// A class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Class {
    pub(crate) shape: Shape,
    /// Numbers of its request vectors: one per kind of GPU that would do, in order of preference.
    pub(crate) requests: Vec<u32>,
    /// What the first of these takes of each dimension, to be at hand; worked out again when it is restored.
    #[serde(skip)]
    first: Amounts,
    /// These are cpu, memory and slots only, as of most classes.
    #[serde(skip)]
    narrow: bool,
    /// One bit per kind.
    eligible: Vec<u64>,
    /// Union of `1 << (kind % 64)` over eligible kinds.
    pub(crate) kinds: u64,
    /// It fits nowhere but perhaps on the hinted places, which grew since that was found; else its next run looks at the
    /// whole fleet.
    pub(crate) refused: bool,
    /// Places that grew and that it fits, while it is refused.
    pub(crate) hints: Vec<u32>,
    /// Since when it is refused.
    pub(crate) since: u64,
    /// Place among refused classes of its bucket.
    pub(crate) seat: u32,
    /// Attempts that ended by themselves, by the magnitude of their run time in milliseconds.
    pub(crate) runtimes: [u32; 32],
    /// Queues with jobs of this class.
    pub(crate) queues: u32,
}

impl Class {
    pub(crate) fn sees(&self, kind: u32) -> bool {
        self.eligible.get((kind / 64) as usize).is_some_and(|word| word >> (kind % 64) & 1 == 1)
    }

    fn judge(&mut self, number: u32, kind: &Kind) {
        let Shape { requires, runtime, domain, .. } = &self.shape;
        let word = (number / 64) as usize;
        if self.eligible.len() <= word {
            self.eligible.resize(word + 1, 0);
        }
        if kind.mismatch(domain.as_ref(), requires, *runtime).is_none()
            && let Some(word) = self.eligible.get_mut(word)
        {
            *word |= 1 << (number % 64);
            self.kinds |= 1 << (number % 64);
        }
    }

    /// The first of its request vectors that a place has free, if its kind may be seen.
    pub(crate) fn fitting<'a>(&self, spot: &Spot, requests: &'a Requests) -> Option<(u32, &'a Request)> {
        if !spot.open || !self.sees(spot.kind) {
            return None;
        }
        let vectors = self.requests.iter().filter_map(|number| Some((*number, requests.get(*number)?)));
        vectors.into_iter().find(|(_, request)| spot.holds(&request.amounts()))
    }

    /// Whether a place has free what it asks for in one of its request vectors.
    #[inline]
    pub(crate) fn fits(&self, spot: &Spot, requests: &Requests) -> bool {
        match self.requests.len() {
            0 => false,
            1 if self.narrow => spot.open && spot.holds_narrow(&self.first) && self.sees(spot.kind),
            1 => spot.open && spot.holds(&self.first) && self.sees(spot.kind),
            _ => self.fitting(spot, requests).is_some(),
        }
    }

    fn note_first(&mut self, requests: &Requests) {
        let first = self.requests.first().and_then(|number| requests.get(*number));
        self.first = first.map_or_else(Amounts::default, Request::amounts);
        self.narrow = self.first.iter().skip(SLOTS + 1).all(|amount| *amount == 0);
    }

    /// Whether no run can place it until something grows.
    pub(crate) fn is_blocked(&self) -> bool {
        self.refused && self.hints.is_empty()
    }
}

/// All classes, by number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Classes {
    list: Vec<Class>,
    #[serde(with = "crate::table::stored::pairs")]
    numbers: BTreeMap<Shape, u32>,
}

impl Classes {
    /// The number of a job's class.
    pub(crate) fn intern(
        &mut self,
        spec: &Demand,
        domain: Option<TenantName>,
        (kinds, dims, requests): (&Kinds, &Dims, &mut Requests),
    ) -> u32 {
        let shape = Shape {
            resources: spec.resources.clone(),
            requires: spec.requires.clone(),
            runtime: spec.runtime,
            gang: spec.gang.clone(),
            domain,
        };
        if let Some(number) = self.numbers.get(&shape) {
            return *number;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let mut class = Class {
            requests: requests.of(&shape.resources, dims),
            shape: shape.clone(),
            first: Amounts::default(),
            narrow: false,
            eligible: Vec::new(),
            kinds: 0,
            refused: false,
            hints: Vec::new(),
            since: 0,
            seat: 0,
            runtimes: [0; 32],
            queues: 0,
        };
        kinds.iter().for_each(|(number, kind)| class.judge(number, kind));
        class.note_first(requests);
        self.list.push(class);
        self.numbers.insert(shape, number);
        number
    }

    /// Judges a new kind for every class.
    pub(crate) fn add_kind(&mut self, number: u32, kind: &Kind) {
        self.list.iter_mut().for_each(|class| class.judge(number, kind));
    }

    /// Works the request vectors out again after new dimensions appeared.
    pub(crate) fn widen(&mut self, dims: &Dims, requests: &mut Requests) {
        for class in &mut self.list {
            class.requests = requests.of(&class.shape.resources, dims);
            class.note_first(requests);
        }
    }

    /// Works out again what is not written down.
    pub(crate) fn rebuild(&mut self, requests: &Requests) {
        self.list.iter_mut().for_each(|class| class.note_first(requests));
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Class> {
        self.list.get(number as usize)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Class> {
        self.list.get_mut(number as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Class)> {
        (0..).zip(&self.list)
    }
}
