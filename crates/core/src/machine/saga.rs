//! The lifecycle of a deployment of the provisioner: a leased server. It is a saga: when a step fails, what earlier steps made is
//! removed again. Owns its states and the table of transitions; never sends a request, writes a journal or counts a budget.

use super::Machine;
use super::transition::rows;
use crate::named::named_enum;

named_enum! {
    /// The state of a deployment.
    pub enum SagaState("deployment state") {
        /// A plan is shown and has to be confirmed.
        Planned,
        /// The keypair is to be made; written down before it is asked for.
        KeyIntent,
        /// The keypair is there; everything else needed is checked again.
        KeyReady,
        /// A lease is to be made.
        LeaseIntent,
        /// Whether the lease was made is unclear.
        LeaseSettle,
        /// The lease has to become active.
        LeaseWait,
        /// A server is to be made.
        ServerIntent,
        /// Whether the server was made is unclear.
        ServerSettle,
        /// The server has to become active.
        ServerWait,
        /// A floating IP is to be made and bound.
        FipIntent,
        /// Whether the floating IP was made is unclear.
        FipSettle,
        /// The machine has to answer.
        Verifying,
        /// This attempt is undone; another offering may follow.
        NextOffering,
        /// Nothing is free; allocations are watched.
        CapacityWait,
        /// Everything made is removed again.
        RollingBack,
        /// The machine is there as planned.
        Ready,
        /// The machine is there, without an address from outside.
        Degraded,
        /// Final: nothing was kept.
        Failed,
        /// Final: removed as asked.
        Destroyed,
        /// Final: the lease ended or the server vanished.
        Expired,
        /// Final: something could not be removed and is listed.
        Leftover,
        /// Final: the machine is kept, but does not answer.
        Unreachable,
        /// Final: the machine is kept, but is not what was planned.
        Mismatch,
        /// Final: interrupted, everything is kept as it was.
        Kept,
    }
}

named_enum! {
    /// What happens to a deployment.
    pub enum Event("deployment event") {
        Planned = "plan recorded",
        Confirmed = "confirmed",
        Declined = "declined or over budget",
        KeyMade = "key made or adopted",
        KeyConflict = "key exists with another public key",
        RequirementsFound = "network, quota, image and flavor rechecked",
        RequirementMissing = "network, quota, image or flavor missing",
        Created = "create answered with success",
        Ambiguous = "create answer ambiguous",
        CapacityRefused = "capacity or host refused",
        Refused = "refused for quota, policy, auth, an invalid request or another reason",
        ImageRefused = "image refused",
        Found = "found by marker",
        NotFound = "not found by marker",
        LeasePending = "lease on its way",
        LeaseActive = "lease and reservation active",
        LeaseFailed = "lease failed, gone, degraded or over its deadline",
        ServerBuilding = "server building or unknown",
        ServerActive = "server active",
        ServerError = "server in ERROR",
        ServerDeadline = "server not active in time",
        ServerGone = "server gone",
        ServerStopped = "server SHUTOFF, PAUSED or SUSPENDED",
        FipBound = "floating IP bound to the server's port",
        PortRefused = "port refused",
        FipExhausted = "floating IPs exhausted",
        Answered = "machine answers",
        NoRoute = "no route without floating IP",
        VerifyDeadline = "machine silent",
        HardwareDiffers = "login finds less than planned",
        AttemptUndone = "server and lease of this attempt gone",
        CapacityFree = "capacity free",
        CapacityDeadline = "capacity deadline",
        AllGone = "all objects gone",
        CleanupDeadline = "cleanup budget spent",
        Destroy = "destroy",
        Extend = "extend",
        LeaseEnded = "lease ended or server gone",
        Interrupt = "interrupt",
        Resume = "resume",
    }
}

