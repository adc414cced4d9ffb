//! The life of a flow. Owns its visible phases; never decides which phase applies (that is the flow engine's work).

use super::named::named_enum;

named_enum! {
    /// The phase of a flow as the API shows it (`status.phase`).
    #[derive(Default)]
    pub enum FlowPhase("flow phase") {
        /// Nothing has started: the flow waits for its gate, its resources or its first step.
        #[default]
        Pending,
        /// At least one step has left `Pending`.
        Running,
        /// A manual step waits for its decision.
        Paused,
        /// A user suspended the flow, or a changed spec holds it; nothing starts.
        Suspended,
        /// Final: every step settled and the outcome is good.
        Succeeded,
        /// Final: anything else.
        Failed,
    }
}

impl FlowPhase {
    /// Succeeded and Failed are final for ever.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_have_the_exact_api_texts() {
        let json = serde_json::to_string(<FlowPhase as super::super::Named>::ALL).unwrap();
        assert_eq!(json, r#"["Pending","Running","Paused","Suspended","Succeeded","Failed"]"#);
    }
}
