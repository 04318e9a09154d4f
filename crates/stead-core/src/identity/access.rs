//! The decision about one request.

use std::collections::BTreeSet;

use super::permission::Permission;
use super::role::{Role, RoleName};
use super::token::Token;
use crate::{Actor, Name, Timestamp};

/// The authenticated holder of a token that is not a session's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub actor: Actor,
    pub role: RoleName,
    /// The only project of this principal. `None` for all of them.
    pub project: Option<Name>,
    /// The permissions of the role, reduced to those of the token.
    pub permissions: BTreeSet<Permission>,
    /// The only agent types whose sessions this principal may create and use. `None` for all.
    pub agent_types: Option<Vec<Name>>,
    pub expires_at: Option<Timestamp>,
}

impl Principal {
    /// An administrator, such as the holder of a token of the server's configuration.
    pub fn admin(name: &str) -> Self {
        Self {
            actor: Actor::Admin { name: name.to_owned(), token: None },
            role: role_name(Role::Admin),
            project: None,
            permissions: Role::Admin.permissions(),
            agent_types: None,
            expires_at: None,
        }
    }

    /// The holder of a token whose role has these permissions.
    pub fn of(token: &Token, role: BTreeSet<Permission>) -> Self {
        let whole = token.operations.is_none() && token.agent_types.is_none();
        let admin = token.role.as_str() == Role::Admin.as_str() && whole;
        let actor = match admin {
            true => Actor::Admin { name: token.user.to_string(), token: Some(token.id) },
            false => Actor::User { name: token.user.to_string(), project: token.project.clone(), token: token.id },
        };
        let kept = |permission: &Permission| {
            token.operations.as_ref().is_none_or(|operations| operations.contains(permission))
                && (token.agent_types.is_none() || permission.is_about_sessions())
        };
        let permissions = role.into_iter().filter(kept).collect();
        Self {
            actor,
            role: token.role.clone(),
            project: token.project.clone(),
            permissions,
            agent_types: token.agent_types.clone(),
            expires_at: token.expires_at,
        }
    }

    /// Returns true if the token of this principal names this agent type or none.
    pub fn may_use_agent_type(&self, agent_type: &Name) -> bool {
        self.agent_types.as_ref().is_none_or(|allowed| allowed.contains(agent_type))
    }
}

fn role_name(role: Role) -> RoleName {
    // The text of every role is a valid name, which a test checks.
    role.as_str().parse().unwrap_or_else(|_| unreachable!("a role has a valid name"))
}

/// The place of the thing that a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// The platform's own things, such as its settings and its metrics.
    Platform,
    /// A project or something in it. `agent_type` is that of a session.
    Project { project: Option<Name>, agent_type: Option<Name> },
    /// The principal's own place, such as a list that is filtered by its project.
    Own,
}

/// The answer to a request, with its reason in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    Allowed {
        because: String,
    },
    /// The principal may know that the thing exists, but may not do this.
    Forbidden {
        because: String,
    },
    /// The principal may not know whether the thing exists. The answer is that of a missing one.
    Hidden {
        because: String,
    },
}

/// Decides whether a principal may do something in a place.
///
/// The place comes first: a role gives nothing outside its project, not even the knowledge that
/// something exists.
pub fn decide_access(principal: &Principal, permission: Permission, place: &Location) -> Access {
    let (role, project) = (&principal.role, principal.project.as_ref());
    match (place, project) {
        (Location::Project { project: found, .. }, Some(own)) if found.as_ref() != Some(own) => {
            let because = format!("the token belongs to project {own} and sees nothing outside it");
            return Access::Hidden { because };
        }
        (Location::Project { agent_type: Some(agent_type), .. }, _) if !principal.may_use_agent_type(agent_type) => {
            return Access::Hidden { because: format!("the token does not name the agent type {agent_type}") };
        }
        (Location::Platform, Some(own)) => {
            let because = format!("this belongs to the platform, and the token to project {own}");
            return Access::Forbidden { because };
        }
        _ => {}
    }
    if principal.permissions.contains(&permission) {
        let place = project.map_or_else(|| "in every project".to_owned(), |own| format!("in project {own}"));
        return Access::Allowed { because: format!("the role {role} has {permission} {place}") };
    }
    Access::Forbidden {
        because: format!("{permission} is not among the permissions of this token, whose role is {role}"),
    }
}

