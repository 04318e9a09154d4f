//! The route table, and the middleware that every request passes through.
//!
//! `routes!` takes the path, the method and the documentation from the handler, so that the router
//! and the OpenAPI document always agree.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, get, options};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::routes::sessions::{
    self, clones, diff, digests, events, execs, files, lifecycle, network, network_use, ports, prompts, rewind, runs,
    snapshots,
};
use crate::routes::{
    agent_types, audit, blobs, content, health, images, page, platform, pool, projects, providers, quotas, secrets,
    setup_results, tokens, tools, usage,
};
use crate::{auth, host, mcp, openapi, problem, quota, request_log};

/// Returns every route, in the order of the API document.
pub(crate) fn table() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::head())
        .nest("/api/v1", api())
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(health::openapi))
        .routes(routes!(page::index))
}

fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(agent_types::create, agent_types::list))
        .routes(routes!(agent_types::show, agent_types::replace, agent_types::delete))
        .routes(routes!(agent_types::workspace_config, agent_types::set_workspace_config))
        .routes(routes!(projects::list))
        .routes(routes!(projects::show, projects::set, projects::delete))
        .routes(routes!(quotas::show, quotas::set))
        .routes(routes!(quotas::usage))
        .routes(routes!(platform::show, platform::set))
        .routes(routes!(tokens::whoami))
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::show, tokens::revoke))
        .routes(routes!(tokens::rotate))
        .routes(routes!(tokens::explain))
        .routes(routes!(tokens::sign_in_link))
        .routes(routes!(tools::list))
        .routes(routes!(providers::list))
        .routes(routes!(pool::list))
        .routes(routes!(setup_results::list))
        .routes(routes!(setup_results::remove))
        .routes(routes!(images::list))
        .routes(routes!(images::show, images::import, images::remove))
        .routes(routes!(secrets::list))
        .routes(routes!(secrets::show, secrets::set, secrets::remove))
        .routes(routes!(secrets::rekey))
        .routes(routes!(usage::show))
        .routes(routes!(usage::history))
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::plan))
        .routes(routes!(sessions::show, sessions::close, lifecycle::update))
        .routes(routes!(lifecycle::pause))
        .routes(routes!(lifecycle::resume))
        .routes(routes!(network::narrow))
        .routes(routes!(network::grant))
        .routes(routes!(events::read, events::create))
        .routes(routes!(sessions::state))
        .routes(routes!(usage::of_session))
        .routes(routes!(network_use::show))
        .routes(routes!(sessions::replay))
        .routes(routes!(sessions::replay_against))
        .routes(routes!(sessions::journal))
        .routes(routes!(sessions::token))
        .routes(routes!(tools::call))
        .routes(routes!(runs::create, runs::list))
        .routes(routes!(runs::show))
        .routes(routes!(runs::step))
        .routes(routes!(runs::show_step))
        .routes(routes!(runs::complete))
        .routes(routes!(runs::fail))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::call_tool))
        .routes(routes!(files::read_root, files::put_root))
        // The workspace root with a trailing slash. The document only lists the path without it.
        .route("/sessions/{id}/files/", get(files::read_root).put(files::put_root))
        .routes(routes!(files::read, files::head, files::put, files::delete))
        .routes(routes!(execs::create, execs::list))
        .routes(routes!(execs::show, execs::kill))
        .routes(routes!(execs::stream))
        .routes(routes!(execs::output))
        .routes(routes!(execs::stdin))
        .routes(routes!(execs::signal))
        .routes(routes!(execs::resize))
        .routes(routes!(ports::list))
        // The router has no parameters with a suffix, so these two get the segment `8080:open`. The
        // document lists them as they are written.
        .routes(routes!(ports::get, ports::post, ports::put, ports::patch, ports::delete))
        .route("/sessions/{id}/ports/{action}", get(ports::connect).post(ports::open).fallback(ports::other_method))
        .route("/sessions/{id}/ports/{port}/{*path}", options(ports::pass))
        .route("/sessions/{id}/ports/{port}/", any(ports::pass))
        .routes(routes!(diff::show))
        .routes(routes!(diff::export))
        .routes(routes!(snapshots::create, snapshots::list))
        .routes(routes!(snapshots::restore))
        .routes(routes!(rewind::list, rewind::go))
        .routes(routes!(rewind::blame))
        .routes(routes!(clones::create))
        .routes(routes!(content::list))
        .routes(routes!(content::show))
        .routes(routes!(content::push))
        .routes(routes!(content::tree))
        .routes(routes!(content::read_file))
        .routes(routes!(content::diff))
        .routes(routes!(content::schemas))
        .routes(routes!(content::schema))
        .routes(routes!(digests::show, digests::set))
        .routes(routes!(digests::generate))
        .routes(routes!(prompts::show))
        .routes(routes!(blobs::create))
        .routes(routes!(blobs::read))
        .routes(routes!(audit::list))
}

/// Returns the routes wrapped in the middleware. From the outside in: request log, problem format,
/// panic handler, host check, authentication, quota.
pub(crate) fn router(app: App) -> Router {
    let (router, _) = table().split_for_parts();
    router
        .merge(mcp::router(&app))
        .merge(page::router())
        .layer(from_fn_with_state(app.clone(), quota::admit))
        .layer(from_fn_with_state(app.clone(), auth::authenticate))
        .layer(from_fn_with_state(app.clone(), host::check))
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(from_fn(problem::shape))
        .layer(from_fn(request_log::record))
        .with_state(app)
}
