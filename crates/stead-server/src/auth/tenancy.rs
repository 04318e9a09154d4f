//! The tenant of a request that names things by name or hash.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use stead_core::identity::{Permission, Principal, Tenant};
use stead_core::{Name, Resource, TokenId};

use super::Identity;
use crate::extract::query::{Parameters, ReadQuery};
use crate::problem::{Code, Problem};

/// The caller's place. Handlers of routes with [`super::table::Scope::Own`] take it, and everything
/// that they read or write is in it.
pub(crate) struct Tenancy {
    principal: Arc<Principal>,
    /// The caller's token, if it was created at run time.
    token: Option<TokenId>,
}

impl<S: Sync> FromRequestParts<S> for Tenancy {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let identity = parts.extensions.get::<Identity>();
        let tenancy = identity
            .and_then(|Identity { principal, token, .. }| Some(Self { principal: principal.clone()?, token: *token }));
        tenancy.ok_or_else(|| Problem::new(Code::Forbidden, "a session token is valid for its session only"))
    }
}

impl Tenancy {
    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    pub(crate) fn token(&self) -> Option<TokenId> {
        self.token
    }

    /// Returns the project of a request: the caller's own, or the one that a caller without a
    /// project names. Any other project looks as if it did not exist.
    pub(crate) fn project(&self, named: Option<Name>) -> Result<Option<Name>, Problem> {
        match (&self.principal.project, named) {
            (Some(own), Some(named)) if *own != named => Err(Problem::not_found(Resource::Project, named.as_str())),
            (Some(own), _) => Ok(Some(own.clone())),
            (None, named) => Ok(named),
        }
    }

    /// Returns the tenant of a change. Only an administrator changes things of the platform.
    pub(crate) fn changed_tenant(&self, named: Option<Name>) -> Result<Tenant, Problem> {
        let tenant = self.tenant(named)?;
        if tenant == Tenant::Platform && !self.principal.permissions.contains(&Permission::PlatformWrite) {
            let detail = "this would change the platform, which needs platform:write: name a project";
            return Err(Problem::new(Code::Forbidden, detail));
        }
        Ok(tenant)
    }

    pub(crate) fn tenant(&self, named: Option<Name>) -> Result<Tenant, Problem> {
        Ok(Tenant::of(self.project(named)?.as_ref()))
    }
}

/// The query parameter `project`, and those of the route.
pub(crate) struct InProject<T> {
    pub(crate) project: Option<Name>,
    pub(crate) rest: T,
}

impl<T: ReadQuery> ReadQuery for InProject<T> {
    fn read(parameters: &mut Parameters) -> Self {
        Self { project: parameters.parsed("project"), rest: T::read(parameters) }
    }
}