/// Checks that a principal may create a token. The token must not have more permissions, more agent
/// types or a later end than the principal.
pub fn may_grant(principal: &Principal, token: &Token, role: &BTreeSet<Permission>) -> Result<(), String> {
    if let Some(own) = &principal.project
        && token.project.as_ref() != Some(own)
    {
        return Err(format!("a token of project {own} can only create tokens of project {own}"));
    }
    let granted = Principal::of(token, role.clone()).permissions;
    if let Some(more) = granted.iter().find(|permission| !principal.permissions.contains(permission)) {
        return Err(format!("the new token would have {more}, which yours has not"));
    }
    if let Some(own) = &principal.agent_types {
        let within = token.agent_types.as_ref().is_some_and(|asked| asked.iter().all(|name| own.contains(name)));
        if !within {
            return Err("your token is limited to some agent types: name only those in agent_types".to_owned());
        }
    }
    if let Some(end) = principal.expires_at
        && token.expires_at.is_none_or(|asked| asked > end)
    {
        return Err(format!("the new token would outlive yours, which expires at {end}: give a shorter expires_in"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn principal(role: Role, project: Option<&str>) -> Principal {
        let project = project.map(name);
        let token = crate::TokenId::from_bits(1);
        Principal {
            actor: Actor::User { name: "u".to_owned(), project: project.clone(), token },
            role: role_name(role),
            project,
            permissions: role.permissions(),
            agent_types: None,
            expires_at: None,
        }
    }

    fn within(project: &str) -> Location {
        Location::Project { project: Some(name(project)), agent_type: None }
    }

    #[test]
    fn every_role_has_a_name() {
        for role in Role::ALL {
            assert_eq!(role_name(*role).as_str(), role.as_str());
        }
    }

    #[test]
    fn t2_no_role_of_a_project_reaches_another_one() {
        for role in [Role::Owner, Role::Developer, Role::Viewer] {
            for permission in Permission::ALL {
                let access = decide_access(&principal(role, Some("web")), *permission, &within("data"));
                assert!(matches!(access, Access::Hidden { .. }), "{role} {permission}: {access:?}");
                let unowned = Location::Project { project: None, agent_type: None };
                let access = decide_access(&principal(role, Some("web")), *permission, &unowned);
                assert!(matches!(access, Access::Hidden { .. }), "{role} {permission}: {access:?}");
                let access = decide_access(&principal(role, Some("web")), *permission, &Location::Platform);
                assert!(matches!(access, Access::Forbidden { .. }), "{role} {permission}: {access:?}");
            }
        }
    }

    #[test]
    fn each_role_has_less_than_the_one_above() {
        let all: Vec<_> = [Role::Admin, Role::Owner, Role::Developer, Role::Viewer].map(Role::permissions).into();
        for pair in all.windows(2) {
            assert!(pair[0].is_superset(&pair[1]) && pair[0] != pair[1]);
        }
        assert_eq!(Role::Metrics.permissions(), BTreeSet::from([Permission::MetricsRead]));
    }

    #[test]
    fn a_token_for_some_agent_types_hides_the_sessions_of_others() {
        let narrow = Principal { agent_types: Some(vec![name("a")]), ..principal(Role::Developer, Some("web")) };
        let of =
            |agent_type: &str| Location::Project { project: Some(name("web")), agent_type: Some(name(agent_type)) };
        assert!(matches!(decide_access(&narrow, Permission::SessionsUse, &of("a")), Access::Allowed { .. }));
        assert!(matches!(decide_access(&narrow, Permission::SessionsUse, &of("b")), Access::Hidden { .. }));
    }

    #[test]
    fn t1_nobody_grants_more_than_they_have() {
        let token = |role: Role, project: Option<&str>| Token {
            id: crate::TokenId::from_bits(2),
            name: name("t"),
            user: name("t"),
            project: project.map(name),
            role: role_name(role),
            operations: None,
            agent_types: None,
            created_at: Timestamp::from_millis(0),
            created_by: "admin:a".to_owned(),
            expires_at: None,
            hash: String::new(),
            previous: None,
        };
        let owner = principal(Role::Owner, Some("web"));
        let try_grant = |role: Role, project| may_grant(&owner, &token(role, project), &role.permissions());
        assert!(try_grant(Role::Developer, Some("web")).is_ok());
        assert!(try_grant(Role::Owner, Some("web")).is_ok());
        assert!(try_grant(Role::Admin, Some("web")).is_err());
        assert!(try_grant(Role::Metrics, Some("web")).is_err());
        assert!(try_grant(Role::Developer, Some("data")).is_err());
        assert!(try_grant(Role::Developer, None).is_err());
    }
}
