//! The Model Context Protocol: gives MCP clients access to a session's tools, files, changes and
//! prompts.
//!
//! It is one tower service at `/mcp`, behind the same host check and authentication as all other
//! routes. An MCP session only holds a transport. Each request determines anew which Stead session
//! it addresses and what its sender may do, so a stolen MCP session id gives no access ([`owner`]).
//! Tool calls use the same engine operation as HTTP, with the same checks and the same records.

mod call;
mod catalog;
mod changes;
mod chosen;
mod line;
mod notifications;
mod owner;
mod plain_errors;
mod prompts;
mod resources;
mod set_digest;
mod subscriptions;
mod text;
mod throttle;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData, GetPromptRequestParams,
    GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::app::App;
use chosen::{Caller, Chosen};
use notifications::LogLevel;
use subscriptions::Subscriptions;

const INSTRUCTIONS: &str = "The tools work on one Stead session: a workspace whose files are under /workspace. \
    Every call is recorded, and a refused call says why. \
    A change reaches files of the host only where a host directory is mounted writable (mode rw).";

/// Supported protocol versions: the current one, and older ones that agents still use.
static REVISIONS: &[ProtocolVersion] = &[
    ProtocolVersion::V_2026_07_28,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_03_26,
];

/// Methods that this server has and whose parameters can be wrong.
const METHODS_WITH_PARAMETERS: &[&str] = &[
    "initialize",
    "completion/complete",
    "logging/setLevel",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "tools/call",
    "tools/list",
];

/// Time for which a client that lost its connection can fetch the response of a call again. The
/// library keeps every response in memory for this time, so it is short.
const RESUMABLE: Duration = Duration::from_secs(5);

/// Returns the routes `/mcp` (all methods) and `/mcp/line`.
pub(crate) fn router(app: &App) -> Router<App> {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(app.config.mcp_idle_timeout);
    sessions.session_config.completed_cache_ttl = RESUMABLE;
    let sessions = Arc::new(sessions);
    let owners = owner::Owners::new(sessions.clone(), app);
    // `crate::host` checks `Host` and `Origin` for all routes.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_sse_keep_alive(Some(app.config.heartbeat))
        .with_max_request_body_bytes(app.config.max_tool_body_bytes);
    let served = app.clone();
    let service =
        StreamableHttpService::new(move || Ok(McpSession::new(&served, None, None)), sessions, config.clone());
    stop_with(app, config.cancellation_token);
    let lines = Router::new().route("/mcp/line", get(line::upgrade)).with_state(line::Lines::new(app.clone()));
    Router::new().route_service("/mcp", service).layer(from_fn_with_state(owners, owner::check)).merge(lines)
}

/// Cancels open `/mcp` streams when the server stops, because they never end by themselves.
fn stop_with(app: &App, token: tokio_util::sync::CancellationToken) {
    let mut stopping = app.stopping.clone();
    tokio::spawn(async move {
        // An error means that the server is gone already.
        let _ = stopping.wait_for(|stopping| *stopping).await;
        token.cancel();
    });
}

/// Implements the MCP library's `ServerHandler`. Each method calls the module of the same name and
/// boxes its future. The library moves a future as large as the largest one through many stack
/// frames, and an engine future is large enough to overflow a thread's stack.
#[derive(Clone)]
struct McpSession {
    app: App,
    /// The caller of a `/mcp/line` connection. Over HTTP each request identifies its caller.
    caller: Option<Caller>,
    /// Limits the concurrent messages of a `/mcp/line` connection.
    throttle: Option<Arc<throttle::Throttle>>,
    log_level: LogLevel,
    subscriptions: Subscriptions,
}

impl McpSession {
    /// Creates the handler of one MCP session.
    fn new(app: &App, caller: Option<Caller>, throttle: Option<Arc<throttle::Throttle>>) -> Self {
        let (log_level, subscriptions) = (LogLevel::default(), Subscriptions::default());
        Self { app: app.clone(), caller, throttle, log_level, subscriptions }
    }
}

#[expect(deprecated, reason = "clients of older protocol versions set a log level and subscribe this way")]
impl rmcp::ServerHandler for McpSession {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_logging()
            .build();
        let own = Implementation::new("stead", env!("CARGO_PKG_VERSION")).with_title("Stead");
        ServerConfig::new(capabilities).with_server_info(own).with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(REVISIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let chosen = Chosen::of(self, &context.extensions)?;
        Ok(ListToolsResult::with_all_items(Box::pin(catalog::tools(&chosen)).await?))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let chosen = Chosen::of(self, &context.extensions)?;
        Box::pin(call::call(&chosen, request, &context)).await.map(CallToolResponse::from)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let chosen = Chosen::of(self, &context.extensions)?;
        Ok(ListPromptsResult::with_all_items(Box::pin(prompts::list(&chosen)).await?))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let chosen = Chosen::of(self, &context.extensions)?;
        Box::pin(prompts::get(&chosen, &request.name, request.arguments)).await.map(GetPromptResponse::from)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let chosen = Chosen::of(self, &context.extensions)?;
        Box::pin(resources::list(&chosen, request.and_then(|request| request.cursor))).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let chosen = Chosen::of(self, &context.extensions)?;
        Ok(ListResourceTemplatesResult::with_all_items(Box::pin(resources::templates(&chosen)).await?))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let chosen = Chosen::of(self, &context.extensions)?;
        Box::pin(resources::read(&chosen, &request.uri)).await.map(ReadResourceResponse::from)
    }

    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Chosen::of(self, &context.extensions)?.log_level.set(request.level);
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let chosen = Chosen::of(self, &context.extensions)?;
        Box::pin(self.subscriptions.add(&chosen, request.uri)).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.remove(&request.uri);
        Ok(())
    }

    /// Responds to a request whose parameters the library could not read. It hands such a request
    /// on as one with an unknown method.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if METHODS_WITH_PARAMETERS.contains(&method.as_str()) {
            let message = format!("Invalid params: the parameters of {method} are missing or have the wrong form");
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
    }

    /// Starts change notifications for a client of an older protocol version, on the client's own
    /// stream.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let Ok(mut chosen) = Chosen::of(self, &context.extensions) {
            // The initialization is complete. The watch lasts as long as the connection, so it must
            // not count as a message in progress.
            chosen.in_progress = None;
            tokio::spawn(changes::tell(chosen, context.peer));
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let resources = requested.resource_subscriptions.iter().flatten();
        let filter = SubscriptionFilter::builder().tools_list_changed().prompts_list_changed();
        Some(filter.resource_subscriptions(resources).build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut chosen = Chosen::of(self, &context.request_context().extensions)?;
        // Each such request has subscriptions of its own.
        chosen.subscriptions = Subscriptions::default();
        Box::pin(changes::follow(&chosen, &context)).await;
        Ok(())
    }
}