named_enum! {
    /// What decides between transitions of a deployment.
    pub enum Guard("deployment guard") {
        ListingsLeft = "further listings are due before it counts as absent",
        RepeatsLeft = "repeats of the create are left",
        Unreserved = "the offering reserves nothing",
        UnreservedLeft = "the next offering, with attempts and time left, reserves nothing",
        ImageLeft = "another image fits and none was tried in its place",
        FipWanted = "a floating IP is wanted",
        HostFaultOnce = "the fault is the host's and no second server was tried in this lease",
        NotStartedYet = "no start was tried",
        PortLeft = "another IPv4 port is left",
        FipAtPort = "the found address is bound to the server's port",
        OfferingLeft = "another offering, attempts and time are left",
        WaitAsked = "waiting for capacity was asked for",
        DestroyAsked = "it was destroyed on request",
        KeepAsked = "it is a second signal, a hang-up, or keeping was asked for",
        LeaseOpen = "the last intent without result is a lease",
        ServerOpen = "the last intent without result is a server",
        FipOpen = "the last intent without result is a floating IP",
        LeaseGone = "the lease is gone or ended",
        LeaseYoung = "the lease is not active yet",
        LeaseBare = "the lease is active and has no server",
        ServerFound = "the server is there",
    }
}

/// States of a deployment under way, in which `apply` can be interrupted and resumed.
const UNDER_WAY: &[SagaState] = &[
    SagaState::Planned,
    SagaState::KeyIntent,
    SagaState::KeyReady,
    SagaState::LeaseIntent,
    SagaState::LeaseSettle,
    SagaState::LeaseWait,
    SagaState::ServerIntent,
    SagaState::ServerSettle,
    SagaState::ServerWait,
    SagaState::FipIntent,
    SagaState::FipSettle,
    SagaState::Verifying,
    SagaState::NextOffering,
    SagaState::CapacityWait,
];

/// States that resuming judges by the journal and by what is found: those under way, and Kept.
const RESUMABLE: &[SagaState] = &[
    SagaState::Planned,
    SagaState::KeyIntent,
    SagaState::KeyReady,
    SagaState::LeaseIntent,
    SagaState::LeaseSettle,
    SagaState::LeaseWait,
    SagaState::ServerIntent,
    SagaState::ServerSettle,
    SagaState::ServerWait,
    SagaState::FipIntent,
    SagaState::FipSettle,
    SagaState::Verifying,
    SagaState::NextOffering,
    SagaState::CapacityWait,
    SagaState::Kept,
];

/// States that are final for `apply`; `destroy` is accepted in all of them.
const FINAL: &[SagaState] = &[
    SagaState::Failed,
    SagaState::Destroyed,
    SagaState::Expired,
    SagaState::Leftover,
    SagaState::Unreachable,
    SagaState::Mismatch,
    SagaState::Kept,
];

impl SagaState {
    /// Whether making the deployment is over. Ready and Degraded are its good ends; the server then goes on to exist.
    #[must_use]
    pub fn is_final(self) -> bool {
        MACHINE.is_terminal(self)
    }
}

