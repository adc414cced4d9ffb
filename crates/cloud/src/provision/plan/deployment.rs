//! The deployment that a plan is for, if it is known already: its id is made with the plan, so that something can be made for it
//! beforehand. Owns the check that it is still the one that is carried out.

use serde::{Deserialize, Serialize};

use crate::provision::mark::DeploymentId;

/// A deployment whose id was made with its plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedDeployment {
    /// Its id.
    pub id: DeploymentId,
    /// The name of its server.
    pub server_name: String,
    /// The project that it is made in.
    pub project_id: String,
    /// What makes the id random.
    pub nonce: String,
}

impl PlannedDeployment {
    /// The deployment of a server in a project.
    #[must_use]
    pub fn new(server_name: &str, project_id: &str, nonce: String) -> Self {
        let id = DeploymentId::new(server_name, project_id, &nonce);
        Self { id, server_name: server_name.to_owned(), project_id: project_id.to_owned(), nonce }
    }

    /// Whether a server of this name in this project is the deployment; what a file says of its id is not believed.
    #[must_use]
    pub fn is_of(&self, server_name: &str, project_id: &str) -> bool {
        self.server_name == server_name
            && self.project_id == project_id
            && self.id == DeploymentId::new(server_name, project_id, &self.nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_plan_holds_for_its_server_and_project_alone() {
        let planned = PlannedDeployment::new("demo", "p", "nonce".into());
        assert!(planned.is_of("demo", "p"));
        assert!(!planned.is_of("demo-2", "p") && !planned.is_of("demo", "q"));
        let forged = PlannedDeployment { id: DeploymentId::new("demo", "p", "other"), ..planned };
        assert!(!forged.is_of("demo", "p"));
    }
}
