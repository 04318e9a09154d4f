//! Inputs for the tests.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stead_core::capability::{FileStorage, ProviderCapabilities};
use stead_core::config::{ProviderName, ResourceLimits};
use stead_core::network::{Presets, Reach};
use stead_core::parse;
use stead_core::policy::PolicyKind;
use stead_core::registry::{AgentType, AgentTypeDeclaration, Platform, Project, Side};
use stead_core::rejection::Rejection;
use stead_core::spec::{Declared, ServerFacts, SessionSpec, specify};
use stead_core::tool::ToolName;
use stead_core::{Timestamp, WorkspaceId};

/// The four layers and a request as JSON, with a server that supports everything by default.
pub(crate) struct Scenario {
    pub(crate) agent_type: Value,
    pub(crate) project: Option<Value>,
    pub(crate) platform: Value,
    pub(crate) task: Value,
    pub(crate) server: ServerFacts,
}

pub(crate) fn able(sides: &[Side], policies: &[PolicyKind]) -> ProviderCapabilities {
    ProviderCapabilities {
        workspace_provider: sides.to_vec(),
        policies: policies.to_vec(),
        tools: ToolName::ALL.to_vec(),
        enforced_limits: Vec::new(),
        setup_commands: true,
        files: FileStorage::Host,
        network: Reach::None,
    }
}

impl Scenario {
    pub(crate) fn new(workspace: Value) -> Self {
        let default_limits = ResourceLimits {
            cpu: Some("2".parse().unwrap()),
            memory: Some("4G".parse().unwrap()),
            disk: Some("10G".parse().unwrap()),
            pids: None,
        };
        let everything = able(Side::ALL, PolicyKind::ALL);
        Self {
            agent_type: json!({"id": "coder", "workspace": workspace}),
            project: None,
            platform: json!({}),
            task: json!({}),
            server: ServerFacts {
                default_provider: ProviderName::Native,
                default_limits,
                providers: BTreeMap::from([
                    (ProviderName::Memory, everything.clone()),
                    (ProviderName::Native, everything),
                ]),
                network_presets: Presets::default(),
            },
        }
    }

    pub(crate) fn specify(&self) -> Result<SessionSpec, Rejection> {
        let agent_type: AgentType = parse::read::<AgentTypeDeclaration>(self.agent_type.clone())
            .unwrap()
            .at(&stead_core::identity::Tenant::Platform, Timestamp::from_millis(0));
        let project = self.project.clone().map(|project| parse::read::<Project>(project).unwrap());
        let platform = parse::read::<Platform>(self.platform.clone()).unwrap();
        let request = parse::read(json!({"agent_type": "coder", "task": self.task})).unwrap();
        let declared = Declared { agent_type: &agent_type, project: project.as_ref(), platform: &platform };
        specify(request, WorkspaceId::from_bits(7), &declared, &self.server)
    }
}