/// The life of a deployment.
///
/// In the settling states (`Settle` rows) the program looks for an object whose creation got no clear answer; when all
/// repetitions are used up, the deployment is rolled back. The rows named `resume` start in every state that is not final,
/// since a process may die in any of them.
pub static MACHINE: Machine<SagaState, Event, Guard> = Machine {
    name: "deployment",
    terminal: FINAL,
    rows: rows! { SagaState, Event, Guard;
        "Planned": [] on [Planned] => Planned, "journal open, plan";
        "Planned": [Planned] on [Confirmed] => KeyIntent;
        "Planned": [Planned] on [Declined] => Failed;
        "KeyIntent": [KeyIntent] on [KeyMade] => KeyReady;
        "KeyIntent": [KeyIntent] on [KeyConflict] => Failed, "exit 2";
        "KeyReady": [KeyReady] on [RequirementsFound] if Unreserved => ServerIntent, "no lease";
        "KeyReady": [KeyReady] on [RequirementsFound] => LeaseIntent;
        "KeyReady": [KeyReady] on [RequirementMissing] => RollingBack;
        "LeaseIntent": [LeaseIntent] on [Created] => LeaseWait;
        "LeaseIntent": [LeaseIntent] on [Ambiguous] => LeaseSettle;
        "LeaseIntent": [LeaseIntent] on [CapacityRefused] => NextOffering;
        "LeaseIntent": [LeaseIntent] on [Refused] => RollingBack;
        "Settle": [LeaseSettle, ServerSettle, FipSettle] on [NotFound] if ListingsLeft => same, "list again";
        "Settle": [LeaseSettle] on [Found] => LeaseWait;
        "Settle": [LeaseSettle] on [NotFound] if RepeatsLeft => LeaseIntent, "attempt n+1, n on the sweep list";
        "Settle": [ServerSettle] on [Found] => ServerWait;
        "Settle": [ServerSettle] on [NotFound] if RepeatsLeft => ServerIntent, "attempt n+1, n on the sweep list";
        "Settle": [FipSettle] on [Found] if FipAtPort => Verifying;
        "Settle": [FipSettle] on [Found] => FipIntent, "bind it";
        "Settle": [FipSettle] on [NotFound] if RepeatsLeft => FipIntent, "attempt n+1, n on the sweep list";
        "Settle": [LeaseSettle, ServerSettle, FipSettle] on [NotFound] => RollingBack;
        "LeaseWait": [LeaseWait] on [LeaseActive] => ServerIntent;
        "LeaseWait": [LeaseWait] on [LeasePending] => same;
        "LeaseWait": [LeaseWait] on [LeaseFailed] => NextOffering;
        "ServerIntent": [ServerIntent] on [Created] => ServerWait;
        "ServerIntent": [ServerIntent] on [Ambiguous] => ServerSettle;
        "ServerIntent": [ServerIntent] on [ImageRefused] if ImageLeft => same, "next image";
        "ServerIntent": [ServerIntent] on [CapacityRefused] => NextOffering;
        "ServerIntent": [ServerIntent] on [ImageRefused, Refused] => RollingBack;
        "ServerWait": [ServerWait] on [ServerActive] if FipWanted => FipIntent;
        "ServerWait": [ServerWait] on [ServerActive] => Verifying;
        "ServerWait": [ServerWait] on [ServerBuilding] => same;
        "ServerWait": [ServerWait] on [ServerError] if HostFaultOnce => ServerIntent, "delete server, wait gone";
        "ServerWait": [ServerWait] on [ServerError, ServerGone] => NextOffering;
        "ServerWait": [ServerWait] on [ServerDeadline] => NextOffering, "console tail saved";
        "ServerWait": [ServerWait] on [ServerStopped] if NotStartedYet => same, "one start action";
        "ServerWait": [ServerWait] on [ServerStopped] => NextOffering;
        "FipIntent": [FipIntent] on [Found, Created] => same, "bind it";
        "FipIntent": [FipIntent] on [FipBound] => Verifying;
        "FipIntent": [FipIntent] on [PortRefused] if PortLeft => same, "next IPv4 port";
        "FipIntent": [FipIntent] on [PortRefused] => Degraded, "delete the address";
        "FipIntent": [FipIntent] on [FipExhausted] => Degraded;
        "FipIntent": [FipIntent] on [Ambiguous] => FipSettle;
        "Verifying": [Verifying] on [Answered] => Ready;
        "Verifying": [Verifying] on [NoRoute] => Degraded;
        "Verifying": [Verifying] on [VerifyDeadline] => Unreachable, "exit 12";
        "Verifying": [Verifying] on [HardwareDiffers] => Mismatch, "exit 12";
        "NextOffering": [NextOffering] on [AttemptUndone] if UnreservedLeft => ServerIntent, "no lease";
        "NextOffering": [NextOffering] on [AttemptUndone] if OfferingLeft => LeaseIntent;
        "NextOffering": [NextOffering] on [AttemptUndone] if WaitAsked => CapacityWait;
        "NextOffering": [NextOffering] on [AttemptUndone] => RollingBack;
        "NextOffering": [NextOffering] on [CleanupDeadline] => RollingBack;
        "CapacityWait": [CapacityWait] on [CapacityFree] if UnreservedLeft => ServerIntent, "no lease";
        "CapacityWait": [CapacityWait] on [CapacityFree] => LeaseIntent;
        "CapacityWait": [CapacityWait] on [CapacityDeadline] => RollingBack, "exit 6";
        "RollingBack": [RollingBack] on [AllGone] if DestroyAsked => Destroyed;
        "RollingBack": [RollingBack] on [AllGone] => Failed;
        "RollingBack": [RollingBack] on [CleanupDeadline] => Leftover, "exit 11";
        "Ready": [Ready, Degraded] on [Destroy] => RollingBack;
        "Ready": [Ready, Degraded] on [Extend] => same;
        "Ready": [Ready, Degraded] on [LeaseEnded] => Expired;
        "destroy": [in FINAL] on [Destroy] => RollingBack;
        "destroy": [in UNDER_WAY] on [Destroy] => RollingBack;
        "destroy": [RollingBack] on [Destroy] => same;
        "interrupt": [in UNDER_WAY] on [Interrupt] if KeepAsked => Kept, "exit 130";
        "interrupt": [in UNDER_WAY] on [Interrupt] => RollingBack, "exit 130";
        "interrupt": [RollingBack] on [Interrupt] if KeepAsked => Kept, "exit 130";
        "interrupt": [RollingBack] on [Interrupt] => same;
        "resume": [in RESUMABLE] on [Resume] if LeaseOpen => LeaseSettle;
        "resume": [in RESUMABLE] on [Resume] if ServerOpen => ServerSettle;
        "resume": [in RESUMABLE] on [Resume] if FipOpen => FipSettle;
        "resume": [in RESUMABLE] on [Resume] if LeaseGone => NextOffering, "sweep";
        "resume": [in RESUMABLE] on [Resume] if LeaseYoung => LeaseWait;
        "resume": [in RESUMABLE] on [Resume] if LeaseBare => ServerIntent;
        "resume": [in RESUMABLE] on [Resume] if ServerFound => ServerWait;
        "resume": [in RESUMABLE] on [Resume] => KeyIntent;
        "resume": [RollingBack] on [Resume] => same;
        "resume": [Leftover] on [Resume] => RollingBack;
        "resume": [Unreachable] on [Resume] => Verifying;
        "resume": [Ready, Degraded] on [Resume] => same, "report, zero creates";
    },
};

