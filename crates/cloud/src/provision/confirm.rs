//! Whether a plan is carried out without asking, after asking, or not at all.
//! Owns the rule; asks nobody.

use crate::catalog::cost::Cost;

/// Service units that nobody has to agree to, unless the user says otherwise.
pub const AUTO_APPROVE_SU: u64 = 200;

/// What decides.
#[derive(Debug, Clone, Copy)]
pub struct Agreement {
    /// The estimate of the dearest thing that may be tried.
    pub estimate: Cost,
    /// The user's budget, within which the estimate is.
    pub max_su: Option<u64>,
    /// Service units that nobody has to agree to.
    pub auto_approve: u64,
    /// Whether the user agreed beforehand.
    pub agreed: bool,
    /// Whether there is somebody to ask.
    pub has_reader: bool,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// It goes on.
    Go,
    /// Somebody is asked.
    Ask,
    /// Nobody can be asked: it ends here, with [`Exit::Unconfirmed`](crate::exit::Exit::Unconfirmed).
    Needed,
}

impl Agreement {
    /// What follows. A budget was checked before, and agreeing does not lift it.
    #[must_use]
    pub const fn verdict(&self) -> Confirmation {
        match (self.agreed, self.has_reader) {
            (true, _) => Confirmation::Go,
            (false, true) => Confirmation::Ask,
            (false, false) if self.max_su.is_some() || self.estimate.is_within(self.auto_approve) => Confirmation::Go,
            (false, false) => Confirmation::Needed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_asked_and_programs_go_on_within_what_was_allowed() {
        let of = |milli_su: u64, max_su, agreed, has_reader| {
            let estimate = Cost { milli_su, known: true };
            Agreement { estimate, max_su, auto_approve: AUTO_APPROVE_SU, agreed, has_reader }.verdict()
        };
        assert_eq!(of(1, None, false, true), Confirmation::Ask, "a terminal is always asked");
        assert_eq!(of(1, Some(500), false, true), Confirmation::Ask);
        assert_eq!(of(900_000, None, true, true), Confirmation::Go);
        assert_eq!(of(900_000, None, true, false), Confirmation::Go);
        assert_eq!(of(200_000, None, false, false), Confirmation::Go);
        assert_eq!(of(200_001, None, false, false), Confirmation::Needed);
        assert_eq!(of(300_000, Some(300), false, false), Confirmation::Go);
    }
}