#[cfg(test)]
mod tests {
    use super::super::{Named, laws};
    use super::*;

    #[test]
    fn every_state_and_event() {
        laws::hold(&MACHINE, &["destroy", "resume"]);
        insta::assert_snapshot!(MACHINE.listing());
    }

    #[test]
    fn destroy_is_accepted_in_every_state_and_leads_to_an_end() {
        for state in SagaState::ALL.iter().copied() {
            assert_eq!(MACHINE.step(state, Event::Destroy, |_| false), Ok(SagaState::RollingBack), "{state}");
        }
        assert_eq!(MACHINE.step(SagaState::RollingBack, Event::AllGone, |_| true), Ok(SagaState::Destroyed));
    }

    #[test]
    fn of_the_final_states_only_three_can_be_resumed() {
        let resumable = FINAL.iter().filter(|state| MACHINE.step(**state, Event::Resume, |_| false).is_ok());
        let names: Vec<&str> = resumable.map(|state| state.as_str()).collect();
        assert_eq!(names, ["Leftover", "Unreachable", "Kept"]);
    }

    #[test]
    fn an_ambiguous_create_is_settled_before_it_is_repeated() {
        for (intent, settle) in [
            (SagaState::LeaseIntent, SagaState::LeaseSettle),
            (SagaState::ServerIntent, SagaState::ServerSettle),
            (SagaState::FipIntent, SagaState::FipSettle),
        ] {
            let absent = |holds: &[Guard]| MACHINE.step(settle, Event::NotFound, |guard| holds.contains(&guard));
            assert_eq!(MACHINE.step(intent, Event::Ambiguous, |_| false), Ok(settle));
            assert_eq!(absent(&[Guard::ListingsLeft, Guard::RepeatsLeft]), Ok(settle));
            assert_eq!(absent(&[Guard::RepeatsLeft]), Ok(intent));
            assert_eq!(absent(&[]), Ok(SagaState::RollingBack));
        }
    }

    #[test]
    fn nothing_made_can_be_lost_on_the_way_to_an_end() {
        // Ends that say nothing is left are entered only from before the first create, or through rolling back.
        for state in SagaState::ALL.iter().copied() {
            for end in [SagaState::Failed, SagaState::Destroyed] {
                if state != end && MACHINE.successors(state).contains(&end) {
                    let before = [SagaState::Planned, SagaState::KeyIntent, SagaState::RollingBack];
                    assert!(before.contains(&state), "{state} -> {end}");
                }
            }
        }
    }
}
